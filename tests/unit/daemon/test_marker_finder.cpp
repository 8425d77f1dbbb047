// SPDX-License-Identifier: MIT
#include <cmath>
#include <memory>
#include <random>

#include "daemon/markers/marker_finder.hpp"
#include "support/catch.hpp"
#include "support/default_settings.hpp"

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
      daemon::find_markers(region(), image_of(kSpots), test::default_detection_settings(), {});
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
  control::ConstellationSettings settings = test::default_constellation_settings();
  settings.min_markers = 5;
  const auto match = daemon::find_markers_again(*known, region(), image_of(kSpots),
                                                test::default_detection_settings(), {}, settings);
  REQUIRE(match.found);
  CHECK(match.matched == 5);
  CHECK(match.displacement_px.x == Approx(12.3).margin(0.05));
  CHECK(match.displacement_px.y == Approx(-4.5).margin(0.05));
  const auto dark = daemon::find_markers_again(*known, region(), image_of({}),
                                               test::default_detection_settings(), {}, settings);
  CHECK_FALSE(dark.found);
  CHECK(dark.reason == "of 0 spots at most 0 lie like the markers, need 5");
}

TEST_CASE("spots too close together to make markers count as spots") {
  auto crowded = kSpots;
  crowded.push_back({30.3 + 9, 25.6});
  const auto found =
      daemon::find_markers(region(), image_of(crowded), test::default_detection_settings(), {});
  REQUIRE(found.markers.size() == kSpots.size() - 1);
  auto known = std::make_unique<daemon::MarkersReport>();
  for (const auto& [x, y] : kSpots) {
    known->entries[known->count++].reference = {{1000 + x, 500 + y}, 1.3, 800};
  }
  const auto match = daemon::find_markers_again(*known, region(), image_of(crowded),
                                                test::default_detection_settings(), {},
                                                test::default_constellation_settings());
  CHECK(match.matched == 5);
}

TEST_CASE("a search for many markers among many spots leaves out the faintest, and says so") {
  // 256 markers are the brightest of 900 spots; 200,000 pairs leave room for 781 of them.
  constexpr int kColumns = 30;
  constexpr int kStep = 12;
  constexpr int kField = kColumns * kStep;
  std::mt19937 generator(3);
  std::uniform_real_distribution<double> jitter(-2, 2);
  std::vector<std::uint16_t> image(std::size_t{kField} * kField, 100);
  auto known = std::make_unique<daemon::MarkersReport>();
  for (int i = 0; i < kColumns * kColumns; ++i) {
    const double cx = kStep * (0.5 + i % kColumns) + jitter(generator);
    const double cy = kStep * (0.5 + i / kColumns) + jitter(generator);
    const double height = i < 256 ? 2000 : 1000;
    for (int y = std::max(0, static_cast<int>(cy) - 5);
         y < std::min(kField, static_cast<int>(cy) + 6); ++y)
      for (int x = std::max(0, static_cast<int>(cx) - 5);
           x < std::min(kField, static_cast<int>(cx) + 6); ++x) {
        const double r2 = (x - cx) * (x - cx) + (y - cy) * (y - cy);
        image[static_cast<std::size_t>(y) * kField + static_cast<std::size_t>(x)] +=
            static_cast<std::uint16_t>(height * std::exp(-r2 / (2 * 1.3 * 1.3)));
      }
    if (i < 256)
      known->entries[known->count++].reference = {{1000 + cx - 3, 500 + cy + 5}, 1.3, 2000};
  }
  camera::Frame frame = region();
  frame.width_px = frame.height_px = kField;
  control::DetectionSettings detection = test::default_detection_settings();
  detection.roi_px = 9;
  control::ConstellationSettings settings = test::default_constellation_settings();
  settings.tolerance_px = 0.5;  // below the jitter: one place of the grid is not like another
  control::SearchBounds bounds;
  const auto match =
      daemon::find_markers_again(*known, frame, image, detection, {}, settings, &bounds);
  REQUIRE(match.found);
  CHECK(match.displacement_px.x == Approx(3).margin(0.05));
  CHECK(match.displacement_px.y == Approx(-5).margin(0.05));
  CHECK(bounds.spots_left_out > 0);
  CHECK(bounds.spots_left_out < 900 - 781 + 1);
}

TEST_CASE("a search that is asked to stop ends without a result") {
  std::stop_source stop;
  control::SearchBounds bounds{.stop = stop.get_token(), .spots_left_out = 0};
  REQUIRE(daemon::find_markers(region(), image_of(kSpots), test::default_detection_settings(), {},
                               &bounds)
              .markers.size() == kSpots.size());
  stop.request_stop();
  const auto result = daemon::find_markers(region(), image_of(kSpots),
                                           test::default_detection_settings(), {}, &bounds);
  REQUIRE(result.markers.empty());
  REQUIRE(result.rejected.empty());
}
