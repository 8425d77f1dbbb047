// SPDX-License-Identifier: MIT
// A lock that gets to know its stage: what it tells the stage meanwhile, what it finds, and what it
// does with it. In virtual time: a supervisor, the other thread's desk, and a stage that differs
// from its description.
#include <cmath>
#include <optional>
#include <random>
#include <vector>

#include "control/lock/supervisor.hpp"
#include "support/allocation_watch.hpp"
#include "support/catch.hpp"
#include "support/default_settings.hpp"
#include "support/virtual_tuner.hpp"

namespace driftd::control {
namespace {

constexpr std::int64_t kMs = 1'000'000;
constexpr std::int64_t kAgeNs = 3 * kMs / 2;

SupervisorSettings settings(AcquaintWhen when = AcquaintWhen::First) {
  SupervisorSettings s = driftd::test::default_supervisor_settings();
  s.controller.image_to_stage = {0, -1, 1, 0};
  s.controller.law = ControlLaw::Auto;
  s.acquaintance = {.when = when, .exposure_ns = kMs / 10};
  return s;
}

/// Of second order, and late: nothing of what the defaults say.
StageModelSettings late_stage() {
  return {.image_to_stage = {0, -1, 1, 0},
          .delay_us = 9000,
          .time_constant_us = 0,
          .resonance_hz = 40,
          .damping = 0.5};
}

/// A sample on a stage that moves `response` times what it is told, in its own axes.
struct Scene {
  explicit Scene(const SupervisorSettings& s = settings(),
                 const StageModelSettings& truth = late_stage(), std::int64_t period_ns = 2 * kMs)
      : used(s), supervisor(s, FramePeriod()), stage(truth), every_ns(period_ns) {}

  Decision frame(bool valid = true, bool not_sent = false, bool reference = false) {
    now_ns += every_ns;
    const bool holds = hold_ns > 0 && now_ns % hold_every_ns < hold_ns;
    if (!holds && !waiting_nm.empty()) {  // all that waited leaves at once
      for (const Vec2 total_nm : waiting_nm) stage.command(total_nm, left_ns = now_ns - kMs / 4);
      waiting_nm.clear();
    }
    if (left_ns > 0) supervisor.left_at(left_ns);
    left_ns = 0;
    sample_nm.x += drift_nm_per_s * 1e-9 * static_cast<double>(every_ns);
    const Vec2 at = stage.at(now_ns - kAgeNs);
    const Vec2 moved{response.a * at.x + response.b * at.y, response.c * at.x + response.d * at.y};
    const Vec2 image = used.controller.image_to_stage.invert(moved);
    place_nm = {sample_nm.x + image.x, sample_nm.y + image.y};
    if (reference) zero_nm = {place_nm.x - set_nm.x, place_nm.y - set_nm.y};
    DriftEstimate drift;
    drift.valid = valid;
    drift.markers_used = 8;
    drift.frame_drift_nm = {place_nm.x - zero_nm.x + noise_nm * normal(random),
                            place_nm.y - zero_nm.y + noise_nm * normal(random)};
    drift.drift_nm = drift.frame_drift_nm;
    drift.covariance_nm2 = drift.frame_covariance_nm2 = {0.16, 0, 0.16};
    drift.frames_averaged = 1;
    supervisor.arrived(now_ns);
    tuner.give(supervisor, now_ns);
    driftd::test::watch_this_thread(true);
    const Decision d = supervisor.decide({.now_ns = now_ns,
                                          .taken_ns = now_ns - kAgeNs,
                                          .not_sent = not_sent,
                                          .unsent = !waiting_nm.empty(),
                                          .new_reference = reference,
                                          .driver_hz = told_hz,
                                          .drift = &drift});
    supervisor.prepare();
    driftd::test::watch_this_thread(false);
    tuner.take(supervisor, now_ns);
    if (d.has_correction && holds) {
      waiting_nm.push_back(d.correction.total_nm);
    } else if (d.has_correction && ++commands % driver_frames == 0) {
      stage.command(d.correction.total_nm, now_ns + late_ns);
      if (late_ns > 0) left_ns = now_ns + late_ns;
    }
    farthest_nm = std::max({farthest_nm, std::abs(place_nm.x - zero_nm.x - set_nm.x - sample_nm.x),
                            std::abs(place_nm.y - zero_nm.y - set_nm.y - sample_nm.y)});
    return d;
  }
  void lock() {
    for (int i = 0; i < 100; ++i) frame();
    supervisor.set_carried({}, set_nm);
    supervisor.command(LockEvent::CommandLock, now_ns);
    stage.reset();
    sample_nm = {};
    frame(true, false, true);
    farthest_nm = 0;
    REQUIRE(supervisor.lock().state == LockState::Locked);
  }
  void seconds(double s) {
    for (const std::int64_t until_ns = now_ns + std::llround(1e9 * s); now_ns < until_ns;) frame();
  }
  /// Until the law acts, the lock is held, or so long.
  double until_it_acts(double at_most_s = 25) {
    const std::int64_t begin_ns = now_ns;
    while (supervisor.is_acquainting() && now_ns < begin_ns + std::llround(1e9 * at_most_s)) {
      const Decision d = frame();
      CHECK((!d.has_correction || d.probe || !supervisor.is_acquainting()));
    }
    return 1e-9 * static_cast<double>(now_ns - begin_ns);
  }

