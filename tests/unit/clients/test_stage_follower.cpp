// SPDX-License-Identifier: MIT
// What a correction means for a target: zeros, limits, what is left out.
#include <cmath>
#include <limits>
#include <random>

#include "clients/stage/correction.hpp"
#include "clients/stage/follower.hpp"
#include "support/catch.hpp"

namespace driftd::stage {
namespace {

constexpr std::int64_t kFrame_ns = 2'000'000;

AxisSettings axis(bool reversed = false, double scale = 1) {
  return {.controller = Which::First,
          .axis = "1",
          .reversed = reversed,
          .scale = scale,
          .min_nm = -1e9,
          .max_nm = 1e9,
          .step_limit_nm = 100,
          .rate_limit_nm_per_s = 1e6,
          .range_limit_nm = 5000};
}

std::vector<Axis> travel(double min_nm = 0, double max_nm = 100'000, bool closed_loop = true) {
  Axis one{.name = "1", .min_nm = min_nm, .max_nm = max_nm, .resolution_nm = 0.1};
  one.closed_loop = closed_loop;
  return {one, one};
}

Correction correction(PerAxis total, PerAxis delta, std::int64_t lock_id = 1,
                      const std::string& session = "a") {
  return {.session = session,
          .lock_id = lock_id,
          .sent_ns = 0,
          .expires_ns = std::numeric_limits<std::int64_t>::max(),
          .total_nm = total,
          .delta_nm = delta};
}

/// A stage that does at once what it is told, and a driver that follows.
struct Bench {
  explicit Bench(const AxisSettings& x = axis(), const AxisSettings& y = axis(),
                 PerAxis start = {50'000, 60'000}, std::vector<Axis> axes = travel())
      : follower(x, y), position(start) {
    follower.connected(axes, position);
  }
  Target move(const Correction& correction) {
    now_ns += kFrame_ns;
    REQUIRE(follower.judge(correction, now_ns) == Verdict::Move);
    if (follower.takes_zero(correction)) follower.seen(position, now_ns);
    const Target target = follower.plan(correction, now_ns);
    follower.moved(target, now_ns);
    position = target.nm;
    return target;
  }
  Follower follower;
  PerAxis position;
  std::int64_t now_ns = 1'000'000'000;
};

}  // namespace

TEST_CASE("a lock's zero is where the stage is", "[stage]") {
  Bench bench;
  bench.move(correction({3, -4}, {3, -4}));
  CHECK(bench.position[0] == Approx(50'003));
  CHECK(bench.position[1] == Approx(59'996));
  bench.move(correction({5, -4}, {2, 0}));
  CHECK(bench.position[0] == Approx(50'005));
  CHECK(bench.follower.total_nm(bench.position).value()[0] == Approx(5));
}

TEST_CASE("a new lock begins at the last target, though its first messages are lost", "[stage]") {
  Bench bench;
  bench.move(correction({40, 0}, {40, 0}));
  bench.move(correction({30, 0}, {5, 0}, 2));
  CHECK(bench.position[0] == Approx(50'070));
  bench.move(correction({-1, 0}, {-1, 0}, 1, "b"));
  CHECK(bench.position[0] == Approx(50'069));
}

TEST_CASE("a driver that starts in mid-lock moves by what is new alone", "[stage]") {
  Bench bench;
  bench.move(correction({2000, -900}, {7, -2}));
  CHECK(bench.position[0] == Approx(50'007));
  CHECK(bench.position[1] == Approx(59'998));
  bench.move(correction({2010, -900}, {10, 0}));
  CHECK(bench.position[0] == Approx(50'017));
  CHECK(bench.follower.total_nm(bench.position).value()[0] == Approx(2010));
}

TEST_CASE("sign and scale are the axis' own", "[stage]") {
  Bench bench(axis(true), axis(false, 2.5));
  bench.move(correction({10, 10}, {10, 10}));
  CHECK(bench.position[0] == Approx(49'990));
  CHECK(bench.position[1] == Approx(60'025));
  const PerAxis total = bench.follower.total_nm(bench.position).value();
  CHECK(total[0] == Approx(10));
  CHECK(total[1] == Approx(10));
}

TEST_CASE("a controller that comes back with the stage elsewhere gets a new zero", "[stage]") {
  Bench bench;
  bench.move(correction({40, 0}, {40, 0}));
  bench.position = {20'000, 60'000};  // x fell to its resting place
  bench.follower.connected(travel(), bench.position);
  bench.move(correction({45, 3}, {5, 3}));
  CHECK(bench.position[0] == Approx(20'005));
  CHECK(bench.position[1] == Approx(60'003));
}

TEST_CASE("a controller that comes back where it was goes on from the last target", "[stage]") {
  Bench bench;
  bench.move(correction({40, 0}, {40, 0}));
  bench.position = {50'041.3, 60'000.2};  // as its sensors say
  bench.follower.connected(travel(), bench.position);
  bench.move(correction({45, 0}, {5, 0}));
  CHECK(bench.position[0] == Approx(50'045));
}

TEST_CASE("a stage that somebody else moved is not fetched back", "[stage]") {
  Bench bench;
  bench.move(correction({40, 0}, {40, 0}));
  bench.now_ns += 10'000'000'000;
  SECTION("before a new lock") {
    bench.position = {70'000, 60'000};
    bench.move(correction({6, 0}, {6, 0}, 2));
    CHECK(bench.position[0] == Approx(70'006));
  }
  SECTION("within a lock") {
    bench.position = {70'000, 60'000};
    bench.follower.seen(bench.position, bench.now_ns);
    bench.move(correction({46, 0}, {6, 0}));
    CHECK(bench.position[0] == Approx(70'006));
  }
  SECTION("by little, at rest") {
    bench.position = {50'340, 60'000};
    bench.move(correction({6, 0}, {6, 0}, 2));
    CHECK(bench.position[0] == Approx(50'346));
  }
  SECTION("an axis without a sensor says nothing") {
    Bench open(axis(), axis(), {50'000, 60'000}, travel(0, 100'000, false));
    open.move(correction({40, 0}, {40, 0}));
    open.now_ns += 10'000'000'000;
    open.position = {45'000, 60'000};  // hysteresis
    open.move(correction({6, 0}, {6, 0}, 2));
    CHECK(open.position[0] == Approx(50'046));
  }
}

TEST_CASE("a stage that is behind its target is not taken for one that was moved", "[stage]") {
  AxisSettings x = axis();
  x.rate_limit_nm_per_s = 10'000;
  Bench bench(x);
  bench.move(correction({40, 0}, {40, 0}));
  bench.position[0] -= 1000;  // 0.1 s behind at full rate
  bench.follower.seen(bench.position, bench.now_ns);
  bench.move(correction({50, 0}, {10, 0}));
  CHECK(bench.position[0] == Approx(50'050));
}

TEST_CASE("what came too late, or is of another lock, is left out", "[stage]") {
  Bench bench;
  bench.move(correction({1, 0}, {1, 0}, 7));
  Correction late = correction({2, 0}, {1, 0}, 7);
  late.expires_ns = bench.now_ns;
  CHECK(bench.follower.judge(late, bench.now_ns) == Verdict::Move);
  CHECK(bench.follower.judge(late, bench.now_ns + 1) == Verdict::Expired);
  CHECK(bench.follower.judge(correction({2, 0}, {1, 0}, 6), 0) == Verdict::OldLock);
  bench.move(correction({1, 0}, {1, 0}, 1, "b"));  // a daemon started anew counts from 1
  CHECK(bench.follower.judge(correction({2, 0}, {1, 0}, 9, "a"), 0) == Verdict::OldSession);
  CHECK(bench.follower.judge(correction({2, 0}, {1, 0}, 1, "b"), 0) == Verdict::Move);
}

TEST_CASE("a servo that was off at first lets the sensor tell afterwards", "[stage]") {
  Bench bench(axis(), axis(), {50'000, 60'000}, travel(0, 100'000, false));
  bench.follower.resumed(travel(), bench.position);
  bench.move(correction({4, 0}, {4, 0}));
  bench.now_ns += 1'000'000'000;
  bench.position = {70'000, 60'000};
  bench.follower.seen(bench.position, bench.now_ns);
  bench.move(correction({0, 0}, {0, 0}, 2));
  CHECK(bench.position[0] == Approx(70'000));
}

TEST_CASE("an axis without a sensor keeps its last target while the other axis does not obey",
          "[stage]") {
  std::vector<Axis> axes = travel();
  axes[0].closed_loop = false;
  Bench bench(axis(), axis(), {50'000, 60'000}, axes);
  bench.move(correction({40, 0}, {40, 0}));
  bench.now_ns += 1'000'000'000;
  const PerAxis crept = {bench.position[0] + 400, bench.position[1]};
  bench.follower.seen(crept, bench.now_ns);
  bench.follower.disobeys();
  SECTION("and has no sensor afterwards") {
    bench.follower.resumed(axes, {crept[0] + 50, crept[1]});
    bench.move(correction({46, 0}, {6, 0}));
    CHECK(bench.position[0] == Approx(50'046));
    bench.now_ns += 1'000'000'000;
    bench.follower.seen({crept[0] + 5000, crept[1]}, bench.now_ns);
    bench.move(correction({50, 0}, {4, 0}));
    CHECK(bench.position[0] == Approx(50'050));
  }
  SECTION("unless it was moved meanwhile") {  // as by a reference move
    bench.position = {crept[0] + 5000, crept[1]};
    bench.follower.resumed(axes, bench.position);
    bench.move(correction({46, 0}, {6, 0}));
    CHECK(bench.position[0] == Approx(50'040 + 400 + 5000 + 6));
  }
  SECTION("unless it has one now") {
    bench.position = crept;
    bench.follower.resumed(travel(), crept);
    bench.move(correction({46, 0}, {6, 0}));
    CHECK(bench.position[0] == Approx(50'446));
  }
}

TEST_CASE("a sensor that stands off from its target does not lead the stage away", "[stage]") {
  Bench bench;
  const auto rest = [&](double off_nm) {  // each 50 ms, as a driver looks
    for (int i = 0; i < 20; ++i) {
      bench.now_ns += 50'000'000;
      bench.follower.seen({bench.position[0] + off_nm, bench.position[1]}, bench.now_ns);
    }
  };
  for (const double off_nm : {150.0, 160.0, 900.0}) {  // far: given up once, then known
    double first_nm = 0;
    for (int i = 0; i < 12; ++i) {
      bench.move(correction({0, 0}, {0, 0}));
      rest(off_nm);
      if (i == 1) first_nm = bench.position[0];
    }
    CHECK(bench.position[0] == Approx(first_nm));
    if (off_nm < 200) CHECK(bench.position[0] == Approx(50'000));
  }
  SECTION("one that was moved since is elsewhere by as much as it was moved") {
    const double there_nm = bench.position[0];
    rest(900 + 5000);
    const Target target = bench.follower.plan(correction({3, 0}, {3, 0}, 2), bench.now_ns);
    CHECK(target.nm[0] == Approx(there_nm + 5003));
  }
}

TEST_CASE("a sensor's offset is known on after somebody moved the stage", "[stage]") {
  AxisSettings x = axis();
  x.rate_limit_nm_per_s = 10'000;  // 0.1 s of it and a step: 1100 nm
  Bench bench(x);
  const auto rest = [&](double off_nm) {
    for (int i = 0; i < 16; ++i) {
      bench.now_ns += 50'000'000;
      bench.follower.seen({bench.position[0] + off_nm, bench.position[1]}, bench.now_ns);
    }
  };
  for (double off_nm = 1060; off_nm <= 1160; off_nm += 20) {
    bench.move(correction({0, 0}, {0, 0}));
    rest(off_nm);
  }
  CHECK(bench.position[0] == Approx(50'000));
  bench.position[0] += 3000;
  for (int i = 0; i < 3; ++i) {
    rest(1160);
    const Target target = bench.follower.plan(correction({1, 0}, {1, 0}), bench.now_ns);
    CHECK(target.nm[0] == Approx(53'001));
    bench.follower.moved(target, bench.now_ns);
    bench.position = target.nm;
  }
  bench.position[0] += 500;
  rest(1160);
  const Target target = bench.follower.plan(correction({1, 0}, {0, 0}), bench.now_ns);
  CHECK(target.nm[0] == Approx(53'501));
}

TEST_CASE("a stage on its way is no sensor that stands off", "[stage]") {
  Bench bench;
  bench.move(correction({0, 0}, {0, 0}));
  bench.now_ns += 10'000'000;
  bench.move(correction({90, 0}, {90, 0}));
  bench.position[0] = 50'020;
  for (int i = 0; i < 14; ++i) {  // 200 nm/s
    bench.now_ns += 50'000'000;
    bench.position[0] = std::min(50'090.0, bench.position[0] + 10);
    bench.follower.seen(bench.position, bench.now_ns);
  }
  bench.follower.sends();  // and the line breaks
  bench.follower.connected(travel(), bench.position);
  bench.now_ns += 1'000'000'000;
  const Target target = bench.follower.plan(correction({-100, 0}, {0, 0}), bench.now_ns);
  CHECK(target.nm[0] == Approx(49'990));  // a step from where it is
}

TEST_CASE("an offset learnt from a stage that only paused is given up", "[stage]") {
  Bench bench;
  const auto look = [&](int count) {
    for (int i = 0; i < count; ++i) {
      bench.now_ns += 50'000'000;
      bench.follower.seen(bench.position, bench.now_ns);
    }
  };
  bench.move(correction({0, 0}, {0, 0}));
  bench.now_ns += 10'000'000;
  for (int i = 1; i <= 10; ++i) bench.move(correction({90.0 * i, 0}, {90, 0}));
  bench.position[0] = 50'300;
  look(6);
  bench.position[0] = 50'900;
  look(1);
  const Target target = bench.follower.plan(correction({900, 0}, {0, 0}), bench.now_ns);
  CHECK(target.nm[0] == Approx(50'900));
}

TEST_CASE("a stage that ignores its targets is told, and no sensor that stands off", "[stage]") {
  Bench bench;
  PerAxis place = bench.position;
  int told = 0;
  for (int lock = 1; lock <= 20; ++lock) {
    bench.now_ns += 10'000'000;
    bench.position = place;
    bench.move(correction({90, 0}, {90, 0}, lock));
    bench.position = place;
    if (lock == 1) place = bench.position = {50'090, 60'000};  // it went once
    for (int i = 0; i < 14; ++i) {
      bench.now_ns += 50'000'000;
      bench.follower.seen(place, bench.now_ns);
    }
    const auto axis = bench.follower.take_in_vain();
    if (axis) CHECK(*axis == 0);
    told += axis ? 1 : 0;
    if (lock < 3) CHECK_FALSE(axis);
  }
  CHECK(told >= 9);
  bench.now_ns += 1'000'000'000;
  const Target target = bench.follower.plan(correction({1, 0}, {1, 0}, 40), bench.now_ns);
  CHECK(std::abs(target.nm[0] - place[0]) <= 100);
}

TEST_CASE("an offset follows its sensor by a step and no farther", "[stage]") {
  Bench bench;
  double off_nm = 0;
  for (int i = 0; i < 40; ++i, off_nm += 10) {
    bench.now_ns += 10'000'000;
    bench.move(correction({0, 0}, {0, 0}));
    if (off_nm > 200) break;
    for (int look = 0; look < 14; ++look) {
      bench.now_ns += 50'000'000;
      bench.follower.seen({bench.position[0] + off_nm, bench.position[1]}, bench.now_ns);
    }
    CHECK(bench.follower.place_unknown() == (off_nm > 200));
  }
  bench.now_ns += 1'000'000'000;
  bench.follower.seen({bench.position[0] + off_nm, bench.position[1]}, bench.now_ns);
  CHECK(bench.follower.place_unknown());
}

TEST_CASE("a sensor that stands off is known after a lock that never rested", "[stage]") {
  AxisSettings x = axis();
  x.rate_limit_nm_per_s = 10'000;
  Bench bench(x);
  for (int i = 0; i < 500; ++i) {
    bench.move(correction({0, 0}, {0, 0}));
    if (i % 25 == 0)
      bench.follower.seen({bench.position[0] + 150, bench.position[1]}, bench.now_ns);
  }
  bench.now_ns += 500'000'000;
  bench.follower.connected(travel(), {bench.position[0] + 150, bench.position[1]});
  bench.now_ns += 500'000'000;
  const double before_nm = bench.position[0];
  CHECK_FALSE(bench.follower.place_unknown());
  CHECK(bench.follower.plan(correction({0, 0}, {0, 0}), bench.now_ns).nm[0] == Approx(before_nm));
}

TEST_CASE("a stage a hair outside its travel is sent to the end of it", "[stage]") {
  Bench bench(axis(), axis(), {-0.2, 60'000});
  const Target target = bench.move(correction({-0.5, 0}, {-0.5, 0}));
  CHECK(target.nm[0] == 0);
  CHECK_FALSE(target.limited[0].any());
  Bench far(axis(), axis(), {-2, 60'000});
  CHECK(far.move(correction({0, 0}, {0, 0})).nm[0] == Approx(-2));
}

TEST_CASE("a stage found outside its range moves by what is new alone", "[stage]") {
  AxisSettings x = axis();
  x.min_nm = 40'000;
  Bench bench(x, x, {10'000, 60'000});
  for (int i = 0; i < 5; ++i) bench.move(correction({0, 0}, {0, 0}));
  CHECK(bench.position[0] == Approx(10'000));
  Target target = bench.move(correction({-20, 0}, {-20, 0}));
  CHECK(target.nm[0] == Approx(10'000));
  CHECK(target.limited[0].range);
  target = bench.move(correction({20, 0}, {40, 0}));
  CHECK(target.nm[0] == Approx(10'020));
  SECTION("and so beyond the lock's") {
    Bench beyond(axis(), axis());  // started in a lock that is 9 um away
    for (int i = 0; i < 5; ++i) beyond.move(correction({9000, 0}, {0, 0}));
    CHECK(beyond.position[0] == Approx(50'000));
  }
}

TEST_CASE("what became of a target whose line broke is read", "[stage]") {
  Bench bench;
  bench.move(correction({0, 0}, {0, 0}));
  bench.now_ns += 1'000'000'000;
  bench.position = bench.follower.plan(correction({90, 0}, {90, 0}), bench.now_ns).nm;
  bench.follower.sends();
  bench.follower.connected(travel(), bench.position);
  bench.now_ns += 1'000'000'000;
  SECTION("and a lock's steps count from there") {
    const Target target = bench.move(correction({-100, 0}, {-190, 0}));
    CHECK(target.nm[0] == Approx(49'990));
  }
  SECTION("and a new lock begins there") {
    CHECK(bench.move(correction({0, 0}, {0, 0}, 2)).nm[0] == Approx(50'090));
  }
}

TEST_CASE("targets that were taken and never arrived leave no longer step", "[stage]") {
  Bench bench;
  bench.move(correction({0, 0}, {0, 0}));
  bench.now_ns += 1'000'000'000;
  bench.move(correction({90, 0}, {90, 0}));
  bench.position[0] = 50'000;  // it lay in a cable that was pulled
  const bool servo = GENERATE(false, true);
  if (servo) {
    bench.follower.disobeys();
    bench.follower.resumed(travel(), bench.position);
  } else {
    bench.follower.connected(travel(), bench.position);
  }
  bench.now_ns += 300'000'000;
  bench.follower.seen(bench.position, bench.now_ns);  // no offset of its sensor
  bench.now_ns += 1'000'000'000;
  Target target = bench.move(correction({190, 0}, {100, 0}));
  CHECK(target.nm[0] == Approx(50'100));
  bench.now_ns += 1'000'000'000;
  target = bench.move(correction({190, 0}, {0, 0}));
  CHECK(target.nm[0] == Approx(50'190));
}

TEST_CASE("a target that one of two controllers refused is a step from either place", "[stage]") {
  Bench bench;
  bench.move(correction({0, 0}, {0, 0}));
  for (int i = 0; i < 3; ++i) {  // x goes, y does not
    bench.now_ns += 1'000'000'000;
    const double total_nm = i % 2 == 0 ? 90 : -90;
    const Target target = bench.follower.plan(correction({total_nm, 0}, {0, 0}), bench.now_ns);
    CHECK(std::abs(target.nm[0] - bench.position[0]) <= 100);
    CHECK(std::abs(target.nm[0] - 50'000) <= 100);  // were it not gone
    bench.follower.sends();
    bench.follower.refused(target, bench.now_ns);
    bench.position = target.nm;
  }
}

TEST_CASE("half a target tells no offset of a sensor", "[stage]") {
  Bench bench;
  bench.move(correction({0, 0}, {0, 0}));
  bench.now_ns += 10'000'000;
  bench.follower.refused(bench.follower.plan(correction({90, 0}, {90, 0}), bench.now_ns),
                         bench.now_ns);
  bench.position[0] = 50'090;  // the half of it
  for (int i = 0; i < 10; ++i) {
    bench.now_ns += 50'000'000;
    bench.follower.seen(bench.position, bench.now_ns);
  }
  bench.follower.plan(correction({50, 0}, {0, 0}), bench.now_ns);
  bench.follower.sends();  // and there the line breaks
  bench.follower.connected(travel(), bench.position);
  bench.now_ns += 1'000'000'000;
  const Target target = bench.follower.plan(correction({-300, 0}, {0, 0}), bench.now_ns);
  CHECK(target.nm[0] == Approx(49'990));
}

TEST_CASE("a target of which is told late that it was not taken moves no base", "[stage]") {
  Bench bench;
  bench.move(correction({0, 0}, {0, 0}));
  const auto send = [&](double total_nm) {
    bench.now_ns += 1'000'000'000;
    const Target target = bench.follower.plan(correction({total_nm, 0}, {0, 0}), bench.now_ns);
    bench.follower.sends();
    bench.follower.moved(target, bench.now_ns);
    return target.nm[0];
  };
  CHECK(send(90) == Approx(50'090));
  bench.now_ns += 300'000'000;
  bench.follower.seen({50'000, 60'000}, bench.now_ns);  // at rest, where it was
  bench.follower.not_taken();
  CHECK(bench.follower.last_target_nm().value()[0] == Approx(50'000));
  CHECK(send(-50) == Approx(49'990));  // a step from where the refused one would be
  bench.follower.not_taken();
  bench.follower.not_taken();  // nothing was sent since
  CHECK(send(200) == Approx(50'090));
  bench.follower.seen({50'000, 60'000}, bench.now_ns);
  SECTION("nothing is known of it after a connection") {
    bench.follower.connected(travel(), {50'090, 60'000});
    bench.follower.not_taken();
    CHECK(send(200) == Approx(50'190));
  }
}

TEST_CASE("step, rate and range hold a target back, and say so", "[stage]") {
  AxisSettings x = axis();
  x.rate_limit_nm_per_s = 10'000;  // 20 nm in 2 ms
  x.range_limit_nm = 150;
  Bench bench(x);
  Target target = bench.move(correction({500, 0}, {500, 0}));
  CHECK(target.nm[0] == Approx(50'100));
  CHECK(target.limited[0].step);
  CHECK(target.limited[0].range);
  CHECK_FALSE(target.limited[1].any());
  target = bench.move(correction({500, 0}, {0, 0}));
  CHECK(target.nm[0] == Approx(50'120));
  CHECK(target.limited[0].rate);
  bench.now_ns += 1'000'000'000;
  target = bench.move(correction({500, 0}, {0, 0}));
  CHECK(target.nm[0] == Approx(50'150));
  CHECK(target.limited[0].range);
  CHECK_FALSE(target.limited[0].step);
}

TEST_CASE("the travel and the configured range both hold", "[stage]") {
  AxisSettings x = axis();
  x.min_nm = 49'950;
  Bench bench(x, axis(), {50'000, 99'970});
  const Target target = bench.move(correction({-80, 80}, {-80, 80}));
  CHECK(target.nm[0] == Approx(49'950));
  CHECK(target.nm[1] == Approx(100'000));
  CHECK(target.limited[1].range);
  AxisSettings beyond = axis();
  beyond.min_nm = 200'000;
  beyond.max_nm = 300'000;
  Follower follower(beyond, axis());
  CHECK_THROWS_AS(follower.connected(travel(), {0, 0}), StageError);
}

TEST_CASE("a target that was not taken leaves the steps where they were", "[stage]") {
  Bench bench;
  bench.move(correction({10, 0}, {10, 0}));
  bench.follower.plan(correction({90, 0}, {80, 0}), bench.now_ns + kFrame_ns);  // refused
  const Target target = bench.move(correction({160, 0}, {70, 0}));
  CHECK(target.nm[0] == Approx(50'110));
  CHECK(target.limited[0].step);
}

TEST_CASE("no order of messages leads beyond the limits", "[stage]") {
  std::mt19937_64 random(11);
  const auto below = [&](int count) {
    return std::uniform_int_distribution<int>(0, count - 1)(random);
  };
  const auto real = [&](double low, double high) {
    return std::uniform_real_distribution(low, high)(random);
  };
  int moves = 0;
  for (int world = 0; world < 300; ++world) {
    AxisSettings x = axis(below(2) == 1, real(0.5, 2));
    x.step_limit_nm = real(5, 200);
    x.range_limit_nm = x.step_limit_nm + real(0, 2000);
    x.rate_limit_nm_per_s = real(1000, 50'000);
    x.min_nm = real(0, 40'000);
    x.max_nm = real(60'000, 100'000);
    Bench bench(x, x, {real(x.min_nm, x.max_nm), real(x.min_nm, x.max_nm)});
    std::int64_t told_ns = 0;
    PerAxis total{};
    std::int64_t lock_id = 1;
    for (int i = 0; i < 300; ++i) {
      bench.now_ns += below(20) == 0 ? 1'000'000'000 : below(4) * 1'000'000;
      switch (below(30)) {
        case 0:
          ++lock_id;
          break;
        case 1:  // moved by hand, or fallen; told by the next look
          for (double& nm : bench.position) {
            const double elsewhere_nm = real(x.min_nm, x.max_nm);
            if (std::abs(elsewhere_nm - nm) > x.step_limit_nm) nm = elsewhere_nm;
          }
          bench.follower.connected(travel(), bench.position);
          break;
        case 2:  // the driver again, in mid-lock
          bench.follower = Follower(x, x);
          bench.follower.connected(travel(), bench.position);
          told_ns = 0;
          break;
        case 3:
          bench.follower.connected(travel(), bench.position);
          break;
        case 4:
          total = {real(-1e6, 1e6), real(-1e6, 1e6)};
          break;
        default:
          break;
      }
      PerAxis delta = {real(-50, 50), real(-50, 50)};
      if (below(20) == 0) delta = {real(-9e8, 9e8), 0};
      total = {total[0] + delta[0], total[1] + delta[1]};
      Correction next = correction(total, delta, lock_id - below(2), below(5) == 0 ? "b" : "a");
      if (below(20) == 0) next.expires_ns = bench.now_ns - 1;
      if (std::abs(total[0]) >= 1e9) total = {};
      if (bench.follower.judge(next, bench.now_ns) != Verdict::Move) continue;
      ++moves;
      if (bench.follower.takes_zero(next)) bench.follower.seen(bench.position, bench.now_ns);
      const Target target = bench.follower.plan(next, bench.now_ns);
      const double rate_nm =
          x.rate_limit_nm_per_s * static_cast<double>(bench.now_ns - told_ns) * 1e-9;
      for (std::size_t a = 0; a < kAxes; ++a) {
        REQUIRE(std::isfinite(target.nm[a]));
        const double step_nm = std::abs(target.nm[a] - bench.position[a]);
        REQUIRE(step_nm <= x.step_limit_nm + 1e-9);
        if (told_ns != 0) REQUIRE(step_nm <= rate_nm + 1e-9);
        REQUIRE(target.nm[a] >= x.min_nm);
        REQUIRE(target.nm[a] <= x.max_nm);
      }
      if (below(10) == 0) continue;  // refused, or the link broke
      bench.follower.moved(target, bench.now_ns);
      told_ns = bench.now_ns;
      bench.position = target.nm;
    }
  }
  CHECK(moves > 10'000);  // it was tried
}

TEST_CASE("lost messages leave no trace in where the stage is", "[stage]") {
  std::mt19937_64 random(12);
  Bench bench;
  PerAxis total{};
  int reached = 0;
  for (int i = 0; i < 2000; ++i) {
    PerAxis delta{};
    for (double& nm : delta) nm = std::uniform_real_distribution(-20.0, 20.0)(random);
    total = {total[0] + delta[0], total[1] + delta[1]};
    if (i > 0 && random() % 3 == 0) continue;  // lost
    const Target target = bench.move(correction(total, delta));
    if (target.limited[0].any() || target.limited[1].any()) continue;
    ++reached;
    REQUIRE(bench.position[0] == Approx(50'000 + total[0]));
    REQUIRE(bench.position[1] == Approx(60'000 + total[1]));
  }
  CHECK(reached > 1000);
}

TEST_CASE("a message that is no complete correction is none", "[stage]") {
  const std::string good =
      R"(correction {"v":1,"seq":212,"session":"5be1c0ffee123457","lock_id":1,"frame_id":813,)"
      R"("camera_time_ns":1,"arrival_ns":2,"sent_ns":3,"expires_ns":4,"total_x_nm":-18.204,)"
      R"("total_y_nm":7,"delta_x_nm":-0.104,"delta_y_nm":0.021,"probe":true,"limited":[]})";
  const auto read = parse_correction(good);
  REQUIRE(read);
  CHECK(read->session == "5be1c0ffee123457");
  CHECK(read->lock_id == 1);
  CHECK(read->sent_ns == 3);
  CHECK(read->expires_ns == 4);
  CHECK(read->total_nm[0] == -18.204);
  CHECK(read->total_nm[1] == 7);
  CHECK(read->delta_nm[1] == 0.021);
  const auto with = [&](const std::string& what, const std::string& instead) {
    std::string text = good;
    const std::size_t at = text.find(what);
    REQUIRE(at != std::string::npos);
    return parse_correction(text.replace(at, what.size(), instead)).has_value();
  };
  CHECK(with("\"probe\":true,", ""));
  for (const char* name : {"session", "lock_id", "sent_ns", "expires_ns", "total_x_nm",
                           "total_y_nm", "delta_x_nm", "delta_y_nm"}) {
    INFO(name);
    const std::string key = '"' + std::string(name) + "\":";
    CHECK_FALSE(with(key, "\"other\":"));
    CHECK_FALSE(with(key, key + "null,\"other\":"));
    CHECK_FALSE(with(key, key + "{},\"other\":"));
  }
  CHECK_FALSE(with("-18.204", "1e9"));
  CHECK_FALSE(with("-18.204", "1e999"));
  CHECK_FALSE(with("-18.204", "NaN"));
  CHECK_FALSE(with("-18.204", "\"1\""));
  CHECK_FALSE(with("\"lock_id\":1", "\"lock_id\":1.5"));
  CHECK_FALSE(with("\"lock_id\":1", "\"lock_id\":-1"));
  CHECK_FALSE(with("correction {", "corrections {"));
  CHECK_FALSE(with("correction {", "correction [{"));
  CHECK_FALSE(with("}", ""));
  for (const char* text : {"", "correction", "correction ", "correction 7", "correction null"})
    CHECK_FALSE(parse_correction(text));
}

}  // namespace driftd::stage
