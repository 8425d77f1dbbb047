// SPDX-License-Identifier: MIT
// A lock of one axis: what belongs to the other is neither waited for, nor moved, nor learnt.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>
#include <random>

#include "control/axial/axial_drift.hpp"
#include "control/identification/stage_acquaintance.hpp"
#include "control/law/law_judge.hpp"
#include "control/law/observer/observer_tuner.hpp"
#include "control/lock/supervisor.hpp"
#include "control/stage/stage_monitor.hpp"
#include "control/stage/stage_probe.hpp"
#include "support/catch.hpp"
#include "support/default_settings.hpp"
#include "support/virtual_tuner.hpp"

namespace driftd::control {
namespace {

constexpr std::int64_t kMs = 1'000'000;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST_CASE("z is a drift along x with the variance of z") {
  const AxialEstimate z{.valid = true,
                        .z_nm = -3,
                        .variance_nm2 = 0.5,
                        .frame_z_nm = 4,
                        .frame_variance_nm2 = 2,
                        .frame_noise_nm2 = 1.5,
                        .frame_fit_noise_nm2 = 1.25,
                        .markers_used = 7,
                        .markers_total = 9,
                        .frames_averaged = 5,
                        .witness_valid = true,
                        .witness_z_nm = -2,
                        .witnesses_used = 2,
                        .frame_witness_z_nm = 6,
                        .frame_witness_noise_nm2 = 0.75};
  const DriftEstimate drift = as_drift(z);
  CHECK(drift.valid);
  CHECK(drift.drift_nm.x == -3);
  CHECK(drift.frame_drift_nm.x == 4);
  CHECK(drift.covariance_nm2.xx == 0.5);
  CHECK(drift.frame_covariance_nm2.xx == 2);
  CHECK(drift.frame_noise_nm2.x == 1.5);
  CHECK(drift.frame_fit_noise_nm2.x == 1.25);
  CHECK(drift.markers_used == 7);
  CHECK(drift.markers_total == 9);
  CHECK(drift.frames_averaged == 5);
  CHECK(drift.witness_valid);
  CHECK(drift.witness_nm.x == -2);
  CHECK(drift.witnesses_used == 2);
  CHECK(drift.frame_witness_nm.x == 6);
  CHECK(drift.frame_witness_noise_nm2.x == 0.75);
  for (const Vec2 v : {drift.drift_nm, drift.frame_drift_nm, drift.witness_nm,
                       drift.frame_witness_nm, drift.frame_noise_nm2})
    CHECK(v.y == 0);
}

TEST_CASE("a z that is none, or is not finite, is no drift") {
  AxialEstimate z{.valid = true, .z_nm = 1, .variance_nm2 = 1, .frame_z_nm = 1};
  z.frame_variance_nm2 = 1;
  REQUIRE(as_drift(z).valid);
  for (double AxialEstimate::*value :
       {&AxialEstimate::z_nm, &AxialEstimate::variance_nm2, &AxialEstimate::frame_z_nm,
        &AxialEstimate::frame_variance_nm2}) {
    AxialEstimate wrong = z;
    wrong.*value = kNan;
    CHECK_FALSE(as_drift(wrong).valid);
  }
  z.valid = false;
  CHECK_FALSE(as_drift(z).valid);
}

/// A monitor of a stage that answers with `gain`, and a sample that rests, seen with noise.
struct Watched {
  explicit Watched(std::size_t axes = 1) : monitor(axes) {
    for (int i = 0; i < 300; ++i) see(0, 1);
  }
  StageVerdict see(double command_nm, double gain) {
    modelled_nm += command_nm;
    place_nm += gain * command_nm;
    time_ns += 2 * kMs;
    return verdict = monitor.update({.moved_nm = {place_nm + 0.5 * normal(random), 0},
                                     .covariance_nm2 = {0.25, 0, 0},
                                     .modelled_nm = {modelled_nm, 0},
                                     .taken_ns = time_ns});
  }
  /// By commands at random. @returns frames until its verdict is this one; -1: never
  int frames_until(bool follows, double gain) {
    for (int i = 0; i < 2000; ++i) {
      if (see(normal(random), gain).follows == follows) return i + 1;
      monitor.prepare();
    }
    return -1;
  }

