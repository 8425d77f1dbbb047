// SPDX-License-Identifier: MIT
// Smoothing of whole images, for the searches that look for spots. Pure functions, not real time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stop_token>
#include <vector>

namespace driftd::control {

/// An image of real values, row-major.
struct Plane {
  int width = 0, height = 0;
  std::vector<float> values;

  Plane(int w, int h)
      : width(w), height(h), values(static_cast<std::size_t>(w) * static_cast<std::size_t>(h)) {}
  /// @param image  at least w * h values
  Plane(std::span<const std::uint16_t> image, int w, int h) : width(w), height(h) {
    const std::size_t pixels = static_cast<std::size_t>(w) * static_cast<std::size_t>(h);
    values.assign(image.begin(), image.begin() + static_cast<std::ptrdiff_t>(pixels));
  }
  float& at(int x, int y) {
    return values[static_cast<std::size_t>(y) * static_cast<std::size_t>(width) +
                  static_cast<std::size_t>(x)];
  }
  float at(int x, int y) const {
    return values[static_cast<std::size_t>(y) * static_cast<std::size_t>(width) +
                  static_cast<std::size_t>(x)];
  }
  const float* row(int y) const { return values.data() + static_cast<std::ptrdiff_t>(y) * width; }
  float* row(int y) { return values.data() + static_cast<std::ptrdiff_t>(y) * width; }
};

/// The upper one of two in the middle. Reorders the values, of which there is at least one.
float median_of(std::vector<float>& values);

/// Sums to 1; reaches to four sigma.
std::vector<float> gaussian_kernel(double sigma_px);

/// Rows and columns convolved with a kernel of odd length. Outside the image the rim's pixels go
/// on. Once asked to stop, a result of no use.
Plane smoothed(const Plane& image, const std::vector<float>& kernel, const std::stop_token& stop);

/// Standard deviation of the difference of two smoothings of unit white noise, `b` the longer
/// kernel: the root of the sum over pixels of (a - b)^2, from the separable kernels.
double filtered_noise(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace driftd::control
