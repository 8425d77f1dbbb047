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

DRIFTD_HD inline bool usable_start(const Start& s) {
  return s.sigma_x_px > 0 && std::isfinite(s.x_px) && std::isfinite(s.y_px) &&
         std::isfinite(s.sigma_x_px) && std::isfinite(s.sigma_y_px);
}

DRIFTD_HD inline Localization bad_input() {
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
  const ProfileMoments m = pixels.set_profile(Model::profile(p));
  const ProfileTotals<n> total = Model::totals(m.x, m.y, p);
  const ProfileProducts<n> product = Model::products(m.x.second, m.y.second, p);

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

template <class Model, class BackEnd>
DRIFTD_HD Localization fit_from(BackEnd& pixels, const Start& start, const FitOptions& options) {
  const auto evaluate = [&pixels](const typename Model::Parameters& p) {
    return evaluate_implicit<Model>(pixels, p);
  };
  const Minimum<Model> minimum =
      minimize<Model>(evaluate, Model::from_start(start), pixels.side(), options);
  Localization l = describe<Model>(pixels, minimum, options);
  if (converged(l.status) && !inside_limits<Model>(minimum.parameters, pixels.side()))
    l.status = FitStatus::NotConverged;
  return l;
}

/// A warm start that leads nowhere (the spot jumped) is tried again cold.
template <class Model, class BackEnd>
DRIFTD_HD Localization fit_spot(BackEnd& pixels, const Start& start, const FitOptions& options) {
  if (!pixels.summary().usable) return bad_input();
  if (usable_start(start)) {
    const Localization warm = fit_from<Model>(pixels, start, options);
    if (converged(warm.status)) return warm;
  }
  return fit_from<Model>(pixels, cold_start(pixels), options);
}

}  // namespace driftd::fitter
