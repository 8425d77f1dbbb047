// SPDX-License-Identifier: MIT
// CameraClock on clocks that step, jump, stop or run wrong, and on a second camera.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "support/catch.hpp"
#include "unit/daemon/camera_clock_world.hpp"

using namespace driftd::daemon::test;
using driftd::daemon::CameraClock;
using driftd::daemon::ClockTrust;

TEST_CASE("CameraClock follows a step within a second, at any rate") {
  for (const double rate_hz : {2.0, 5.0, 37.0, 500.0, 2000.0}) {
    for (const double step_s :
         {-100.0, -1.0, -0.1, -0.006, -0.004, 0.004, 0.006, 0.1, 1.0, 100.0, 1e9}) {
      CAPTURE(rate_hz, step_s);
      World world(rate_hz);
      Watch watch;
      watch.run(world, 20);
      watch.untrusted_ns = 0;
      world.camera_time = [step_s](double t) { return t + step_s * kSecond; };
      watch.run(world, 3);
      REQUIRE(watch.clock.trust() == ClockTrust::Trusted);
      REQUIRE(watch.clock.steps() == 1);
      REQUIRE(watch.clock.jumps() == 0);
      REQUIRE(watch.untrusted_ns < kSecond);
      REQUIRE(watch.worst_error_ns < kAccuracy);
      REQUIRE(watch.fresh_taken_for_stale == 0);
    }
  }
}

TEST_CASE("CameraClock is not misled by a time that is wrong for one frame") {
  for (const double rate_hz : {5.0, 37.0, 500.0, 2000.0}) {
    for (const double jump_s : {-1e9, -1.0, -0.01, 0.01, 1.0, 1e9}) {
      CAPTURE(rate_hz, jump_s);
      World world(rate_hz);
      Watch watch;
      watch.run(world, 5);
      watch.untrusted_ns = 0;
      world.jump_next_ns = jump_s * kSecond;
      watch.run(world, 5);
      REQUIRE(watch.clock.jumps() == 1);
      REQUIRE(watch.clock.steps() == 0);
      REQUIRE(watch.untrusted_ns < 1.5 * world.period_ns);
      REQUIRE(watch.worst_error_ns < kAccuracy);
      REQUIRE(watch.fresh_taken_for_stale == 0);
    }
  }
}

TEST_CASE("CameraClock takes no step where a steady camera pauses just after its time was wrong") {
  for (const double jump_s : {-1.0, 1.0}) {
    for (const double pause_s : {0.02, 0.3, 3.0}) {
      CAPTURE(jump_s, pause_s);
      World world(500);
      Watch watch;
      watch.run(world, 5);
      world.jump_next_ns = jump_s * kSecond;
      watch.run(world, 0.002);
      world.exposed_ns += pause_s * kSecond;  // not counted
      watch.run(world, 5);
      CHECK(watch.clock.jumps() == 1);
      CHECK(watch.clock.steps() == 0);
      CHECK(watch.worst_error_ns < kAccuracy);
    }
  }
}

TEST_CASE("CameraClock takes no step for a jump on a busy machine, where camera and link stall") {
  for (const double rate_hz : {37.0, 500.0}) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      CAPTURE(rate_hz, seed);
      World world(rate_hz, seed);
      world.jitter_ns = 0.3 * kMillisecond;
      Watch watch;
      watch.run(world, 1);
      for (int stall = 0; stall < 100; ++stall) {
        const double one_frame_s = 0.5 * world.period_ns / kSecond;
        const double seconds = world.between(0.002, 0.12);
        world.hold(seconds);
        watch.run(world, one_frame_s);  // late, and then exposures that nobody counted are missing
        world.exposed_ns += seconds * kSecond;
        world.jump_next_ns = (stall % 2 == 0 ? 1 : -1) * kSecond;
        watch.run(world, one_frame_s);
        world.exposed_ns += world.between(0, 0.05) * kSecond;
        watch.run(world, world.between(0.3, 0.6));
        REQUIRE(watch.clock.trust() == ClockTrust::Trusted);
      }
      CHECK(watch.clock.jumps() == 100);
      CHECK(watch.clock.steps() == 0);
      CHECK(watch.stale_taken_for_fresh == 0);
      CHECK(watch.fresh_taken_for_stale <= 100);  // the frames whose time was wrong
      CHECK(watch.last_delay_ns < kAccuracy);
    }
  }
}

