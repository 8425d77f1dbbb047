// SPDX-License-Identifier: MIT
// Housekeeping's part of a calibration: when the stage may be moved, what the loop is given, and
// what is told of each way in which it ends. The loop's part: test_tracking_loop_calibration.cpp.
#include <chrono>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>

#include "daemon/calibration/calibration.hpp"
#include "housekeeping_for_tests.hpp"
#include "support/catch.hpp"

using namespace driftd;
using namespace driftd::daemon;
using control::LockState;
using driftd::daemon::test::Asker;
using driftd::daemon::test::PlayedCamera;
using driftd::daemon::test::PlayedLoop;
using driftd::daemon::test::refused_at_once;
using driftd::daemon::test::Told;
using Kind = LoopCommand::Kind;
using nlohmann::json;

namespace {

struct Fixture {
  config::Config config = config::default_config();
  PlayedLoop played;
  PlayedCamera source;
  Told told;
  CorrectionGate gate;
  LoopControl loop{played.ports};
  CameraWatch camera{config, source, loop, told.log};
  LockOrders orders{{}, gate, loop, [] { return std::string(); }};
  std::string nothing_to_see;
  DriverTiming timing{};
  Calibration calibration{config,
                          orders,
                          camera,
                          loop,
                          told.log,
                          [this] { return nothing_to_see; },
                          [this] { return timing; }};
  std::int64_t now_ns = 1'000'000'000;

