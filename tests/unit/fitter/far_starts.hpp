// SPDX-License-Identifier: MIT
// Likelihood fits of spots from starts that are off by a given distance, on either back end.
#pragma once

#include <cmath>
#include <cstddef>
#include <random>
#include <vector>

#include "fitter/fitter.hpp"
#include "support/spots.hpp"

namespace driftd::test {

/// How the start's amplitude and background are given.
enum class StartsWith { NoLevels, Levels, NoAmplitude };

struct FarStarts {
  fitter::Model model;
  double sigma_px, photons, distance_px;
  StartsWith with;
};

inline constexpr int kFarSidePx = 13;

struct FarSample {
  fitter::FitOptions options;
  std::vector<Spot> truth;
  std::vector<float> pixels;
  std::vector<fitter::Start> starts;
  std::vector<fitter::StartLevels> levels;

  fitter::Batch batch() const {
    return {pixels.data(), fitter::PixelType::F32, kFarSidePx,
            starts.size(), starts.data(),          levels.empty() ? nullptr : levels.data()};
  }

  /// Share of the fits that converge within half a pixel of the spot.
  double reached(const std::vector<fitter::Localization>& fits) const {
    double there = 0;
    for (std::size_t i = 0; i < fits.size(); ++i) {
      const double off = std::hypot(fits[i].x_px - truth[i].x_px, fits[i].y_px - truth[i].y_px);
      there += converged(fits[i].status) && off < 0.5 ? 1 : 0;
    }
    return there / static_cast<double>(fits.size());
  }
};

inline Spot far_spot(const FarStarts& far, std::mt19937_64& random) {
  constexpr double kTwoPi = 6.283185307179586, kMiddle = (kFarSidePx - 1) / 2.0;
  std::uniform_real_distribution<double> place(-0.5, 0.5);
  const double across = far.model == fitter::Model::CircularGaussian ? 1.0 : 1.25;
  const double amplitude = far.photons / (kTwoPi * far.sigma_px * far.sigma_px * across);
  const double x = kMiddle + place(random);
  return {x, kMiddle + place(random), far.sigma_px, amplitude, 5, far.sigma_px * across};
}

inline FarSample draw_far(const FarStarts& far, std::size_t count) {
  constexpr double kTwoPi = 6.283185307179586;
  std::mt19937_64 random(11);
  std::uniform_real_distribution<double> direction(0, kTwoPi);
  FarSample s;
  s.options.model = far.model;
  s.options.estimator = fitter::Estimator::PoissonLikelihood;
  s.options.noise = {1, 0, 0};
  s.options.spots_only = false;  // no second search, from the peak
  for (std::size_t i = 0; i < count; ++i) {
    const Spot spot = s.truth.emplace_back(far_spot(far, random));
    for (int row = 0; row < kFarSidePx; ++row)
      for (int column = 0; column < kFarSidePx; ++column)
        s.pixels.push_back(static_cast<float>(
            std::poisson_distribution<int>(intensity(spot, column, row))(random)));
    const double angle = direction(random);
    s.starts.push_back({static_cast<float>(spot.x_px + far.distance_px * std::cos(angle)),
                        static_cast<float>(spot.y_px + far.distance_px * std::sin(angle)),
                        static_cast<float>(spot.sigma_px), static_cast<float>(spot.sigma_y_px)});
    const auto amplitude = static_cast<float>(0.8 * spot.amplitude_adu);
    if (far.with == StartsWith::Levels) s.levels.push_back({amplitude, 6});
    if (far.with == StartsWith::NoAmplitude) s.levels.push_back({0, 6});
  }
  return s;
}

/// Every model, width, brightness and way to give the levels, at one distance.
inline std::vector<FarStarts> all_far_starts(double distance_px) {
  std::vector<FarStarts> all;
  for (const auto model : {fitter::Model::CircularGaussian, fitter::Model::EllipticalGaussian})
    for (const double sigma_px : {0.9, 1.3, 1.9})
      for (const double photons : {500.0, 3000.0, 50'000.0})
        for (const auto with : {StartsWith::NoLevels, StartsWith::Levels, StartsWith::NoAmplitude})
          all.push_back({model, sigma_px, photons, distance_px, with});
  return all;
}

/// A fit may still end elsewhere: by noise, or where the iterations run out.
inline constexpr double kLeastReached = 0.985;

}  // namespace driftd::test
