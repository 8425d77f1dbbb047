// SPDX-License-Identifier: MIT
// Servo and controller one rule at a time: each axis by itself, limits that are just met, a reload,
// a second lock.
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <utility>
#include <vector>

#include "control/law/controller.hpp"
#include "control/law/pi_law.hpp"
#include "support/catch.hpp"

namespace driftd::control {
namespace {

constexpr std::int64_t kMs = 1'000'000;

/// A stage that is where it was told to be at once.
ControllerSettings settings() {
  return {.image_to_stage = {1, 0, 0, 1},
          .proportional = 0,
          .integral = 0.5,
          .step_limit_nm = 1000,
          .rate_limit_nm_per_s = 1e9,
          .range_limit_nm = 5000,
          .travel_limit_nm = 9000,
          .stage_delay_us = 0,
          .stage_time_constant_us = 0};
}

TEST_CASE("both axes have a proportional and an integral part, and wind up by themselves") {
  PiLaw law({.proportional = 0.2, .integral = 0.3});
  law.reset({4, -6});
  // Errors 9 and -22.
  Vec2 wanted = law.wanted_nm({10, -20}, {1, 2});
  CHECK(wanted.x == Approx(4 + 2.7 + 1.8));
  CHECK(wanted.y == Approx(-6 - 6.6 - 4.4));
  law.told({7, -10}, false, true);  // y was held back: its sum becomes -10 + 4.4
  wanted = law.wanted_nm({7, -10}, {7, -10});
  CHECK(wanted.x == Approx(4 + 2.7));
  CHECK(wanted.y == Approx(-10 + 4.4));
  law.reset({0, 0});
  law.wanted_nm({10, -20}, {1, 2});
  law.told({3, -11}, true, false);
  wanted = law.wanted_nm({3, -11}, {3, -11});
  CHECK(wanted.x == Approx(3 - 1.8));
  CHECK(wanted.y == Approx(-6.6));
}

TEST_CASE("what is exactly at its limit is not held back") {
  for (const double sign : {1.0, -1.0}) {
    const LimitedAxis met = limit_axis(30 * sign, 25 * sign, -30, 30, 5, 5);
    CHECK(met.total_nm == 30 * sign);
    CHECK(met.limited == kLimitNone);
    CHECK(limit_axis(30.1 * sign, 25 * sign, -30, 30, 5, 5).limited == kLimitRange);
    CHECK(limit_axis(20.1 * sign, 15 * sign, -30, 30, 5, 6).limited == kLimitStep);
    CHECK(limit_axis(20.1 * sign, 15 * sign, -30, 30, 6, 5).limited == kLimitRate);
    CHECK(limit_axis(90 * sign, 15 * sign, -30, 30, 6, 5).limited ==
          (kLimitRange | kLimitStep | kLimitRate));
  }
}

TEST_CASE("a reload reaches gains, limits and stage model; the total stays") {
  Controller controller(settings());
  controller.update({-40, 60}, 1 * kMs, 2 * kMs);
  CHECK(controller.total_nm().x == Approx(20));
  CHECK(controller.total_nm().y == Approx(-30));
  CHECK(controller.stage_at(3 * kMs).x == Approx(20));
  ControllerSettings changed = settings();
  changed.integral = 0.1;
  changed.stage_delay_us = 5000;
  changed.step_limit_nm = 3;
  controller.change_settings(changed);
  CHECK(controller.total_nm().x == Approx(20));
  CHECK(controller.stage_at(3 * kMs).x == 0);  // not yet
  CHECK(controller.limits().step_nm == 3);
  // At 9 ms the first command has taken effect: the error is 20 and 0, a tenth of it 2 and 0.
  controller.update({-20, 0}, 9 * kMs, 10 * kMs);
  CHECK(controller.total_nm().x == Approx(22));
  CHECK(controller.total_nm().y == Approx(-30));
}

TEST_CASE("what a command waits for its driver is part of the stage's delay, at once") {
  Controller controller(settings());
  controller.update({-40, 60}, 1 * kMs, 2 * kMs);
  CHECK(controller.stage_at(3 * kMs).x == Approx(20));
  controller.set_waiting_us(5000);
  CHECK(controller.stage_at(3 * kMs).x == 0);
  CHECK(controller.stage_at(8 * kMs).x == Approx(20));
}

TEST_CASE("where a limit holds a correction during a move, the law goes on from its own part") {
  ControllerSettings narrow = settings();
  narrow.step_limit_nm = 4;
  Controller controller(narrow);
  controller.set_move({100, 0});
  std::int64_t now_ns = 2 * kMs;
  const auto frames = [&](int count, Vec2 push_nm) {
    for (int i = 0; i < count; ++i, now_ns += 2 * kMs) {
      const Vec2 stage_nm = controller.stage_at(now_ns - kMs);
      controller.update({stage_nm.x + push_nm.x, stage_nm.y + push_nm.y}, now_ns - kMs, now_ns);
    }
  };
  frames(40, {});
  CHECK(controller.total_nm().x == Approx(100));
  frames(1, {-50, 0});
  CHECK(controller.total_nm().x == Approx(104));
  frames(20, {});
  CHECK(controller.total_nm().x == Approx(100));
}

TEST_CASE("an average is compared with the stage in its own frames, the newest ones") {
  const auto total_after = [](int averaged) {
    Controller controller(settings());
    controller.remember_stage(1 * kMs);              // at 0
    controller.update({-20, 40}, 1 * kMs, 2 * kMs);  // to 10 and -20
    controller.remember_stage(3 * kMs);
    controller.remember_stage(4 * kMs);
    return controller.update({0, 0}, 4 * kMs, 5 * kMs, averaged).total_nm;
  };
  CHECK(total_after(2).x == Approx(10));  // the stage was at 10 and -20: nothing is left
  CHECK(total_after(2).y == Approx(-20));
  CHECK(total_after(3).x == Approx(10 - 10.0 / 6));  // at a third less: back by half of that
  CHECK(total_after(3).y == Approx(-20 + 20.0 / 6));
}

TEST_CASE("a second lock averages nothing of the first one") {
  Controller controller(settings());
  controller.update({-60, 80}, 1 * kMs, 2 * kMs);
  for (int i = 3; i < 6; ++i) controller.remember_stage(i * kMs);
  controller.reset();
  CHECK(controller.travelled_nm().x == Approx(30));
  CHECK(controller.travelled_nm().y == Approx(-40));
  controller.remember_stage(7 * kMs);
  const Correction c = controller.update({0, 0}, 7 * kMs, 8 * kMs, 3);
  CHECK(c.total_nm.x == 0);
  CHECK(c.total_nm.y == 0);
}

TEST_CASE("after what was taken back the rate counts from what was sent") {
  ControllerSettings slow = settings();
  slow.rate_limit_nm_per_s = 1000;
  Controller controller(slow);
  controller.update({-500, 700}, 1 * kMs, 2 * kMs);
  controller.update({-500, 700}, 11 * kMs, 12 * kMs);
  const Vec2 sent = controller.total_nm();
  controller.update({-500, 700}, 19 * kMs, 20 * kMs);
  controller.take_back(sent, 12 * kMs);
  CHECK(controller.total_nm().x == sent.x);
  const Correction c = controller.update({-500, 700}, 21 * kMs, 22 * kMs);
  CHECK(c.delta_nm.x == Approx(10));  // of 10 ms
  CHECK(c.delta_nm.y == Approx(-10));
}

TEST_CASE("a drift that is no number changes nothing of what follows") {
  const auto total_after = [](bool disturbed) {
    ControllerSettings both = settings();
    both.proportional = 0.2;
    both.integral = 0.3;
    Controller controller(both);
    controller.update({-40, 60}, 1 * kMs, 2 * kMs);
    const double nan = std::numeric_limits<double>::quiet_NaN();
    if (disturbed) {
      for (const Vec2 bad : {Vec2{nan, 0}, Vec2{0, nan}}) {
        const Correction c = controller.update(bad, 3 * kMs, 4 * kMs);
        CHECK(c.delta_nm.x == 0);
        CHECK(c.delta_nm.y == 0);
      }
    }
    return controller.update({-10, 5}, 7 * kMs, 8 * kMs).total_nm;
  };
  CHECK(total_after(true).x == total_after(false).x);
  CHECK(total_after(true).y == total_after(false).y);
}

TEST_CASE("the matrix maps displacements and covariances, there and back") {
  const ImageToStage m{0.2, -1.1, -0.9, 0.1};
  CHECK(m.determinant() == Approx(-0.97));
  CHECK(m.apply({10, -20}).x == Approx(24));
  CHECK(m.apply({10, -20}).y == Approx(-11));
  CHECK(m.invert({24, -11}).x == Approx(10));
  CHECK(m.invert({24, -11}).y == Approx(-20));
  const Covariance2 c = m.spread({4, 1, 9});
  CHECK(c.xx == Approx(10.61));
  CHECK(c.xy == Approx(-0.70));
  CHECK(c.yy == Approx(3.15));
}

TEST_CASE("a modelled stage of second order goes as its differential equation says") {
  const double damping = GENERATE(0.1, 0.7, 1.0, 3.0);
  const double omega = 2 * std::numbers::pi * 35;
  StageModel stage({.image_to_stage = {},
                    .delay_us = 4000,
                    .time_constant_us = 1e6,
                    .resonance_hz = 35,
                    .damping = damping});
  const std::vector<std::pair<std::int64_t, double>> commands{
      {0, 0}, {3'000'000, 10}, {9'500'000, -4}, {11'000'000, 7}};
  for (const auto& [sent_ns, nm] : commands) stage.command({nm, -2 * nm}, sent_ns);
  double place = 0, speed = 0;  // by small steps
  constexpr double kStepS = 1e-7;
  std::size_t obeyed = 0;
  for (int k = 0; k < 500'000; ++k) {
    const double now_s = kStepS * k;
    while (obeyed < commands.size() &&
           1e-9 * static_cast<double>(commands[obeyed].first) + 0.004 <= now_s)
      ++obeyed;
    const double command = obeyed == 0 ? 0 : commands[obeyed - 1].second;
    speed += kStepS * (omega * omega * (command - place) - 2 * damping * omega * speed);
    place += kStepS * speed;
    if (k % 50'000 != 49'999) continue;
    const StageMotion motion = stage.motion_at(std::llround(1e9 * (now_s + kStepS)));
    CHECK(motion.place_nm.x == Approx(place).margin(0.002));
    CHECK(motion.place_nm.y == Approx(-2 * place).margin(0.004));
    CHECK(motion.speed_nm_per_s.x == Approx(speed).margin(0.5));
    CHECK(stage.at(std::llround(1e9 * (now_s + kStepS))).x == motion.place_nm.x);
  }
}

TEST_CASE(
    "a modelled stage with an impossible response is one of first order, or damped critically") {
  const StageModelSettings first{.image_to_stage = {}, .delay_us = 0, .time_constant_us = 2000};
  StageModelSettings odd = first;
  odd.resonance_hz = GENERATE(0.0, -3.0, std::numeric_limits<double>::quiet_NaN());
  CHECK(response_of(odd).order == 1);
  odd.resonance_hz = 20;
  odd.damping = GENERATE(0.0, -1.0, std::numeric_limits<double>::quiet_NaN());
  CHECK(response_of(odd).order == 2);
  CHECK(response_of(odd).damping == 1);
}

TEST_CASE("the modelled stage stays at what was sent last, and knows nothing before that") {
  StageModel stage({.image_to_stage = {}, .delay_us = 0, .time_constant_us = 0});
  stage.command({10, -3}, 2 * kMs);
  stage.command({30, -9}, 4 * kMs);
  stage.command({50, -15}, 6 * kMs);
  stage.take_back({30, -9}, 4 * kMs);
  CHECK(stage.at(7 * kMs).x == 30);
  CHECK(stage.at(7 * kMs).y == -9);
  CHECK(stage.at(3 * kMs).x == 10);
  CHECK(stage.at(1 * kMs).x == 0);
  StageModel other({.image_to_stage = {}, .delay_us = 0, .time_constant_us = 0});
  other.take_back({12, -7}, 5 * kMs);
  CHECK(other.at(9 * kMs).x == 12);
  CHECK(other.at(1 * kMs).y == -7);
}

TEST_CASE("a command that left late moves the modelled stage from when it left") {
  const StageModelSettings settings{.image_to_stage = {}, .delay_us = 0, .time_constant_us = 2000};
  StageModel late(settings), then(settings);
  for (StageModel* stage : {&late, &then}) stage->command({10, -3}, 2 * kMs);
  late.command({30, -9}, 4 * kMs);
  late.left_at(7 * kMs);
  then.command({30, -9}, 7 * kMs);
  late.left_at(5 * kMs);  // it did not leave before it left
  for (const int ms : {3, 5, 8, 12}) {
    CHECK(late.at(ms * kMs).x == then.at(ms * kMs).x);
    CHECK(late.at(ms * kMs).y == then.at(ms * kMs).y);
  }
  CHECK(late.told_ns() == 7 * kMs);
  StageModel first(settings);
  first.left_at(3 * kMs);  // nothing was commanded
  CHECK(first.told_ns() == 0);
  first.command({10, 0}, 2 * kMs);
  first.left_at(6 * kMs);
  CHECK(first.at(6 * kMs).x == 0);
  CHECK(first.at(8 * kMs).x == Approx(10 * -std::expm1(-1.0)));
}

TEST_CASE("after a command that left late the rate counts from when it left") {
  ControllerSettings slow = settings();
  slow.step_limit_nm = 1000;
  slow.rate_limit_nm_per_s = 1000;
  Controller controller(slow);
  controller.update({-500, 0}, 1 * kMs, 2 * kMs);
  controller.update({-500, 0}, 3 * kMs, 4 * kMs);
  controller.left_at(10 * kMs);
  CHECK(controller.sent_ns() == 10 * kMs);
  CHECK(controller.update({-500, 0}, 11 * kMs, 12 * kMs).delta_nm.x == Approx(2));
}

TEST_CASE("a move that left late is late with its command, also after one that never left") {
  ControllerSettings at_once = settings();
  at_once.stage_delay_us = at_once.stage_time_constant_us = 0;
  Controller controller(at_once);
  controller.update({}, 1 * kMs, 2 * kMs);
  controller.set_move({10, 0});
  controller.update({}, 3 * kMs, 4 * kMs);
  const Vec2 sent = controller.total_nm();
  REQUIRE(sent.x > 0);
  controller.update({}, 5 * kMs, 6 * kMs);
  controller.take_back(sent, 5 * kMs);  // when it was handed over, after it was computed
  controller.left_at(9 * kMs);
  CHECK(controller.stage_at(8 * kMs).x == 0);
  CHECK(controller.moved_at(8 * kMs).x == 0);
  CHECK(controller.stage_at(10 * kMs).x == sent.x);
  CHECK(controller.moved_at(10 * kMs).x == sent.x);
}

TEST_CASE(
    "a lock that goes on from another has what is left of its range, and the travel of before") {
  Controller controller(settings());
  controller.set_travelled({8000, -100});
  controller.reset({-1200, 300});
  CorrectionLimits limits = controller.limits();
  CHECK(limits.low_nm.x == -3800);  // of 5000
  CHECK(limits.high_nm.x == 1000);  // of 9000 in all, which is less than the range leaves
  CHECK(limits.low_nm.y == -5300);
  CHECK(limits.high_nm.y == 4700);
  CHECK(controller.carried_nm().x == -1200);
  controller.reset();  // a new one
  CHECK(controller.limits().low_nm.x == -5000);
  CHECK(controller.limits().high_nm.y == 5000);
  CHECK(controller.carried_nm().x == 0);
  controller.reset({6000, std::numeric_limits<double>::quiet_NaN()});  // no number: as if new
  CHECK(controller.limits().high_nm.x == 1000);
  controller.reset({6000, 0});  // beyond a range made narrower: it may stay or come back
  CHECK(controller.limits().high_nm.x == 0);
  CHECK(controller.limits().low_nm.x == -11000);
}

}  // namespace
}  // namespace driftd::control
