// SPDX-License-Identifier: MIT
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "control/law/controller.hpp"
#include "support/catch.hpp"
#include "support/default_settings.hpp"

namespace driftd::control {
namespace {

constexpr std::int64_t kFrameNs = 2'000'000;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();
/// Rounding of sums of a few thousand nanometres.
constexpr double kRoundingNm = 1e-9;

/// A stage that obeys as modelled at once, so that the recurrence can be checked alone.
ControllerSettings ideal_stage() {
  ControllerSettings settings = test::default_controller_settings();
  settings.stage_delay_us = 0;
  settings.stage_time_constant_us = 0;
  settings.rate_limit_nm_per_s = 1e9;
  settings.step_limit_nm = 1e6;
  return settings;
}

TEST_CASE("the matrix and its inverse undo each other, handedness included") {
  const ImageToStage m{0.9, -0.3, 0.2, -1.1};
  const Vec2 back = m.invert(m.apply({3, -7}));
  CHECK(back.x == Approx(3));
  CHECK(back.y == Approx(-7));
  CHECK(m.determinant() < 0);
}

TEST_CASE("the correction opposes the drift, in stage axes") {
  ControllerSettings settings = ideal_stage();
  settings.image_to_stage = {0, 1, -1, 0};
  Controller controller(settings);
  const Correction c = controller.update({2, 5}, 0, kFrameNs);
  const double gain = settings.proportional + settings.integral;
  CHECK(c.total_nm.x == Approx(-5 * gain));
  CHECK(c.total_nm.y == Approx(2 * gain));
  CHECK(c.limited == kLimitNone);
}

TEST_CASE("the recurrence is the documented one") {
  // error = target - total; I += k error; total = I + p error, with the stage following at once.
  const ControllerSettings settings = ideal_stage();
  Controller controller(settings);
  double integral = 0, total = 0;
  for (int i = 1; i <= 50; ++i) {
    const double disturbance = std::sin(0.3 * i);
    const double error = -disturbance - total;
    integral += settings.integral * error;
    const double before = total;
    total = integral + settings.proportional * error;
    const Correction c =
        controller.update({disturbance + before, 0}, i * kFrameNs, i * kFrameNs + 1000);
    REQUIRE(c.total_nm.x == Approx(total).margin(kRoundingNm));
    REQUIRE(c.delta_nm.x == Approx(total - before).margin(kRoundingNm));
  }
}

TEST_CASE("a constant drift is removed completely, a ramp leaves ramp / (k rate) before a step") {
  const ControllerSettings settings = ideal_stage();
  Controller controller(settings);
  const double ramp_per_frame_nm = 0.5;
  double disturbance = 100, left = 0;
  const auto run = [&](int from, int frames, double per_frame) {
    for (int i = from; i < from + frames; ++i) {
      disturbance += per_frame;
      left = disturbance + controller.total_nm().x;
      controller.update({left, 0}, i * kFrameNs, i * kFrameNs + 1000);
    }
  };
  run(1, 300, 0);
  CHECK(std::abs(left) < 1e-9);
  run(301, 300, ramp_per_frame_nm);
  CHECK(left == Approx(ramp_per_frame_nm / settings.integral));
}

TEST_CASE("the stage model is a dead time and then a first-order response") {
  ControllerSettings settings = test::default_controller_settings();
  settings.proportional = 0;
  settings.integral = 1;
  Controller controller(settings);
  const std::int64_t sent_ns = 10'000'000;
  controller.update({-10, 4}, sent_ns - 1'000'000, sent_ns);
  const auto after = [&](double us) {
    return controller.stage_at(sent_ns + static_cast<std::int64_t>(1e3 * us)).x;
  };
  const double total_nm = controller.total_nm().x;
  REQUIRE(total_nm > 0);
  const double tau_us = settings.stage_time_constant_us;
  CHECK(after(-1) == 0);
  CHECK(after(settings.stage_delay_us) == 0);
  CHECK(after(settings.stage_delay_us + tau_us) == Approx(total_nm * (1 - std::exp(-1.0))));
  CHECK(after(settings.stage_delay_us + 30 * tau_us) == Approx(total_nm));
  CHECK(controller.stage_at(std::numeric_limits<std::int64_t>::min() / 2).x == 0);
}

TEST_CASE("two commands in flight: the model goes from one to the other without a jump") {
  ControllerSettings settings = test::default_controller_settings();
  Controller controller(settings);
  for (int i = 1; i <= 40; ++i)
    controller.update({i % 7 < 4 ? 9.0 : -9.0, 0}, i * kFrameNs, i * kFrameNs + 500'000);
  // The steepest the model can be: (largest distance to a command) / tau.
  const double steepest_nm_per_us = 40.0 / settings.stage_time_constant_us;
  double before = controller.stage_at(0).x;
  for (std::int64_t t = 0; t < 90'000'000; t += 10'000) {
    const double now = controller.stage_at(t).x;
    REQUIRE(std::abs(now - before) <= steepest_nm_per_us * 10);
    before = now;
  }
}

TEST_CASE("what was commanded after the frame was taken is not commanded again") {
  ControllerSettings settings = test::default_controller_settings();
  settings.integral = 1;  // all of the error at once: any double count would show
  settings.proportional = 0;
  settings.rate_limit_nm_per_s = 1e6;
  Controller controller(settings);
  // The sample sits 10 nm off and the stage has not moved yet in any of these frames.
  for (std::int64_t i = 1; i <= 3; ++i) {
    const std::int64_t now_ns = i * 1'000'000;
    CHECK(controller.update({10, 0}, now_ns - 500'000, now_ns).total_nm.x == -10);
  }
}

TEST_CASE("limits hold and say so") {
  ControllerSettings settings = ideal_stage();
  SECTION("step") {
    settings.step_limit_nm = 5;
    Controller controller(settings);
    const Correction c = controller.update({-1000, 1}, 0, kFrameNs);
    CHECK(c.delta_nm.x == 5);
    CHECK(c.limited == kLimitStep);
  }
  SECTION("rate: 100 nm/s over 2 ms") {
    settings.rate_limit_nm_per_s = 100;
    Controller controller(settings);
    const Correction c = controller.update({1, -1000}, 0, kFrameNs);
    CHECK(c.delta_nm.y == Approx(0.2));
    CHECK(c.limited == kLimitRate);
  }
  SECTION("range") {
    settings.range_limit_nm = 50;
    Controller controller(settings);
    const Correction c = controller.update({-1000, 0}, 0, kFrameNs);
    CHECK(c.total_nm.x == 50);
    CHECK(c.limited == kLimitRange);
  }
  SECTION("all of them, on different axes") {
    settings.step_limit_nm = 30;
    settings.range_limit_nm = 50;
    Controller controller(settings);
    for (int i = 1; i < 10; ++i) controller.update({-1000, 0}, i * kFrameNs, i * kFrameNs);
    const Correction c = controller.update({-1000, 1000}, 10 * kFrameNs, 10 * kFrameNs);
    CHECK(c.total_nm.x == 50);
    CHECK(c.delta_nm.y == -30);
    CHECK(c.limited == (kLimitRange | kLimitStep));
  }
  SECTION("nothing is reported where nothing was held back") {
    Controller controller(settings);
    CHECK(controller.update({-3, 3}, 0, kFrameNs).limited == kLimitNone);
  }
}

TEST_CASE("the integral holds only what was sent: no wind-up at the range limit") {
  ControllerSettings settings = ideal_stage();
  settings.range_limit_nm = 50;
  Controller controller(settings);
  std::int64_t now_ns = 0;
  const auto frame = [&](double disturbance) {
    now_ns += kFrameNs;
    const double left = disturbance + controller.total_nm().x;
    return controller.update({left, 0}, now_ns, now_ns + 1000);
  };
  for (int i = 0; i < 5000; ++i) frame(1000);
  CHECK(controller.total_nm().x == -50);
  // Back in range: it leaves the limit with the first frame and settles as from rest.
  CHECK(frame(20).total_nm.x > -50);
  for (int i = 0; i < 100; ++i) frame(20);
  CHECK(controller.total_nm().x == Approx(-20).margin(1e-3));
}

TEST_CASE("input that is not finite repeats the total and leaves no trace") {
  const ControllerSettings settings = test::default_controller_settings();
  Controller disturbed(settings), calm(settings);
  for (int i = 1; i <= 200; ++i) {
    const std::int64_t now_ns = i * kFrameNs;
    const Vec2 drift{std::sin(0.1 * i), std::cos(0.1 * i)};
    if (i % 3 == 0) {
      const Vec2 before = disturbed.total_nm();
      for (const Vec2 bad : {Vec2{kNan, 0}, Vec2{0, kInf}, Vec2{-kInf, kNan}}) {
        const Correction c = disturbed.update(bad, now_ns - 1'500'000, now_ns - 1000);
        REQUIRE(c.total_nm.x == before.x);
        REQUIRE(c.total_nm.y == before.y);
        REQUIRE(c.delta_nm.x == 0);
        REQUIRE(c.delta_nm.y == 0);
      }
    }
    const Correction a = disturbed.update(drift, now_ns - 1'000'000, now_ns);
    const Correction b = calm.update(drift, now_ns - 1'000'000, now_ns);
    REQUIRE(a.total_nm.x == b.total_nm.x);
    REQUIRE(a.total_nm.y == b.total_nm.y);
  }
}

TEST_CASE("a time not after the one before moves nothing") {
  Controller controller(test::default_controller_settings());
  controller.update({5, 5}, 0, kFrameNs);
  const Vec2 before = controller.total_nm();
  for (const std::int64_t now_ns : {kFrameNs, kFrameNs - 1, std::int64_t{0}}) {
    const Correction c = controller.update({5, 5}, 0, now_ns);
    CHECK(c.total_nm.x == before.x);
    CHECK(c.delta_nm.x == 0);
  }
  CHECK(controller.update({5, 5}, kFrameNs, 2 * kFrameNs).delta_nm.x < 0);
}

TEST_CASE("reset forgets the total and what is under way") {
  Controller controller(test::default_controller_settings());
  for (int i = 1; i < 20; ++i) controller.update({5, -5}, i * kFrameNs, i * kFrameNs + 1000);
  controller.reset();
  CHECK(controller.total_nm().x == 0);
  CHECK(controller.stage_at(100 * kFrameNs).x == 0);
  Controller fresh(test::default_controller_settings());
  CHECK(controller.update({1, 2}, 0, kFrameNs).total_nm.y ==
        fresh.update({1, 2}, 0, kFrameNs).total_nm.y);
}

TEST_CASE("settings that are not numbers or negative move nothing rather than anything") {
  ControllerSettings settings = test::default_controller_settings();
  SECTION("step") {
    settings.step_limit_nm = kNan;
  }
  SECTION("rate") {
    settings.rate_limit_nm_per_s = -1;
  }
  SECTION("range") {
    settings.range_limit_nm = kNan;
  }
  SECTION("gains") {
    settings.integral = settings.proportional = kNan;
  }
  SECTION("matrix") {
    settings.image_to_stage.a = settings.image_to_stage.d = kNan;
  }
  Controller controller(settings);
  for (int i = 1; i < 10; ++i) {
    const Correction c = controller.update({5, 5}, i * kFrameNs, i * kFrameNs + 1000);
    CHECK(c.total_nm.x == 0);
    CHECK(c.total_nm.y == 0);
  }
}

TEST_CASE("whatever comes in, what goes out is finite and within every limit") {
  std::mt19937 random(77);
  std::uniform_real_distribution<double> magnitude(-3, 6);
  std::uniform_int_distribution<int> kind(0, 99);
  std::uniform_int_distribution<std::int64_t> pause_ns(-2'000'000, 6'000'000);
  for (int run = 0; run < 40; ++run) {
    ControllerSettings settings = test::default_controller_settings();
    settings.proportional = 0.1 * (run % 8);
    settings.integral = 0.05 + 0.1 * (run % 10);
    settings.range_limit_nm = run % 2 == 0 ? 5000 : 80;
    settings.image_to_stage = {0.8, 0.3, -0.2, -1.3};
    Controller controller(settings);
    struct Sent {
      std::int64_t now_ns;
      Vec2 total_nm;
    };
    std::vector<Sent> sent;
    std::int64_t now_ns = 1'000'000'000'000;
    for (int i = 0; i < 400; ++i) {
      const auto value = [&]() -> double {
        const int k = kind(random);
        if (k == 0) return kNan;
        if (k == 1) return kInf;
        if (k == 2) return 1e308;
        return (k % 2 == 0 ? 1 : -1) * std::pow(10.0, magnitude(random));
      };
      now_ns += pause_ns(random);
      const std::int64_t taken_ns =
          kind(random) == 0 ? std::numeric_limits<std::int64_t>::min() : now_ns - pause_ns(random);
      const Vec2 before = controller.total_nm();
      const Correction c = controller.update({value(), value()}, taken_ns, now_ns);
      for (const double v : {c.total_nm.x, c.total_nm.y, c.delta_nm.x, c.delta_nm.y})
        REQUIRE(std::isfinite(v));
      REQUIRE(std::abs(c.total_nm.x) <= settings.range_limit_nm);
      REQUIRE(std::abs(c.total_nm.y) <= settings.range_limit_nm);
      REQUIRE(std::abs(c.delta_nm.x) <= settings.step_limit_nm + kRoundingNm);
      REQUIRE(std::abs(c.delta_nm.y) <= settings.step_limit_nm + kRoundingNm);
      REQUIRE(c.total_nm.x == Approx(before.x + c.delta_nm.x).margin(kRoundingNm));
      REQUIRE(std::isfinite(controller.stage_at(now_ns + 3'000'000).x));
      if (c.delta_nm.x != 0 || c.delta_nm.y != 0) sent.push_back({now_ns, c.total_nm});
    }
    // The rate limit over every window between two moves, long or short.
    for (std::size_t i = 0; i < sent.size(); ++i)
      for (std::size_t j = i + 1; j < sent.size(); ++j) {
        const double allowed_nm = settings.rate_limit_nm_per_s * 1e-9 *
                                  static_cast<double>(sent[j].now_ns - sent[i].now_ns);
        REQUIRE(std::abs(sent[j].total_nm.x - sent[i].total_nm.x) <= allowed_nm + kRoundingNm);
        REQUIRE(std::abs(sent[j].total_nm.y - sent[i].total_nm.y) <= allowed_nm + kRoundingNm);
      }
  }
}

TEST_CASE("corrections that never left are forgotten: it goes on from what the stage was told") {
  ControllerSettings settings = ideal_stage();
  Controller controller(settings);
  controller.update({8, 0}, 0, kFrameNs);
  const Vec2 sent = controller.total_nm();
  controller.update({8, 0}, kFrameNs, 2 * kFrameNs);
  controller.update({8, 0}, 2 * kFrameNs, 3 * kFrameNs);
  REQUIRE(controller.total_nm().x != sent.x);
  SECTION("a command remembered") {
    controller.take_back(sent, kFrameNs);
    CHECK(controller.total_nm().x == sent.x);
    CHECK(controller.stage_at(4 * kFrameNs).x == sent.x);
  }
  SECTION("nothing was ever sent") {
    controller.take_back({0, 0}, 0);
    CHECK(controller.stage_at(4 * kFrameNs).x == 0);
  }
  SECTION("what is not finite is no place") {
    controller.take_back(sent, kFrameNs);
    controller.take_back({kNan, 0}, kFrameNs);
    CHECK(controller.total_nm().x == sent.x);
  }
  SECTION("a place not remembered counts as reached") {
    controller.take_back({-3, 2}, kFrameNs / 2);
    CHECK(controller.stage_at(4 * kFrameNs).y == 2);
  }
  // The stage is where the model says and no drift is left: nothing is corrected.
  const Correction next = controller.update({0, 0}, 4 * kFrameNs, 5 * kFrameNs);
  CHECK(std::abs(next.delta_nm.x) < kRoundingNm);
  CHECK(std::abs(next.delta_nm.y) < kRoundingNm);
}

TEST_CASE("new settings keep the total; a narrower range is entered step by step") {
  ControllerSettings settings = ideal_stage();
  Controller controller(settings);
  for (int i = 1; i <= 20; ++i) {
    const double left = 400 + controller.total_nm().x;
    controller.update({left, 0}, i * kFrameNs, i * kFrameNs + 1000);
  }
  const double before_nm = controller.total_nm().x;
  REQUIRE(before_nm < -300);
  settings.range_limit_nm = 100;
  settings.step_limit_nm = 7;
  controller.change_settings(settings);
  CHECK(controller.total_nm().x == before_nm);
  for (int i = 21; i <= 80; ++i) {
    const double left = 400 + controller.total_nm().x;
    const Correction c = controller.update({left, 0}, i * kFrameNs, i * kFrameNs + 1000);
    REQUIRE(c.delta_nm.x <= 7 + kRoundingNm);
    REQUIRE((c.limited & kLimitRange) != 0);
  }
  CHECK(controller.total_nm().x == -100);
}

TEST_CASE("a drift averaged over frames is corrected by the stage averaged over the same frames") {
  // The sample moved once, by (6, -9); each frame shows it less what the stage has done meanwhile.
  for (const int frames : {2, 7, 80, 1000}) {
    ControllerSettings settings = test::default_controller_settings();
    settings.step_limit_nm = 1e3;
    settings.rate_limit_nm_per_s = 1e6;
    Controller controller(settings);
    std::vector<Vec2> drifts;
    Vec2 largest;
    for (int i = 1; i <= 3000; ++i) {
      const std::int64_t taken_ns = i * kFrameNs;
      controller.remember_stage(taken_ns);
      const Vec2 stage = controller.stage_at(taken_ns);
      drifts.push_back({6 + stage.x, -9 + stage.y});
      const int averaged = std::min(frames, i);
      Vec2 mean;
      for (std::size_t k = drifts.size() - static_cast<std::size_t>(averaged); k < drifts.size();
           ++k)
        mean = {mean.x + drifts[k].x / averaged, mean.y + drifts[k].y / averaged};
      const Vec2 total = controller.update(mean, taken_ns, taken_ns + 1'500'000, averaged).total_nm;
      largest = {std::min(largest.x, total.x), std::max(largest.y, total.y)};
    }
    INFO(frames << " frames");
    CHECK(controller.total_nm().x == Approx(-6).margin(1e-6));
    CHECK(controller.total_nm().y == Approx(9).margin(1e-6));
    CHECK(largest.x > -6.001);  // no overshoot: nothing was corrected twice
    CHECK(largest.y < 9.001);
  }
}

TEST_CASE("the travel limit holds over the locks together, each direction for itself") {
  ControllerSettings settings = ideal_stage();
  settings.range_limit_nm = 100;
  settings.travel_limit_nm = 150;
  Controller controller(settings);
  std::int64_t now_ns = 0;
  const auto push = [&](Vec2 drift) {
    for (int i = 0; i < 200; ++i) {
      now_ns += kFrameNs;
      controller.update(drift, now_ns - 1000, now_ns);
    }
  };
  push({-1000, 1000});
  CHECK(controller.total_nm().x == 100);
  CHECK(controller.total_nm().y == -100);
  controller.reset();
  CHECK(controller.travelled_nm().x == 100);
  CHECK(controller.travelled_nm().y == -100);
  push({-1000, 1000});
  CHECK(controller.total_nm().x == 50);
  CHECK(controller.total_nm().y == -50);
  push({1000, -1000});  // back is free up to the range of this lock
  CHECK(controller.total_nm().x == -100);
  CHECK(controller.total_nm().y == 100);
  controller.reset();
  CHECK(controller.travelled_nm().x == 0);
}

TEST_CASE("a travel limit narrowed below what was travelled allows the way back only") {
  ControllerSettings settings = ideal_stage();
  Controller controller(settings);
  for (int i = 1; i < 100; ++i) controller.update({-40, 30}, i * kFrameNs - 1000, i * kFrameNs);
  controller.reset();
  REQUIRE(controller.travelled_nm().x > 100);
  settings.travel_limit_nm = 20;
  controller.change_settings(settings);
  CHECK(controller.limits().high_nm.x == 0);
  CHECK(controller.limits().low_nm.y == 0);
  CHECK(controller.limits().low_nm.x < -100);
  CHECK(controller.limits().high_nm.y > 100);
}

TEST_CASE("a move that no drift asked for keeps the limits, and the servo goes on from there") {
  ControllerSettings settings = ideal_stage();
  settings.step_limit_nm = 4;
  Controller controller(settings);
  CHECK(controller.go_to({3, 3}, kFrameNs).delta_nm.x == 0);  // nothing was sent before
  controller.update({0, 0}, kFrameNs, 2 * kFrameNs);
  const Correction c = controller.go_to({3, -9}, 3 * kFrameNs);
  CHECK(c.total_nm.x == 3);
  CHECK(c.total_nm.y == -4);
  CHECK(c.limited == kLimitStep);
  CHECK(controller.stage_at(3 * kFrameNs).y == -4);
  // No drift is left there: nothing is corrected.
  const Correction next = controller.update({0, 0}, 3 * kFrameNs, 4 * kFrameNs);
  CHECK(std::abs(next.delta_nm.x) < kRoundingNm);
  CHECK(std::abs(next.delta_nm.y) < kRoundingNm);
  CHECK(controller.go_to({kNan, 0}, 5 * kFrameNs).total_nm.y == -4);
}

}  // namespace
}  // namespace driftd::control
