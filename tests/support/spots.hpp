// SPDX-License-Identifier: MIT
// Simulated spots for the fitter's tests and benchmark: the workload of Leutenegger & Weber 2021
// (point-sampled Gaussian, total signal and total background in counts, Gaussian noise of the
// variance of the intensity, rounded to non-negative integers). Seeded, single threaded.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace driftd::test {

struct Spot {
  double x_px, y_px, sigma_px;
  double amplitude_adu;   ///< peak above background
  double background_adu;  ///< per pixel
  double sigma_y_px = 0;  ///< 0: as sigma_px
};

inline double intensity(const Spot& s, int column, int row) {
  const double u = column - s.x_px;
  const double v = row - s.y_px;
  const double across = s.sigma_y_px > 0 ? s.sigma_y_px : s.sigma_px;
  return s.background_adu + s.amplitude_adu * std::exp(-u * u / (2 * s.sigma_px * s.sigma_px) -
                                                       v * v / (2 * across * across));
}

/// @param signal, background  totals of the spot and of the ROI, counts
template <class Generator>
Spot random_spot(int side, double signal, double background, Generator& generator) {
  std::normal_distribution<double> offset(0.0, side / 20.0);
  std::uniform_real_distribution<double> width(1.0, 2.0);
  const double centre = (side - 1) / 2.0;
  Spot s = {};
  s.x_px = centre + offset(generator);
  s.y_px = centre + offset(generator);
  s.sigma_px = width(generator);
  constexpr double kTwoPi = 6.283185307179586;
  s.amplitude_adu = signal / (kTwoPi * s.sigma_px * s.sigma_px);
  s.background_adu = background / (side * side);
  return s;
}

/// One pixel of the paper's noise: N(g, g), rounded, at least 0, at most what Pixel holds.
template <class Pixel, class Generator>
Pixel noisy(double expected, double largest, Generator& generator) {
  std::normal_distribution<double> noise(0.0, 1.0);
  const double value = std::round(expected + std::sqrt(expected) * noise(generator));
  return static_cast<Pixel>(std::clamp(value, 0.0, largest));
}

template <class Pixel>
struct SpotImages {
  int side;
  std::vector<Spot> truth;
  std::vector<Pixel> pixels;

  const Pixel* roi(std::size_t i) const {
    return pixels.data() + i * static_cast<std::size_t>(side * side);
  }
};

template <class Pixel>
SpotImages<Pixel> simulate_spots(int side, double signal, double background, std::size_t count,
                                 std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  SpotImages<Pixel> images = {side, {}, {}};
  images.pixels.reserve(count * static_cast<std::size_t>(side * side));
  const double largest = sizeof(Pixel) == 1 ? 255.0 : 65535.0;
  for (std::size_t i = 0; i < count; ++i) {
    const Spot spot = random_spot(side, signal, background, generator);
    images.truth.push_back(spot);
    for (int row = 0; row < side; ++row) {
      for (int column = 0; column < side; ++column) {
        images.pixels.push_back(noisy<Pixel>(intensity(spot, column, row), largest, generator));
      }
    }
  }
  return images;
}

}  // namespace driftd::test