  StageMonitor monitor;
  StageVerdict verdict;
  double place_nm = 0, modelled_nm = 0;
  std::int64_t time_ns = 0;
  std::mt19937 random{5};
  std::normal_distribution<double> normal;
};

TEST_CASE("a stage of one axis that is stuck, reversed or of another gain is found") {
  const auto looks_of = [](double gain) {
    Watched watched;
    CHECK(watched.frames_until(false, gain) > 0);
    return watched.verdict.looks;
  };
  CHECK(looks_of(0) == StageLooks::Stuck);
  CHECK(looks_of(-1) == StageLooks::Reversed);
  CHECK(looks_of(0.45) == StageLooks::WrongGain);
  CHECK(looks_of(2.2) == StageLooks::WrongGain);
}

TEST_CASE("a stage of one axis is trusted again when that axis follows") {
  Watched one;
  REQUIRE(one.frames_until(false, 0) > 0);
  const int frames = one.frames_until(true, 1);
  CHECK(frames > 1);
  CHECK(frames < 400);
  CHECK(one.verdict.trust == StageMonitor::kTrust);
  // Of two, an axis that was never moved may be stuck.
  Watched two(2);
  REQUIRE(two.frames_until(false, 0) > 0);
  CHECK(two.frames_until(true, 1) == -1);
}

TEST_CASE("a stage of one axis that follows is not doubted, and its other axis has no motion") {
  Watched watched;
  for (int i = 0; i < 20'000; ++i) {
    watched.see(0.3 * watched.normal(watched.random), 1);
    REQUIRE(watched.verdict.follows);
  }
  CHECK(watched.monitor.sd_nm().x > 0.4);
  CHECK(watched.monitor.sd_nm().y == 0);
  // Its reference is complete when x' motion is known.
  watched.monitor.begin_reference();
  for (int i = 0; i < 10; ++i) watched.see(0, 1);
  watched.monitor.prepare();
  CHECK(watched.monitor.moves_at_rest() == StageMonitor::kMovesToJudge);
}

TEST_CASE("what the observer expected of one axis finds a stage that is stuck") {
  Watched watched;
  StageVerdict verdict;
  int frames = 0;
  for (; verdict.follows && frames < 1000; ++frames) {
    const double command = watched.normal(watched.random);
    watched.modelled_nm += command;
    watched.time_ns += 2 * kMs;
    // By itself the monitor could not tell: the measurement's variance is too large. The innovation
    // has the command in it; had the stage not been there, it would have none.
    verdict = watched.monitor.update({.moved_nm = {0.5 * watched.normal(watched.random), 0},
                                      .covariance_nm2 = {9, 0, 0},
                                      .modelled_nm = {watched.modelled_nm, 0},
                                      .taken_ns = watched.time_ns,
                                      .expectation = Expectation{.innovation_nm = {-command, 0},
                                                                 .variance_nm2 = {0.5, 1},
                                                                 .of_stage_x_nm = {command, 0},
                                                                 .of_stage_y_nm = {}}});
  }
  CHECK(frames < 100);
  CHECK(verdict.looks == StageLooks::Stuck);
}

TEST_CASE("the probe of one axis goes to and fro along it") {
  StageProbe probe(1);
  probe.begin({100, 0});
  std::int64_t now_ns = 0;
  Vec2 total{100, 0};
  std::vector<double> places;
  for (int i = 0; i < 200; ++i) {
    now_ns += 2 * kMs;
    const Vec2 wanted = probe.wanted_nm(total, total, {0.4, 0}, now_ns);
    CHECK(wanted.y == 0);
    if (places.empty() || wanted.x != places.back()) places.push_back(wanted.x);
    total = wanted;
  }
  REQUIRE(places.size() > 6);
  CHECK(places[0] == 100);
  for (std::size_t i = 1; i < places.size(); ++i)
    CHECK(places[i] == Approx(i % 2 == 1 ? 102 : 98).margin(1e-9));
  probe.begin({7, 0});  // of one axis still
  for (int i = 0; i < 100; ++i) {
    now_ns += 2 * kMs;
    total = probe.wanted_nm(total, total, {0.4, 0}, now_ns);
    CHECK(total.y == 0);
  }
}

TEST_CASE("the judge's root mean square is that of the axis there is") {
  const auto left_nm = [](std::size_t axes) {
    LawJudge judge({.stage = {.image_to_stage = {}, .delay_us = 2000, .time_constant_us = 0},
                    .pi = {.proportional = 0, .integral = 0.3},
                    .step_limit_nm = 10,
                    .rate_limit_nm_per_s = 1000,
                    .axes = axes});
    judge.set_period(0.002);
    for (std::int64_t i = 0; i < 2000; ++i)
      judge.see({i % 2 == 0 ? 2.0 : -2.0, 0}, {}, 2 * kMs * i, 2 * kMs * i + kMs);
    return judge.left_nm();
  };
  CHECK(left_nm(1) == Approx(2));
  CHECK(left_nm(2) == Approx(2 / std::numbers::sqrt2));
}

/// Moves at random of a stage that answers with `gain` after 3 ms, seen with noise.
StageRecord record_of(double gain) {
  constexpr double kPeriodS = 0.002;
  StageModel stage({.image_to_stage = {}, .delay_us = 3000, .time_constant_us = 1500});
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  StageRecord record{.samples = {}, .moves = {}, .exposure_ns = 0, .axes = 1};
  double told_nm = 0;
  int stays = 0;
  for (std::int64_t i = 0; i < 700; ++i) {
    const std::int64_t taken_ns = std::llround(1e9 * kPeriodS * static_cast<double>(i)) + kMs;
    const double moved_nm = gain * stage.at(taken_ns).x + 0.5 * normal(random);
    record.samples.push_back({taken_ns, {moved_nm, 0}, {0.25, 0, 0}});
    if (i < 60) continue;
    if (stays-- == 0) {
      told_nm = told_nm > 0 ? -4 : 4;
      stays = static_cast<int>(random() % 12);
    }
    stage.command({told_nm, 0}, taken_ns + kMs);
    record.moves.push_back({taken_ns + kMs, {told_nm, 0}});
  }
  return record;
}

TEST_CASE("a stage of one axis is found by its moves") {
  const StageModelSettings described{.image_to_stage = {.a = -1.25, .b = 0, .c = 0, .d = 1},
                                     .delay_us = 2000,
                                     .time_constant_us = 1500};
  const StageFinding found = find_stage(record_of(-0.5), described);
  REQUIRE(found.known);
  CHECK(found.gain.xx == Approx(0.625).epsilon(0.05));
  CHECK(found.gain.xx_sd > 0);
  CHECK(found.gain.sd() < 0.05);
  CHECK(found.gain.yy == 1);
  CHECK(found.other_matrix);
  const ImageToStage& m = found.stage.image_to_stage;
  CHECK(m.a == Approx(-2).epsilon(0.05));
  CHECK(m.b == 0);
  CHECK(m.c == 0);
  CHECK(m.d == 1);
  CHECK(found.noise_nm == Approx(0.5).epsilon(0.15));
  const StageFinding glimpsed = glimpse_stage(record_of(0), described);
  REQUIRE(glimpsed.known);
  CHECK(std::abs(glimpsed.gain.xx) < 0.1);
}

/// A sample that swings along its one axis, on a stage of gain -0.5 that the settings know.
struct Loop {
  explicit Loop(AcquaintWhen when = AcquaintWhen::Never, double described_gain = -2)
      : supervisor(settings(when, described_gain), FramePeriod(2 * kMs)) {}
  static SupervisorSettings settings(AcquaintWhen when, double described_gain) {
    SupervisorSettings s = driftd::test::default_supervisor_settings();
    s.axes = 1;
    s.controller.image_to_stage = {.a = described_gain, .b = 0, .c = 0, .d = 1};
    s.controller.law = ControlLaw::Auto;
    s.acquaintance.when = when;
    s.reference_frames = 20;
    return s;
  }
  Decision frame(bool seen = true) {
    now_ns += 2 * kMs;
    const std::int64_t taken_ns = now_ns - 3 * kMs / 2;
    const double time_s = 1e-9 * static_cast<double>(now_ns);
    left_nm = 3 * std::sin(2 * std::numbers::pi * 2.3 * time_s) - 0.5 * stage.at(taken_ns).x;
    AxialEstimate z{.valid = seen, .z_nm = left_nm + 0.4 * normal(random) - zero_nm};
    const bool complete = reference > 0 && --reference == 0;
    if (complete) zero_nm += z.z_nm;
    if (complete) z.z_nm = 0;
    z.frame_z_nm = z.z_nm;
    z.variance_nm2 = z.frame_variance_nm2 = z.frame_noise_nm2 = z.frame_fit_noise_nm2 = 0.16;
    z.markers_used = 13;
    const DriftEstimate drift = as_drift(z);
    supervisor.arrived(now_ns);
    tuner.give(supervisor, now_ns);
    const Decision d = supervisor.decide(
        {.now_ns = now_ns, .taken_ns = taken_ns, .new_reference = complete, .drift = &drift});
    supervisor.prepare();
    tuner.take(supervisor, now_ns);
    if (d.has_correction) {
      CHECK(std::isfinite(d.correction.total_nm.x));
      CHECK(d.correction.total_nm.y == 0);
      stage.command(d.correction.total_nm, now_ns);
    }
    return d;
  }
  double rms(int frames) {
    double sum = 0;
    for (int i = 0; i < frames; ++i) {
      frame();
      sum += (left_nm - zero_nm) * (left_nm - zero_nm);
    }
    return std::sqrt(sum / frames);
  }
  void lock() {
    for (int i = 0; i < 100; ++i) frame();
    supervisor.command(LockEvent::CommandLock, now_ns);
    reference = supervisor.reference_frames();
    while (supervisor.lock().state == LockState::Referencing) frame();
    REQUIRE(supervisor.lock().state == LockState::Locked);
  }
  const LawChoice& law() const { return supervisor.controller().law(); }

