// SPDX-License-Identifier: MIT
// Markers of another day: the sample was taken out, some markers are gone, others came, all are
// darker; and what must not be taken for them.
#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "config/config.hpp"
#include "control/search/turned_constellation.hpp"
#include "daemon/setup/compose.hpp"
#include "support/catch.hpp"

namespace driftd::control {
namespace {

// Not square: a mistaken axis shows.
constexpr double kWidth = 640, kHeight = 400;
constexpr double kDegree = 3.14159265358979 / 180;

ConstellationSettings settings() {
  ConstellationSettings s = daemon::place_settings(config::default_config());
  s.field_low_px = {6.5, 9.5};
  s.field_high_px = {kWidth - 7.5, kHeight - 10.5};
  return s;
}

using Markers = std::vector<MarkerReference>;
using Spots = std::vector<FittedSpot>;

Markers random_markers(std::size_t count, unsigned seed, double border_px = 60) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> x(border_px, kWidth - border_px);
  std::uniform_real_distribution<double> y(border_px, kHeight - border_px);
  std::uniform_real_distribution<double> amplitude(500, 2000);
  Markers markers;
  while (markers.size() < count)
    markers.push_back({{x(random), y(random)}, 1.3, amplitude(random)});
  return markers;
}

Vec2 centre_of(const Markers& markers) {
  Vec2 centre;
  for (const MarkerReference& m : markers) {
    centre.x += m.place_px.x / static_cast<double>(markers.size());
    centre.y += m.place_px.y / static_cast<double>(markers.size());
  }
  return centre;
}

/// The markers as spots, turned about their centre and displaced, each measured with noise.
Spots laid(const Markers& markers, double turn_rad, Vec2 displacement, unsigned seed = 1,
           double noise_px = 0.02, double brightness = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<double> noise(0, noise_px);
  Spots spots;
  for (const MarkerReference& m : markers) {
    const Vec2 p = turned(m.place_px, turn_rad, centre_of(markers));
    spots.push_back({{p.x + displacement.x + noise(random), p.y + displacement.y + noise(random)},
                     m.sigma_px,
                     brightness * m.amplitude_adu});
  }
  return spots;
}

ConstellationMatch match(const Markers& markers, const Spots& spots) {
  return match_turned_constellation(markers, spots, settings());
}

TEST_CASE("a turn goes from x towards y about its centre") {
  const Vec2 p = turned({30, 20}, 90 * kDegree, {10, 20});
  CHECK(p.x == Approx(10));
  CHECK(p.y == Approx(40));
}

TEST_CASE("a place of another day is found: darker, a third gone, new spots, moved and turned") {
  for (unsigned seed = 0; seed < 40; ++seed) {
    const Markers markers = random_markers(13, seed, 90);
    const double turn_rad = ((static_cast<int>(seed) % 7) - 3) * 0.95 * kDegree;
    const Vec2 d = seed % 3 == 0 ? Vec2{0.4, -0.3} : seed % 3 == 1 ? Vec2{30, -25} : Vec2{-42, 18};
    Spots spots = laid(markers, turn_rad, d, seed + 1, 0.05, seed % 2 == 0 ? 0.5 : 3);
    spots.resize(9);
    for (FittedSpot& spot : spots) spot.sigma_px *= 1.25;  // focus
    for (const FittedSpot& s : laid(random_markers(8, seed + 500, 10), 0, {})) spots.push_back(s);
    const auto found = match(markers, spots);
    INFO(seed << ": " << found.reason);
    REQUIRE(found.found);
    CHECK(found.matched >= 9);
    CHECK(found.turn_rad == Approx(turn_rad).margin(1e-3));
    CHECK(found.displacement_px.x == Approx(d.x).margin(0.1));
    CHECK(found.displacement_px.y == Approx(d.y).margin(0.1));
    CHECK(found.centre_px.x == Approx(centre_of(markers).x));
  }
}

TEST_CASE("a sample that was not turned is told no turn, and its displacement is the mean's") {
  for (unsigned seed = 0; seed < 40; ++seed) {
    const Markers markers = random_markers(13, seed);
    const auto found = match(markers, laid(markers, 0, {12.25, -8.5}, seed, 0.03));
    REQUIRE(found.found);
    CHECK(found.turn_rad == 0);
    CHECK(found.displacement_px.x == Approx(12.25).margin(0.03));
  }
}

TEST_CASE("a turn of a tenth of a degree is told, one beyond three degrees is not found") {
  const Markers markers = random_markers(13, 3, 90);
  for (const double degrees : {0.1, -0.1, 2.95, -2.95}) {
    const auto found = match(markers, laid(markers, degrees * kDegree, {5, 5}));
    REQUIRE(found.found);
    CHECK(found.turn_rad == Approx(degrees * kDegree).margin(2e-4));
  }
  for (const double degrees : {4.5, -4.5, 180.0}) {
    const auto found = match(markers, laid(markers, degrees * kDegree, {5, 5}));
    CHECK_FALSE(found.found);
    CHECK(found.reason.find("need") != std::string::npos);
  }
}

TEST_CASE(
    "another sample is never taken for the place, in a thousand fields of few to many spots") {
  int longest = 0;
  for (unsigned seed = 0; seed < 1000; ++seed) {
    const Markers markers = random_markers(3 + seed % 14, seed);
    const Spots others = laid(random_markers(3 + seed % 90, seed + 5000, 10), 0, {});
    const auto found = match(markers, others);
    INFO(seed << ": matched " << found.matched << " of " << markers.size());
    CHECK_FALSE(found.found);
    CHECK_FALSE(found.reason.empty());
    longest = std::max(longest, found.matched);
  }
  CHECK(longest >= 3);  // the fields are such that some come near it
}

TEST_CASE("three markers are enough among few spots, and not among many") {
  const Markers markers = random_markers(3, 11, 90);
  Spots spots = laid(markers, 0, {20, -10});
  CHECK(match(markers, spots).found);
  for (const FittedSpot& s : laid(random_markers(200, 77, 10), 0, {})) spots.push_back(s);
  const auto crowded = match(markers, spots);
  CHECK_FALSE(crowded.found);
  const bool says_why = crowded.reason.find("by chance") != std::string::npos ||
                        crowded.reason.find("ambiguous") != std::string::npos;
  CHECK(says_why);
}

TEST_CASE("a field so full that spots of any sample would do it tells nothing, rivals or not") {
  const Markers markers = {{{100, 100}, 1.3, 900}, {{200, 120}, 1.3, 900}, {{150, 220}, 1.3, 900}};
  for (const int rows : {5, 13}) {
    Spots spots = laid(markers, 0, {20, -10});
    for (int i = 0; i < 12 * rows; ++i)  // nearer to one another than any two of the markers
      spots.push_back({{500.0 + 3 * (i % 12), 300.0 + 3 * (i / 12)}, 1.3, 900});
    const auto found = match(markers, spots);
    INFO(found.reason);
    CHECK(found.matched == 3);
    CHECK(found.found == (rows == 5));
    if (rows == 13) CHECK(found.reason.find("by chance") != std::string::npos);
  }
}

TEST_CASE("fewer than three markers, or three of which one is gone, are refused with the numbers") {
  const Markers two = random_markers(2, 5);
  CHECK(match(two, laid(two, 0, {})).reason == "it has 2 markers, need 3");
  const Markers three = random_markers(3, 5);
  Spots spots = laid(three, 0, {4, 4});
  spots.pop_back();
  const auto found = match(three, spots);
  CHECK_FALSE(found.found);
  CHECK(found.matched == 2);
  CHECK(found.reason == "of 2 spots at most 2 lie like the markers, need 3");
}

TEST_CASE("half of the markers that would be in the field are needed") {
  const Markers markers = random_markers(12, 8, 90);
  Spots spots = laid(markers, 1 * kDegree, {10, 10});
  spots.resize(6);
  CHECK(match(markers, spots).found);
  spots.resize(5);
  CHECK(match(markers, spots).reason.ends_with("at most 5 lie like the markers, need 6"));
}

TEST_CASE("a regular grid and a row of equal distances are ambiguous, a square is not") {
  Markers grid, row;
  for (int i = 0; i < 16; ++i)
    grid.push_back({{200.0 + 40 * (i % 4), 100.0 + 40 * (i / 4)}, 1.3, 1000});
  for (int i = 0; i < 8; ++i) row.push_back({{150.0 + 40 * i, 200}, 1.3, 1000});
  for (const Markers& markers : {grid, row}) {
    const auto found = match(markers, laid(markers, 0, {3, -2}));
    CHECK_FALSE(found.found);
    CHECK(found.reason.find("ambiguous") != std::string::npos);
  }
  const Markers square = {grid[0], grid[3], grid[12], grid[15]};
  CHECK(match(square, laid(square, 0, {3, -2})).found);
}

TEST_CASE("the same constellation twice in the image is ambiguous, turned against each other too") {
  const Markers markers = random_markers(8, 21, 80);
  Spots spots = laid(markers, 0, {-30, 12});
  for (const FittedSpot& s : laid(markers, 2.8 * kDegree, {34, -17}, 9)) spots.push_back(s);
  const auto found = match(markers, spots);
  CHECK_FALSE(found.found);
  CHECK(found.reason.find("ambiguous") != std::string::npos);
}

TEST_CASE("markers of which most lie close together are no second answer to themselves") {
  Markers markers = random_markers(3, 31, 190);
  for (MarkerReference& m : markers) m.place_px = {300 + (m.place_px.x - 320) * 0.15, m.place_px.y};
  markers.push_back({{90, 90}, 1.3, 900});
  for (const double degrees : {0.0, 1.3}) {
    const auto found = match(markers, laid(markers, degrees * kDegree, {25, 14}));
    INFO(found.reason);
    REQUIRE(found.found);
    CHECK(found.matched == 4);
  }
}

TEST_CASE("spots of another width are not the markers") {
  const Markers markers = random_markers(8, 2);
  Spots spots = laid(markers, 0, {5, 5});
  for (FittedSpot& s : spots) s.sigma_px = 2.1;
  CHECK_FALSE(match(markers, spots).found);
}

TEST_CASE("a search that is told to stop ends without an answer") {
  std::stop_source stop;
  stop.request_stop();
  const Markers markers = random_markers(8, 2);
  CHECK_FALSE(
      match_turned_constellation(markers, laid(markers, 0, {}), settings(), stop.get_token())
          .found);
}

}  // namespace
}  // namespace driftd::control
