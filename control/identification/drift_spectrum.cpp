// SPDX-License-Identifier: MIT
#include "control/identification/drift_spectrum.hpp"

#include <cmath>
#include <numbers>

namespace driftd::control {

std::vector<double> spectrum_of(const std::vector<double>& values, double period_s,
                                std::size_t window) {
  if (window < 4 || values.size() < window) return {};
  std::vector<double> cosine(window), hann(window);
  double power = 0;
  for (std::size_t i = 0; i < window; ++i) {
    const double angle =
        2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(window);
    cosine[i] = std::cos(angle);
    hann[i] = 0.5 - 0.5 * cosine[i];
    power += hann[i] * hann[i];
  }
  const double middle = 0.5 * static_cast<double>(window - 1);
  const auto n = static_cast<double>(window);
  const double spread = n * (n * n - 1) / 12;
  std::vector<double> density(window / 2);
  std::vector<double> part(window);
  std::size_t windows = 0;
  for (std::size_t begin = 0; begin + window <= values.size(); begin += window / 2, ++windows) {
    double mean = 0, slope = 0;
    for (std::size_t i = 0; i < window; ++i) {
      mean += values[begin + i] / n;
      slope += values[begin + i] * (static_cast<double>(i) - middle) / spread;
    }
    for (std::size_t i = 0; i < window; ++i)
      part[i] = hann[i] * (values[begin + i] - mean - slope * (static_cast<double>(i) - middle));
    for (std::size_t f = 1; f <= window / 2; ++f) {
      double real = 0, imaginary = 0;
      std::size_t at = 0;
      for (std::size_t i = 0; i < window; ++i) {
        real += part[i] * cosine[at];
        imaginary += part[i] * cosine[(at + 3 * window / 4) % window];
        at = (at + f) % window;
      }
      const double sides = f == window / 2 ? 1 : 2;
      density[f - 1] += sides * period_s / power * (real * real + imaginary * imaginary);
    }
  }
  for (double& value : density) value /= static_cast<double>(windows);
  return density;
}

}  // namespace driftd::control
