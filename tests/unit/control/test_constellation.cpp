// SPDX-License-Identifier: MIT
#include <cmath>
#include <random>
#include <vector>

#include "control/search/constellation.hpp"
#include "support/catch.hpp"
#include "support/default_settings.hpp"

namespace driftd::control {
namespace {

// Not square: a mistaken axis shows.
constexpr double kWidth = 640, kHeight = 400;

ConstellationSettings settings_with(int min_markers) {
  ConstellationSettings s = test::default_constellation_settings();
  s.min_markers = min_markers;
  s.field_low_px = {6.5, 9.5};
  s.field_high_px = {kWidth - 7.5, kHeight - 10.5};
  return s;
}

/// Markers at random places, well inside so that none leaves the field unless meant to.
std::vector<MarkerReference> random_markers(std::size_t count, unsigned seed, double border_px) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> x(border_px, kWidth - border_px);
  std::uniform_real_distribution<double> y(border_px, kHeight - border_px);
  std::uniform_real_distribution<double> amplitude(500, 2000);
  std::vector<MarkerReference> markers;
  while (markers.size() < count)
    markers.push_back({{x(random), y(random)}, 1.3, amplitude(random)});
  return markers;
}

FittedSpot spot_of(const MarkerReference& m, Vec2 displacement) {
  return {
      {m.place_px.x + displacement.x, m.place_px.y + displacement.y}, m.sigma_px, m.amplitude_adu};
}

std::vector<FittedSpot> displaced(const std::vector<MarkerReference>& markers, Vec2 displacement) {
  std::vector<FittedSpot> spots;
  for (const MarkerReference& m : markers) spots.push_back(spot_of(m, displacement));
  return spots;
}

TEST_CASE("markers are found wherever they went together, and as far as they really went") {
  const auto markers = random_markers(13, 1, 120);
  for (const Vec2 d : {Vec2{25, -18}, Vec2{-100, 100}, Vec2{0.3, 0}, Vec2{0, 0}}) {
    const auto match = match_constellation(markers, displaced(markers, d), settings_with(3));
    REQUIRE(match.found);
    CHECK(match.matched == 13);
    CHECK(match.displacement_px.x == Approx(d.x).margin(1e-9));
    CHECK(match.displacement_px.y == Approx(d.y).margin(1e-9));
    CHECK(match.reason.empty());
  }
}

TEST_CASE("noise, hidden markers and strangers, all at once, in a hundred fields") {
  for (unsigned seed = 0; seed < 100; ++seed) {
    std::mt19937 random(seed);
    std::normal_distribution<double> noise(0, 0.3);  // far worse than any marker that holds a lock
    const auto markers = random_markers(12, seed, 60);
    const auto strangers = random_markers(20, seed + 1000, 10);
    auto spots = displaced(markers, {40, -35});
    spots.resize(7);
    for (FittedSpot& s : spots) {
      s.place_px.x += noise(random);
      s.place_px.y += noise(random);
      s.amplitude_adu *= 1 + 0.3 * noise(random);
    }
    for (const MarkerReference& m : strangers) spots.push_back(spot_of(m, {}));
    const auto match = match_constellation(markers, spots, settings_with(3));
    INFO(seed << ": " << match.reason);
    REQUIRE(match.found);
    CHECK(match.matched >= 7);
    CHECK(std::hypot(match.displacement_px.x - 40, match.displacement_px.y + 35) < 0.6);
  }
}

TEST_CASE("strangers alone are never taken for the markers, in a thousand fields") {
  for (unsigned seed = 0; seed < 1000; ++seed) {
    const auto markers = random_markers(3 + seed % 14, seed, 60);
    const auto strangers = random_markers(5 + seed % 30, seed + 5000, 10);
    const auto match = match_constellation(markers, displaced(strangers, {}), settings_with(3));
    INFO(seed << ": matched " << match.matched << " of " << markers.size());
    CHECK_FALSE(match.found);
    CHECK(match.reason.find("need") != std::string::npos);
  }
}

TEST_CASE("what left the field is not missed, but fewer than the lock needs are not enough") {
  std::vector<MarkerReference> markers = random_markers(4, 3, 200);
  for (const MarkerReference& m : random_markers(4, 4, 200))
    markers.push_back({{m.place_px.x - 190, m.place_px.y}, m.sigma_px, m.amplitude_adu});
  const Vec2 d{-150, 0};  // the first four stay, some of the others go
  std::vector<FittedSpot> spots;
  for (std::size_t i = 0; i < 4; ++i) spots.push_back(spot_of(markers[i], d));
  const auto match = match_constellation(markers, spots, settings_with(3));
  REQUIRE(match.found);
  CHECK(match.matched == 4);
  CHECK(match.displacement_px.x == Approx(-150));
  const auto too_few = match_constellation(markers, spots, settings_with(5));
  CHECK_FALSE(too_few.found);
  CHECK(too_few.matched == 4);
}

TEST_CASE("a ROI has to lie inside each of the four borders") {
  const std::vector<MarkerReference> marker = {{{300, 150}, 1.3, 1000}};
  const ConstellationSettings s = settings_with(1);
  const auto found_at = [&](double x, double y) {
    return match_constellation(marker, std::vector<FittedSpot>{{{x, y}, 1.3, 1000}}, s).found;
  };
  CHECK(found_at(s.field_low_px.x, 200));
  CHECK_FALSE(found_at(s.field_low_px.x - 0.01, 200));
  CHECK(found_at(s.field_high_px.x, 200));
  CHECK_FALSE(found_at(s.field_high_px.x + 0.01, 200));
  CHECK(found_at(200, s.field_low_px.y));
  CHECK_FALSE(found_at(200, s.field_low_px.y - 0.01));
  CHECK(found_at(200, s.field_high_px.y));
  CHECK_FALSE(found_at(200, s.field_high_px.y + 0.01));
}

TEST_CASE("a spot resembles a marker within its own limits of width and of brightness") {
  const std::vector<MarkerReference> marker = {{{300, 150}, 2.0, 1000}};
  const auto found = [&](double sigma_px, double amplitude_adu) {
    const std::vector<FittedSpot> spots = {{{330, 170}, sigma_px, amplitude_adu}};
    return match_constellation(marker, spots, settings_with(1)).found;
  };
  CHECK(found(2.9, 1750));
  CHECK(found(1.1, 250));
  CHECK_FALSE(found(3.1, 1000));
  CHECK_FALSE(found(0.9, 1000));
  CHECK_FALSE(found(2.0, 1850));
  CHECK_FALSE(found(2.0, 150));
}

TEST_CASE("spots within the tolerance on both sides of the displacement support it") {
  // Only the middle one of each three is near enough to both others.
  const auto markers = random_markers(3, 21, 120);
  for (const Vec2 spread : {Vec2{1.5, 0}, Vec2{0, 1.5}, Vec2{1.2, -0.9}}) {
    auto spots = displaced(markers, {20, -30});
    spots[0].place_px = {spots[0].place_px.x - spread.x, spots[0].place_px.y - spread.y};
    spots[2].place_px = {spots[2].place_px.x + spread.x, spots[2].place_px.y + spread.y};
    const auto match = match_constellation(markers, spots, settings_with(3));
    CHECK(match.found);
    CHECK(match.displacement_px.x == Approx(20));
    CHECK(match.displacement_px.y == Approx(-30));
    spots[0].place_px = {spots[0].place_px.x - spread.x, spots[0].place_px.y - spread.y};
    CHECK(match_constellation(markers, spots, settings_with(3)).matched == 2);
  }
}

TEST_CASE("half of the markers that are still in the field must be on spots, rounded up") {
  // Three near a corner leave it; four stay.
  const std::vector<MarkerReference> markers = {{{60, 60}, 1.3, 1000},   {{90, 75}, 1.3, 1000},
                                                {{75, 95}, 1.3, 1000},   {{400, 300}, 1.3, 1000},
                                                {{450, 250}, 1.3, 1000}, {{480, 310}, 1.3, 1000},
                                                {{520, 210}, 1.3, 1000}};
  for (const Vec2 d : {Vec2{-130, 20}, Vec2{20, -130}}) {
    std::vector<FittedSpot> spots = {spot_of(markers[3], d), spot_of(markers[4], d)};
    CHECK(match_constellation(markers, spots, settings_with(2)).found);
    auto more = markers;
    more.push_back({{550, 280}, 1.3, 1000});  // a fifth: two are less than half
    CHECK_FALSE(match_constellation(more, spots, settings_with(2)).found);
    spots.push_back(spot_of(markers[5], d));
    CHECK(match_constellation(more, spots, settings_with(2)).found);
  }
}

TEST_CASE("half of the markers in the field must be on spots") {
  const auto markers = random_markers(12, 5, 120);
  auto spots = displaced(markers, {30, 30});
  spots.resize(6);
  CHECK(match_constellation(markers, spots, settings_with(3)).found);
  spots.resize(5);
  CHECK_FALSE(match_constellation(markers, spots, settings_with(3)).found);
}

TEST_CASE("a regular grid fits onto itself in many ways and is refused") {
  std::vector<MarkerReference> markers;
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) markers.push_back({{100.0 + 40 * i, 100.0 + 40 * j}, 1.3, 1000});
  const auto match = match_constellation(markers, displaced(markers, {10, 5}), settings_with(3));
  CHECK_FALSE(match.found);
  CHECK(match.matched == 16);
  CHECK(match.reason.find("ambiguous") != std::string::npos);
  // Three off the grid's points, or different enough to be told apart, and it is none.
  for (MarkerReference& m : markers)
    m.amplitude_adu = m.place_px.x + m.place_px.y < 310 ? 400 : 4000;
  auto spread = markers;
  for (std::size_t i = 0; i < spread.size(); ++i) {
    spread[i].place_px.x += 7.0 * static_cast<double>(i * i % 11);
  }
  CHECK(match_constellation(spread, displaced(spread, {10, 5}), settings_with(3)).found);
}

