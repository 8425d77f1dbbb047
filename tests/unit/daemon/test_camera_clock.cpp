// SPDX-License-Identifier: MIT
// CameraClock on clocks that run as they should: delays, drifting clocks, backlogs, pauses, stalls.
#include <algorithm>
#include <cstdint>

#include "support/catch.hpp"
#include "unit/daemon/camera_clock_world.hpp"

using namespace driftd::daemon::test;
using driftd::daemon::CameraClock;
using driftd::daemon::ClockTrust;

TEST_CASE("CameraClock measures the delay beyond the fastest frame's") {
  World world(500);
  Watch watch;
  watch.run(world, 0.5);
  REQUIRE(watch.clock.trust() == ClockTrust::Trusted);
  const World::Seen late = [&] {
    world.hold(0.030);
    return world.next();
  }();
  REQUIRE(late.delay_ns > 25 * kMillisecond);
  REQUIRE(static_cast<double>(watch.clock.delay_ns(late.id, late.camera_ns, late.arrival_ns)) ==
          Approx(late.delay_ns).margin(0.5 * kMillisecond));
}

TEST_CASE("CameraClock trusts no clock in the first tenths of a second, and any right one then") {
  for (const double rate_hz : {5.0, 37.0, 500.0, 2000.0}) {
    CAPTURE(rate_hz);
    World world(rate_hz);
    Watch watch;
    watch.run(world, 2.5 / rate_hz);
    REQUIRE(watch.clock.trust() == ClockTrust::Checking);
    watch.run(world, 1);
    REQUIRE(watch.clock.trust() == ClockTrust::Trusted);
    REQUIRE(watch.untrusted_ns < kSecond);
  }
}

TEST_CASE("CameraClock follows a camera clock that runs fast or slow by 250 ppm") {
  for (const double rate_hz : {37.0, 1000.0}) {
    for (const double ppm : {-250.0, 250.0}) {
      CAPTURE(rate_hz, ppm);
      World world(rate_hz);
      world.camera_time = [ppm](double t) { return t * (1 + ppm * 1e-6); };
      Watch watch;
      watch.run(world, 600);
      REQUIRE(watch.worst_error_ns < kAccuracy);
      REQUIRE(watch.clock.steps() + watch.clock.jumps() == 0);
      // The slope is known by now: a backlog of a minute does not hide it, nor is it hidden.
      world.hold(0.4);
      world.service_ns = world.period_ns;
      watch.run(world, 60);
      REQUIRE(watch.stale_taken_for_fresh == 0);
      world.service_ns = 0.01 * kMillisecond;
      watch.run(world, 1);
      REQUIRE(watch.last_delay_ns < kAccuracy);
    }
  }
}

TEST_CASE("CameraClock does not get used to a backlog") {
  World world(1000);
  Watch watch;
  watch.run(world, 1);
  world.hold(0.3);
  world.service_ns = world.period_ns;  // it never drains
  watch.run(world, 600);
  REQUIRE(watch.last_delay_ns > 0.25 * kSecond);
  REQUIRE(watch.stale_taken_for_fresh == 0);
  REQUIRE(watch.clock.steps() == 0);
}

TEST_CASE("CameraClock takes a link that is too slow for what it is, from the first frame on") {
  World world(500);
  world.service_ns = 1.2 * world.period_ns;
  world.queue_ns = 0.3 * kSecond;
  Watch watch;
  watch.run(world, 60);
  REQUIRE(watch.stale_taken_for_fresh == 0);
  REQUIRE(watch.last_delay_ns > 0.25 * kSecond);
}

TEST_CASE("CameraClock takes a pause of a steady camera, counted or not, for no change") {
  World world(37);
  Watch watch;
  watch.run(world, 5);
  world.exposed_ns += 9 * kSecond;  // frames that nobody counted
  watch.run(world, 5);
  world.exposed_ns += 200 * world.period_ns;  // lost frames
  world.id += 200;
  watch.run(world, 5);
  REQUIRE(watch.worst_error_ns < kAccuracy);
  REQUIRE(watch.clock.steps() + watch.clock.jumps() == 0);
}

