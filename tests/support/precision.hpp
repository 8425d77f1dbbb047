// SPDX-License-Identifier: MIT
// Spots with Poisson noise, their fits, and how far the errors are from the Cramer-Rao bound and
// from the standard deviations that the fits report. For tests and the precision benchmark. Seeded.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <random>
#include <vector>

#include "fitter/fitter.hpp"
#include "support/fisher.hpp"
#include "support/spots.hpp"

namespace driftd::test {

/// Conditions under which a precision is asked for: photons of the whole spot, of each background
/// pixel.
struct PrecisionCell {
  double photons, background, sigma_x_px, sigma_y_px;
  bool circular() const { return sigma_x_px == sigma_y_px; }
  fitter::Model model() const {
    return circular() ? fitter::Model::CircularGaussian : fitter::Model::EllipticalGaussian;
  }
};

constexpr int kPrecisionSidePx = 11;

struct PrecisionSample {
  PrecisionCell cell;
  std::vector<Spot> truth;
  std::vector<float> pixels;     ///< photons
  std::vector<float> variances;  ///< the true ones, which an experiment knows only roughly
};

inline PrecisionSample draw_sample(const PrecisionCell& cell, std::size_t count) {
  std::mt19937_64 generator(2026);
  std::uniform_real_distribution<double> place(-0.5, 0.5);
  constexpr double kTwoPi = 6.283185307179586;
  const double amplitude = cell.photons / (kTwoPi * cell.sigma_x_px * cell.sigma_y_px);
  constexpr double kMiddle = (kPrecisionSidePx - 1) / 2.0;
  PrecisionSample s = {cell, {}, {}, {}};
  for (std::size_t i = 0; i < count; ++i) {
    const double x = kMiddle + place(generator);
    const double y = kMiddle + place(generator);
    s.truth.push_back({x, y, cell.sigma_x_px, amplitude, cell.background, cell.sigma_y_px});
    for (int row = 0; row < kPrecisionSidePx; ++row) {
      for (int column = 0; column < kPrecisionSidePx; ++column) {
        const double expected = intensity(s.truth.back(), column, row);
        std::poisson_distribution<int> counts(expected);
        s.pixels.push_back(static_cast<float>(counts(generator)));
        s.variances.push_back(static_cast<float>(expected));
      }
    }
  }
  return s;
}

/// For x, sigma_x, amplitude and background.
using Ratios = std::array<double, 4>;
struct Precision {
  double converged;      ///< share of the fits; the others do not count below
  Ratios over_bound;     ///< rms of error / Cramer-Rao bound
  Ratios over_reported;  ///< rms of error / reported standard deviation
};

inline Precision measure_precision(const PrecisionSample& sample, fitter::Estimator estimator,
                                   int threads = 1) {
  fitter::FitOptions options;
  options.model = sample.cell.model();
  options.estimator = estimator;
  options.noise = {1, 0, 0};
  const std::size_t count = sample.truth.size();
  fitter::Batch batch = {sample.pixels.data(), fitter::PixelType::F32, kPrecisionSidePx, count};
  if (estimator == fitter::Estimator::WeightedLeastSquares)
    batch.variances = sample.variances.data();
  std::vector<fitter::Localization> fits(count);
  fitter::fit_batch_cpu(batch, options, fits, threads);
  Precision p = {};
  double used = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const fitter::Localization& l = fits[i];
    const Spot& truth = sample.truth[i];
    if (!fitter::converged(l.status)) continue;
    used += 1;
    const PrecisionBound bound = precision_bound(truth, kPrecisionSidePx, sample.cell.circular());
    const Ratios error = {l.x_px - truth.x_px, l.sigma_x_px - truth.sigma_px,
                          l.amplitude_adu - truth.amplitude_adu,
                          l.background_adu - truth.background_adu};
    const Ratios least = {bound.x_px, bound.sigma_x_px, bound.amplitude, bound.background};
    const Ratios reported = {l.x_sd_px, l.sigma_x_sd_px, l.amplitude_sd_adu, l.background_sd_adu};
    for (std::size_t k = 0; k < error.size(); ++k) {
      p.over_bound[k] += error[k] * error[k] / (least[k] * least[k]);
      p.over_reported[k] += error[k] * error[k] / (reported[k] * reported[k]);
    }
  }
  for (Ratios* ratios : {&p.over_bound, &p.over_reported})
    for (double& v : *ratios) v = std::sqrt(v / used);
  p.converged = used / static_cast<double>(count);
  return p;
}

}  // namespace driftd::test
