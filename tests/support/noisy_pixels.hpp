// SPDX-License-Identifier: MIT
// Spots of a camera some of whose pixels are much noisier than the others, or gone, and whose map
// of variances says so.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <vector>

#include "fitter/fitter.hpp"
#include "support/spots.hpp"

namespace driftd::test {

struct NoisyCamera {
  int side;
  double sigma_px;
  double photons, background;  ///< background: of a pixel
  double gain_e_per_adu;
  double noisy_adu2;  ///< variance of the noisy pixels; infinity: they say anything
  int noisy;          ///< how many; the first lies within 2 px of the spot's middle in half of them
  /// Their variance is that of a dark current, whose mean they have as well (with gain 1).
  bool bright = false;
};

struct NoisyPixels {
  NoisyCamera camera;
  std::vector<Spot> truth;
  std::vector<float> pixels;
  std::vector<float> read_variances, variances;  ///< adu^2: of reading alone, and in all

  static constexpr float kOffsetAdu = 100, kReadNoiseElectrons = 1.5f;

  fitter::FitOptions options(fitter::Estimator estimator) const {
    fitter::FitOptions o;
    o.estimator = estimator;
    o.noise = {static_cast<float>(camera.gain_e_per_adu), kReadNoiseElectrons, kOffsetAdu};
    return o;
  }
  fitter::Batch batch(fitter::Estimator estimator) const {
    const bool all = estimator == fitter::Estimator::WeightedLeastSquares;
    return {.pixels = pixels.data(),
            .type = fitter::PixelType::F32,
            .roi_px = camera.side,
            .count = truth.size(),
            .variances = all ? variances.data() : read_variances.data()};
  }
  /// Near the truth.
  std::vector<fitter::Start> starts() const {
    std::vector<fitter::Start> s;
    for (const Spot& t : truth)
      s.push_back({static_cast<float>(t.x_px + 0.2), static_cast<float>(t.y_px - 0.2),
                   static_cast<float>(1.1 * t.sigma_px), static_cast<float>(1.1 * t.sigma_px)});
    return s;
  }
};

inline NoisyPixels draw_noisy(const NoisyCamera& camera, std::size_t count, std::uint64_t seed) {
  constexpr double kTwoPi = 6.283185307179586;
  std::mt19937_64 generator(seed);
  std::normal_distribution<double> normal(0, 1);
  const double gain = camera.gain_e_per_adu, middle = (camera.side - 1) / 2.0;
  const double read = std::pow(NoisyPixels::kReadNoiseElectrons / gain, 2);
  NoisyPixels s = {camera, {}, {}, {}, {}};
  for (std::size_t i = 0; i < count; ++i) {
    std::uniform_real_distribution<double> anywhere(-0.5, 0.5);
    const Spot spot = {middle + anywhere(generator), middle + anywhere(generator), camera.sigma_px,
                       camera.photons / (kTwoPi * camera.sigma_px * camera.sigma_px),
                       camera.background};
    s.truth.push_back(spot);
    const auto first = s.pixels.size();
    for (int row = 0; row < camera.side; ++row) {
      for (int column = 0; column < camera.side; ++column) {
        const double expected = intensity(spot, column, row);
        const int photons = std::poisson_distribution(expected)(generator);
        s.pixels.push_back(static_cast<float>(NoisyPixels::kOffsetAdu + photons / gain +
                                              std::sqrt(read) * normal(generator)));
        s.read_variances.push_back(static_cast<float>(read));
        s.variances.push_back(static_cast<float>(read + expected / (gain * gain)));
      }
    }
    for (int k = 0; k < camera.noisy; ++k) {
      std::uniform_int_distribution<int> place(0, camera.side - 1), near(-2, 2);
      int column = place(generator), row = place(generator);
      if (k == 0 && i % 2 == 0) {
        column = static_cast<int>(std::lround(spot.x_px)) + near(generator);
        row = static_cast<int>(std::lround(spot.y_px)) + near(generator);
      }
      const auto at =
          first + static_cast<std::size_t>(std::clamp(row, 0, camera.side - 1) * camera.side +
                                           std::clamp(column, 0, camera.side - 1));
      const float more = static_cast<float>(camera.noisy_adu2);
      const bool gone = std::isinf(more);
      s.pixels[at] = gone ? std::uniform_real_distribution<float>(0, 65535)(generator)
                          : s.pixels[at] + static_cast<float>(std::sqrt(more) * normal(generator)) +
                                (camera.bright ? more : 0.0f);
      s.read_variances[at] += more;
      s.variances[at] += more;
    }
  }
  return s;
}

struct Verdicts {
  double refused = 0;  ///< share
  double rms = 0;      ///< of x's error over its own standard deviation, of those that pass
};

inline Verdicts verdicts(const NoisyPixels& s, const std::vector<fitter::Localization>& fits) {
  double passed = 0, squares = 0;
  for (std::size_t i = 0; i < fits.size(); ++i) {
    if (!converged(fits[i].status)) continue;
    passed += 1;
    squares += std::pow((fits[i].x_px - s.truth[i].x_px) / fits[i].x_sd_px, 2);
  }
  return {1 - passed / static_cast<double>(fits.size()), std::sqrt(squares / passed)};
}

}  // namespace driftd::test
