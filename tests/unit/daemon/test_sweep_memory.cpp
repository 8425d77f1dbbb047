// SPDX-License-Identifier: MIT
// What is kept of a calibration that moves the stage of z, and what the next daemon says of it.
#include "daemon/resume/sweep_memory.hpp"

#include <optional>
#include <string>

#include "housekeeping_for_tests.hpp"
#include "saved_lock_for_tests.hpp"
#include "support/catch.hpp"
#include "turned_until.hpp"

using namespace driftd;
using namespace driftd::daemon;
using namespace driftd::daemon::test;
using control::LockState;

namespace {

constexpr std::int64_t kMs = 1'000'000;

struct Fixture {
  StateFolder folder;
  config::Config config = config::default_config();
  std::int64_t now_ns = 1000 * kMs;

  struct Run {
    PlayedLoop played;
    Told told;
    LoopControl loop{played.ports};
    StageChannel stage;
    SweepMemory memory;

    explicit Run(const config::Config& config)
        : stage(config, "session", played.ports, loop, told.log, AxisGroup::Axial),
          memory(config, loop, stage, told.log) {
      memory.recall();
    }
  };
  std::optional<Run> run;

  Fixture() {
    config.axial.method = control::AxialMethod::Astigmatic;
    run.emplace(config);
  }
  void restart() { run.emplace(config); }
  void report(double position_nm) {
    StageAxis axis;
    axis.axis = "z";
    axis.position_nm = position_nm;
    StageReport report;
    report.instance = "1";
    report.driver = "lc400";
    report.axes = {axis};
    run->stage.take(report, now_ns);
  }
  void turn(LockState state, double total_nm, std::int64_t later_ms = 10) {
    now_ns += later_ms * kMs;
    run->played.report.z.lock.state = state;
    run->played.report.z.total_nm = {total_nm, 0};
    run->played.tell();
    run->loop.refresh();
    run->memory.turn(now_ns);
  }
};

}  // namespace

TEST_CASE("a calibration that the daemon's end interrupted is known to the next ones") {
  Fixture f;
  f.report(5000);
  f.turn(LockState::Calibrating, 0);
  f.turn(LockState::Calibrating, 150, 200);
  f.turn(LockState::Calibrating, 212, 200);
  for (int i = 0; i < 2; ++i) {
    f.restart();
    CHECK_THAT(f.run->memory.text(), contains("some +212 nm from where it began"));
    CHECK_THAT(f.run->memory.text(), contains("at 5000.0 nm on its own axis (driver lc400)"));
    CHECK(f.run->told.codes() == std::vector<std::string>{"calibration"});
    f.report(5209);
    f.turn(LockState::Idle, 0);
    CHECK_THAT(f.run->memory.text(), contains("it is at 5209.0 nm now"));
    f.turn(LockState::Idle, 0);
  }
  SECTION("until z is held") {
    f.turn(LockState::Locked, 0);
    CHECK(f.run->memory.text().empty());
    f.restart();
    CHECK(f.run->memory.text().empty());
  }
  SECTION("until another one is over") {
    f.turn(LockState::Calibrating, 0);
    CHECK(f.run->memory.text().empty());
    f.turn(LockState::Idle, 0);
    f.restart();
    CHECK(f.run->memory.text().empty());
  }
}

TEST_CASE("what is no calibration of z is told and ignored") {
  CHECK_THROWS_AS(read_saved_sweep("driftd-axial-sweep 1 00000000 2\n{}"), StateError);
  CHECK_THROWS_AS(read_saved_sweep(sealed("{}", {"driftd-axial-sweep", ""})), StateError);
}
