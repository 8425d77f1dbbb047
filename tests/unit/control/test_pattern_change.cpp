// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>
#include <vector>

#include "control/drift/pattern_change.hpp"
#include "support/catch.hpp"

namespace driftd::control {
namespace {

/// What a pattern does, and how it is seen.
struct Truth {
  double rotation_rad = 0, scale = 0;
  Vec2 tilt_rad = {};
  Vec2 shift_nm = {31, -17};
  double z_shift_nm = 55;
  double sd_nm = 0.1;       ///< of a displacement, per axis, of the median marker
  double told_over_sd = 1;  ///< standard deviation that is told, over the true one
};

/// Markers in a field that is not square and not centred, each with a variance of its own.
std::vector<PatternMarker> pattern(std::size_t count, const Truth& truth, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> x(2'000, 23'000), y(31'000, 46'000), spread(-1, 1);
  std::normal_distribution<double> normal;
  std::vector<PatternMarker> markers;
  for (std::size_t i = 0; i < count; ++i) {
    const Vec2 p = {x(random), y(random)};
    const double sd_nm = truth.sd_nm * std::pow(1.5, spread(random));
    const double z_sd_nm = 4 * sd_nm;
    const double told2 = truth.told_over_sd * truth.told_over_sd;
    markers.push_back({.place_nm = p,
                       .moved_nm = {truth.shift_nm.x + truth.scale * p.x -
                                        truth.rotation_rad * p.y + sd_nm * normal(random),
                                    truth.shift_nm.y + truth.scale * p.y +
                                        truth.rotation_rad * p.x + sd_nm * normal(random)},
                       .variance_nm2 = sd_nm * sd_nm * told2,
                       .z_moved_nm = truth.z_shift_nm + truth.tilt_rad.x * p.x +
                                     truth.tilt_rad.y * p.y + z_sd_nm * normal(random),
                       .z_variance_nm2 = z_sd_nm * z_sd_nm * told2});
  }
  return markers;
}

/// rms of errors in their own standard deviations, over a thousand random patterns.
struct Errors {
  double rotation = 0, scale = 0, tilt_x = 0, tilt_y = 0, most = 0;
  int measured = 0;
};

Errors errors(std::size_t count, const Truth& seen) {
  constexpr int kPatterns = 1000;
  Errors all;
  std::mt19937 random(7);
  std::uniform_real_distribution<double> turn(-2e-3, 2e-3);
  for (int n = 0; n < kPatterns; ++n) {
    Truth truth = seen;
    truth.rotation_rad = turn(random);
    truth.scale = turn(random);
    truth.tilt_rad = {turn(random), turn(random)};
    const PatternChange c = pattern_change(pattern(count, truth, 1000 + static_cast<unsigned>(n)));
    if (!c.measured || !c.tilted) continue;
    ++all.measured;
    const double rotation = (c.rotation_rad - truth.rotation_rad) / c.rotation_sd_rad;
    const double scale = (c.scale - truth.scale) / c.scale_sd;
    all.rotation += rotation * rotation;
    all.scale += scale * scale;
    all.tilt_x += std::pow((c.tilt_rad.x - truth.tilt_rad.x) / c.tilt_sd_rad.x, 2);
    all.tilt_y += std::pow((c.tilt_rad.y - truth.tilt_rad.y) / c.tilt_sd_rad.y, 2);
    all.most = std::max({all.most, std::abs(rotation), std::abs(scale)});
  }
  for (double* rms : {&all.rotation, &all.scale, &all.tilt_x, &all.tilt_y})
    *rms = std::sqrt(*rms / all.measured);
  return all;
}

void check_near_one(const Errors& e, double within) {
  CHECK(e.measured > 950);  // of six markers one may decide alone
  CHECK(std::abs(e.rotation - 1) < within);
  CHECK(std::abs(e.scale - 1) < within);
  CHECK(std::abs(e.tilt_x - 1) < within);
  CHECK(std::abs(e.tilt_y - 1) < within);
}

}  // namespace

TEST_CASE("a turned, grown and tilted pattern is measured by its signs", "[pattern]") {
  const Truth truth = {
      .rotation_rad = 3e-4, .scale = -50e-6, .tilt_rad = {2e-3, -7e-4}, .sd_nm = 1e-9};
  const PatternChange c = pattern_change(pattern(12, truth, 1));
  REQUIRE(c.measured);
  REQUIRE(c.tilted);
  CHECK(c.markers == 12);
  CHECK(c.rotation_rad == Approx(3e-4));
  CHECK(c.scale == Approx(-50e-6));
  CHECK(c.tilt_rad.x == Approx(2e-3));
  CHECK(c.tilt_rad.y == Approx(-7e-4));
  // x to the right goes to y, which points down.
  const std::vector<PatternMarker> turned = {
      {.place_nm = {0, 0}, .moved_nm = {0, 0}, .variance_nm2 = 1},
      {.place_nm = {1000, 0}, .moved_nm = {0, 1}, .variance_nm2 = 1},
      {.place_nm = {0, 1000}, .moved_nm = {-1, 0}, .variance_nm2 = 1}};
  CHECK(pattern_change(turned).rotation_rad == Approx(1e-3));
  CHECK_FALSE(pattern_change(turned).tilted);  // no z
}

TEST_CASE("standard deviations are true of a thousand patterns", "[pattern]") {
  check_near_one(errors(6, {}), 0.15);
  check_near_one(errors(16, {}), 0.15);
  check_near_one(errors(100, {}), 0.15);
  const Errors sixteen = errors(16, {});
  CHECK(sixteen.most < 5);
}

TEST_CASE("where markers scatter more than they promise, the standard deviations grow",
          "[pattern]") {
  check_near_one(errors(16, {.told_over_sd = 0.2}), 0.15);
  check_near_one(errors(100, {.told_over_sd = 0.2}), 0.15);
  // More careful than it need be, never less.
  CHECK(errors(16, {.told_over_sd = 3}).rotation < 0.4);
}

TEST_CASE("markers that go their own way do not turn the pattern", "[pattern]") {
  for (unsigned seed = 0; seed < 200; ++seed) {
    const Truth truth = {.rotation_rad = 2e-4, .scale = 1e-4, .tilt_rad = {5e-4, 3e-4}};
    std::vector<PatternMarker> markers = pattern(16, truth, seed);
    // The outermost one has the longest lever; another goes with it.
    std::ranges::sort(markers, std::ranges::greater{}, [](const PatternMarker& m) {
      return std::hypot(m.place_nm.x - 12'500, m.place_nm.y - 38'500);
    });
    const double far_nm = seed % 2 == 0 ? 5 : 400;
    for (std::size_t i = 0; i < 2; ++i) {
      markers[i].moved_nm.x += far_nm;
      markers[i].moved_nm.y -= far_nm;
      markers[i].z_moved_nm += 4 * far_nm;
    }
    const PatternChange c = pattern_change(markers);
    CAPTURE(seed, far_nm);
    REQUIRE(c.measured);
    CHECK(c.markers <= 14);
    CHECK(std::abs(c.rotation_rad - truth.rotation_rad) < 5 * c.rotation_sd_rad);
    CHECK(std::abs(c.scale - truth.scale) < 5 * c.scale_sd);
    CHECK(std::abs(c.tilt_rad.x - truth.tilt_rad.x) < 5 * c.tilt_sd_rad.x);
    CHECK(std::abs(c.tilt_rad.y - truth.tilt_rad.y) < 5 * c.tilt_sd_rad.y);
    CHECK(c.rotation_sd_rad < 2e-5);  // 14 markers of 0.1 nm, 20 um apart
  }
}

TEST_CASE("too few markers, or one that decides alone, measure nothing", "[pattern]") {
  CHECK_FALSE(pattern_change({}).measured);
  CHECK_FALSE(pattern_change(pattern(2, {}, 1)).measured);
  CHECK(pattern_change(pattern(3, {}, 1)).measured);

  std::vector<PatternMarker> far = pattern(3, {}, 1);
  far[1].place_nm = {far[0].place_nm.x + 300, far[0].place_nm.y};
  far[2].place_nm = {far[0].place_nm.x, far[0].place_nm.y + 20'000};
  CHECK_FALSE(pattern_change(far).measured);  // nobody checks the third

  std::vector<PatternMarker> one_place = pattern(4, {}, 1);
  for (PatternMarker& m : one_place) m.place_nm = {100, 200};
  CHECK_FALSE(pattern_change(one_place).measured);

  // On one line rotation and scale are known, and the tilt across it is not.
  std::vector<PatternMarker> line = pattern(5, {}, 1);
  for (std::size_t i = 0; i < line.size(); ++i)
    line[i].place_nm = {1000.0 * static_cast<double>(i), 2000.0 * static_cast<double>(i)};
  CHECK(pattern_change(line).measured);
  CHECK_FALSE(pattern_change(line).tilted);
}

TEST_CASE("markers without z take no part in the tilt", "[pattern]") {
  std::vector<PatternMarker> markers = pattern(8, {.tilt_rad = {1e-3, 0}, .sd_nm = 1e-9}, 3);
  for (std::size_t i = 0; i < 5; ++i) markers[i].z_moved_nm = std::nan("");
  CHECK(pattern_change(markers).tilt_rad.x == Approx(1e-3));
  markers[5].z_moved_nm = std::nan("");
  CHECK(pattern_change(markers).measured);
  CHECK_FALSE(pattern_change(markers).tilted);
}

}  // namespace driftd::control