  Supervisor supervisor;
  driftd::test::VirtualTuner tuner;
  StageModel stage{
      {.image_to_stage = {},
       .delay_us = settings(AcquaintWhen::Never, 1).controller.stage_delay_us,
       .time_constant_us = settings(AcquaintWhen::Never, 1).controller.stage_time_constant_us}};
  std::int64_t now_ns = 1'000'000 * kMs;
  double left_nm = 0, zero_nm = 0;
  int reference = 0;
  std::mt19937 random{9};
  std::normal_distribution<double> normal;
};

TEST_CASE("the observer learns one axis, holds it, and goes on without frames for a while") {
  Loop loop;
  loop.lock();
  loop.rms(2500);
  REQUIRE(loop.law().state().observer);
  CHECK(loop.law().observer().is_tuned());
  CHECK(loop.law().observer().is_tuned(0));
  CHECK_FALSE(loop.law().observer().is_tuned(1));
  CHECK(loop.law().observer().tunings() > 0);
  CHECK(loop.law().expectation().has_value());
  CHECK(loop.rms(1000) < 0.25);  // 2.1 without a lock
  CHECK(loop.supervisor.lock().state == LockState::Locked);
  for (int i = 0; i < 20; ++i) {
    CHECK(loop.frame(false).coasting);
    CHECK(std::abs(loop.left_nm - loop.zero_nm) < 1);
  }
  CHECK_FALSE(loop.frame().coasting);
}

TEST_CASE("a lock of one axis gets to know a stage that is told wrong") {
  Loop loop(AcquaintWhen::First, -1.5);
  loop.lock();
  CHECK(loop.supervisor.is_acquainting());
  for (int i = 0; i < 3000 && loop.supervisor.is_acquainting(); ++i) loop.frame();
  REQUIRE(loop.supervisor.acquaintance() == StageAcquaintance::Known);
  const ImageToStage m = loop.supervisor.stage_knowledge()->stage.image_to_stage;
  CHECK(m.a == Approx(-2).epsilon(0.06));
  CHECK(m.b == 0);
  CHECK(m.c == 0);
  CHECK(m.d == 1);
  CHECK(loop.rms(1500) < 1);
  CHECK(loop.supervisor.lock().state == LockState::Locked);
}

TEST_CASE("a lock of one axis finds its stage reversed before it corrects") {
  Loop loop(AcquaintWhen::First, 2);
  loop.lock();
  for (int i = 0; i < 1000 && loop.supervisor.lock().state == LockState::Locked; ++i) loop.frame();
  CHECK(loop.supervisor.lock().reason == LockReason::StageNotFollowing);
  CHECK(loop.supervisor.stage_looks() == StageLooks::Reversed);
}

TEST_CASE("the tuner has no second axis to tune") {
  ObserverSettings settings;
  settings.axes = 1;
  ObserverTuner tuner(settings);
  std::mt19937 random(4);
  std::normal_distribution<double> normal;
  for (std::int64_t i = 1; i <= 400; ++i) {
    ObserverFrame frame;
    frame.epoch = 1;
    frame.taken_ns = 2 * kMs * i;
    frame.moved_nm = {normal(random), 0};
    frame.variance_nm2 = {1, 0};
    tuner.take(frame);
  }
  CHECK(tuner.is_due(0));
  CHECK_FALSE(tuner.is_due(1));
  CHECK(tuner.forecast(0).has_value());
  CHECK_FALSE(tuner.forecast(1).has_value());
}

}  // namespace
}  // namespace driftd::control
