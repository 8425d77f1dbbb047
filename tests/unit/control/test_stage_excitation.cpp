// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "control/identification/stage_excitation.hpp"
#include "support/allocation_watch.hpp"
#include "support/catch.hpp"

namespace driftd::control {
namespace {

std::vector<Vec2> places_of(const StageExcitation& excitation, std::int64_t period_ns) {
  std::vector<Vec2> places;
  for (std::int64_t t = 0; t < excitation.duration_ns(); t += period_ns)
    places.push_back(excitation.wanted_nm(t));
  return places;
}

TEST_CASE("an excitation keeps excursion, rate and step at any frame rate") {
  for (const double rate_hz : {30.0, 50.0, 200.0, 500.0, 1000.0}) {
    for (const double excursion_nm : {10.0, 100.0, 500.0}) {
      StageExcitationSettings settings;
      settings.frame_period_ns = std::llround(1e9 / rate_hz);
      settings.excursion_nm = excursion_nm;
      const StageExcitation excitation(settings);
      const std::vector<Vec2> places = places_of(excitation, settings.frame_period_ns);
      CAPTURE(rate_hz, excursion_nm);
      double farthest = 0, longest = 0;
      for (std::size_t i = 0; i < places.size(); ++i) {
        farthest = std::max({farthest, std::abs(places[i].x), std::abs(places[i].y)});
        if (i == 0) continue;
        longest = std::max({longest, std::abs(places[i].x - places[i - 1].x),
                            std::abs(places[i].y - places[i - 1].y)});
      }
      CHECK(farthest <= excursion_nm + 1e-9);
      CHECK(farthest > 0.7 * excursion_nm);
      CHECK(longest <= settings.rate_limit_nm_per_s / rate_hz);
      CHECK(longest <= settings.step_limit_nm);
    }
  }
}

TEST_CASE("an excitation begins with rest, grows, and ends where it began") {
  const StageExcitationSettings settings;
  const StageExcitation excitation(settings);
  CHECK(1e-9 * static_cast<double>(excitation.duration_ns()) ==
        Approx(settings.seconds).margin(0.1));
  CHECK(excitation.quiet_ns() == 3'000'000'000);
  double early = 0, late = 0;
  for (std::int64_t t = 0; t < excitation.duration_ns(); t += settings.frame_period_ns) {
    const Vec2 place = excitation.wanted_nm(t);
    const double far = std::max(std::abs(place.x), std::abs(place.y));
    REQUIRE(far <= excitation.reach_nm(t) + 1e-6);
    if (t < excitation.quiet_ns()) REQUIRE(far == 0);
    if (t < excitation.quiet_ns() + 500'000'000) early = std::max(early, far);
    late = std::max(late, far);
    if (t > excitation.duration_ns() - 300'000'000) REQUIRE(far == 0);
  }
  CHECK(early < 35);
  CHECK(late > 95);
  CHECK(excitation.wanted_nm(excitation.duration_ns() + 1'000'000'000).x == 0);
  CHECK(excitation.wanted_nm(-5).x == 0);
}

TEST_CASE("the axes of an excitation move independently and at many paces") {
  const StageExcitationSettings settings;
  const std::vector<Vec2> places = places_of(StageExcitation(settings), settings.frame_period_ns);
  double xx = 0, yy = 0, xy = 0;
  std::set<int> strokes;
  int stroke = 0;
  for (std::size_t i = 2; i < places.size(); ++i) {
    const double dx = places[i].x - places[i - 1].x, dy = places[i].y - places[i - 1].y;
    xx += dx * dx;
    yy += dy * dy;
    xy += dx * dy;
    ++stroke;
    if ((places[i - 1].x - places[i - 2].x) * dx <= 0 && dx != 0) {
      strokes.insert(stroke);
      stroke = 0;
    }
  }
  CHECK(std::abs(xy) < 0.1 * std::sqrt(xx * yy));
  CHECK(strokes.contains(1));
  CHECK(strokes.size() > 20);
  CHECK(*strokes.rbegin() > 40);
}

TEST_CASE("asking an excitation allocates nothing") {
  const StageExcitation excitation;
  if (!driftd::test::can_watch()) return;
  const std::uint64_t before = driftd::test::watched_allocations();
  driftd::test::watch_this_thread(true);
  double sum = 0;
  for (std::int64_t t = 0; t < excitation.duration_ns(); t += 10'000'000)
    sum += excitation.wanted_nm(t).x + excitation.reach_nm(t);
  driftd::test::watch_this_thread(false);
  CHECK(driftd::test::watched_allocations() == before);
  CHECK(std::isfinite(sum));
}

}  // namespace
}  // namespace driftd::control