  SupervisorSettings used;
  Supervisor supervisor;
  driftd::test::VirtualTuner tuner;
  StageModel stage;
  std::int64_t every_ns;
  ImageToStage response{1, 0, 0, 1};
  std::int64_t now_ns = 1'000'000 * kMs;
  Vec2 sample_nm, zero_nm, place_nm;
  Vec2 set_nm;         ///< where moves have the sample when the lock begins, as one that is resumed
  double told_hz = 0;  ///< by the driver, of itself
  int driver_frames = 1, commands = 0;  ///< it takes one of so many commands
  std::int64_t late_ns = 0;             ///< a busy computer lets commands leave so much later
  std::int64_t left_ns = 0;
  std::int64_t hold_ns = 0, hold_every_ns = 1;  ///< nothing leaves for so long, each so often
  std::vector<Vec2> waiting_nm;                 ///< what has not left yet
  double noise_nm = 0.4, drift_nm_per_s = 3, farthest_nm = 0;
  std::mt19937 random{7};
  std::normal_distribution<double> normal;
};

TEST_CASE("before its first correction a lock finds out how the stage answers") {
  Scene scene;
  scene.response = {0.8, 0, 0, 1.2};
  scene.lock();
  CHECK(scene.supervisor.acquaintance() == StageAcquaintance::UnderWay);
  const double took_s = scene.until_it_acts();
  CHECK(driftd::test::watched_allocations() == 0);  // nor the loop's end of it
  CHECK(took_s > 1.2);
  CHECK(took_s < 5);
  CHECK(scene.farthest_nm < 15);
  REQUIRE(scene.supervisor.acquaintance() == StageAcquaintance::Known);
  const StageKnowledge found = *scene.supervisor.stage_knowledge();
  CHECK(found.other_response);
  CHECK(found.other_matrix);
  const double lag_us =
      found.stage.delay_us + 2e6 * found.stage.damping / (2 * M_PI * found.stage.resonance_hz);
  CHECK(lag_us == Approx(9000 + 2e6 * 0.5 / (2 * M_PI * 40)).margin(700));
  CHECK(found.stage.image_to_stage.b == Approx(-1 / 0.8).epsilon(0.1));
  CHECK(found.stage.image_to_stage.c == Approx(1 / 1.2).epsilon(0.1));

  scene.seconds(3);
  CHECK(scene.supervisor.lock().state == LockState::Locked);
  double square = 0;
  for (int i = 0; i < 1000; ++i) {
    scene.frame();
    square += std::pow(scene.place_nm.x - scene.zero_nm.x, 2) / 1000;
  }
  CHECK(std::sqrt(square) < 0.5);
}

TEST_CASE("commands that a busy computer holds up do not make a stage later") {
  Scene scene;
  if (GENERATE(false, true))
    scene.late_ns = 9 * kMs / 5;
  else
    scene.hold_ns = 30 * kMs;
  scene.hold_every_ns = 170 * kMs;
  scene.lock();
  scene.until_it_acts();
  REQUIRE(scene.supervisor.acquaintance() == StageAcquaintance::Known);
  const StageModelSettings found = scene.supervisor.stage_knowledge()->stage;
  const double lag_us = found.delay_us + 2e6 * found.damping / (2 * M_PI * found.resonance_hz);
  CHECK(lag_us == Approx(9000 + 2e6 * 0.5 / (2 * M_PI * 40)).margin(700));
}

TEST_CASE("what a lock found out serves the next one, until the description changes") {
  Scene scene;
  scene.lock();
  scene.until_it_acts();
  const std::uint32_t findings = scene.supervisor.stage_findings();
  scene.supervisor.command(LockEvent::CommandUnlock, scene.now_ns);
  scene.lock();
  CHECK_FALSE(scene.supervisor.is_acquainting());
  CHECK_FALSE(scene.frame().probe);
  CHECK(scene.supervisor.stage_findings() == findings);
  scene.supervisor.command(LockEvent::CommandUnlock, scene.now_ns);

  SupervisorSettings other = scene.used;
  other.controller.step_limit_nm = 15;
  scene.supervisor.change_settings(other);
  CHECK(scene.supervisor.acquaintance() == StageAcquaintance::Known);
  other.controller.stage_delay_us += 1;
  scene.supervisor.change_settings(other);
  CHECK(scene.supervisor.acquaintance() == StageAcquaintance::Told);
  scene.lock();
  CHECK(scene.supervisor.is_acquainting());
}

TEST_CASE("a stage that is described well keeps its description") {
  StageModelSettings truth = late_stage();
  SupervisorSettings told = settings();
  told.controller.stage_delay_us = truth.delay_us;
  told.controller.stage_resonance_hz = truth.resonance_hz;
  told.controller.stage_damping = truth.damping;
  Scene scene(told, truth);
  scene.lock();
  scene.until_it_acts();
  REQUIRE(scene.supervisor.stage_knowledge());
  CHECK_FALSE(scene.supervisor.stage_knowledge()->other_response);
  CHECK(scene.supervisor.stage_knowledge()->stage.delay_us == truth.delay_us);
}

TEST_CASE("a stage at fault is found before the lock has followed anything") {
  struct Fault {
    ImageToStage response;
    StageLooks looks;
  };
  for (const Fault& fault :
       {Fault{{0, 0, 0, 0}, StageLooks::Stuck}, Fault{{1, 0, 0, 0}, StageLooks::Stuck},
        Fault{{-1, 0, 0, -1}, StageLooks::Reversed}, Fault{{1, 0, 0, -1}, StageLooks::Reversed},
        Fault{{0, 1, 1, 0}, StageLooks::TurnedOrSwapped},
        Fault{{0, -1, 1, 0}, StageLooks::TurnedOrSwapped},
        Fault{{0.5, -0.87, 0.87, 0.5}, StageLooks::TurnedOrSwapped},
        Fault{{3, 0, 0, 3}, StageLooks::WrongGain}}) {
    CAPTURE(fault.response.a, fault.response.b, fault.response.c, fault.response.d);
    Scene scene;
    scene.response = fault.response;
    scene.lock();
    const double took_s = scene.until_it_acts();
    CHECK(scene.supervisor.lock().state == LockState::Holding);
    CHECK(scene.supervisor.lock().reason == LockReason::StageNotFollowing);
    CHECK(scene.supervisor.stage_looks() == fault.looks);
    CHECK(took_s < 1);
    CHECK(scene.farthest_nm < 20);
    scene.seconds(5);
    CHECK(scene.supervisor.lock().state == LockState::Holding);
    CHECK(scene.farthest_nm < 30);
    CHECK_FALSE(scene.supervisor.stage_knowledge());
  }
  CHECK(driftd::test::watched_allocations() == 0);
}

TEST_CASE("a lock whose frames do not tell goes by the description") {
  SECTION("a camera too slow for it") {
    Scene scene(settings(), late_stage(), 30 * kMs);
    scene.lock();
    scene.frame();
    CHECK_FALSE(scene.supervisor.is_acquainting());
    CHECK(scene.supervisor.acquaintance() == StageAcquaintance::NotFound);
  }
  SECTION("commands that never leave") {
    Scene scene;
    scene.lock();
    for (int n = 0; n < 3; ++n) {
      REQUIRE(scene.supervisor.is_acquainting());
      for (int i = 0; i < 200; ++i) scene.frame();
      scene.supervisor.take_back(scene.supervisor.controller().total_nm(), scene.now_ns);
    }
    scene.frame();
    CHECK_FALSE(scene.supervisor.is_acquainting());
    CHECK(scene.supervisor.acquaintance() == StageAcquaintance::NotFound);
  }
}

TEST_CASE("a lock that begins where moves have left the sample stays there") {
  Scene scene;
  scene.response = {0.8, 0, 0, 1.2};
  scene.set_nm = {1000, -700};
  scene.lock();
  scene.until_it_acts();
  CHECK(scene.farthest_nm < 15);
  REQUIRE(scene.supervisor.stage_knowledge());
  CHECK(scene.supervisor.stage_knowledge()->other_matrix);
  Vec2 before_nm = scene.supervisor.controller().total_nm();
  double largest_step_nm = 0;
  scene.farthest_nm = 0;
  for (int i = 0; i < 1000; ++i) {
    scene.frame();
    const Vec2 now_nm = scene.supervisor.controller().total_nm();
    largest_step_nm = std::max(
        {largest_step_nm, std::abs(now_nm.x - before_nm.x), std::abs(now_nm.y - before_nm.y)});
    before_nm = now_nm;
  }
  CHECK(largest_step_nm < 10);
  CHECK(scene.farthest_nm < 20);
  CHECK(scene.supervisor.lock().state == LockState::Locked);
  CHECK(scene.supervisor.set_point().place_nm().x == scene.set_nm.x);
  CHECK(std::abs(scene.supervisor.moved_nm().x - scene.set_nm.x) < 0.1);
  CHECK(std::abs(scene.place_nm.x - scene.zero_nm.x - scene.set_nm.x) < 2);
  CHECK(driftd::test::watched_allocations() == 0);
}

TEST_CASE("a lock that is held again and again goes by the description in the end") {
  Scene scene;
  scene.lock();
  const std::int64_t begin_ns = scene.now_ns;
  while (scene.supervisor.is_acquainting() && scene.now_ns < begin_ns + 60'000 * kMs) {
    for (int i = 0; i < 300 && scene.supervisor.is_acquainting(); ++i) scene.frame();
    for (int i = 0; i < 10; ++i) scene.frame(false);
    while (scene.supervisor.lock().state == LockState::Holding) scene.frame();
  }
  CHECK(scene.now_ns < begin_ns + 25'000 * kMs);
  CHECK(scene.supervisor.acquaintance() == StageAcquaintance::NotFound);
  CHECK(scene.supervisor.lock().state == LockState::Locked);
}

TEST_CASE("how long commands wait for a slow driver counts once") {
  constexpr double kWaitingUs = 4000;
  Scene scene;
  scene.driver_frames = 5;
  scene.lock();  // nobody knows yet that the driver is slow
  scene.until_it_acts();
  REQUIRE(scene.supervisor.acquaintance() == StageAcquaintance::Known);
  const auto late_us = [&] { return scene.supervisor.controller().stage().settings().delay_us; };
  const double found_us = late_us();
  CHECK(found_us > 9000 + 0.5 * kWaitingUs);
  scene.supervisor.command(LockEvent::CommandUnlock, scene.now_ns);
  scene.supervisor.set_stage_waiting_us(kWaitingUs);
  CHECK(late_us() == Approx(found_us));
  SupervisorSettings other = scene.used;
  other.controller.step_limit_nm += 1;
  scene.supervisor.change_settings(other);
  CHECK(late_us() == Approx(found_us));
  // The next daemon, which is told beforehand.
  Scene next;
  next.supervisor.set_stage_waiting_us(kWaitingUs);
  for (int i = 0; i < 100; ++i) next.frame();
  next.supervisor.know_stage(*scene.supervisor.stage_knowledge());
  CHECK(next.supervisor.controller().stage().settings().delay_us == Approx(found_us));
  // At another rate of frames commands do wait longer.
  Scene faster(settings(), late_stage(), kMs);
  faster.supervisor.set_stage_waiting_us(kWaitingUs);
  for (int i = 0; i < 100; ++i) faster.frame();
  faster.supervisor.know_stage(*scene.supervisor.stage_knowledge());
  CHECK(faster.supervisor.controller().stage().settings().delay_us ==
        Approx(found_us + kWaitingUs));
}

TEST_CASE("another stage's controller ends what was found, but no lock") {
  Scene scene;
  scene.lock();
  scene.until_it_acts();
  scene.supervisor.forget_found_stage();
  CHECK(scene.supervisor.acquaintance() == StageAcquaintance::Known);
  scene.supervisor.command(LockEvent::CommandUnlock, scene.now_ns);
  scene.supervisor.forget_found_stage();
  CHECK(scene.supervisor.acquaintance() == StageAcquaintance::Told);
  CHECK(scene.supervisor.controller().stage().settings().delay_us ==
        scene.used.controller.stage_delay_us);
}

TEST_CASE("`never` goes by the description, whatever a lock before has found") {
  Scene scene;
  scene.lock();
  scene.until_it_acts();
  scene.supervisor.command(LockEvent::CommandUnlock, scene.now_ns);
  REQUIRE(scene.supervisor.stage_knowledge());
  SupervisorSettings other = scene.used;
  other.acquaintance.when = AcquaintWhen::Never;
  scene.supervisor.change_settings(other);
  CHECK(scene.supervisor.acquaintance() == StageAcquaintance::Told);
  CHECK(scene.supervisor.controller().stage().settings().delay_us ==
        other.controller.stage_delay_us);
}

TEST_CASE("near the stage's range the moves stay within it") {
  SupervisorSettings told = settings();
  SECTION("with room for them") {
    told.controller.range_limit_nm = 8;
    Scene scene(told);
    scene.drift_nm_per_s = 8;
    scene.lock();
    while (scene.supervisor.is_acquainting()) {
      const Decision d = scene.frame();
      CHECK((d.correction.limited & kLimitRange) == 0);
    }
    CHECK(scene.supervisor.acquaintance() == StageAcquaintance::Known);
  }
  SECTION("with none") {
    told.controller.range_limit_nm = 2;
    Scene scene(told);
    scene.drift_nm_per_s = 5;
    scene.lock();
    scene.until_it_acts();
    CHECK(scene.supervisor.acquaintance() == StageAcquaintance::NotFound);
    CHECK(scene.supervisor.stage_looks() == StageLooks::Following);
    CHECK(scene.supervisor.lock().state == LockState::Locked);
  }
}

TEST_CASE("the record ends while no frame is a good one") {
  SupervisorSettings told = settings();
  told.lock.hold_timeout_ns = 3'600'000 * kMs;
  Scene scene(told);
  scene.response = {-1, 0, 0, -1};
  scene.lock();
  scene.until_it_acts();
  REQUIRE(scene.supervisor.lock().state == LockState::Holding);
  const auto shown = [&] { return scene.supervisor.to_get_acquainted() != nullptr; };
  for (int i = 0; i < 2000 && !shown(); ++i) scene.frame();
  REQUIRE(shown());
  scene.sample_nm.x += 10'000;
  scene.seconds(21);
  CHECK(scene.supervisor.lock().state == LockState::Holding);
  CHECK_FALSE(shown());
  scene.seconds(5);
  CHECK_FALSE(shown());
}

TEST_CASE("a stage that dies as the law begins to act, or soon after, is not told to go far") {
  const auto after_s = GENERATE(0.0, 0.2, 1.0, 4.0);
  const auto law = GENERATE(ControlLaw::Auto, ControlLaw::Observer, ControlLaw::Pi);
  CAPTURE(law, after_s);
  SupervisorSettings by_law = settings();
  by_law.controller.law = law;
  Scene scene(by_law);
  scene.lock();
  scene.until_it_acts();
  REQUIRE(scene.supervisor.acquaintance() == StageAcquaintance::Known);
  if (after_s > 0) scene.seconds(after_s);
  scene.driver_frames = 1 << 30;  // nothing arrives any more
  const Vec2 died_nm = scene.supervisor.controller().total_nm();
  double told_nm = 0;
  for (int i = 0; i < 2000 && scene.supervisor.lock().state == LockState::Locked; ++i) {
    const Decision d = scene.frame();
    if (d.has_correction)
      told_nm = std::max(told_nm, std::hypot(d.correction.total_nm.x - died_nm.x,
                                             d.correction.total_nm.y - died_nm.y));
  }
  CHECK(scene.supervisor.lock().state == LockState::Holding);
  CHECK(told_nm < 50);  // 1100 where it was trusted however far it was sent
}

TEST_CASE("a sample that drifts fast is held once at most before its lock corrects") {
  Scene scene;
  scene.drift_nm_per_s = 60;
  scene.lock();
  int held = 0;
  for (int i = 0; i < 6000; ++i) {
    const bool was_locked = scene.supervisor.lock().state == LockState::Locked;
    scene.frame();
    held += was_locked && scene.supervisor.lock().state == LockState::Holding;
  }
  CHECK(held <= 1);
  CHECK(scene.supervisor.lock().state == LockState::Locked);
  CHECK(std::abs(scene.place_nm.x - scene.zero_nm.x) < 5);
}

TEST_CASE("another response does not make the modelled stage jump") {
  StageModel model({.image_to_stage = {}, .delay_us = 3000, .time_constant_us = 1000});
  std::int64_t now_ns = 0;
  for (int i = 0; i < 3000; ++i) model.command({i % 100 < 50 ? 4.0 : -4.0, 1}, now_ns += 2 * kMs);
  StageModel other({.image_to_stage = {}, .delay_us = 0, .time_constant_us = 0});
  const StageModelSettings second = late_stage();
  other.change_settings(second);
  now_ns = 0;
  for (int i = 0; i < 3000; ++i) other.command({i % 100 < 50 ? 4.0 : -4.0, 1}, now_ns += 2 * kMs);
  model.change_settings(second);
  for (std::int64_t at_ns = now_ns - 500 * kMs; at_ns < now_ns + 100 * kMs; at_ns += kMs) {
    CHECK(model.at(at_ns).x == Approx(other.at(at_ns).x).margin(1e-6));
    CHECK(model.motion_at(at_ns).speed_nm_per_s.x ==
          Approx(other.motion_at(at_ns).speed_nm_per_s.x).margin(1e-4));
  }
}

/// Fast, of its driver's ways apart.
StageModelSettings fast_stage() {
  StageModelSettings stage = late_stage();
  stage.delay_us = 2500;
  stage.resonance_hz = 150;
  return stage;
}

TEST_CASE("a driver that takes a command now and then and does not tell is found out") {
  for (const StageModelSettings& truth : {fast_stage(), late_stage()}) {
    for (const double noise_nm : {0.2, 1.5}) {
      if (truth.resonance_hz < 100 && noise_nm > 1) continue;
      for (const int frames : {1, 3, 7, 10, 25}) {
        Scene scene(settings(), truth);
        scene.noise_nm = noise_nm;
        scene.driver_frames = frames;
        scene.lock();
        scene.until_it_acts();
        CAPTURE(truth.resonance_hz, noise_nm, frames);
        REQUIRE(scene.supervisor.acquaintance() == StageAcquaintance::Known);
        const double found_hz = scene.supervisor.stage_knowledge()->driver_hz;
        if (frames <= 3) {
          CHECK(found_hz == 0);
        } else {
          CHECK(found_hz * frames / 500 > 0.7);
          CHECK(found_hz * frames / 500 < 2.8);  // the fast stage, the least noise, 25 frames
        }
        scene.seconds(1);
        const LawState law = scene.supervisor.law().state();
        const bool slow = frames >= 7;
        CHECK((law.reason == LawReason::DriverTooSlow) == slow);
        CHECK(law.observer == !slow);
      }
    }
  }
}

TEST_CASE("what a driver tells of itself goes before what the moves showed") {
  Scene scene(settings(), fast_stage());
  scene.driver_frames = 10;
  scene.lock();
  scene.until_it_acts();
  scene.seconds(1);
  REQUIRE(scene.supervisor.law().state().reason == LawReason::DriverTooSlow);
  CHECK(scene.supervisor.law().state().frames_a_correction == Approx(10).epsilon(0.3));
  scene.driver_frames = 1;
  scene.told_hz = 500;
  scene.seconds(0.1);
  CHECK(scene.supervisor.law().state().reason != LawReason::DriverTooSlow);
}

TEST_CASE("a driver that was found slow is looked at again with the next lock") {
  for (const AcquaintWhen when : {AcquaintWhen::First, AcquaintWhen::Held, AcquaintWhen::Never}) {
    Scene scene(settings(when), fast_stage());
    scene.supervisor.know_stage({.stage = fast_stage(), .driver_hz = 50});
    scene.lock();
    CHECK(scene.supervisor.is_acquainting() == (when != AcquaintWhen::Never));
    scene.until_it_acts();
    scene.seconds(1);
    const bool slow = scene.supervisor.law().state().reason == LawReason::DriverTooSlow;
    CHECK(slow == (when == AcquaintWhen::Never));
    scene.supervisor.command(LockEvent::CommandUnlock, scene.now_ns);
    scene.lock();
    CHECK_FALSE(scene.supervisor.is_acquainting());
  }
}

TEST_CASE("a stage at fault behind a slow driver is found to be at fault") {
  for (const ImageToStage& response :
       {ImageToStage{-1, 0, 0, -1}, ImageToStage{0, 0, 0, 1}, ImageToStage{0, 1, 1, 0}}) {
    for (const int frames : {1, 5, 10, 15}) {
      Scene scene(settings(), fast_stage());
      scene.response = response;
      scene.driver_frames = frames;
      scene.lock();
      const double took_s = scene.until_it_acts();
      CAPTURE(response.a, response.b, response.d, frames, took_s);
      CHECK(scene.supervisor.lock().state == LockState::Holding);
      CHECK(scene.farthest_nm < 20);
    }
  }
}

}  // namespace
}  // namespace driftd::control
