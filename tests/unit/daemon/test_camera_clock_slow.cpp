// SPDX-License-Identifier: MIT
// CameraClock on clocks that are slow and cameras that can be asked for their time.
#include <algorithm>
#include <cstdint>

#include "support/catch.hpp"
#include "unit/daemon/camera_clock_world.hpp"

using namespace driftd::daemon::test;
using driftd::daemon::CameraClock;
using driftd::daemon::ClockTrust;

namespace {

/// A clock that is slow from `since_s` on.
void slow_down(World& world, double slow, double since_s) {
  world.camera_time = [=](double t) { return t - slow * std::max(0.0, t - since_s * kSecond); };
}

}  // namespace

TEST_CASE("CameraClock gives a clock up that the camera itself shows to be slow") {
  for (const double rate_hz : {37.0, 500.0, 2000.0}) {
    for (const double slow : {0.0006, 0.001, 0.02, 0.1, 0.33}) {
      CAPTURE(rate_hz, slow);
      World world(rate_hz);
      slow_down(world, slow, 0);
      Watch watch;
      watch.asks = true;
      while (watch.clock.trust() != ClockTrust::Unusable && world.exposed_ns < 150 * kSecond)
        watch.run(world, 0.01);
      REQUIRE(watch.clock.trust() == ClockTrust::Unusable);
      REQUIRE(watch.clock.slow() == Approx(slow).epsilon(0.5));
      // Not yet stale where it is a little slow; otherwise for less than a second.
      if (slow < 0.05) REQUIRE(watch.first_stale_ns == 0);
      REQUIRE(world.exposed_ns < watch.first_stale_ns + (slow < 0.05 ? 100 : 1) * kSecond);
      watch.run(world, 30);
      REQUIRE(watch.clock.trust() == ClockTrust::Unusable);
      REQUIRE(watch.last_delay_ns == 0);
      watch.clock.restart();
      REQUIRE(watch.clock.slow() == 0);
    }
  }
}

TEST_CASE("CameraClock gives a clock up that goes slow later") {
  for (const double rate_hz : {37.0, 500.0, 2000.0}) {
    for (const double slow : {0.001, 0.02, 0.1, 0.33}) {
      // With the second, now and then a frame is late before, so that the camera has been asked.
      for (const double jitter_ms : {0.1, 1.0}) {
        CAPTURE(rate_hz, slow, jitter_ms);
        World world(rate_hz);
        world.jitter_ns = jitter_ms * kMillisecond;
        slow_down(world, slow, 20);
        Watch watch;
        watch.asks = true;
        watch.run(world, 20);
        REQUIRE(watch.clock.trust() == ClockTrust::Trusted);
        while (watch.clock.trust() != ClockTrust::Unusable && world.exposed_ns < 100 * kSecond)
          watch.run(world, 0.01);
        REQUIRE(watch.clock.trust() == ClockTrust::Unusable);
        REQUIRE(world.exposed_ns - std::max(watch.first_stale_ns, 20 * kSecond) <
                (slow < 0.05 ? 20 : 1) * kSecond);
        if (slow < 0.05) REQUIRE(watch.first_stale_ns == 0);
      }
    }
  }
}

TEST_CASE("CameraClock takes no queue for a slow clock when the camera can be asked") {
  for (const double rate_hz : {37.0, 500.0}) {
    // The last three: it answers in other units than its frames have.
    for (const double unit : {1.0, 0.125, 8.0, 0.001}) {
      for (const double ppm : {-250.0, 0.0, 250.0}) {
        for (const double growth : {0.0, 0.001, 0.02, 0.33, 4.0}) {
          CAPTURE(rate_hz, unit, ppm, growth);
          World world(rate_hz);
          world.latch_unit = unit;
          world.camera_time = [ppm](double t) { return t * (1 + ppm * 1e-6); };
          Watch watch;
          watch.asks = true;
          watch.run(world, 20);
          if (growth == 0) world.hold(0.3);  // it neither grows nor drains
          world.service_ns = world.period_ns * (1 + growth);
          // Beyond five seconds every queue is taken for a slow clock.
          watch.run(world, 4.5 / std::max(growth, 0.15));
          REQUIRE(watch.clock.slow() == 0);
          REQUIRE(watch.clock.trust() == ClockTrust::Trusted);
          REQUIRE(watch.stale_taken_for_fresh == 0);
        }
      }
    }
  }
}

