// SPDX-License-Identifier: MIT
// Moves under lock: the sample goes where it is told, the servo and the watch over jumps do not see
// it, limits hold, and a stage that is wrong is found all the same.
#include <algorithm>
#include <cmath>
#include <optional>

#include "supervisor_bench.hpp"

using namespace driftd::control;
using namespace driftd::control::test;
using Catch::Matchers::WithinAbs;

namespace {

SupervisorSettings fast() {
  SupervisorSettings s = supervisor_settings();
  s.controller.step_limit_nm = 45;
  s.controller.rate_limit_nm_per_s = 20'000;
  s.controller.range_limit_nm = s.controller.travel_limit_nm = 3000;
  return s;
}

/// A sample on a stage that answers a command by `answer`, or no longer moves.
struct Mover : Feed {
  explicit Mover(const SupervisorSettings& s = fast()) : Feed(s) {}

  Decision frame(Frame what = {}) {
    const std::int64_t taken_ns = now_ns + every_ns - kAgeNs;
    const Vec2 commanded = true_stage.at(taken_ns);
    const Vec2 turned = answer.apply({commanded.x - begun_nm.x, commanded.y - begun_nm.y});
    stage_nm = frozen ? *frozen : Vec2{begun_nm.x + turned.x, begun_nm.y + turned.y};
    const Vec2 image = used.controller.image_to_stage.invert(stage_nm);
    left_nm = {sample_nm.x + image.x, sample_nm.y + image.y};
    const Vec2 seen{left_nm.x + noise_nm * normal(random), left_nm.y + noise_nm * normal(random)};
    const Decision d = Feed::frame(seen, mean_of(seen), static_cast<int>(means.size()), what);
    largest_nm = std::max(
        {largest_nm, std::abs(d.correction.delta_nm.x), std::abs(d.correction.delta_nm.y)});
    if (d.has_correction && leaves) true_stage.command(d.correction.total_nm, now_ns);
    if (d.has_correction) total_nm = d.correction.total_nm;
    return d;
  }
  void frames(int count) {
    for (int i = 0; i < count; ++i) frame();
  }
  void lock() {
    while (supervisor.reference_frames() > used.reference_frames) frame();
    frame();
    supervisor.command(LockEvent::CommandLock, now_ns);
    frame({.new_reference = true});
    REQUIRE(state() == LockState::Locked);
    frames(50);
  }
  void begin(Vec2 place, double speed = 10'000) {
    MovePath path{.id = ++moves, .places = {}, .count = 1};
    path.places[0] = {.place_nm = place, .speed_nm_per_s = speed};
    REQUIRE(supervisor.begin_move(path));
  }
  /// Until the path is over; the frames that took.
  int arrive(int most = 2000) {
    int count = 0;
    for (; supervisor.set_point().phase() != SetPointPhase::Resting && count < most; ++count)
      frame();
    return count;
  }
  double error(Vec2 place) const {
    return std::max(std::abs(left_nm.x - place.x), std::abs(left_nm.y - place.y));
  }
  Vec2 mean_of(Vec2 seen) {
    if (averaged < 2) return means = {seen}, seen;
    means.push_back(seen);
    if (static_cast<int>(means.size()) > averaged) means.erase(means.begin());
    Vec2 sum;
    for (const Vec2 v : means) sum = {sum.x + v.x, sum.y + v.y};
    const auto n = static_cast<double>(means.size());
    return {sum.x / n, sum.y / n};
  }