TEST_CASE("CameraClock uses no clock that does not run at the rate of real time") {
  for (const double rate_hz : {37.0, 500.0, 2000.0}) {
    for (const double rate : {0.0, 1e-6, 0.125, 0.5, 1.3, 8.0, 1000.0}) {
      CAPTURE(rate_hz, rate);
      World world(rate_hz);
      world.camera_time = [rate](double t) { return 1e6 + t * rate; };
      Watch watch;
      watch.run(world, 1.2);
      REQUIRE(watch.clock.trust() == ClockTrust::Unusable);
      watch.run(world, 5);
      REQUIRE(watch.clock.trust() == ClockTrust::Unusable);
      REQUIRE(watch.fresh_taken_for_stale == 0);
    }
  }
}

TEST_CASE("CameraClock gives a clock up that stops, and takes it back when it goes on") {
  World world(500);
  Watch watch;
  watch.run(world, 2);
  const double stopped_ns = world.exposed_ns;
  world.camera_time = [stopped_ns](double) { return stopped_ns; };
  watch.run(world, 1);
  REQUIRE(watch.clock.trust() == ClockTrust::Unusable);
  REQUIRE(watch.fresh_taken_for_stale == 0);
  world.camera_time = [](double t) { return t - 3 * kSecond; };
  watch.run(world, 1);
  REQUIRE(watch.clock.trust() == ClockTrust::Trusted);
  REQUIRE(watch.worst_error_ns < kAccuracy);
}

TEST_CASE("CameraClock gives a clock up that is slewed, and takes it back afterwards") {
  for (const double slew : {-0.1, 0.1}) {
    World world(500);
    Watch watch;
    watch.run(world, 2);
    const double start_ns = world.exposed_ns;
    world.camera_time = [=](double t) { return t + slew * std::min(t - start_ns, 10 * kSecond); };
    watch.run(world, 2);
    REQUIRE(watch.fresh_taken_for_stale == 0);
    watch.run(world, 10);
    watch.worst_error_ns = 0;
    watch.run(world, 10);
    REQUIRE(watch.clock.trust() == ClockTrust::Trusted);
    REQUIRE(watch.worst_error_ns < kAccuracy);
  }
}

TEST_CASE(
    "CameraClock: no queue grows for ever, so a slow clock is given up until the next camera") {
  World world(37);
  world.camera_time = [](double t) { return 0.985 * t; };
  Watch watch;
  watch.run(world, 330);
  REQUIRE(watch.stale_taken_for_fresh == 0);
  REQUIRE(watch.clock.trust() == ClockTrust::Trusted);  // it could still be a queue of 5 s
  watch.run(world, 60);
  REQUIRE(watch.clock.trust() == ClockTrust::Unusable);
  REQUIRE(watch.last_delay_ns == 0);
  watch.clock.restart();
  REQUIRE(watch.clock.trust() == ClockTrust::Checking);
  world.camera_time = [](double t) { return t; };
  watch.run(world, 1);
  REQUIRE(watch.clock.trust() == ClockTrust::Trusted);
}

TEST_CASE("CameraClock with triggers at any time: steps back and forward, pauses, backlogs") {
  for (const double step_s : {-30.0, -1.0, -0.2, 0.2, 1.0, 30.0}) {
    CAPTURE(step_s);
    World world(3);
    world.spacing_spread = 0.9;
    Watch watch;
    watch.run(world, 20);
    REQUIRE(watch.clock.trust() == ClockTrust::Trusted);
    world.camera_time = [step_s](double t) { return t + step_s * kSecond; };
    watch.run(world, 12);
    watch.worst_error_ns = 0;
    watch.run(world, 20);
    REQUIRE(watch.clock.trust() == ClockTrust::Trusted);
    REQUIRE(watch.worst_error_ns < 2 * kAccuracy);
    REQUIRE(watch.clock.steps() == 1);
  }
  World world(211);
  world.spacing_spread = 0.9;
  Watch watch;
  watch.run(world, 5);
  world.exposed_ns += 17 * kSecond;  // no triggers
  watch.run(world, 5);
  REQUIRE(watch.worst_error_ns < kAccuracy);
  world.hold(0.8);
  world.service_ns = world.period_ns;
  watch.run(world, 60);
  REQUIRE(watch.stale_taken_for_fresh == 0);
  REQUIRE(watch.clock.steps() + watch.clock.jumps() == 0);
}

TEST_CASE(
    "CameraClock starts anew with a camera that was restarted, and knows none without a clock") {
  World world(500);
  Watch watch;
  watch.run(world, 3);
  watch.clock.restart();
  REQUIRE(watch.clock.trust() == ClockTrust::Checking);
  world.zero_ns = 55;
  watch.run(world, 3);
  REQUIRE(watch.clock.trust() == ClockTrust::Trusted);
  REQUIRE(watch.clock.steps() == 0);
  REQUIRE(watch.worst_error_ns < kAccuracy);
  REQUIRE(watch.clock.delay_ns(world.id + 1, 0, 1) == 0);
  REQUIRE(watch.clock.trust() == ClockTrust::Absent);
  watch.run(world, 1);
  REQUIRE(watch.clock.trust() == ClockTrust::Trusted);
}