TEST_CASE("CameraClock finds no steps where camera and link stall together, as on a busy machine") {
  for (const double rate_hz : {37.0, 500.0}) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      CAPTURE(rate_hz, seed);
      World world(rate_hz, seed);
      world.jitter_ns = 0.3 * kMillisecond;
      Watch watch;
      watch.run(world, 1);
      for (int stall = 0; stall < 200; ++stall) {
        const double seconds = world.between(0.002, 0.12);
        world.hold(seconds);
        watch.run(world, 0.5 * world.period_ns / kSecond);  // this frame comes late, and then
        if (world.uniform() < 0.8) world.exposed_ns += seconds * kSecond;  // exposures are missing
        watch.run(world, world.between(0.01, 0.3));
      }
      watch.run(world, 0.5);
      REQUIRE(watch.clock.steps() + watch.clock.jumps() == 0);
      REQUIRE(watch.stale_taken_for_fresh == 0);
      REQUIRE(watch.clock.trust() == ClockTrust::Trusted);
      REQUIRE(watch.last_delay_ns < kAccuracy);
      // And a step among them is followed.
      const double size_s = world.between(-2, 2);
      world.camera_time = [=](double t) { return t + size_s * kSecond; };
      for (int stall = 0; stall < 20; ++stall) {
        const double seconds = world.between(0.002, 0.05);
        world.hold(seconds);
        watch.run(world, 0.5 * world.period_ns / kSecond);
        world.exposed_ns += seconds * kSecond;
        watch.run(world, world.between(0.05, 0.1));
      }
      watch.run(world, 1);
      REQUIRE(watch.clock.trust() == ClockTrust::Trusted);
      REQUIRE(watch.last_delay_ns < kAccuracy);
      REQUIRE(watch.stale_taken_for_fresh == 0);
    }
  }
}

TEST_CASE("CameraClock is not misled by the first triggers of a camera without a period") {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    CAPTURE(seed);
    World world(6, seed);
    world.spacing_spread = 0.9;
    Watch watch;
    watch.run(world, 6);
    REQUIRE(watch.clock.steps() + watch.clock.jumps() == 0);
    REQUIRE(watch.fresh_taken_for_stale == 0);
    REQUIRE(watch.worst_error_ns < kAccuracy);
  }
}

TEST_CASE("CameraClock gives no delay below 0, and none without a clock") {
  World world(500);
  Watch watch;
  watch.run(world, 1);
  for (int i = 0; i < 2000; ++i) {
    const World::Seen seen = world.next();
    REQUIRE(watch.clock.delay_ns(seen.id, seen.camera_ns + (i % 7) * 200'000, seen.arrival_ns) >=
            0);
  }
  CameraClock absent;
  for (std::uint64_t id = 1; id < 2000; ++id) {
    REQUIRE(absent.delay_ns(id, 0, static_cast<std::int64_t>(id) * 2'000'000) == 0);
    REQUIRE(absent.trust() == ClockTrust::Absent);
  }
}

TEST_CASE(
    "CameraClock: a backlog of another camera is not measured with the slope of the one before") {
  World first(500);
  first.camera_time = [](double t) { return t * (1 + 240e-6); };
  Watch watch;
  watch.run(first, 30);
  World second(500, 2);
  second.exposed_ns = first.exposed_ns + 3 * kSecond;
  watch.run(second, 1);
  second.hold(0.4);
  second.service_ns = second.period_ns;
  watch.worst_error_ns = 0;
  watch.run(second, 60);
  REQUIRE(watch.clock.trust() == ClockTrust::Trusted);
  REQUIRE(watch.worst_error_ns < kAccuracy);
}

TEST_CASE("CameraClock: neither a small step nor a clock being slewed counts as its slope") {
  struct Case {
    double step_s, slew, seconds;
  };
  for (const Case& c : {Case{-0.006, 0, 16}, Case{-0.004, 0, 16}, Case{0.004, 0, 16},
                        Case{0.006, 0, 16}, Case{0, 800e-6, 50}}) {
    CAPTURE(c.step_s, c.slew);
    World world(500);
    Watch watch;
    watch.run(world, 10);  // within the second measurement of the slope, which takes 16 s
    const double start_ns = world.exposed_ns;
    world.camera_time = [=](double t) {
      return t + c.step_s * kSecond + c.slew * std::min(t - start_ns, 40 * kSecond);
    };
    watch.run(world, c.seconds);
    REQUIRE(watch.clock.trust() == ClockTrust::Trusted);
    REQUIRE(watch.last_delay_ns < kAccuracy);
    world.hold(0.4);
    world.service_ns = world.period_ns;
    watch.worst_error_ns = 0;
    watch.run(world, 60);
    REQUIRE(watch.worst_error_ns < kAccuracy);
  }
}

TEST_CASE("CameraClock needs four intervals to call a camera's period steady") {
  CameraClock clock;
  constexpr std::int64_t kMs = 1'000'000;
  const auto delay_ms = [&](std::uint64_t id, std::int64_t exposed_ms, std::int64_t late_ms) {
    return clock.delay_ns(id, (700 + exposed_ms) * kMs, (5000 + exposed_ms + late_ms) * kMs) / kMs;
  };
  delay_ms(1, 0, 0);
  delay_ms(2, 500, 0);
  delay_ms(3, 800, 0);
  REQUIRE(delay_ms(4, 1090, 0) == 0);
  REQUIRE(clock.trust() == ClockTrust::Trusted);
  // It comes 500 ms after the frame before, like the second one, because it is late.
  REQUIRE(delay_ms(5, 1390, 200) == 200);
  REQUIRE(clock.trust() == ClockTrust::Trusted);
}