TEST_CASE("a single marker is found where exactly one spot resembles it") {
  const std::vector<MarkerReference> marker = {{{200, 200}, 1.3, 1000}};
  std::vector<FittedSpot> spots = {{{260, 180}, 1.4, 900}};
  auto match = match_constellation(marker, spots, settings_with(1));
  REQUIRE(match.found);
  CHECK(match.displacement_px.x == Approx(60));
  CHECK(match.displacement_px.y == Approx(-20));
  spots.push_back({{50, 50}, 4.0, 900});   // too wide to be it
  spots.push_back({{90, 50}, 1.3, 9000});  // too bright
  CHECK(match_constellation(marker, spots, settings_with(1)).found);
  spots.push_back({{300, 300}, 1.3, 1100});
  match = match_constellation(marker, spots, settings_with(1));
  CHECK_FALSE(match.found);
  CHECK(match.reason.find("ambiguous") != std::string::npos);
  CHECK_FALSE(match_constellation(marker, {}, settings_with(1)).found);
}

TEST_CASE("of two markers one does not tell where they went") {
  const std::vector<MarkerReference> markers = {{{200, 200}, 1.3, 1000}, {{240, 290}, 1.3, 1000}};
  const auto one =
      match_constellation(markers, std::vector{spot_of(markers[0], {30, 0})}, settings_with(1));
  CHECK_FALSE(one.found);
  const auto both = match_constellation(markers, displaced(markers, {30, 0}), settings_with(1));
  CHECK(both.found);
}

TEST_CASE("markers never measured are found by their places alone") {
  auto markers = random_markers(8, 9, 100);
  const auto spots = displaced(markers, {20, -8});
  for (MarkerReference& m : markers) m = {m.place_px};
  CHECK(match_constellation(markers, spots, settings_with(3)).matched == 8);
}

TEST_CASE("spots too near the border for a ROI are no use") {
  const auto markers = random_markers(3, 11, 100);
  double leftmost_px = kWidth;
  for (const MarkerReference& m : markers) leftmost_px = std::min(leftmost_px, m.place_px.x);
  const auto match =
      match_constellation(markers, displaced(markers, {3 - leftmost_px, 0}), settings_with(3));
  CHECK_FALSE(match.found);
  CHECK(match.matched == 2);
}

TEST_CASE("no markers, no spots: not found") {
  CHECK_FALSE(match_constellation({}, {}, settings_with(1)).found);
  const auto markers = random_markers(5, 1, 100);
  CHECK_FALSE(match_constellation({}, displaced(markers, {}), settings_with(1)).found);
  CHECK_FALSE(match_constellation(markers, {}, settings_with(3)).found);
}

}  // namespace
}  // namespace driftd::control
