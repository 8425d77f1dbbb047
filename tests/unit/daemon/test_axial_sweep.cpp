// SPDX-License-Identifier: MIT
// Housekeeping's part of a sweep of z: how far it may go by the limits, and what is told, and
// advised, of each way in which it ends. The loop's part: test_sweep_run.cpp.
#include <memory>
#include <string>
#include <tuple>
#include <utility>

#include "command_handlers_fixture.hpp"
#include "daemon/calibration/axial_sweep.hpp"
#include "support/catch.hpp"

using namespace driftd;
using namespace driftd::daemon;
using driftd::daemon::test::Asker;

namespace {

struct Fixture : driftd::daemon::test::HandlersFixture {
  std::int64_t now_ns = 1'000'000'000;

  explicit Fixture(control::AxialMethod method = control::AxialMethod::Astigmatic) {
    config.axial.method = method;
    config.axial.range_limit_nm = 1000;
    config.axial.travel_limit_nm = 1000;
    source.described.exposure_us = 1300;
    camera.look();
    played.report.frame_rate_hz = 500;
    played.report.drift.valid = true;
    played.report.tracked_ns = played.report.time_ns = now_ns;
    played.tell();
    loop.refresh();
  }
  std::string refusal(const SweepRequest& request = {}) {
    try {
      sweep.begin(
          request, [](const Outcome&) {}, now_ns);
    } catch (const CommandRefused& refused) {
      return refused.text;
    }
    return "";
  }
  /// The loop takes what was sent, and housekeeping sees it.
  void turn() {
    played.turn();
    now_ns += 10'000'000;
    loop.refresh();
    z_orders.turn(now_ns);
    sweep.turn(now_ns);
  }
  std::unique_ptr<StageRun> begun(Asker& asker) {
    sweep.begin({}, asker.answer(), now_ns);
    turn();  // its beginning is written first
    turn();
    return std::move(played.taken.back().calibration);
  }
  std::string text() const { return sweep.progress()["text"]; }
};

}  // namespace

TEST_CASE("each way in which a sweep of z ends early is told with what helps", "[messages]") {
  using End = CalibrationEnd;
  const std::tuple<End, const char*, const char*, const char*> ends[] = {
      {End::Stopped, "stopped", "stopped by command", ""},
      {End::Unlocked, "stopped", "`unlock`", ""},
      {End::MarkersLost, "failed", "not seen for several frames", "give more light"},
      {End::MarkersChanged, "failed", "replaced by others", "calibrate again"},
      {End::TooOld, "failed", "too old", "too busy"},
      {End::NotBack, "failed", "brought back", ""},
      {End::NotSent, "failed", "did not leave in time", "too busy"},
      {End::NoFrames, "failed", "no frames came", "driftctl cameras"},
      {End::NoRoom, "failed", "axial.travel_limit_nm", "leaves no room"},
      {End::Fault, "failed", "the lock of z went to `fault`", "driftctl reset"}};
  for (const auto& [end, phase, reason, cure] : ends) {
    Fixture f;
    Asker asker;
    auto run = f.begun(asker);
    REQUIRE(run);
    run->abandon(end);
    f.played.ports.of(AxisGroup::Axial).retired_calibrations.push(std::move(run));
    f.turn();
    CHECK(f.sweep.progress()["phase"] == phase);
    CHECK_THAT(f.text(), contains(reason) && contains(cure) && contains("back"));
  }
}

TEST_CASE("a sweep that its driver ended says what the driver reported, and what helps") {
  const std::pair<control::StageSays, const char*> words[] = {
      {control::StageSays::Limit, "the driver of z reported that the stage is at a limit: begin"},
      {control::StageSays::Error, "the driver of z reported an error: `driftctl status`"},
      {control::StageSays::Silent, "the driver of z went silent: has it ended?"}};
  for (const auto& [says, text] : words) {
    Fixture f;
    Asker asker;
    auto run = f.begun(asker);
    REQUIRE(run);
    control::FrameFacts facts;
    facts.stage = says;
    run->saw(facts, {});
    run->abandon(CalibrationEnd::StageReports);
    f.played.ports.of(AxisGroup::Axial).retired_calibrations.push(std::move(run));
    f.turn();
    CHECK_THAT(f.text(), contains(text));
  }
}

TEST_CASE("limits that leave less than a lock needs are refused with how much it is") {
  const auto with_room = [](control::AxialMethod method, double range_nm) {
    Fixture f(method);
    f.config.axial.range_limit_nm = range_nm;
    return f.refusal();
  };
  using control::AxialMethod;
  CHECK_THAT(
      with_room(AxialMethod::Astigmatic, 259),
      contains("200 nm each way at least, 260 nm with the way to its first place; 259 nm are "
               "left by axial.range_limit_nm (259 nm)"));
  CHECK(with_room(AxialMethod::Astigmatic, 260).empty());
  CHECK_THAT(
      with_room(AxialMethod::Defocus, 159),
      contains("100 nm each way at least, 160 nm with the way to its first place; 159 nm are "
               "left by axial.range_limit_nm (159 nm)") &&
          contains("a larger limit"));
  CHECK(with_room(AxialMethod::Defocus, 160).empty());
  CHECK_THAT(with_room(AxialMethod::Defocus, 155), !contains("--step-nm"));
}

TEST_CASE("a sweep that waits for the disk is ended by `stop`, and never begins") {
  Fixture f;
  Asker asker, stopper;
  f.sweep.begin({}, asker.answer(), f.now_ns);
  REQUIRE(f.sweep.pending());
  f.sweep.stop(stopper.answer());
  CHECK_FALSE(f.sweep.pending());
  f.turn();
  f.turn();
  CHECK(f.played.taken.empty());
}

TEST_CASE("what changes while a sweep waits for the disk is seen before it begins") {
  const auto refusal_after = [](void (*change)(Fixture&)) {
    Fixture f;
    f.z_travel = AxialTravel{.max_nm = 10'000, .resolution_nm = 1, .position_nm = 5000};
    Asker asker;
    f.sweep.begin({}, asker.answer(), f.now_ns);
    change(f);
    f.turn();
    f.turn();
    CHECK_FALSE(f.sweep.pending());
    CHECK(f.played.taken.empty() == !asker.code().empty());
    return asker.text();
  };
  CHECK(refusal_after([](Fixture& f) { f.z_travel->position_nm += 12; }).empty());
  CHECK_THAT(refusal_after([](Fixture& f) { f.z_travel->position_nm += 14; }),
             contains("moved from 5000.0 to 5014.0 nm on its own axis"));
  CHECK_THAT(refusal_after([](Fixture& f) { f.z_travel->max_nm = 5100; }),
             contains("what the stage's driver tells of its travel"));
  CHECK_THAT(refusal_after([](Fixture& f) { f.config.axial.range_limit_nm = 100; }),
             contains("axial.range_limit_nm (100 nm)"));
}

TEST_CASE("a sweep of z that is not idle is refused before anything is written") {
  Fixture f;
  f.played.report.z.lock.state = control::LockState::Locked;
  f.played.tell();
  f.loop.refresh();
  CHECK_THAT(f.refusal(), contains("`driftctl unlock --axes z` first"));
  CHECK_FALSE(f.sweep.pending());
}
