// SPDX-License-Identifier: MIT
#include <cmath>
#include <random>

#include "daemon/marker_finder.hpp"
#include "support/catch.hpp"

using namespace driftd;

TEST_CASE("find_markers finds the spots of a noisy image and nothing else, in sensor pixels") {
  constexpr int kSide = 128;
  const std::vector<std::pair<double, double>> spots = {
      {30.3, 25.6}, {90.8, 40.2}, {60.1, 95.7}, {25.9, 80.4}, {100.5, 101.5}};
  std::mt19937 generator(5);
  std::normal_distribution<double> noise(0, 8);
  std::vector<std::uint16_t> image(std::size_t{kSide} * kSide);
  for (int y = 0; y < kSide; ++y) {
    for (int x = 0; x < kSide; ++x) {
      double value = 200 + noise(generator);
      for (const auto& [cx, cy] : spots) {
        value += 800 * std::exp(-((x - cx) * (x - cx) + (y - cy) * (y - cy)) / (2 * 1.3 * 1.3));
      }
      image[static_cast<std::size_t>(y) * kSide + static_cast<std::size_t>(x)] =
          static_cast<std::uint16_t>(value);
    }
  }
  camera::Frame frame;
  frame.width_px = frame.height_px = kSide;
  frame.offset_x_px = 1000;
  frame.offset_y_px = 500;
  const auto found = daemon::find_markers(frame, image, control::DetectionSettings{}, {});
  REQUIRE(found.markers.size() == spots.size());
  for (const auto& [cx, cy] : spots) {
    double nearest_px = 1e9;
    for (const auto& m : found.markers) {
      nearest_px = std::min(nearest_px, std::hypot(m.x_px - 1000 - cx, m.y_px - 500 - cy));
    }
    REQUIRE(nearest_px < 0.05);  // five times the noise-limited precision of such a spot
  }
}
