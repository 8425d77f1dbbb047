// SPDX-License-Identifier: MIT
// What a correction means for a target: zeros, limits, what is left out.
#include <cmath>
#include <random>

#include "follower_bench.hpp"

namespace driftd::stage {

TEST_CASE("a lock's zero is where the stage is", "[stage]") {
  FollowerBench bench;
  bench.move(correction({3, -4}, {3, -4}));
  CHECK(bench.position[0] == Approx(50'003));
  CHECK(bench.position[1] == Approx(59'996));
  bench.move(correction({5, -4}, {2, 0}));
  CHECK(bench.position[0] == Approx(50'005));
  CHECK(bench.follower.total_nm(bench.position).value()[0] == Approx(5));
}

TEST_CASE("a new lock begins at the last target, though its first messages are lost", "[stage]") {
  FollowerBench bench;
  bench.move(correction({40, 0}, {40, 0}));
  bench.move(correction({30, 0}, {5, 0}, 2));
  CHECK(bench.position[0] == Approx(50'070));
  bench.move(correction({-1, 0}, {-1, 0}, 1, "b"));
  CHECK(bench.position[0] == Approx(50'069));
}

TEST_CASE("a driver that starts in mid-lock moves by what is new alone", "[stage]") {
  FollowerBench bench;
  bench.move(correction({2000, -900}, {7, -2}));
  CHECK(bench.position[0] == Approx(50'007));
  CHECK(bench.position[1] == Approx(59'998));
  bench.move(correction({2010, -900}, {10, 0}));
  CHECK(bench.position[0] == Approx(50'017));
  CHECK(bench.follower.total_nm(bench.position).value()[0] == Approx(2010));
}

TEST_CASE("sign and scale are the axis' own", "[stage]") {
  FollowerBench bench(axis(true), axis(false, 2.5));
  bench.move(correction({10, 10}, {10, 10}));
  CHECK(bench.position[0] == Approx(49'990));
  CHECK(bench.position[1] == Approx(60'025));
  const PerAxis total = bench.follower.total_nm(bench.position).value();
  CHECK(total[0] == Approx(10));
  CHECK(total[1] == Approx(10));
}

TEST_CASE("a controller that comes back with the stage elsewhere gets a new zero", "[stage]") {
  FollowerBench bench;
  bench.move(correction({40, 0}, {40, 0}));
  bench.position = {20'000, 60'000};  // x fell to its resting place
  bench.follower.connected(travel(), bench.position);
  bench.move(correction({45, 3}, {5, 3}));
  CHECK(bench.position[0] == Approx(20'005));
  CHECK(bench.position[1] == Approx(60'003));
}

TEST_CASE("an axis that stayed keeps its zero when the other one is elsewhere", "[stage]") {
  const bool closed_loop = GENERATE(true, false);
  std::vector<Axis> axes = travel();
  axes[1].closed_loop = closed_loop;
  FollowerBench bench(axis(), axis(), {50'000, 60'000}, axes);
  bench.move(correction({0, 50}, {0, 50}));
  bench.now_ns += 10'000'000'000;
  bench.position = {9000, closed_loop ? 60'149.0 : 60'200.0};  // y within a step, or hysteresis
  bench.follower.seen(bench.position, bench.now_ns);
  bench.move(correction({1, 70}, {1, 1}));  // those between were lost
  CHECK(bench.position[0] == Approx(9001));
  CHECK(bench.position[1] == Approx(60'070));
}

TEST_CASE("an axis without a sensor is where it says until it was sent somewhere", "[stage]") {
  FollowerBench bench(axis(), axis(), {50'000, 60'000}, travel(0, 100'000, false));
  bench.position = {50'000, 69'000};
  bench.follower.seen(bench.position, bench.now_ns);
  SECTION("and was") {
    bench.move(correction({0, 1}, {0, 1}));
    CHECK(bench.position[1] == Approx(69'001));
    bench.position[1] = 71'000;  // what it reads from then on means nothing
    bench.now_ns += 1'000'000'000;
    bench.follower.seen(bench.position, bench.now_ns);
    bench.move(correction({0, 2}, {0, 1}));
    CHECK(bench.position[1] == Approx(69'002));
  }
  SECTION("and refused to go") {
    const Target target = bench.follower.plan(correction({0, 1}, {0, 1}), bench.now_ns);
    if (GENERATE(false, true)) {  // at once, or with a later answer
      bench.follower.moved(target, bench.now_ns);
      bench.follower.not_taken();
    } else {
      bench.follower.refused(target, bench.now_ns);
    }
    bench.position[1] = 71'000;
    bench.now_ns += 1'000'000'000;
    bench.follower.seen(bench.position, bench.now_ns);
    bench.move(correction({0, 1}, {0, 1}, 2));
    CHECK(bench.position[1] == Approx(71'001));
  }
}

TEST_CASE("a controller that comes back where it was goes on from the last target", "[stage]") {
  FollowerBench bench;
  bench.move(correction({40, 0}, {40, 0}));
  bench.position = {50'041.3, 60'000.2};  // as its sensors say
  bench.follower.connected(travel(), bench.position);
  bench.move(correction({45, 0}, {5, 0}));
  CHECK(bench.position[0] == Approx(50'045));
}

TEST_CASE("a stage that somebody else moved is not fetched back", "[stage]") {
  FollowerBench bench;
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
    FollowerBench open(axis(), axis(), {50'000, 60'000}, travel(0, 100'000, false));
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
  FollowerBench bench(x);
  bench.move(correction({40, 0}, {40, 0}));
  bench.position[0] -= 1000;  // 0.1 s behind at full rate
  bench.follower.seen(bench.position, bench.now_ns);
  bench.move(correction({50, 0}, {10, 0}));
  CHECK(bench.position[0] == Approx(50'050));
}

TEST_CASE("what came too late, or is of another lock, is left out", "[stage]") {
  FollowerBench bench;
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

TEST_CASE("a stage a hair outside its travel is sent to the end of it", "[stage]") {
  FollowerBench bench(axis(), axis(), {-0.2, 60'000});
  const Target target = bench.move(correction({-0.5, 0}, {-0.5, 0}));
  CHECK(target.nm[0] == 0);
  CHECK_FALSE(target.limited[0].any());
  FollowerBench far(axis(), axis(), {-2, 60'000});
  CHECK(far.move(correction({0, 0}, {0, 0})).nm[0] == Approx(-2));
}

TEST_CASE("a stage found outside its range moves by what is new alone", "[stage]") {
  AxisSettings x = axis();
  x.min_nm = 40'000;
  FollowerBench bench(x, x, {10'000, 60'000});
  for (int i = 0; i < 5; ++i) bench.move(correction({0, 0}, {0, 0}));
  CHECK(bench.position[0] == Approx(10'000));
  Target target = bench.move(correction({-20, 0}, {-20, 0}));
  CHECK(target.nm[0] == Approx(10'000));
  CHECK(target.limited[0].range);
  target = bench.move(correction({20, 0}, {40, 0}));
  CHECK(target.nm[0] == Approx(10'020));
  SECTION("and so beyond the lock's") {
    FollowerBench beyond(axis(), axis());  // started in a lock that is 9 um away
    for (int i = 0; i < 5; ++i) beyond.move(correction({9000, 0}, {0, 0}));
    CHECK(beyond.position[0] == Approx(50'000));
  }
}

TEST_CASE("step, rate and range hold a target back, and say so", "[stage]") {
  AxisSettings x = axis();
  x.rate_limit_nm_per_s = 10'000;  // 20 nm in 2 ms
  x.range_limit_nm = 150;
  FollowerBench bench(x);
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
  FollowerBench bench(x, axis(), {50'000, 99'970});
  const Target target = bench.move(correction({-80, 80}, {-80, 80}));
  CHECK(target.nm[0] == Approx(49'950));
  CHECK(target.nm[1] == Approx(100'000));
  CHECK(target.limited[1].range);
  AxisSettings beyond = axis();
  beyond.min_nm = 200'000;
  beyond.max_nm = 300'000;
  Follower follower(Group::Lateral, std::array{beyond, axis()});
  CHECK_THROWS_AS(follower.connected(travel(), {0, 0}), StageError);
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
    FollowerBench bench(x, x, {real(x.min_nm, x.max_nm), real(x.min_nm, x.max_nm)});
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
          bench.follower = Follower(Group::Lateral, std::array{x, x});
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
  FollowerBench bench;
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

}  // namespace driftd::stage
