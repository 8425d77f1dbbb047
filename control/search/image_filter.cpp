// SPDX-License-Identifier: MIT
#include "control/search/image_filter.hpp"

#include <algorithm>
#include <cmath>

namespace driftd::control {
namespace {

/// to[i] += weight * from[i]: a loop that compilers turn into vectors.
void add_weighted(float weight, const float* from, float* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] += weight * from[i];
}

}  // namespace

float median_of(std::vector<float>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::vector<float> gaussian_kernel(double sigma_px) {
  const int radius = static_cast<int>(std::ceil(4 * sigma_px));
  std::vector<float> kernel;
  double sum = 0;
  for (int i = -radius; i <= radius; ++i) sum += std::exp(-0.5 * i * i / (sigma_px * sigma_px));
  for (int i = -radius; i <= radius; ++i)
    kernel.push_back(static_cast<float>(std::exp(-0.5 * i * i / (sigma_px * sigma_px)) / sum));
  return kernel;
}

Plane smoothed(const Plane& image, const std::vector<float>& kernel, const std::stop_token& stop) {
  const std::size_t radius = kernel.size() / 2;
  const auto width = static_cast<std::size_t>(image.width);
  Plane rows(image.width, image.height);
  std::vector<float> padded(width + 2 * radius);
  for (int y = 0; y < image.height && !stop.stop_requested(); ++y) {
    const float* from = image.row(y);
    std::fill_n(padded.begin(), radius, from[0]);
    std::copy_n(from, width, padded.begin() + static_cast<std::ptrdiff_t>(radius));
    std::fill_n(padded.end() - static_cast<std::ptrdiff_t>(radius), radius, from[width - 1]);
    for (std::size_t i = 0; i < kernel.size(); ++i)
      add_weighted(kernel[i], padded.data() + i, rows.row(y), width);
  }
  Plane both(image.width, image.height);
  for (int y = 0; y < image.height && !stop.stop_requested(); ++y)
    for (std::size_t i = 0; i < kernel.size(); ++i) {
      const int from = y + static_cast<int>(i) - static_cast<int>(radius);
      add_weighted(kernel[i], rows.row(std::clamp(from, 0, image.height - 1)), both.row(y), width);
    }
  return both;
}

double filtered_noise(const std::vector<float>& a, const std::vector<float>& b) {
  const std::size_t shift = (b.size() - a.size()) / 2;
  double aa = 0;
  double ab = 0;
  double bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    aa += static_cast<double>(a[i]) * static_cast<double>(a[i]);
    ab += static_cast<double>(a[i]) * static_cast<double>(b[i + shift]);
  }
  for (const float v : b) bb += static_cast<double>(v) * static_cast<double>(v);
  return std::sqrt(aa * aa - 2 * ab * ab + bb * bb);
}

}  // namespace driftd::control