TEST_CASE("CameraClock takes no step for a slow clock when the camera can be asked") {
  for (const double step_s : {-1.0, -0.3, -0.1}) {
    CAPTURE(step_s);
    World world(500);
    Watch watch;
    watch.asks = true;
    watch.run(world, 5);
    world.hold(0.3);
    world.service_ns = world.period_ns;
    watch.run(world, 3);  // late, so that the camera is asked
    world.camera_time = [=](double t) { return t + step_s * kSecond; };
    watch.run(world, 20);
    REQUIRE(watch.clock.trust() == ClockTrust::Trusted);
    REQUIRE(watch.clock.steps() == 1);
    REQUIRE(watch.stale_taken_for_fresh == 0);
  }
}

TEST_CASE("CameraClock wants the camera to be asked only while it is trusted and frames are late") {
  World world(500);
  Watch watch;
  REQUIRE_FALSE(watch.clock.wants_rate());
  watch.run(world, 1);
  REQUIRE_FALSE(watch.clock.wants_rate());
  world.hold(0.010);
  watch.run(world, 0.002);
  REQUIRE(watch.clock.wants_rate());
  watch.run(world, 0.1);
  REQUIRE_FALSE(watch.clock.wants_rate());
  world.hold(0.010);
  watch.run(world, 0.002);
  watch.clock.restart();
  REQUIRE_FALSE(watch.clock.wants_rate());
}

TEST_CASE("CameraClock believes the camera only where frames fall behind by just what it shows") {
  struct Case {
    double slow, uncertainty, near_late_ms, elapsed_ms, behind_ms;
    bool believed;
  };
  for (const Case& c : {Case{0.1, 0, 0, 100, 10, true}, Case{0.1, 0.09, 0, 100, 10, true},
                        Case{0.1, 0.1, 0, 100, 10, false}, Case{0.1, 0, 0, 100, 7, true},
                        Case{0.1, 0, 0, 100, 6, false}, Case{0.1, 0, 0, 100, 14, true},
                        Case{0.1, 0, 0, 100, 17, false}, Case{0.1, 0, 0, 1000, 81, true},
                        Case{0.1, 0, 0, 1000, 77, false}, Case{0.1, 0, 4, 55, 5.5, true},
                        Case{0.1, 0, 4, 45, 4.5, false}, Case{0.39, 0, 0, 100, 39, true},
                        Case{0.41, 0, 0, 100, 41, false}, Case{0.00052, 0, 0, 14'000, 7, true},
                        Case{0.00049, 0, 0, 15'000, 7, false}, Case{-0.1, 0, 0, 100, -10, false}}) {
    CAPTURE(c.slow, c.uncertainty, c.near_late_ms, c.elapsed_ms, c.behind_ms);
    CameraClock clock;
    double camera_ms = 1000;
    const auto frame = [&](double elapsed_ms, double late_ms) {  // one each millisecond
      camera_ms += elapsed_ms;
      clock.delay_ns(static_cast<std::uint64_t>(camera_ms),
                     static_cast<std::int64_t>(camera_ms * kMillisecond),
                     static_cast<std::int64_t>((camera_ms + late_ms) * kMillisecond));
    };
    for (int i = 0; i < 1000; ++i) frame(1, 0);
    frame(1, c.near_late_ms);
    clock.set_rate(
        {.slow = static_cast<float>(c.slow), .uncertainty = static_cast<float>(c.uncertainty)});
    frame(c.elapsed_ms - c.behind_ms, c.near_late_ms + c.behind_ms);
    CHECK((clock.trust() == ClockTrust::Unusable) == c.believed);
    CHECK(clock.slow() == Approx(c.believed ? c.slow : 0));
  }
}
