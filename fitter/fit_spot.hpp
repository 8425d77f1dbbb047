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

template <class Model>
DRIFTD_HD void store_sd(const Vec<Model::kShape + 2>& sd, Localization& l) {
  Model::store_sd(sd.v, l);
  l.amplitude_sd_adu = sd[Model::kShape];
  l.background_sd_adu = sd[Model::kShape + 1];
}

/// From a minimum to the result. The verdict rests on the residuals whatever the noise model says,
/// so that a wrong gain cannot turn noise into spots or spots into noise.
/// @pre the profile set last is the minimum's
template <class Model, class BackEnd>
DRIFTD_HD Localization conclude(BackEnd& pixels, const Minimum<Model>& minimum,
                                const FitOptions& options) {
  constexpr int n = Model::kShape;
  const auto& p = minimum.parameters;
  const auto& at = minimum.at;
  const PixelSummary& summary = pixels.summary();
  const float count = static_cast<float>(pixels.side() * pixels.side());
  const float freedom = count - static_cast<float>(n + 2);
  const float residual_variance = at.chi_square / freedom;

  Localization l = {};
  Model::store(p, l);
  l.amplitude_adu = at.alpha;
  l.background_adu = at.beta + summary.pedestal_adu;
  l.chi_square = at.chi_square;
  l.status = minimum.status;
  l.iterations = static_cast<std::uint8_t>(minimum.iterations);

  const Factors<n + 2> h = factorize(full_matrix<n>(at.product, at.total, count, at.alpha));
  const SymmetricMatrix<n + 2> inverse_l = inverse_lower(h);
  store_sd<Model>(standard_deviations(inverse_diagonal(h, inverse_l), residual_variance), l);
  // Summed whatever the other tests say: the lanes of a back end must meet in it.
  const SmoothedExtremes structure = pixels.smoothed_residuals(at.alpha, at.beta);
  const float constant = summary.sum_squares - summary.sum * summary.sum / count;
  const bool spot = h.positive_definite && inside_limits<Model>(p, pixels.side()) &&
                    significant(l, constant, freedom) &&
                    structureless(structure, at.alpha, std::sqrt(residual_variance));
  if (converged(l.status) && !spot) l.status = FitStatus::NotConverged;
  if (options.noise.gain_e_per_adu > 0) {
    const CubicMoments third = pixels.cubic_moments();
    const SymmetricMatrix<n + 2> cubic = full_matrix<n>(
        Model::products(third.x, third.y, p), {at.product.ff, at.product.fd}, at.total.f, at.alpha);
    const PixelVariance variance = photon_variance(options.noise, at.alpha, l.background_adu);
    store_sd<Model>(standard_deviations(inverse(h, inverse_l), cubic, variance), l);
  }
  return l;
}

/// A fit of one ROI as a state machine over LevenbergMarquardt: begin(), then whatever phase() asks
/// for until it is Done. A warm start that leads nowhere (the spot jumped) is tried again cold.
/// No call sums over pixels, so that a back end may do so for several fits at once.
template <class Model>
class SpotFit {
 public:
  static constexpr int kShape = Model::kShape;

  enum class Phase : std::uint8_t {
    NeedsStart,  ///< start() with a cold_start()
    Searching,   ///< advance() with an evaluation at trial()
    AtMinimum,   ///< finish() with conclude() at minimum()
    Done         ///< see result()
  };

  DRIFTD_HD void begin(const PixelSummary& summary, const Start& given, int side,
                       const FitOptions& options) {
    result_ = bad_input();
    min_beta_ = options.min_background_adu - summary.pedestal_adu;
    warm_ = usable_start(given);
    search_.begin(Model::from_start(given), side, options);
    phase_ = !summary.usable ? Phase::Done : warm_ ? Phase::Searching : Phase::NeedsStart;
  }

  DRIFTD_HD Phase phase() const { return phase_; }
  DRIFTD_HD const typename Model::Parameters& trial() const { return search_.trial(); }
  DRIFTD_HD const Minimum<Model>& minimum() const { return search_.minimum(); }
  /// Limit of the background at every trial, less the pedestal.
  DRIFTD_HD float min_beta() const { return min_beta_; }
  DRIFTD_HD const Localization& result() const { return result_; }

  DRIFTD_HD void start(const Start& cold, int side, const FitOptions& options) {
    warm_ = false;
    search_.begin(Model::from_start(cold), side, options);
    phase_ = Phase::Searching;
  }

  DRIFTD_HD void advance(const Evaluation<kShape>& at, const FitOptions& options) {
    if (search_.advance(at, options)) phase_ = Phase::AtMinimum;
  }

  DRIFTD_HD void finish(const Localization& concluded) {
    result_ = concluded;
    phase_ = warm_ && !converged(concluded.status) ? Phase::NeedsStart : Phase::Done;
  }

 private:
  LevenbergMarquardt<Model> search_;
  float min_beta_;
  Localization result_;
  bool warm_;
  Phase phase_;
};

}  // namespace driftd::fitter
