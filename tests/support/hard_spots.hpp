// SPDX-License-Identifier: MIT
// Images on which a search for the spot may go astray, with the place it should end at.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "fitter/fitter.hpp"
#include "support/spots.hpp"

namespace driftd::test {

enum class Hard {
  Ordinary,  ///< near the middle
  TwoSpots,  ///< a second one of 0.6 the height, 4 to 5 px away
  Gradient,  ///< on a slope that rises by half its height across the ROI
  AtBorder,  ///< within 1.5 px of an edge
  HotPixel,  ///< a pixel as bright again as the spot's peak
  Dim        ///< amplitude twice the noise
};
inline constexpr std::array kAllHard = {Hard::Ordinary, Hard::TwoSpots, Hard::Gradient,
                                        Hard::AtBorder, Hard::HotPixel, Hard::Dim};

inline const char* name_of(Hard hard) {
  switch (hard) {
    case Hard::Ordinary:
      return "one spot";
    case Hard::TwoSpots:
      return "two spots";
    case Hard::Gradient:
      return "strong gradient";
    case Hard::AtBorder:
      return "at the border";
    case Hard::HotPixel:
      return "hot pixel";
    case Hard::Dim:
      return "dim";
  }
  return "";
}

struct HardSample {
  std::vector<Spot> truth;
  std::vector<std::uint16_t> pixels;

  static constexpr int kSidePx = 11;
  fitter::Batch batch() const {
    return {pixels.data(), fitter::PixelType::U16, kSidePx, truth.size()};
  }
};

inline HardSample draw_hard(Hard hard, std::size_t count, std::uint64_t seed) {
  constexpr int kSide = HardSample::kSidePx;
  std::mt19937_64 generator(seed);
  const auto between = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(generator);
  };
  HardSample s;
  for (std::size_t i = 0; i < count; ++i) {
    Spot spot = {between(4, 6), between(4, 6), between(1, 1.8), 120, 100, between(1, 1.8)};
    Spot other = {0, 0, 1, 0, 0};
    double slope = 0;
    if (hard == Hard::TwoSpots) {
      const double angle = between(0, 6.283185307179586), distance = between(4, 5);
      other = {spot.x_px + distance * std::cos(angle), spot.y_px + distance * std::sin(angle), 1.3,
               0.6 * spot.amplitude_adu, 0};
    }
    if (hard == Hard::Gradient) slope = 0.5 * spot.amplitude_adu / kSide;
    if (hard == Hard::AtBorder) spot.x_px = between(0, 1.5);
    if (hard == Hard::Dim) spot.amplitude_adu = 20;
    const int hot = hard == Hard::HotPixel ? static_cast<int>(between(0, kSide * kSide - 1)) : -1;
    s.truth.push_back(spot);
    for (int row = 0; row < kSide; ++row) {
      for (int column = 0; column < kSide; ++column) {
        double expected = intensity(spot, column, row) + intensity(other, column, row);
        expected += slope * column;
        if (row * kSide + column == hot) expected += spot.amplitude_adu;
        s.pixels.push_back(noisy<std::uint16_t>(expected, 65535, generator));
      }
    }
  }
  return s;
}

/// Share of the fits that end within a pixel of the spot.
inline double share_found(const HardSample& sample, const std::vector<fitter::Localization>& fits) {
  double found = 0;
  for (std::size_t i = 0; i < fits.size(); ++i) {
    const Spot& t = sample.truth[i];
    if (std::hypot(fits[i].x_px - t.x_px, fits[i].y_px - t.y_px) < 1) found += 1;
  }
  return found / static_cast<double>(fits.size());
}

}  // namespace driftd::test