TEST_CASE("CameraClock follows a step though frames are lost, and after the rate was changed") {
  for (const double step_s : {-1.0, -0.02, 0.02, 1.0}) {
    CAPTURE(step_s);
    World world(500);
    Watch watch;
    watch.lose_of = 2;
    watch.run(world, 5);
    world.camera_time = [step_s](double t) { return t + step_s * kSecond; };
    watch.run(world, 3);
    REQUIRE(watch.clock.trust() == ClockTrust::Trusted);
    REQUIRE(watch.clock.steps() == 1);
    REQUIRE(watch.fresh_taken_for_stale == 0);
    REQUIRE(watch.worst_error_ns < kAccuracy);
    for (const double rate_hz : {37.0, 2000.0}) {
      CAPTURE(rate_hz);
      watch.lose_of = 0;
      world.period_ns = kSecond / rate_hz;
      watch.run(world, 1.2);
      const std::uint64_t steps = watch.clock.steps();
      const auto before = world.camera_time;
      world.camera_time = [before, step_s](double t) { return before(t) + step_s * kSecond; };
      watch.run(world, 3);
      REQUIRE(watch.clock.trust() == ClockTrust::Trusted);
      REQUIRE(watch.clock.steps() == steps + 1);
      REQUIRE(watch.fresh_taken_for_stale == 0);
      REQUIRE(watch.worst_error_ns < kAccuracy);
    }
  }
}

TEST_CASE("CameraClock knows a second camera by itself: its rate, its steps, its slope") {
  for (const auto& [told, step_s] : {std::pair{true, -1.0}, std::pair{true, -0.02},
                                     std::pair{false, -1.0}, std::pair{false, -0.02}}) {
    CAPTURE(told, step_s);  // told, or only by its counter that starts anew
    World first(500);
    first.camera_time = [](double t) { return t * (1 + 240e-6); };
    Watch watch;
    watch.run(first, 30);
    REQUIRE(watch.clock.trust() == ClockTrust::Trusted);
    if (told) watch.clock.restart();
    World second(37, 2);
    second.exposed_ns = first.exposed_ns + 3 * kSecond;
    second.zero_ns = 987'654'321'000;
    second.camera_time = [](double t) { return t * (1 - 240e-6); };
    watch.worst_error_ns = 0;
    watch.run(second, 0.6);
    REQUIRE(watch.clock.trust() == ClockTrust::Trusted);
    const auto before = second.camera_time;
    second.camera_time = [before, step = step_s](double t) { return before(t) + step * kSecond; };
    watch.run(second, 20);
    REQUIRE(watch.clock.trust() == ClockTrust::Trusted);
    REQUIRE(watch.clock.steps() == 1);
    REQUIRE(watch.fresh_taken_for_stale == 0);
    REQUIRE(watch.worst_error_ns < kAccuracy);
  }
}

TEST_CASE("CameraClock while it is suspected counts the delay by the counter") {
  // The clock steps, and 50 ms later, before it is trusted again, frames are held up.
  World world(500);
  Watch watch;
  watch.run(world, 5);
  world.camera_time = [](double t) { return t - kSecond; };
  watch.run(world, 0.05);
  REQUIRE(watch.clock.trust() != ClockTrust::Trusted);
  world.hold(0.09);
  const World::Seen late = world.next();
  const auto delay_ns =
      static_cast<double>(watch.clock.delay_ns(late.id, late.camera_ns, late.arrival_ns));
  REQUIRE(late.delay_ns > 80 * kMillisecond);
  REQUIRE(delay_ns == Approx(late.delay_ns).margin(kAccuracy));
}

