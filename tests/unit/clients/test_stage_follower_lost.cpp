// SPDX-License-Identifier: MIT
// Targets that were refused, or of which nobody knows what became: steps count from either place.
#include <cmath>

#include "follower_bench.hpp"

namespace driftd::stage {

TEST_CASE("what became of a target whose line broke is read", "[stage]") {
  FollowerBench bench;
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
  FollowerBench bench;
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
  FollowerBench bench;
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
  FollowerBench bench;
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
  FollowerBench bench;
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

TEST_CASE("a target that was not taken leaves the steps where they were", "[stage]") {
  FollowerBench bench;
  bench.move(correction({10, 0}, {10, 0}));
  bench.follower.plan(correction({90, 0}, {80, 0}), bench.now_ns + kFrame_ns);  // refused
  const Target target = bench.move(correction({160, 0}, {70, 0}));
  CHECK(target.nm[0] == Approx(50'110));
  CHECK(target.limited[0].step);
}

}  // namespace driftd::stage
