// SPDX-License-Identifier: MIT
// The way of a set-point by itself: how fast, through which places, and how it waits.
#include <algorithm>
#include <cmath>
#include <vector>

#include "control/lock/set_point.hpp"
#include "support/catch.hpp"

using namespace driftd::control;
using Catch::Matchers::WithinAbs;

namespace {

constexpr double kFrameS = 0.002;

MovePath path_of(std::vector<MovePlace> places, std::uint32_t repeats = 1) {
  MovePath path{.id = 7, .places = {}, .count = places.size(), .repeats = repeats};
  std::copy(places.begin(), places.end(), path.places.begin());
  return path;
}

double distance(Vec2 a, Vec2 b) {
  return std::hypot(a.x - b.x, a.y - b.y);
}

/// Frame by frame until it rests; the places where it was.
std::vector<Vec2> run(SetPoint& s, double frame_s = kFrameS, double share = 1) {
  std::vector<Vec2> seen;
  for (int frame = 0; s.phase() != SetPointPhase::Resting && frame < 100'000; ++frame) {
    const Vec2 ahead = s.ahead_nm(frame_s);
    s.advance(frame_s, share);
    if (share == 1) CHECK(distance(ahead, s.place_nm()) == 0);
    seen.push_back(s.place_nm());
  }
  return seen;
}

TEST_CASE("a way begins and ends smoothly and is never faster than asked for") {
  for (const double length_nm : {500.0, 60.0, 3.0}) {  // the last two are shorter than the ramps
    CAPTURE(length_nm);
    const double speed = 10'000, end_s = move_duration_s(length_nm, speed);
    CHECK_THAT(end_s, WithinAbs(length_nm / speed + kMoveRampS, 1e-12));
    CHECK(move_share(0, length_nm, speed) == 0);
    CHECK_THAT(move_share(end_s, length_nm, speed), WithinAbs(1, 1e-12));
    CHECK_THAT(move_share(end_s / 2, length_nm, speed), WithinAbs(0.5, 1e-12));
    double before = 0, before_step = 0;
    constexpr double kStepS = 1e-4;
    for (double t = kStepS; t < end_s + 5 * kStepS; t += kStepS) {
      const double now = move_share(t, length_nm, speed);
      const double step = (now - before) * length_nm;
      CHECK(step >= -1e-9);
      CHECK(step <= speed * kStepS * (1 + 1e-9));
      // No acceleration beyond the one that reaches the speed within the ramp.
      CHECK(std::abs(step - before_step) <= 1.01 * speed / kMoveRampS * kStepS * kStepS);
      before = now;
      before_step = step;
    }
  }
  CHECK(move_duration_s(0, 10'000) == 0);
  CHECK(move_share(0, 0, 10'000) == 1);
  CHECK(move_share(0, 500, 0) == 1);
}

TEST_CASE("a path visits its places in order, and stays at each") {
  SetPoint s;
  s.reset({3, -4});
  s.begin(path_of({{{103, -4}, 10'000, 0.020}, {{103, 36}, 5'000, 0}, {{0, 0}, 10'000, 0.010}}));
  CHECK(s.goal_nm().x == 0);
  CHECK(s.id() == 7);
  std::vector<std::size_t> at(3, 0);
  while (s.phase() != SetPointPhase::Resting) {
    CHECK(s.index() < 3);
    s.advance(kFrameS, 1);
    if (distance(s.place_nm(), {103, -4}) == 0) ++at[0];
    if (distance(s.place_nm(), {103, 36}) == 0) ++at[1];
    if (distance(s.place_nm(), {0, 0}) == 0) ++at[2];
  }
  CHECK(at == std::vector<std::size_t>{11, 1, 6});  // the arrival, and the stay
  CHECK(distance(s.place_nm(), {0, 0}) == 0);
  CHECK(s.goal_nm().x == 0);
}

TEST_CASE("a path is run through as often as asked for") {
  SetPoint s;
  s.begin(path_of({{{20, 0}, 10'000, 0}, {{-20, 5}, 10'000, 0}}, 3));
  int right = 0, left = 0;
  for (const Vec2 place : run(s)) {
    right += distance(place, {20, 0}) == 0 ? 1 : 0;
    left += distance(place, {-20, 5}) == 0 ? 1 : 0;
  }
  CHECK(right == 3);
  CHECK(left == 3);
}

TEST_CASE("a slow camera reaches each place, a frame each") {
  SetPoint s;
  s.begin(path_of({{{20, 0}, 10'000, 0}, {{-20, 5}, 10'000, 0}, {{0, 1}, 0, 0}}));
  const auto seen = run(s, 0.5);
  REQUIRE(seen.size() == 3);
  CHECK(seen[0].x == 20);
  CHECK(seen[1].x == -20);
  CHECK(seen[2].y == 1);
}

TEST_CASE("where there is no room the path waits, on its line") {
  SetPoint whole, half, none;
  for (SetPoint* s : {&whole, &half, &none}) s->begin(path_of({{{300, -400}, 10'000, 0}}));
  none.advance(kFrameS, 0);
  CHECK(distance(none.place_nm(), {0, 0}) == 0);
  CHECK(none.phase() == SetPointPhase::Moving);
  const auto fast = run(whole);
  const auto slow = run(half, kFrameS, 0.5);
  CHECK(10 * slow.size() > 19 * fast.size());
  for (const Vec2 place : slow) CHECK_THAT(place.x * 4 + place.y * 3, WithinAbs(0, 1e-6));
  // What was left of it when there was room again.
  half.reset();
  half.begin(path_of({{{300, -400}, 10'000, 0}}));
  for (int i = 0; i < 5; ++i) half.advance(kFrameS, 0.1);
  run(half);
  CHECK(distance(half.place_nm(), {300, -400}) == 0);
}

TEST_CASE("set back, it begins to move anew from there to the same place") {
  SetPoint s;
  s.begin(path_of({{{500, 0}, 10'000, 0}, {{500, 100}, 10'000, 0}}));
  for (int i = 0; i < 15; ++i) s.advance(kFrameS, 1);
  CHECK(s.place_nm().x > 200);
  s.go_on_from({150, 0});
  CHECK(s.place_nm().x == 150);
  CHECK(s.ahead_nm(kFrameS).x - 150 < 10);  // from standing: less than half of the speed's 20
  run(s);
  CHECK(distance(s.place_nm(), {500, 100}) == 0);
}

TEST_CASE("another path begins where the first one was, and stop stays there") {
  SetPoint s;
  s.begin(path_of({{{500, 0}, 10'000, 0}}));
  for (int i = 0; i < 15; ++i) s.advance(kFrameS, 1);
  const Vec2 here = s.place_nm();
  s.begin(path_of({{{0, 0}, 10'000, 0}}));
  CHECK(distance(s.place_nm(), here) == 0);
  CHECK(s.ahead_nm(kFrameS).x < here.x);
  s.stop();
  s.advance(kFrameS, 1);
  CHECK(distance(s.place_nm(), here) == 0);
  CHECK(distance(s.goal_nm(), here) == 0);
  s.reset();
  CHECK(distance(s.place_nm(), {0, 0}) == 0);
  CHECK(s.id() == 0);
}

TEST_CASE("nothing to visit is no path") {
  SetPoint s;
  s.begin(path_of({}));
  CHECK(s.phase() == SetPointPhase::Resting);
  s.begin(path_of({{{1, 1}, 10'000, 0}}, 0));
  CHECK(s.phase() == SetPointPhase::Resting);
  CHECK(distance(s.ahead_nm(1), {0, 0}) == 0);
}

}  // namespace
