// SPDX-License-Identifier: MIT
#include <cmath>
#include <memory>
#include <random>

#include "daemon/marker_finder.hpp"
#include "support/catch.hpp"

using namespace driftd;

namespace {

constexpr int kSide = 128;

std::vector<std::uint16_t> image_of(const std::vector<std::pair<double, double>>& spots) {
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
  return image;
}

/// Its first pixel is (1000, 500) of the sensor.
camera::Frame region() {
  camera::Frame frame;
  frame.width_px = frame.height_px = kSide;
  frame.offset_x_px = 1000;
  frame.offset_y_px = 500;
  return frame;
}

const std::vector<std::pair<double, double>> kSpots = {
    {30.3, 25.6}, {90.8, 40.2}, {60.1, 95.7}, {25.9, 80.4}, {100.5, 101.5}};

}  // namespace

TEST_CASE("find_markers finds the spots of a noisy image and nothing else, in sensor pixels") {
  const auto found =
      daemon::find_markers(region(), image_of(kSpots), control::DetectionSettings{}, {});
  REQUIRE(found.markers.size() == kSpots.size());
  for (const auto& [cx, cy] : kSpots) {
    double nearest_px = 1e9;
    for (const auto& m : found.markers) {
      nearest_px = std::min(nearest_px, std::hypot(m.x_px - 1000 - cx, m.y_px - 500 - cy));
    }
    REQUIRE(nearest_px < 0.05);  // five times the noise-limited precision of such a spot
  }
}

TEST_CASE("find_markers_again says how far the tracking markers went, and why it does not know") {
  auto known = std::make_unique<daemon::MarkersReport>();
  for (const auto& [x, y] : kSpots) {
    known->entries[known->count++].reference = {{1000 + x - 12.3, 500 + y + 4.5}, 1.3, 800};
  }
  // A witness takes no part, even where it would fit.
  auto& witness = known->entries[known->count++];
  witness.marker.role = control::MarkerRole::Witness;
  witness.reference = known->entries[0].reference;
  control::ConstellationSettings settings;
  settings.min_markers = 5;
  const auto match = daemon::find_markers_again(*known, region(), image_of(kSpots),
                                                control::DetectionSettings{}, {}, settings);
  REQUIRE(match.found);
  CHECK(match.matched == 5);
  CHECK(match.displacement_px.x == Approx(12.3).margin(0.05));
  CHECK(match.displacement_px.y == Approx(-4.5).margin(0.05));
  const auto dark = daemon::find_markers_again(*known, region(), image_of({}),
                                               control::DetectionSettings{}, {}, settings);
  CHECK_FALSE(dark.found);
  CHECK(dark.reason == "of 0 spots at most 0 lie like the markers, need 5");
}

TEST_CASE("spots too close together to make markers count as spots") {
  auto crowded = kSpots;
  crowded.push_back({30.3 + 9, 25.6});
  const auto found =
      daemon::find_markers(region(), image_of(crowded), control::DetectionSettings{}, {});
  REQUIRE(found.markers.size() == kSpots.size() - 1);
  auto known = std::make_unique<daemon::MarkersReport>();
  for (const auto& [x, y] : kSpots) {
    known->entries[known->count++].reference = {{1000 + x, 500 + y}, 1.3, 800};
  }
  const auto match = daemon::find_markers_again(*known, region(), image_of(crowded),
                                                control::DetectionSettings{}, {}, {});
  CHECK(match.matched == 5);
}
