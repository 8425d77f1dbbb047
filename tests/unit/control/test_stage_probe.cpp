// SPDX-License-Identifier: MIT
// The probe's square, corner by corner, for a stage that arrives at once, late, or never. Anchor,
// axes and deviations are unequal.
#include <algorithm>
#include <cmath>
#include <vector>

#include "control/stage/stage_probe.hpp"
#include "support/catch.hpp"

namespace driftd::control {
namespace {

constexpr std::int64_t kMs = 1'000'000;
constexpr Vec2 kAnchor{100, -50};

/// A probe whose command is obeyed at once, unless told otherwise.
struct Course {
  explicit Course(Vec2 sd = {0.4, 0.3}, std::int64_t period_ns = 2 * kMs)
      : sd_nm(sd), every_ns(period_ns) {
    probe.begin(kAnchor);
  }
  /// One frame; where the stage is wanted, from the anchor.
  Vec2 frame() {
    now_ns += every_ns;
    const Vec2 wanted = probe.wanted_nm(total_nm, modelled_nm, sd_nm, now_ns);
    if (obeys) total_nm = modelled_nm = wanted;
    return {wanted.x - kAnchor.x, wanted.y - kAnchor.y};
  }
  /// Each place wanted and for how long, of so many changes.
  struct Stay {
    Vec2 place_nm;
    int frames;
  };
  std::vector<Stay> stays(std::size_t count) {
    std::vector<Stay> all{{frame(), 1}};
    for (int i = 0; i < 10'000 && all.size() <= count; ++i) {
      const Vec2 place = frame();
      if (place.x == all.back().place_nm.x && place.y == all.back().place_nm.y)
        ++all.back().frames;
      else
        all.push_back({place, 1});
    }
    REQUIRE(all.size() == count + 1);
    all.pop_back();  // it has only begun
    return all;
  }

  StageProbe probe;
  Vec2 sd_nm;
  std::int64_t every_ns;
  std::int64_t now_ns = 1'000'000 * kMs;
  Vec2 total_nm = kAnchor, modelled_nm = kAnchor;
  bool obeys = true;
};

void check_place(Vec2 place_nm, double x_nm, double y_nm) {
  CHECK(place_nm.x == Approx(x_nm).margin(1e-9));
  CHECK(place_nm.y == Approx(y_nm).margin(1e-9));
}

TEST_CASE("the probe goes from the anchor round a square, one axis at a time, for ever") {
  Course course;
  const std::vector<Course::Stay> stays = course.stays(10);
  // Five standard deviations of the noisier axis to either side.
  check_place(stays[0].place_nm, 0, 0);
  for (const std::size_t round : {1U, 5U}) {
    check_place(stays[round].place_nm, 2, 2);
    check_place(stays[round + 1].place_nm, -2, 2);
    check_place(stays[round + 2].place_nm, -2, -2);
    check_place(stays[round + 3].place_nm, 2, -2);
  }
  // Sent in one frame, seen at rest in the second after it, and held 40 ms from then.
  CHECK(stays[0].frames == 21);
  for (const std::size_t corner : {1U, 2U, 3U, 7U}) CHECK(stays[corner].frames == 22);
}

TEST_CASE("the square has five deviations of the noisier axis, at least 1 and at most 3.5 nm") {
  const auto half_side_nm = [](Vec2 sd) { return Course(sd).stays(2)[1].place_nm.y; };
  CHECK(half_side_nm({0.3, 0.6}) == Approx(3));
  CHECK(half_side_nm({0.5, 0.1}) == Approx(2.5));
  CHECK(half_side_nm({0.01, 0.15}) == Approx(1));
  CHECK(half_side_nm({0.1, 0.9}) == Approx(3.5));
  CHECK(half_side_nm({100, 1}) == Approx(StageProbe::kLargestNm));
}

TEST_CASE("a slow camera shows each corner in three frames, however long they take") {
  Course course({0.4, 0.3}, 200 * kMs);
  const std::vector<Course::Stay> stays = course.stays(6);
  for (const std::size_t corner : {2U, 3U, 4U}) CHECK(stays[corner].frames == 4);
}

TEST_CASE("a corner counts from when the modelled stage has arrived there, on both axes") {
  for (const Vec2 off :
       {Vec2{0.15, 0}, Vec2{-0.15, 0}, Vec2{0, 0.15}, Vec2{0, -0.15}, Vec2{0.15, 0.15}}) {
    Course course;
    course.obeys = false;
    course.modelled_nm = {kAnchor.x + off.x, kAnchor.y + off.y};
    for (int i = 0; i < 200; ++i) check_place(course.frame(), 0, 0);
    // Near enough, then once more too far: it begins anew.
    for (int i = 0; i < 2; ++i) {
      course.modelled_nm = {kAnchor.x + 0.6 * off.x, kAnchor.y + 0.6 * off.y};
      for (int frame = 0; frame < 15; ++frame) check_place(course.frame(), 0, 0);
      course.modelled_nm = {kAnchor.x + off.x, kAnchor.y + off.y};
      check_place(course.frame(), 0, 0);
    }
    course.modelled_nm = {kAnchor.x + 0.6 * off.x, kAnchor.y + 0.6 * off.y};
    int frames = 0;
    while (course.frame().x == 0) ++frames;
    CHECK(frames == 20);
  }
}

TEST_CASE("while the command still moves no corner is reached, where a limit ends it one is") {
  for (const Vec2 step : {Vec2{0.05, 0}, Vec2{0, -0.05}}) {
    Course course;
    course.obeys = false;
    for (int i = 0; i < 100; ++i) {
      course.total_nm = {course.total_nm.x + step.x, course.total_nm.y + step.y};
      course.modelled_nm = course.total_nm;  // obeyed at once, but on the way
      check_place(course.frame(), 0, 0);
    }
    int frames = 0;
    while (course.frame().x == 0 && frames < 100) ++frames;
    CHECK(frames == 20);
  }
}

TEST_CASE("a second hold begins at its own anchor, with the first corner") {
  Course course;
  course.stays(3);
  course.probe.begin({-7, 9});
  course.total_nm = course.modelled_nm = {-7, 9};
  const std::vector<Course::Stay> stays = course.stays(3);
  check_place(stays[0].place_nm, -107, 59);
  check_place(stays[1].place_nm, -105, 61);
  check_place(stays[2].place_nm, -109, 61);
  CHECK(stays[0].frames == 21);
}

TEST_CASE("the probe waits for a stage that is slow") {
  StageProbe probe;
  probe.begin({0, 0});
  Vec2 modelled;
  Vec2 wanted;
  int changes = 0;
  for (std::int64_t i = 0; i < 3000; ++i) {
    const Vec2 next = probe.wanted_nm(wanted, modelled, {100, 1}, 1 * kMs * i);
    if (next.x != wanted.x || next.y != wanted.y) {
      CHECK(std::abs(wanted.x - modelled.x) < 0.5);
      CHECK(std::abs(wanted.y - modelled.y) < 0.5);
      ++changes;
    }
    wanted = next;
    modelled = {modelled.x + 0.01 * (wanted.x - modelled.x),
                modelled.y + 0.01 * (wanted.y - modelled.y)};
  }
  CHECK(changes > 4);
}

}  // namespace
}  // namespace driftd::control
