// SPDX-License-Identifier: MIT
#include <cmath>

#include "support/catch.hpp"
#include "tools/driftfit/marker_follower.hpp"
#include "tools/driftfit/marker_search.hpp"
#include "tools/driftfit/options.hpp"
#include "unit/tools/driftfit/files.hpp"

namespace driftd::tools {
namespace {

Scene four_spots() {
  Scene scene;
  scene.width_px = scene.height_px = 96;
  scene.spots = {{24, 24.3}, {70.4, 25}, {25, 70}, {71, 69.6}};
  return scene;
}

std::vector<Pick> picks_of(const Scene& scene, double off_px) {
  std::vector<Pick> picks;
  for (const Scene::Spot& s : scene.spots) picks.push_back({s.x_px + off_px, s.y_px - off_px});
  return picks;
}

TEST_CASE("markers are followed through drift and jumps from rough picks") {
  const Scene scene = four_spots();
  SpotFitter fitter({});
  MarkerFollower follower(scene.shape(), 13, picks_of(scene, 2.5), fitter);
  for (int i = 0; i < 60; ++i) {
    const double dx = 0.15 * i + (i >= 30 ? 3 : 0);  // 3 px at once, 12 px in all
    const double dy = -0.1 * i;
    const auto spots = follower.follow(bytes_of(scene.frame(dx, dy)), i);
    REQUIRE(spots.size() == 4);
    for (std::size_t m = 0; m < 4; ++m) {
      CHECK(spots[m].marker == static_cast<int>(m));
      CHECK(spots[m].x_px == Approx(scene.spots[m].x_px + dx).margin(0.01));
      CHECK(spots[m].y_px == Approx(scene.spots[m].y_px + dy).margin(0.01));
    }
  }
}

TEST_CASE("a hidden marker is missing and found again where the others say") {
  Scene scene = four_spots();
  SpotFitter fitter({});
  MarkerFollower follower(scene.shape(), 13, picks_of(scene, 0), fitter);
  Scene hidden = scene;
  hidden.spots.erase(hidden.spots.begin() + 1);
  for (int i = 0; i < 60; ++i) {
    const bool there = i < 10 || i >= 50;
    const double dx = 0.2 * i;  // 8 px while hidden, more than half a ROI
    const auto spots = follower.follow(bytes_of((there ? scene : hidden).frame(dx, 0)), i);
    CHECK(spots.size() == (there ? 4 : 3));
    CHECK(follower.absences().not_fitted + follower.absences().strayed == (there ? 0 : 1));
  }
}

TEST_CASE("a neighbour is not taken for a marker that vanished") {
  Scene scene = four_spots();
  SpotFitter fitter({});
  MarkerFollower follower(scene.shape(), 13, picks_of(scene, 0), fitter);
  CHECK(follower.follow(bytes_of(scene.frame(0, 0)), 0).size() == 4);
  scene.spots[2].x_px += 4.5;
  CHECK(follower.follow(bytes_of(scene.frame(0, 0)), 1).size() == 3);
  CHECK(follower.absences().strayed == 1);
  CHECK(follower.absences().not_fitted == 0);
}

TEST_CASE("a dark frame has no marker, a marker may leave the frame") {
  const Scene scene = four_spots();
  SpotFitter fitter({});
  MarkerFollower follower(scene.shape(), 13, picks_of(scene, 0), fitter);
  CHECK(follower.follow(bytes_of(scene.frame(0, 0)), 0).size() == 4);
  Scene dark = scene;
  dark.spots.clear();
  CHECK(follower.follow(bytes_of(dark.frame(0, 0)), 1).empty());
  for (int i = 0; i < 40; ++i) follower.follow(bytes_of(scene.frame(i, 0)), 2 + i);
  CHECK(follower.follow(bytes_of(scene.frame(40, 0)), 42).size() == 2);
  CHECK(follower.absences().outside == 2);
  const std::vector<std::uint16_t> constant(scene.shape().pixels(), 7);
  CHECK(follower.follow(bytes_of(constant), 43).empty());
  CHECK(follower.absences().bad_pixels == 2);
}

TEST_CASE("markers are found in frames of each type") {
  const Scene scene = four_spots();
  const auto frame = scene.frame(0, 0);
  SpotFitter fitter({});
  control::DetectionSettings settings = Options().detection;
  settings.expected_sigma_px = 1.3;
  settings.roi_px = 13;
  REQUIRE(find_markers(scene.shape(), bytes_of(frame), settings, fitter).markers.size() == 4);

  std::vector<float> scaled;
  for (const std::uint16_t p : frame) scaled.push_back(static_cast<float>(p) * 1e-6f - 3e-4f);
  camera::StackShape shape = scene.shape();
  shape.type = camera::PixelType::F32;
  const auto found =
      find_markers(shape, reinterpret_cast<const std::byte*>(scaled.data()), settings, fitter);
  REQUIRE(found.markers.size() == 4);
  for (const Pick& pick : found.markers) {
    double nearest_px = 100;
    for (const Scene::Spot& s : scene.spots) {
      nearest_px = std::min(nearest_px, std::hypot(pick.x_px - s.x_px, pick.y_px - s.y_px));
    }
    CHECK(nearest_px < 0.01);
  }
  const auto none = std::vector<float>(scaled.size(), 1.0f);
  CHECK(find_markers(shape, reinterpret_cast<const std::byte*>(none.data()), settings, fitter)
            .markers.empty());
}

}  // namespace
}  // namespace driftd::tools