  StageModel true_stage{{.image_to_stage = used.controller.image_to_stage,
                         .delay_us = used.controller.stage_delay_us,
                         .time_constant_us = used.controller.stage_time_constant_us}};
  ImageToStage answer;
  std::optional<Vec2> frozen;
  bool leaves = true;
  Vec2 sample_nm, left_nm, stage_nm, total_nm, begun_nm;
  double noise_nm = 0.1, largest_nm = 0;
  int averaged = 1;
  std::vector<Vec2> means;
  std::uint64_t moves = 0;
  std::mt19937 random{7};
  std::normal_distribution<double> normal;
};

/// A stage of so much gain, turned by so many degrees.
ImageToStage stage_of(double gain, double turn_deg) {
  const double c = gain * std::cos(turn_deg * 3.14159265358979 / 180);
  const double s = gain * std::sin(turn_deg * 3.14159265358979 / 180);
  return {c, -s, s, c};
}

TEST_CASE("the sample goes where it is told and is held there; the servo does not see it") {
  Mover m;
  m.noise_nm = 0;
  m.lock();
  const Vec2 place{500, -170};
  m.begin(place);
  CHECK(m.supervisor.moving() == false);  // as of the last frame
  m.frame();
  CHECK(m.supervisor.moving());
  double servo_nm = 0;
  const int frames = m.arrive();
  CHECK(frames >= 31);  // 528 nm at 10 um/s and the ramps: 63 ms
  CHECK(frames <= 33);
  CHECK(m.supervisor.move_end() == MoveEnd::Done);
  m.frame();
  CHECK(m.supervisor.moving());  // the command has arrived, the stage has not
  for (int i = 0; i < 12; ++i) {
    const Decision d = m.frame();
    servo_nm = std::max({servo_nm, std::abs(d.correction.total_nm.x - d.correction.move_nm.x),
                         std::abs(d.correction.total_nm.y - d.correction.move_nm.y)});
  }
  CHECK(servo_nm < 1e-6);
  CHECK_FALSE(m.supervisor.moving());
  CHECK(m.error(place) < 0.05);
  CHECK_THAT(m.supervisor.moved_nm().x, WithinAbs(500, 0.05));
  CHECK_THAT(m.supervisor.moved_nm().y, WithinAbs(-170, 0.05));
  m.frames(100);
  CHECK(m.error(place) < 1e-3);
  m.begin({0, 0});
  m.arrive();
  m.frames(30);
  CHECK(m.error({0, 0}) < 1e-3);
  CHECK(m.state() == LockState::Locked);
}

TEST_CASE("what drifts during a move is corrected as without it") {
  Mover m;
  m.noise_nm = 0;
  m.lock();
  m.sample_nm = {6, -9};
  m.begin({300, 200});
  m.arrive();
  m.frames(40);
  CHECK(m.error({300, 200}) < 0.01);
}

TEST_CASE("a move is no jump, and a jump during a move is one") {
  Mover m;
  m.lock();
  m.begin({300, 0});
  for (int i = 0; i < 12; ++i) CHECK(m.frame().verdict == LockEvent::GoodFrame);
  m.sample_nm = {60, 0};  // max_jump_nm is 40
  CHECK(m.frame().verdict == LockEvent::Jump);
  m.sample_nm = {0, 0};
  m.arrive();
  m.frames(30);
  CHECK(m.error({300, 0}) < 1);
}

TEST_CASE("a move leaves the correction its share of the limits") {
  SupervisorSettings s = fast();
  s.controller.step_limit_nm = 8;
  s.controller.rate_limit_nm_per_s = 3500;  // 7 nm a frame
  Mover m(s);
  m.noise_nm = 0;
  m.lock();
  m.begin({500, 0}, 10'000);  // far too fast: 20 nm a frame
  m.largest_nm = 0;
  m.frames(10);
  m.sample_nm = {12, 8};
  int flagged = 0;
  int frames = 10;
  for (; m.supervisor.set_point().phase() != SetPointPhase::Resting; ++frames) {
    REQUIRE(frames < 400);
    flagged += m.frame().correction.limited != kLimitNone ? 1 : 0;
  }
  CHECK(m.largest_nm <= 7 + 1e-6);
  CHECK(frames > 500 * 0.9 / 7);  // the matrix takes 0.9 nm of the stage for one of the image
  CHECK(frames < 110);
  CHECK(flagged <= 3);  // the correction's own
  m.frames(20);
  CHECK(m.error({500, 0}) < 0.01);  // nothing was wound up
}

TEST_CASE("a path that the limits stop for a second is over; nothing goes beyond") {
  Mover m;
  m.noise_nm = 0;
  m.lock();
  m.begin({-900, 0});
  m.frames(10);
  SupervisorSettings narrow = m.used;
  narrow.controller.range_limit_nm = 400;
  m.supervisor.change_settings(narrow);
  m.arrive();
  CHECK(m.supervisor.move_end() == MoveEnd::Limits);
  CHECK(std::abs(m.total_nm.x) <= 400);
  CHECK(std::abs(m.total_nm.y) <= 400);
  CHECK(std::abs(m.total_nm.y) > 390);
  CHECK(m.state() == LockState::Locked);
  m.frames(400);
  CHECK(m.state() == LockState::Locked);  // the range limit was not pressed against
  CHECK_THAT(m.left_nm.x, WithinAbs(m.supervisor.set_point().place_nm().x, 0.1));
}

TEST_CASE("there is no move but while it is locked, and none after it") {
  Mover m;
  MovePath path{.id = 3, .places = {}, .count = 1};
  path.places[0] = {.place_nm = {50, 0}, .speed_nm_per_s = 10'000};
  CHECK_FALSE(m.supervisor.begin_move(path));
  m.lock();
  CHECK(m.supervisor.begin_move(path));
  m.frames(3);
  m.supervisor.command(LockEvent::CommandUnlock, m.now_ns);
  CHECK(m.supervisor.move_end() == MoveEnd::Unlocked);
  CHECK(m.supervisor.set_point().phase() == SetPointPhase::Resting);
  CHECK(m.supervisor.set_point().place_nm().x == 0);
  CHECK_FALSE(m.supervisor.begin_move(path));
  CHECK_FALSE(m.frame().has_correction);
  CHECK(m.supervisor.moved_nm().x == 0);
  CHECK_FALSE(m.supervisor.moving());
}

TEST_CASE("held, the path waits where it is, and goes on when it is locked again") {
  Mover m;
  m.lock();
  m.begin({600, 0});
  m.frames(20);
  for (int i = 0; i < 4; ++i) m.frame({.valid = false});
  CHECK(m.state() == LockState::Holding);
  const Vec2 here = m.supervisor.set_point().place_nm();
  for (int i = 0; i < 30; ++i) m.frame({.valid = false});
  CHECK(m.supervisor.set_point().place_nm().x == here.x);
  MovePath other{.id = 99, .places = {}, .count = 1};
  CHECK_FALSE(m.supervisor.begin_move(other));
  m.largest_nm = 0;
  while (m.state() == LockState::Holding) m.frame();
  CHECK(m.state() == LockState::Locked);
  m.frame();
  CHECK(m.largest_nm < 15);  // it begins from standing: 22 nm a frame at its speed
  m.arrive();
  m.frames(30);
  CHECK(m.error({600, 0}) < 1);
  SECTION("stopped while held it stays") {
    m.begin({0, 0});
    m.frames(20);
    for (int i = 0; i < 4; ++i) m.frame({.valid = false});
    m.supervisor.stop_move();
    CHECK(m.supervisor.move_end() == MoveEnd::Stopped);
    const Vec2 stopped = m.supervisor.set_point().place_nm();
    m.frames(60);
    CHECK(m.error(stopped) < 1);
  }
}

TEST_CASE("what never left is not part of the move") {
  Mover m;
  m.noise_nm = 0;
  m.lock();
  m.begin({400, 100});
  m.frames(12);
  const Vec2 sent = m.total_nm;
  const std::int64_t sent_ns = m.now_ns;
  m.leaves = false;
  m.frames(3);
  m.supervisor.take_back(sent, sent_ns);
  m.total_nm = sent;
  m.leaves = true;
  m.largest_nm = 0;
  m.frame();
  CHECK(m.largest_nm < 12);  // from standing, and not four steps at once
  m.arrive();
  m.frames(30);
  CHECK(m.error({400, 100}) < 0.01);
  const Decision d = m.frame();
  CHECK_THAT(d.correction.total_nm.x - d.correction.move_nm.x, WithinAbs(0, 0.05));
}

TEST_CASE("the end of a move that never left is made up for") {
  Mover m;
  m.noise_nm = 0;
  m.lock();
  m.begin({400, 100});
  m.frames(22);
  const Vec2 sent = m.total_nm;
  const std::int64_t sent_ns = m.now_ns;
  m.leaves = false;
  m.arrive();
  CHECK(m.supervisor.move_end() == MoveEnd::Done);
  m.supervisor.take_back(sent, sent_ns);
  m.total_nm = sent;
  m.leaves = true;
  m.largest_nm = 0;
  m.frame();
  CHECK(m.supervisor.moving());
  m.frames(30);
  CHECK(m.largest_nm <= 45 + 1e-6);
  CHECK(m.error({400, 100}) < 0.01);
}

TEST_CASE("a drift that is the mean of frames does not lag behind a move") {
  Mover m;
  m.noise_nm = 0;
  m.averaged = 10;
  m.lock();
  m.begin({400, 0});
  double servo_nm = 0;
  while (m.supervisor.set_point().phase() != SetPointPhase::Resting) {
    const Decision d = m.frame();
    servo_nm = std::max(servo_nm, std::abs(d.correction.total_nm.x - d.correction.move_nm.x));
  }
  CHECK(servo_nm < 1e-6);
  const Vec2 mean = m.supervisor.mean_moved_nm(10);
  CHECK(mean.x < 390);  // of the last frames, on the way
  CHECK(mean.x > 250);
  m.frames(20);
  CHECK(m.error({400, 0}) < 0.05);
}

TEST_CASE("a resumed lock begins at its set-point") {
  Mover m;
  m.noise_nm = 0;
  m.supervisor.set_carried({10, 20}, {250, -40});
  m.sample_nm = {255, -47};  // it was at its set-point, and has moved since
  m.lock();
  m.frames(60);
  CHECK(m.error({250, -40}) < 0.01);
  CHECK(std::abs(m.total_nm.x) < 20);  // the way back of 5 and 7 nm, not the whole
  CHECK_THAT(m.supervisor.moved_nm().x, WithinAbs(250, 1e-6));
  m.begin({0, 0});
  m.arrive();
  m.frames(40);
  CHECK(m.error({0, 0}) < 0.01);
}

TEST_CASE("a stage of 5 % too much, turned by 3 degrees, is no fault") {
  for (const double speed : {10'000.0, 1500.0}) {
    for (const double gain : {1.05, 0.95}) {
      CAPTURE(speed, gain);
      Mover m;
      m.lock();
      m.answer = stage_of(gain, 3);
      m.begun_nm = m.total_nm;
      for (int i = 0; i < 24; ++i) {
        const Vec2 place{i % 2 == 0 ? 500.0 : 0.0, i % 3 == 0 ? -300.0 : 100.0};
        m.begin(place, speed);
        m.arrive();
        m.frames(10);
        CHECK(m.error(place) < 1.5);  // 20 ms after the arrival
        m.frames(30 + i);
        REQUIRE(m.state() == LockState::Locked);
        CHECK(m.error(place) < 0.5);
      }
    }
  }
}

TEST_CASE("a driver that stands still for three frames during a move is no fault of the stage") {
  for (const double speed : {10'000.0, 1500.0}) {
    CAPTURE(speed);
    SupervisorSettings settings = fast();
    settings.max_jump_nm = 100;
    Mover m(settings);
    m.lock();
    for (int i = 0; i < 20; ++i) {
      const Vec2 place{i % 2 == 0 ? 500.0 : 0.0, i % 3 == 0 ? -300.0 : 100.0};
      m.begin(place, speed);
      m.frames(12);
      m.leaves = false;  // what it carries out then is the newest
      m.frames(3);
      m.leaves = true;
      m.arrive();
      m.frames(50);
      REQUIRE(m.state() == LockState::Locked);
      CHECK(m.error(place) < 0.5);
    }
  }
}

TEST_CASE("a stage that dies or turns round during a move is found") {
  for (const double speed : {10'000.0, 1500.0}) {
    CAPTURE(speed);
    SupervisorSettings settings = fast();
    settings.max_jump_nm = 100;  // a stage that turns round is 40 nm away with the next frame
    Mover m(settings);
    m.lock();
    m.frames(300);
    m.begin({900, 300}, speed);
    m.frames(20);
    SECTION("dead") {
      m.frozen = m.stage_nm;
      const double before = m.total_nm.y;
      int frames = 0;
      for (; m.state() == LockState::Locked && frames < 100; ++frames) m.frame();
      CHECK(m.reason() == LockReason::StageNotFollowing);
      CHECK(frames <= 12);
      // What was commanded in vain: dead time, age of a frame, and the frames that it took.
      CHECK(std::abs(m.total_nm.y - before) < 1.3 * speed * 2e-3 * 12 + 20);
      const Vec2 held = m.left_nm;
      m.frames(200);
      CHECK(std::hypot(m.left_nm.x - held.x, m.left_nm.y - held.y) < 1);
      // Free again, it comes back to the lock and the move goes on.
      m.frozen.reset();
      for (frames = 0; m.state() != LockState::Locked && frames < 1000; ++frames) m.frame();
      CHECK(m.state() == LockState::Locked);
      m.arrive();
      m.frames(50);
      CHECK(m.error({900, 300}) < 1);
    }
    SECTION("reversed") {
      m.begun_nm = m.stage_nm;
      m.answer = {-1, 0, 0, -1};
      const Vec2 before = m.left_nm;
      int frames = 0;
      for (; m.state() == LockState::Locked && frames < 100; ++frames) m.frame();
      CHECK(m.reason() == LockReason::StageNotFollowing);
      CHECK(frames <= 10);
      double farthest = 0;
      for (int i = 0; i < 300; ++i) {
        m.frame();
        farthest = std::max(farthest, std::hypot(m.left_nm.x - before.x, m.left_nm.y - before.y));
      }
      CAPTURE(farthest, frames);
      CHECK(farthest < 1.2 * speed * 2e-3 * 10 + 30);
      CHECK(m.state() == LockState::Holding);
    }
  }
}

}  // namespace
