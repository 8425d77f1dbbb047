// SPDX-License-Identifier: MIT
// The whole fit of one ROI over a back end's sums: start values, minimization, uncertainties and
// the verdict. Host and device; the back end owns all memory.
#pragma once

#include <cmath>

#include "fitter/acceptance.hpp"
#include "fitter/fitter.hpp"
#include "fitter/implicit_least_squares.hpp"
#include "fitter/levenberg_marquardt.hpp"
#include "fitter/uncertainty.hpp"

namespace driftd::fitter {

/// Start values of the paper: the maximum of the 3x3 moving average, and sqrt(M / pi) from the M
/// pixels above the level exp(-1/2) between its lowest and highest value.
template <class BackEnd>
DRIFTD_HD Start cold_start(BackEnd& pixels) {
  constexpr float kInversePi = 0.318309886f;
  constexpr float kOneSigmaLevel = 0.606530660f;
  const SmoothedExtremes peak = pixels.smoothed_pixels();
  const float level = peak.lowest + kOneSigmaLevel * (peak.highest - peak.lowest);
  const float sigma_px = std::sqrt(pixels.count_above(level) * kInversePi);
  return {peak.x_px, peak.y_px, sigma_px, sigma_px};
}

DRIFTD_HD bool usable_start(const Start& s) {
  return s.sigma_x_px > 0 && std::isfinite(s.x_px) && std::isfinite(s.y_px) &&
         std::isfinite(s.sigma_x_px) && std::isfinite(s.sigma_y_px);
}

DRIFTD_HD Localization bad_input() {
  return {NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, FitStatus::BadInput,
          0,   {}};
}

template <class Model, class BackEnd>
DRIFTD_HD Localization describe(BackEnd& pixels, const Minimum<Model>& minimum,
                                const FitOptions& options) {
  constexpr int n = Model::kShape;
  const auto& p = minimum.parameters;
  const PixelSummary& summary = pixels.summary();
  const float count = static_cast<float>(pixels.side() * pixels.side());
  const ProfileTotals<n>& total = minimum.at.total;
  const ProfileProducts<n>& product = minimum.at.product;

  Localization l = {};
  Model::store(p, l);
  l.amplitude_adu = minimum.at.alpha;
  l.background_adu = minimum.at.beta + summary.pedestal_adu;
  l.chi_square = minimum.at.chi_square;
  l.status = minimum.status;
  l.iterations = static_cast<std::uint8_t>(minimum.iterations);

  const float freedom = count - static_cast<float>(n + 2);
  const PixelVariance variance =
      pixel_variance(options.noise, l.amplitude_adu, l.background_adu, l.chi_square / freedom);
  const SymmetricMatrix<n + 2> h = full_matrix<n>(product, total, count, l.amplitude_adu);
  SymmetricMatrix<n + 2> cubic = {};
  if (variance.slope > 0) {
    const CubicMoments third = pixels.cubic_moments();
    const ProfileTotals<n> weighted = {product.ff, product.fd};
    cubic =
        full_matrix<n>(Model::products(third.x, third.y, p), weighted, total.f, l.amplitude_adu);
  }
  const Vec<n + 2> sd = standard_deviations<n + 2>(h, cubic, variance);
  Model::store_sd(sd.v, l);
  l.amplitude_sd_adu = sd[n];
  l.background_sd_adu = sd[n + 1];
  return l;
}

/// A fit of one ROI as a state machine over LevenbergMarquardt; the same protocol:
///   if (begin(...)) do { evaluate trial() } while (!advance(...)); then result().
/// A warm start that leads nowhere (the spot jumped) is tried again cold.
template <class Model>
class SpotFit {
 public:
  static constexpr int kShape = Model::kShape;

  /// False: bad input, result() is ready.
  template <class BackEnd>
  DRIFTD_HD bool begin(BackEnd& pixels, const Start& start, const FitOptions& options) {
    result_ = bad_input();
    if (!pixels.summary().usable) return false;
    min_beta_ = options.min_background_adu - pixels.summary().pedestal_adu;
    warm_ = usable_start(start);
    search_.begin(Model::from_start(warm_ ? start : cold_start(pixels)), pixels.side(), options);
    return true;
  }

  DRIFTD_HD const typename Model::Parameters& trial() const { return search_.trial(); }
  /// Limit of the background at every trial, less the pedestal.
  DRIFTD_HD float min_beta() const { return min_beta_; }
  DRIFTD_HD const Localization& result() const { return result_; }

  template <class BackEnd>
  DRIFTD_HD bool advance(BackEnd& pixels, const Evaluation<kShape>& at, const FitOptions& options) {
    if (!search_.advance(at, options)) return false;
    const Minimum<Model>& minimum = search_.minimum();
    if (!minimum.evaluated_last) pixels.set_profile(Model::profile(minimum.parameters));
    result_ = describe<Model>(pixels, minimum, options);
    if (converged(result_.status) && !is_spot<Model>(pixels, minimum))
      result_.status = FitStatus::NotConverged;
    if (!warm_ || converged(result_.status)) return true;
    warm_ = false;
    search_.begin(Model::from_start(cold_start(pixels)), pixels.side(), options);
    return false;
  }

 private:
  LevenbergMarquardt<Model> search_;
  float min_beta_;
  Localization result_;
  bool warm_;
};

}  // namespace driftd::fitter
