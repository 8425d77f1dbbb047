// SPDX-License-Identifier: MIT
#include <cmath>

#include "support/catch.hpp"
#include "tools/driftfit/drift_trace.hpp"
#include "tools/driftfit/marker_agreement.hpp"
#include "tools/driftfit/marker_follower.hpp"
#include "tools/driftfit/marker_search.hpp"
#include "tools/driftfit/options.hpp"
#include "unit/tools/driftfit/files.hpp"

namespace driftd::tools {
namespace {

const CameraMaps kNoMaps;

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
  MarkerFollower follower(scene.shape(), 13, picks_of(scene, 2.5), fitter, kNoMaps);
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
  MarkerFollower follower(scene.shape(), 13, picks_of(scene, 0), fitter, kNoMaps);
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
  MarkerFollower follower(scene.shape(), 13, picks_of(scene, 0), fitter, kNoMaps);
  CHECK(follower.follow(bytes_of(scene.frame(0, 0)), 0).size() == 4);
  scene.spots[2].x_px += 4.5;
  CHECK(follower.follow(bytes_of(scene.frame(0, 0)), 1).size() == 3);
  CHECK(follower.absences().strayed == 1);
  CHECK(follower.absences().not_fitted == 0);
}

TEST_CASE("a neighbour that is taken for a marker in one frame costs that frame alone") {
  const Scene scene = four_spots();
  for (const std::size_t shown : {2u, 3u, 4u}) {
    Scene some = scene;
    some.spots.resize(shown);
    SpotFitter fitter({});
    MarkerFollower follower(scene.shape(), 13, picks_of(scene, 0), fitter, kNoMaps);
    CHECK(follower.follow(bytes_of(scene.frame(0, 0)), 0).size() == 4);
    some.spots[1].x_px += 4.5;
    CHECK(follower.follow(bytes_of(some.frame(0.2, 0.1)), 1).size() == shown - 1);
    CHECK(follower.absences().strayed == 1);
    for (int i = 2; i < 5; ++i) {
      CHECK(follower.follow(bytes_of(scene.frame(0.2 * i, 0.1 * i)), i).size() == 4);
    }
    CHECK(follower.absences_of(1).strayed == 1);
    CHECK(follower.absences_of(0).strayed == 0);
  }
}

TEST_CASE("what is seen once beside a marker that is dark yet is not taken for its place") {
  const Scene scene = four_spots();
  SpotFitter fitter({});
  MarkerFollower follower(scene.shape(), 13, picks_of(scene, 0), fitter, kNoMaps);
  Scene three = scene;
  three.spots.pop_back();
  Scene speck = scene;
  speck.spots[3].x_px += 4.5;
  speck.spots[3].y_px -= 4.5;
  MarkerTracks tracks(4);
  for (int i = 0; i < 20; ++i) {
    const Scene& shown = i == 5 ? speck : (i < 10 ? three : scene);
    const auto spots = follower.follow(bytes_of(shown.frame(0.1 * i, 0)), i);
    CHECK(spots.size() == (i < 10 && i != 5 ? 3 : 4));
    CHECK(follower.absences().strayed == 0);
    for (const Spot& spot : spots) CHECK(spot.place == (spot.marker == 3 && i >= 10 ? 1 : 0));
    tracks.add_frame(spots, follower.absences());
  }
  const DriftSolution solution = solve_drift(tracks, {.min_markers = 4});
  CHECK(solution.moved.empty());
  for (std::size_t i = 0; i < 20; ++i) CHECK(solution.points[i].markers == (i < 10 ? 0 : 4));
}

TEST_CASE("a marker that jumped is taken back at its new place once it stays there") {
  Scene scene = four_spots();
  SpotFitter fitter({});
  MarkerFollower follower(scene.shape(), 13, picks_of(scene, 0), fitter, kNoMaps);
  CHECK(follower.follow(bytes_of(scene.frame(0, 0)), 0).size() == 4);
  scene.spots[2].y_px -= 4.5;
  for (int i = 1; i < 12; ++i) {
    const auto spots = follower.follow(bytes_of(scene.frame(0.1 * i, 0)), i);
    REQUIRE(spots.size() == (i < 5 ? 3 : 4));
    if (i < 5) continue;
    CHECK(spots[2].marker == 2);
    CHECK(spots[2].place == 1);
    CHECK(spots[2].y_px == Approx(scene.spots[2].y_px).margin(0.02));
    CHECK(spots[3].place == 0);
  }
}

TEST_CASE("a marker is not taken back on the spot of another") {
  Scene scene = four_spots();
  scene.spots[1] = {29.5, 25};  // 5.5 px beside the first
  SpotFitter fitter({});
  MarkerFollower follower(scene.shape(), 13, picks_of(scene, 0), fitter, kNoMaps);
  follower.follow(bytes_of(scene.frame(0, 0)), 0);
  Scene without = scene;
  without.spots.erase(without.spots.begin());
  for (int i = 1; i < 20; ++i) {
    for (const Spot& spot : follower.follow(bytes_of(without.frame(0.05 * i, 0)), i)) {
      CHECK(spot.marker != 0);
      CHECK(spot.place == 0);
    }
  }
}

TEST_CASE("markers that jump together are found in the same frame, though others are dark") {
  const Scene scene = four_spots();
  Scene two = scene;
  two.spots.resize(2);
  SpotFitter fitter({});
  MarkerFollower follower(scene.shape(), 13, picks_of(scene, 0), fitter, kNoMaps);
  follower.follow(bytes_of(scene.frame(0, 0)), 0);
  CHECK(follower.follow(bytes_of(two.frame(4, -2)), 1).size() == 2);
  CHECK(follower.follow(bytes_of(scene.frame(4, -2)), 2).size() == 4);
  // One alone says nothing of a jump: the sample's, or another spot.
  two.spots.resize(1);
  CHECK(follower.follow(bytes_of(two.frame(0, 2)), 3).empty());
  CHECK(follower.follow(bytes_of(scene.frame(0, 2)), 4).size() == 4);
}

TEST_CASE("what most markers agree on is the drift, and a single one is not believed a jump") {
  constexpr double kReachPx = 2.25;
  const Pick before{1, -1};
  const auto drift = [&](std::vector<Pick> votes) { return common_drift(votes, before, kReachPx); };
  const auto is_at = [](std::optional<Pick> at, double x_px, double y_px) {
    return at && std::abs(at->x_px - x_px) < 1e-9 && std::abs(at->y_px - y_px) < 1e-9;
  };
  CHECK(is_at(drift({}), 1, -1));
  CHECK(is_at(drift({{1.5, -0.5}}), 1.5, -0.5));
  CHECK(is_at(drift({{1.5, -0.5}, {6, -1}}), 1.5, -0.5));  // whatever their order
  CHECK(is_at(drift({{6, -1}, {1.5, -0.5}}), 1.5, -0.5));
  CHECK(is_at(drift({{6, -1}, {6.25, -1.5}}), 6.125, -1.25));  // together: the sample
  CHECK(is_at(drift({{6, -1}, {1, -1}, {6.25, -1.5}}), 6.125, -1.25));
  CHECK_FALSE(drift({{6, -1}}));  // another spot, or the sample
  CHECK_FALSE(drift({{6, -1}, {-3, -1}}));
  CHECK_FALSE(drift({{6, -1}, {6, 0.5}}));  // not together: 1.5 px
  CHECK(is_at(drift({{1, -1}, {1.25, -1.5}, {9, 9}, {9.25, 9}}), 1.125, -1.25));  // a tie
}

TEST_CASE("a dark frame has no marker, a marker may leave the frame") {
  const Scene scene = four_spots();
  SpotFitter fitter({});
  MarkerFollower follower(scene.shape(), 13, picks_of(scene, 0), fitter, kNoMaps);
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
