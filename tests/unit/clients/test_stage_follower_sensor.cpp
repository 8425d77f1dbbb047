// SPDX-License-Identifier: MIT
// What a sensor tells of the stage: that it stands off, that the stage was moved, that it stays.
#include <algorithm>
#include <cmath>

#include "follower_bench.hpp"

namespace driftd::stage {

TEST_CASE("a servo that was off at first lets the sensor tell afterwards", "[stage]") {
  FollowerBench bench(axis(), axis(), {50'000, 60'000}, travel(0, 100'000, false));
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
  FollowerBench bench(axis(), axis(), {50'000, 60'000}, axes);
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
  FollowerBench bench;
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
  FollowerBench bench(x);
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

TEST_CASE("what a sensor stands off is forgotten where the stage is connected elsewhere",
          "[stage]") {
  FollowerBench bench;
  bench.move(correction({1, 0}, {1, 0}));
  for (int i = 0; i < 20; ++i) {
    bench.now_ns += 50'000'000;
    bench.follower.seen({51'001, 60'000}, bench.now_ns);
  }
  bench.follower.connected(travel(), {51'001, 60'000});  // where it was
  bench.position = {20'000, 60'000};
  bench.follower.connected(travel(), bench.position);
  bench.move(correction({2, 0}, {1, 0}));
  CHECK(bench.position[0] == Approx(20'001));
}

TEST_CASE("a stage on its way is no sensor that stands off", "[stage]") {
  FollowerBench bench;
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
  FollowerBench bench;
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
  FollowerBench bench;
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
  FollowerBench bench;
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
  FollowerBench bench(x);
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

}  // namespace driftd::stage
