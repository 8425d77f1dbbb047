// SPDX-License-Identifier: MIT
// Markers in floating-point frames with pixels that no camera measured.
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "support/catch.hpp"
#include "tools/driftfit/marker_search.hpp"
#include "tools/driftfit/options.hpp"

namespace driftd::tools {
namespace {

constexpr int kSide = 88;
constexpr float kLowest = -std::numeric_limits<float>::max();

std::vector<float> beads() {
  std::mt19937 random(4);
  std::normal_distribution<double> noise(100, 3);
  std::vector<float> frame;
  for (int y = 0; y < kSide; ++y)
    for (int x = 0; x < kSide; ++x) {
      double value = noise(random);
      for (const auto& [bx, by] :
           {std::pair(20.3, 18.7), {62.1, 24.4}, {41.8, 47.6}, {15.2, 66.9}, {72.7, 70.3}}) {
        value += 500 * std::exp(-(std::pow(x - bx, 2) + std::pow(y - by, 2)) / (2 * 1.5 * 1.5));
      }
      frame.push_back(static_cast<float>(value));
    }
  return frame;
}

std::size_t markers_in(const std::vector<float>& frame) {
  const camera::StackShape shape{
      .width_px = kSide, .height_px = kSide, .frames = 1, .type = camera::PixelType::F32};
  const auto* bytes = reinterpret_cast<const std::byte*>(frame.data());
  const Options options;
  const control::SpotSize size = size_of_spots(shape, bytes, options.detection);
  if (!size.chosen()) return 0;
  CHECK(size.sigma_px == Approx(1.5).margin(0.05));
  SpotFitter fitter(options.fitter);
  return find_markers(shape, bytes, control::settings_for(size, options.detection), fitter)
      .markers.size();
}

float& at(std::vector<float>& frame, int x, int y) {
  return frame[static_cast<std::size_t>(y * kSide + x)];
}

TEST_CASE("single pixels of any value hide no markers") {
  for (const float value : {1e5f, 1e8f, 3e38f, -1e8f, kLowest}) {
    CAPTURE(value);
    auto frame = beads();
    at(frame, 30, 33) = value;
    at(frame, 5, 80) = value;
    CHECK(markers_in(frame) == 5);
  }
  auto frame = beads();
  at(frame, 30, 33) = 1e8f;
  at(frame, 50, 10) = kLowest;
  CHECK(markers_in(frame) == 5);
}

TEST_CASE("a border of any value hides no markers") {
  for (const float value : {kLowest, -1e10f, -1e6f, 1e8f}) {
    for (const int width : {1, 4}) {
      CAPTURE(value, width);
      auto frame = beads();
      for (int i = 0; i < kSide; ++i) {
        for (int w = 0; w < width; ++w) {
          at(frame, i, w) = at(frame, w, i) = value;
          at(frame, i, kSide - 1 - w) = at(frame, kSide - 1 - w, i) = value;
        }
      }
      CHECK(markers_in(frame) == 5);
    }
  }
}

TEST_CASE("a frame without extremes is searched as it is") {
  CHECK(markers_in(beads()) == 5);
  auto sharp = beads();  // on a background without noise: the flanks fade into rounding
  for (float& pixel : sharp) pixel = pixel < 115 ? 100.0f : pixel;
  CHECK(markers_in(sharp) == 5);
}

}  // namespace
}  // namespace driftd::tools
