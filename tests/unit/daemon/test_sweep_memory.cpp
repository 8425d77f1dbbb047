// SPDX-License-Identifier: MIT
// What is kept of a calibration that moves the stage of z, and what the next daemon says of it.
#include "daemon/resume/sweep_memory.hpp"

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "daemon/resume/lock_saver.hpp"
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
  void report(double position_nm, const char* driver = "lc400") {
    StageAxis axis;
    axis.axis = "z";
    axis.position_nm = position_nm;
    StageReport report;
    report.instance = "1";
    report.driver = driver;
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
  /// One that ends at the last place.
  void sweep(const std::vector<double>& totals_nm) {
    for (const double nm : totals_nm) turn(LockState::Calibrating, nm, 200);
    turn(LockState::Idle, 0);
  }
};

std::string sweep_file_of(const config::Config& config) {
  const std::filesystem::path lock = lock_file(config);
  return lock.parent_path() / ("sweep" + lock.filename().string().substr(4));
}

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
  SECTION("until its driver reads it there again") {
    f.report(5012);
    f.turn(LockState::Idle, 0);
    CHECK(f.run->memory.is_displaced());
    f.report(4991);
    f.turn(LockState::Idle, 0);
    CHECK_FALSE(f.run->memory.is_displaced());
    f.restart();
    CHECK(f.run->memory.text().empty());
  }
  SECTION("through another one, which ends where it began") {
    f.sweep({0, 100, 1});
    for (int i = 0; i < 2; ++i) {
      CHECK_THAT(f.run->memory.text(), contains("some +213 nm from where it began"));
      CHECK_THAT(f.run->memory.text(), contains("at 5000.0 nm on its own axis"));
      f.restart();
    }
  }
  SECTION("through another one that was left, or interrupted, too") {
    f.sweep({0, 60, 100});
    CHECK_THAT(f.run->memory.text(), contains("some +312 nm from where it began"));
    f.restart();
    f.turn(LockState::Calibrating, 0);
    f.turn(LockState::Calibrating, -70, 200);
    f.restart();
    CHECK_THAT(f.run->memory.text(), contains("some +242 nm from where it began"));
    CHECK_THAT(f.run->memory.text(), contains("at 5000.0 nm on its own axis"));
  }
}

TEST_CASE("where a calibration of z begins is written before it moves, for a while") {
  Fixture f;
  f.report(5000);
  f.run->memory.expect(f.now_ns);
  SECTION("and known to the next daemon") {
    f.restart();
    CHECK_THAT(f.run->memory.text(), contains("at 5000.0 nm on its own axis"));
  }
  SECTION("and gone where it was not begun") {
    f.turn(LockState::Idle, 0, SweepMemory::kExpectedNs / kMs);
    f.restart();
    CHECK_FALSE(f.run->memory.is_displaced());
  }
}

TEST_CASE("a way back that cannot be written is told, and told to be over") {
  Fixture f;
  const std::filesystem::path in_the_way = sweep_file_of(f.config) + ".new";
  std::filesystem::create_directories(in_the_way);
  f.run->memory.expect(f.now_ns);
  REQUIRE(turned_until([&] { return !f.run->told.codes().empty(); },
                       [&] { f.turn(LockState::Calibrating, 0, 0); }));
  CHECK(f.run->told.codes() == std::vector<std::string>{"state_not_written"});
  CHECK_THAT(f.run->memory.problem(), contains(".state.new"));
  CHECK_THAT(f.run->memory.text(), contains("where a calibration of z began cannot be kept: "));
  std::filesystem::remove(in_the_way);
  REQUIRE(turned_until([&] { return f.run->told.codes().size() == 2; },
                       [&] { f.turn(LockState::Calibrating, 0, 0); }));
  CHECK(f.run->memory.text().empty());
}

TEST_CASE("without a folder no way back is kept, and it is said why") {
  Fixture f;
  CHECK(f.run->memory.keeps_nothing().empty());
  for (const char* name : {"STATE_DIRECTORY", "XDG_STATE_HOME", "HOME"}) unsetenv(name);
  f.restart();
  CHECK_THAT(f.run->memory.keeps_nothing(), contains("no state directory"));
  CHECK_FALSE(f.run->memory.is_busy());
}

TEST_CASE("lock.at_start is told not to lock z where a calibration left it") {
  Fixture f;
  f.report(5000);
  f.turn(LockState::Calibrating, 0);
  f.turn(LockState::Calibrating, 150, 200);
  f.config.lock.at_start = true;
  f.restart();
  CHECK(f.run->memory.cure().empty());  // z is not held at all
  f.config.axial.hold = true;
  f.restart();
  CHECK_THAT(f.run->memory.cure(), contains("by its controller, to 5000.0 nm on its own axis"));
  CHECK_THAT(f.run->memory.cure(), contains("`driftctl lock --axes z`"));
  f.report(5150, "pi");  // its axis has other numbers
  CHECK_THAT(f.run->memory.cure(), !contains("5000") && !contains("is locked"));
}

TEST_CASE("a calibration of z that does not begin leaves nothing behind") {
  Fixture f;
  f.config.lock.at_start = f.config.axial.hold = true;
  f.restart();
  f.report(5000);
  f.run->memory.expect(f.now_ns);
  f.run->memory.unexpect();
  f.restart();
  CHECK_FALSE(f.run->memory.is_displaced());
  f.report(5000);
  f.run->memory.expect(f.now_ns);
  f.restart();
  CHECK(f.run->memory.is_displaced());
}

TEST_CASE("what is no calibration of z is told and ignored") {
  CHECK_THROWS_AS(read_saved_sweep("driftd-axial-sweep 1 00000000 2\n{}"), StateError);
  CHECK_THROWS_AS(read_saved_sweep(sealed("{}", {"driftd-axial-sweep", ""})), StateError);
}
