// SPDX-License-Identifier: MIT
// A driver that leaves most corrections out: the choice of laws does not let the observer act.
#include <cmath>
#include <limits>
#include <string>

#include "control/law/law_choice.hpp"
#include "support/catch.hpp"

namespace driftd::control {
namespace {

constexpr std::int64_t kPeriodNs = 2'000'000;
constexpr double kFramesHz = 500;

struct Bench {
  explicit Bench(ControlLaw law) : settings{.law = law}, choice(with_rest()) {}

  LawSettings with_rest() {
    settings.pi = {.proportional = 0, .integral = 0.3};
    settings.stage = {.image_to_stage = {}, .delay_us = 2500, .time_constant_us = 1500};
    settings.step_limit_nm = 20;
    settings.rate_limit_nm_per_s = 20'000;
    return settings;
  }
  void plan() { choice.offer(make_plan(choice.wish(1e-9 * kPeriodNs, 4))); }
  /// The sample stands still, 1 nm off. @returns what is wanted
  Vec2 frame() {
    const std::int64_t taken_ns = kPeriodNs * ++count, now_ns = taken_ns + 1'500'000;
    choice.see(
        {.moved_nm = {1, -1}, .variance_nm2 = {0.09, 0.09}, .taken_ns = taken_ns, .now_ns = now_ns},
        {});
    const Vec2 wanted = choice.wanted_nm({-1, 1}, {}, taken_ns);
    choice.told({}, false, false, false, now_ns);
    return wanted;
  }
  LawReason reason() const { return choice.state().reason; }
  /// A driver that takes one correction in so many frames.
  void take_one_in(double frames) {
    choice.set_driver_hz(kFramesHz / frames);
    frame();
  }

  LawSettings settings;
  LawChoice choice;
  std::int64_t count = 0;
};

TEST_CASE("law choice: a slow driver's stage is PI's, from the first command on") {
  Bench slow(ControlLaw::Auto), pi(ControlLaw::Pi);
  slow.choice.set_driver_hz(kFramesHz / 10);
  slow.plan();
  CHECK_FALSE(slow.choice.state().observer);
  CHECK(slow.reason() == LawReason::DriverTooSlow);
  CHECK(std::string(name_of(slow.reason())) == "driver_too_slow");
  for (int i = 0; i < 50; ++i) {
    const Vec2 wanted = slow.frame(), by_pi = pi.frame();
    CHECK(wanted.x == by_pi.x);
    CHECK(wanted.y == by_pi.y);
  }
  CHECK(slow.choice.state().changes == pi.choice.state().changes + 1);
  CHECK(slow.choice.state().left_nm == 0);
  CHECK(slow.choice.state().pi_left_nm == 0);
  CHECK(slow.choice.state().frames_a_correction == Approx(10));
  slow.choice.set_driver_hz(0);
  CHECK(slow.choice.state().frames_a_correction == 0);  // until the next frame
}

TEST_CASE("law choice: a driver is too slow beyond five frames a correction, until below") {
  Bench held(ControlLaw::Auto);
  held.plan();
  for (const double frames : {1.0, 4.0, 5.4}) {
    held.take_one_in(frames);
    CHECK(held.reason() == LawReason::Configured);
    CHECK(held.choice.state().observer);
  }
  for (const double frames : {5.6, 15.0, 4.6}) {
    held.take_one_in(frames);
    CHECK(held.reason() == LawReason::DriverTooSlow);
    CHECK_FALSE(held.choice.state().observer);
  }
  held.take_one_in(4.4);
  CHECK(held.choice.state().observer);
  CHECK(held.reason() == LawReason::Configured);
  held.take_one_in(15);
  held.choice.set_driver_hz(0);  // it is gone, or nothing is known of it
  held.frame();
  CHECK(held.choice.state().observer);
}

TEST_CASE("law choice: another frame rate makes a driver fast enough") {
  Bench held(ControlLaw::Auto);
  held.plan();
  held.take_one_in(10);
  REQUIRE(held.reason() == LawReason::DriverTooSlow);
  held.choice.offer(make_plan(held.choice.wish(10e-9 * kPeriodNs, 4)));
  held.frame();
  CHECK(held.choice.state().observer);
}

TEST_CASE("law choice: who asks for the observer gets it, whatever the driver does") {
  Bench held(ControlLaw::Observer);
  held.choice.set_driver_hz(kFramesHz / 10);
  held.plan();
  held.frame();
  CHECK(held.choice.state().observer);
  held.settings.law = ControlLaw::Auto;
  held.choice.change_settings(held.settings);
  CHECK_FALSE(held.choice.state().observer);
  CHECK(held.reason() == LawReason::DriverTooSlow);
  held.settings.law = ControlLaw::Observer;
  held.choice.change_settings(held.settings);
  CHECK(held.choice.state().observer);
  CHECK(held.reason() == LawReason::Configured);
}

TEST_CASE("law choice: what is no rate says nothing of the driver") {
  Bench held(ControlLaw::Auto);
  held.plan();
  for (const double hz : {0.0, -50.0, std::numeric_limits<double>::quiet_NaN()}) {
    held.choice.set_driver_hz(hz);
    held.frame();
    CHECK(held.choice.state().observer);
  }
}

}  // namespace
}  // namespace driftd::control