  Fixture() {
    source.described.exposure_us = 1300;
    camera.look();
    played.report.frame_rate_hz = 500;
    played.report.drift.valid = true;
    played.report.tracked_ns = played.report.time_ns = now_ns;
    played.tell();
    loop.refresh();
  }
  /// The loop takes what was sent, and housekeeping sees it.
  void turn() {
    played.turn();
    now_ns += 10'000'000;
    loop.refresh();
    orders.turn(now_ns);
    calibration.turn();
  }
  std::string refusal(std::optional<double> excursion_nm = {}) {
    return refused_at_once([&] {
      calibration.begin(
          excursion_nm, {}, [](const Outcome&) {}, now_ns);
    });
  }
  std::string refusal_text(double excursion_nm) {
    try {
      calibration.begin(
          excursion_nm, {}, [](const Outcome&) {}, now_ns);
    } catch (const CommandRefused& refused) {
      return refused.text;
    }
    return "";
  }
  /// Begun; the loop's run, for the test to play.
  std::unique_ptr<CalibrationRun> begun(Asker& asker) {
    calibration.begin(40, 6, asker.answer(), now_ns);
    turn();
    return std::unique_ptr<CalibrationRun>(
        static_cast<CalibrationRun*>(played.taken.back().calibration.release()));
  }
  /// The loop is through with it.
  void give_back(std::unique_ptr<CalibrationRun> run) {
    played.report.lock.state = LockState::Idle;
    played.ports.retired_calibrations.push(std::move(run));
    turn();
  }
  std::string phase() const { return calibration.progress()["phase"]; }
  std::string text() const { return calibration.progress()["text"]; }
};

bool contains(const std::string& text, const char* part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("nothing was calibrated at first") {
  const Fixture f;
  CHECK(f.calibration.progress() ==
        json{{"run", 0}, {"phase", "none"}, {"progress", 0.0}, {"text", ""}, {"result", nullptr}});
}

TEST_CASE(
    "a calibration is kept once the configuration has what it proposes, as stage or as pixel") {
  const driftd::config::Config before = driftd::config::default_config();
  json stage = {{"image_to_stage", {{1.10001, 0.0}, {0.0, 1.10001}}},
                {"delay_us", 2000.4},
                {"time_constant_us", nullptr}};
  const json result = {{"proposal", {{"stage", stage}}}};
  auto after = before;
  CHECK(driftd::daemon::proposes_else(result, before, after));
  after.stage.delay_us = 2000;
  CHECK(driftd::daemon::proposes_else(result, before, after));
  after.stage.image_to_stage = {{{1.1, 0}, {0, 1.1}}};
  CHECK_FALSE(driftd::daemon::proposes_else(result, before, after));
  after.stage.image_to_stage = {{{1, 0}, {0, 1}}};
  after.optics.pixel_size_nm = 1.1 * before.optics.pixel_size_nm;
  CHECK_FALSE(driftd::daemon::proposes_else(result, before, after));
}

TEST_CASE("the stage is moved only where that can lead to something") {
  Fixture f;
  SECTION("a recording") {
    f.config.camera.source = config::Source::Replay;
    CHECK(f.refusal() == "refused");
  }
  SECTION("no camera") {
    f.source.connected = false;
    CHECK(f.refusal() == "no_frame");
  }
  SECTION("nothing to lock by: for the reason that there is") {
    f.nothing_to_see = "the camera's exposure is being set";
    CHECK(f.refusal() == "refused");
    CHECK(f.refusal_text(40) == f.nothing_to_see);
  }
  SECTION("markers that are not measured") {
    f.played.report.drift.valid = false;
    f.played.tell();
    f.loop.refresh();
    CHECK(f.refusal() == "refused");
  }
  SECTION("no frames, of which nothing is known of markers") {
    f.played.report.time_ns += 600'000'000;
    f.played.tell();
    f.loop.refresh();
    CHECK(f.refusal() == "no_frame");
  }
  SECTION("frames at an unknown rate") {
    f.played.report.frame_rate_hz = 0;
    f.played.tell();
    f.loop.refresh();
    CHECK(f.refusal() == "no_frame");
  }
  SECTION("an excursion beyond either limit") {
    f.config.control.range_limit_nm = 50;
    CHECK(f.refusal(51) == "refused");
    CHECK(f.refusal(50).empty());
  }
  SECTION("an excursion beyond the travel") {
    f.config.control.travel_limit_nm = 50;
    CHECK(f.refusal(51) == "refused");
  }
  SECTION("an excursion beyond what locks have left of the travel, on one side") {
    f.config.control.travel_limit_nm = 3000;
    f.played.report.travelled_nm = {40, -2700};
    f.played.report.total_nm = {0, -201};  // of the lock that was last
    f.played.tell();
    f.loop.refresh();
    CHECK(f.refusal_text(100) ==
          "an excursion of 100 nm would take the stage -3001 nm from its place at the first start "
          "in y, and control.travel_limit_nm is 3000");
    CHECK(f.refusal(99).empty());
  }
  SECTION("a way that takes too long") {
    f.config.control.rate_limit_nm_per_s = 30;  // 100 nm of 20 s: 3 s and a little
    CHECK(f.refusal() == "refused");
    f.config.control.rate_limit_nm_per_s = 34;
    CHECK(f.refusal().empty());
  }
  SECTION("steps that take too long") {
    f.config.control.step_limit_nm = 0.06;
    CHECK(f.refusal() == "refused");
  }
  SECTION("too few frames, or more than can be evaluated") {
    for (const auto& [hz, fails] :
         {std::pair{1.0, true}, {19.0, true}, {21.0, false}, {3001.0, true}}) {
      f.played.report.frame_rate_hz = hz;
      f.played.tell();
      f.loop.refresh();
      CHECK(f.refusal() == (fails ? "refused" : ""));
      if (!fails) f.turn();
      if (!fails) f.played.tell_state(LockState::Idle);
      if (!fails) break;
    }
  }
  SECTION("a lock") {
    for (const LockState state : {LockState::Referencing, LockState::Locked, LockState::Holding,
                                  LockState::Lost, LockState::Fault}) {
      f.played.tell_state(state);
      f.loop.refresh();
      CHECK(f.refusal() == "refused");
    }
  }
}

TEST_CASE("the loop gets a run with what the camera and the configuration say") {
  Fixture f;
  f.config.lock.bad_frames_to_hold = 17;
  f.config.lock.max_drift_nm_per_s = 23;
  Asker asker;
  const auto run = f.begun(asker);
  REQUIRE(run);
  CHECK(f.played.taken.back().kind == Kind::Calibrate);
  CHECK(run->settings().excursion_nm == 40);
  CHECK(run->settings().bad_frames_to_end == 17);
  CHECK(run->settings().most_drift_nm_per_s == 23);
  CHECK(run->settings().exposure_ns == 1'300'000);
  CHECK(run->settings().frame_period_ns == 2'000'000);
  CHECK(f.gate.pass(1, [] {}));
  CHECK(asker.reply().fields == json{{"run", 1}, {"excursion_nm", 40.0}, {"seconds", 6.0}});
  CHECK(f.refusal() == "busy");
}

TEST_CASE("the phase is the loop's as long as it moves the stage") {
  Fixture f;
  Asker asker;
  auto run = f.begun(asker);
  const std::pair<CalibrationPhase, const char*> phases[] = {
      {CalibrationPhase::Quiet, "quiet"},
      {CalibrationPhase::Moving, "moving"},
      {CalibrationPhase::Returning, "returning"}};
  for (const auto& [phase, name] : phases) {
    f.played.report.calibration = phase;
    f.played.report.calibration_progress = 0.25;
    f.turn();
    CHECK(f.phase() == name);
    CHECK(f.calibration.progress()["progress"] == 0.25);
  }
}

TEST_CASE("each way in which a calibration ends early is told with the stage's place") {
  const std::tuple<CalibrationEnd, const char*, const char*> ends[] = {
      {CalibrationEnd::Stopped, "stopped", "stopped by command"},
      {CalibrationEnd::Unlocked, "stopped", "unlock"},
      {CalibrationEnd::MarkersLost, "failed", "too few markers"},
      {CalibrationEnd::MovedTooFar, "failed", "pixel_size_nm"},
      {CalibrationEnd::SampleMoved, "failed", "max_drift_nm_per_s"},
      {CalibrationEnd::TooOld, "failed", "too old"},
      {CalibrationEnd::TooManyFrames, "failed", "faster"},
      {CalibrationEnd::NotBack, "failed", "brought back"},
      {CalibrationEnd::NotSent, "failed", "did not leave in time"},
      {CalibrationEnd::StageReports, "failed", "driver"},
      {CalibrationEnd::NoFrames, "failed", "no frames"},
      {CalibrationEnd::NoRoom, "failed", "travel_limit_nm"},
      {CalibrationEnd::Fault, "failed", "fault"},
      {CalibrationEnd::Complete, "failed", "only 0 frames"}};
  for (const auto& [end, phase, part] : ends) {
    Fixture f;
    Asker asker;
    auto run = f.begun(asker);
    if (end == CalibrationEnd::Complete) {
      run->wanted_nm(1);
      run->wanted_nm(1'000'000'000'000);
    }
    run->abandon(end);
    f.give_back(std::move(run));
    CHECK(f.phase() == phase);
    CHECK(contains(f.text(), part));
    // What a stage does of which its driver reports an error is not known.
    CHECK(contains(f.text(), end == CalibrationEnd::StageReports ? "told to go back to its start"
                                                                 : "back at its start"));
    CHECK(f.told.events.back()["code"] == "calibration");
    CHECK(f.told.events.back()["phase"] == phase);
    CHECK(f.refusal().empty());
  }
}

TEST_CASE("a record that a busy computer spoilt is refused for that first") {
  // Whatever the stage is told, the sample rests: as recorded the stage is dead.
  const auto refused = [](bool busy, double longest_us) {
    Fixture f;
    Asker asker;
    f.timing = {.waiting_us = 0, .usual_us = 800, .longest_us = 21'000};
    auto run = f.begun(asker);
    control::FrameFacts facts;
    control::DriftEstimate drift;
    drift.valid = true;
    drift.frame_covariance_nm2 = {0.04, 0, 0.04};
    facts.drift = &drift;
    std::int64_t now_ns = 1'000'000'000;
    std::mt19937 random(3);
    std::normal_distribution<double> normal;
    for (int i = 0; i < 3400; ++i) {
      now_ns += 2'000'000;
      if (run->over()) break;
      if (busy && i % 50 < 10) continue;  // no frame
      control::Decision decision;
      decision.has_correction = true;
      decision.correction.total_nm = run->wanted_nm(now_ns);
      facts.now_ns = now_ns;
      facts.taken_ns = now_ns - 1'500'000;
      drift.frame_drift_nm = {0.2 * normal(random), 0.2 * normal(random)};
      run->saw(facts, decision);
      if (busy && i % 50 % 20 == 10) run->left_at(now_ns + 1'500'000);
    }
    f.timing.longest_us = longest_us;
    f.give_back(std::move(run));
    for (int i = 0; i < 30'000 && f.phase() == "fitting"; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      f.turn();
    }
    CHECK(f.phase() == "refused");
    CHECK(contains(f.text(), "The stage does not move"));
    return f.text();
  };
  CHECK(refused(false, 21'000).starts_with("The stage does not move"));
  const std::string busy = refused(true, 48'000);
  CHECK(contains(busy,
                 "This computer was too busy to find out how the stage answers: of the stage's "
                 "moves 5 % left late, by up to 2 ms, or never; of the frames "));
  CHECK(contains(busy,
                 " % came too old or not at all; the stage's driver had a move done after 48 "
                 "ms only. Calibrate again"));
  CHECK(contains(busy, "As recorded it looks so: The stage does not move"));
}

TEST_CASE("only a computer that was busy is said to have been") {
  CHECK(strain_text({}, 0, 0).empty());
  CHECK(strain_text({.late_share = 0.009, .longest_s = 0.2, .lost_share = 0.049}, 0, 0).empty());
  CHECK_FALSE(strain_text({.late_share = 0.011}, 0, 0).empty());
  CHECK_FALSE(strain_text({.lost_share = 0.051}, 0, 0).empty());
  CHECK_FALSE(strain_text({}, 30'000, 0).empty());
  CHECK(contains(strain_text({}, 0, 2), "the stage's driver ignored 2 moves, which came too late"));
}

TEST_CASE("a stage that could not go back is said to be where it is") {
  Fixture f;
  Asker asker;
  auto run = f.begun(asker);
  control::Decision decision;
  decision.has_correction = true;
  decision.correction.total_nm = {12.25, -3};
  run->wanted_nm(1);
  run->saw({.now_ns = 1}, decision);
  run->abandon(CalibrationEnd::NoFrames);
  f.give_back(std::move(run));
  CHECK(contains(f.text(), "left at (+12.2, -3.0) nm"));
}

TEST_CASE("stop reaches the loop while the stage is moved, and is refused at other times") {
  Fixture f;
  const auto stop = [&f] {
    return refused_at_once([&f] { f.calibration.stop([](const Outcome&) {}); });
  };
  CHECK(stop() == "refused");
  Asker asker;
  auto run = f.begun(asker);
  f.played.taken.clear();
  CHECK(stop().empty());
  f.turn();
  REQUIRE(f.played.taken.size() == 1);
  CHECK(f.played.taken[0].kind == Kind::StopCalibration);
  run->abandon(CalibrationEnd::Stopped);
  f.give_back(std::move(run));
  CHECK(stop() == "refused");
}

TEST_CASE("an order that the loop does not take begins nothing") {
  Fixture f;
  Asker asker;
  f.calibration.begin({}, {}, asker.answer(), f.now_ns);
  f.now_ns += 600'000'000;
  f.loop.refresh();
  f.orders.turn(f.now_ns);
  CHECK(asker.code() == "timeout");
  CHECK(f.phase() == "none");
  CHECK_FALSE(f.gate.pass(1, [] {}));
}

TEST_CASE("the end of another run is not taken for this one's") {
  Fixture f;
  Asker asker;
  auto run = f.begun(asker);
  auto other = std::make_unique<CalibrationRun>(control::StageExcitation{}, run->settings());
  other->abandon(CalibrationEnd::Stopped);
  f.played.ports.retired_calibrations.push(std::move(other));
  f.turn();
  CHECK(f.phase() != "stopped");
  run->abandon(CalibrationEnd::NoFrames);
  f.give_back(std::move(run));
  CHECK(f.phase() == "failed");
}