TEST_CASE(
    "CameraClock: whatever the clock and the link do, no delayed frame passes for a fresh one") {
  for (const double rate_hz : {37.0, 500.0, 2000.0}) {
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
      CAPTURE(rate_hz, seed);
      World world(rate_hz, seed);
      world.jitter_ns = world.between(0.01, 0.3) * kMillisecond;
      const double rate = 1 + world.between(-250e-6, 250e-6);
      double zero_ns = 0;
      world.camera_time = [&](double t) { return t * rate + zero_ns; };
      Watch watch;
      watch.run(world, 1);
      REQUIRE(watch.clock.trust() == ClockTrust::Trusted);
      for (int event = 0; event < 12; ++event) {
        const double size_s = std::exp(world.between(std::log(0.006), std::log(100)));
        const double sign = world.uniform() < 0.5 ? -1 : 1;
        switch (static_cast<int>(world.between(0, 6))) {
          case 0:
            zero_ns += sign * size_s * kSecond;
            break;
          case 1:
            world.jump_next_ns = sign * size_s * kSecond;
            break;
          case 2:  // a stall, then the queue drains
            world.hold(world.between(0.01, 3));
            world.service_ns = world.between(0.05, 0.8) * world.period_ns;
            break;
          case 3:  // a stall, the queue is full and stays so
            world.queue_ns = world.between(0.06, 1) * kSecond;
            world.hold(2 * world.queue_ns / kSecond);
            world.service_ns = 1.1 * world.period_ns;
            watch.run(world, 4);
            world.service_ns = 0.5 * world.period_ns;
            break;
          case 4:  // a step while frames are delayed
            world.hold(world.between(0.1, 1));
            world.service_ns = world.period_ns;
            watch.run(world, 2);
            // Not as far ahead as frames are late: that is what a camera does that skips exposures.
            if (std::abs(sign * size_s * kSecond - watch.last_delay_ns) > 10 * kMillisecond)
              zero_ns += sign * size_s * kSecond;
            watch.run(world, 2);
            world.service_ns = 0.5 * world.period_ns;
            break;
          default:
            if (watch.last_delay_ns > kAccuracy) break;  // the last event's queue still drains
            watch.clock.restart();
            zero_ns = size_s * kSecond;
            break;
        }
        watch.run(world, 1);
        world.queue_ns = 1e15;
        watch.run(world, world.between(10, 14));  // a drain at 0.8 of the period takes so long
        REQUIRE(watch.clock.trust() == ClockTrust::Trusted);
        REQUIRE(watch.worst_error_ns < kAccuracy);
        REQUIRE(watch.stale_taken_for_fresh == 0);
        REQUIRE(watch.fresh_taken_for_stale == 0);
      }
    }
  }
}

TEST_CASE("CameraClock learns a higher frame rate within a tenth of a second") {
  for (const double rate_hz : {100.0, 500.0, 2000.0}) {
    for (const double step_s : {-0.02, 0.02}) {
      CAPTURE(rate_hz, step_s);
      World world(37);
      Watch watch;
      watch.run(world, 20);
      world.period_ns = kSecond / rate_hz;
      watch.run(world, std::max(0.1, 40 / rate_hz));
      world.camera_time = [step_s](double t) { return t + step_s * kSecond; };
      watch.run(world, 3);
      REQUIRE(watch.clock.trust() == ClockTrust::Trusted);
      REQUIRE(watch.clock.steps() == 1);
      REQUIRE(watch.worst_error_ns < kAccuracy);
    }
  }
}

TEST_CASE("CameraClock does not learn the period of a clock that goes slow") {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    CAPTURE(seed);
    World world(20, seed);
    Watch watch;
    watch.run(world, 20);
    const double start_ns = world.exposed_ns;
    world.camera_time = [=](double t) { return t - 0.002 * (t - start_ns); };
    watch.run(world, 6);
    REQUIRE(watch.clock.steps() + watch.clock.jumps() > 0);  // noticed, and followed
  }
}

namespace {

/// Triggers at any time, on a link without delay, of a camera whose clock may have another zero.
struct Triggers {
  CameraClock clock;
  std::uint64_t id = 0;
  std::int64_t now_ms = 5000, zero_ms = -700;

  std::int64_t after(std::int64_t spacing_ms) {
    now_ms += spacing_ms;
    return clock.delay_ns(++id, (now_ms + zero_ms) * 1'000'000, now_ms * 1'000'000) / 1'000'000;
  }
  void settle() {
    for (int i = 0; i < 10; ++i)
      for (const int spacing_ms : {200, 150, 170, 210, 160, 190}) after(spacing_ms);
    REQUIRE(clock.trust() == ClockTrust::Trusted);
  }
};

}  // namespace

TEST_CASE("CameraClock with triggers at any time suspects a clock that goes back at once") {
  Triggers triggers;
  triggers.settle();
  triggers.zero_ms -= 300;
  triggers.after(200);  // 100 ms before the exposure before
  REQUIRE(triggers.clock.trust() == ClockTrust::Checking);
}

TEST_CASE("CameraClock with triggers at any time suspects delays that stay equal for six frames") {
  Triggers triggers;
  triggers.settle();
  triggers.zero_ms -= 100;
  for (const int spacing_ms : {200, 150, 170, 210, 160}) REQUIRE(triggers.after(spacing_ms) == 100);
  REQUIRE(triggers.clock.trust() == ClockTrust::Trusted);
  triggers.after(190);
  REQUIRE(triggers.clock.trust() == ClockTrust::Checking);
}
