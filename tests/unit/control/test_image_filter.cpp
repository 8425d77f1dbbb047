// SPDX-License-Identifier: MIT
// Smoothing against sums written out, on an image whose sides differ.
#include <algorithm>
#include <cmath>
#include <random>
#include <stop_token>
#include <vector>

#include "control/search/image_filter.hpp"
#include "support/catch.hpp"

namespace driftd::control {
namespace {

TEST_CASE("smoothing is the sum over the kernel's square, and the rim's pixels go on") {
  Plane image(17, 11);
  std::mt19937 random(1);
  std::uniform_real_distribution<float> level(-100, 300);
  for (float& v : image.values) v = level(random);
  const std::vector<float> kernel = {0.1f, 0.2f, 0.3f, 0.25f, 0.15f};  // not symmetric
  const Plane result = smoothed(image, kernel, {});
  REQUIRE(result.width == 17);
  REQUIRE(result.height == 11);
  for (int y = 0; y < 11; ++y)
    for (int x = 0; x < 17; ++x) {
      double sum = 0;
      for (int v = -2; v <= 2; ++v)
        for (int u = -2; u <= 2; ++u)
          sum += static_cast<double>(kernel[static_cast<std::size_t>(u + 2)]) *
                 static_cast<double>(kernel[static_cast<std::size_t>(v + 2)]) *
                 static_cast<double>(image.at(std::clamp(x + u, 0, 16), std::clamp(y + v, 0, 10)));
      REQUIRE(static_cast<double>(result.at(x, y)) == Approx(sum).margin(1e-3));
    }
}

TEST_CASE("a kernel longer than the image reads its rim") {
  Plane image(3, 2);
  image.values = {7, 7, 7, 7, 7, 7};
  for (const float v : smoothed(image, gaussian_kernel(5), {}).values)
    CHECK(static_cast<double>(v) == Approx(7));
}

TEST_CASE("a kernel sums to one and has the width asked for") {
  for (const double sigma_px : {0.6, 1.3, 4.0}) {
    const std::vector<float> kernel = gaussian_kernel(sigma_px);
    CHECK(kernel.size() == 2 * static_cast<std::size_t>(std::ceil(4 * sigma_px)) + 1);
    double sum = 0;
    double second = 0;
    for (std::size_t i = 0; i < kernel.size(); ++i) {
      const double from_middle = static_cast<double>(i) - static_cast<double>(kernel.size() / 2);
      sum += static_cast<double>(kernel[i]);
      second += static_cast<double>(kernel[i]) * from_middle * from_middle;
    }
    CHECK(sum == Approx(1));
    CHECK(std::sqrt(second) == Approx(sigma_px).epsilon(0.02));
  }
}

TEST_CASE("the noise that a difference of smoothings leaves is that of white noise filtered") {
  Plane noise(300, 260);
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  for (float& v : noise.values) v = normal(random);
  const auto narrow = gaussian_kernel(0.8);
  const auto wide = gaussian_kernel(1.7);
  const Plane a = smoothed(noise, narrow, {});
  const Plane b = smoothed(noise, wide, {});
  double sum2 = 0;
  for (int y = 10; y < 250; ++y)
    for (int x = 10; x < 290; ++x)
      sum2 += std::pow(static_cast<double>(a.at(x, y) - b.at(x, y)), 2);
  // Some 70,000 pixels, of which a dozen share their noise: 1 %.
  CHECK(filtered_noise(narrow, wide) == Approx(std::sqrt(sum2 / (240 * 280))).epsilon(0.03));
}

TEST_CASE("the median is the upper one of two") {
  std::vector<float> four = {9, 2, 5, 4};
  CHECK(median_of(four) == 5);
  std::vector<float> three = {9, 2, 5};
  CHECK(median_of(three) == 5);
}

}  // namespace
}  // namespace driftd::control
