// SPDX-License-Identifier: MIT
// When recordings begin and end: orders that come while the disk is still busy with the last one.
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "base/monotonic.hpp"
#include "daemon/recorder/record_keeper.hpp"
#include "housekeeping_for_tests.hpp"
#include "record/file_reader.hpp"
#include "support/catch.hpp"
#include "turned_until.hpp"

using namespace driftd;
using namespace driftd::daemon;
using control::LockState;
using driftd::daemon::test::Asker;
using driftd::daemon::test::PlayedCamera;
using driftd::daemon::test::PlayedLoop;
using driftd::daemon::test::Told;
using driftd::daemon::test::turned_until;
namespace fs = std::filesystem;

namespace {

struct Fixture {
  fs::path folder = fs::temp_directory_path() / ("driftd-keeper-" + std::to_string(getpid()));
  config::Config config = [this] {
    config::Config c = config::default_config();
    c.record.directory = folder;
    c.record.keep_free_mb = 0;
    c.record.at_lock = true;
    return c;
  }();
  PlayedLoop played;
  PlayedCamera source;
  Told told;
  LoopControl loop{played.ports};
  CameraWatch camera{config, source, loop, told.log};
  StageChannel stage{config, "session", played.ports, loop, told.log};
  StageChannel z_stage{config, "session", played.ports, loop, told.log, AxisGroup::Axial};
  PatternWatch pattern;
  RecordKeeper keeper{config, "session", std::make_shared<RecordFeed>(1),
                      source, camera,    loop,
                      stage,  pattern,   told.log};

  ~Fixture() {
    keeper.finish();
    fs::remove_all(folder);
  }
  void until(const std::function<bool()>& done) {
    REQUIRE(turned_until(done, [this] { keeper.turn(0); }));
  }
  bool recording() { return keeper.status(0)["recording"]; }
  std::size_t files() const {
    return static_cast<std::size_t>(std::ranges::count_if(
        fs::directory_iterator(folder),
        [](const fs::directory_entry& entry) { return entry.path().extension() == ".h5"; }));
  }
  void lock_goes(LockState from, LockState to) {
    LockChange change;
    change.previous = from;
    change.state = to;
    keeper.follow(change, 0);
  }
};

}  // namespace

TEST_CASE("a record that is begun while another ends follows it") {
  Fixture f;
  Asker first, stop, second;
  f.keeper.start(first.answer(), 0);
  f.until([&] { return first.answered(); });
  f.keeper.stop(stop.answer(), 0);
  f.keeper.start(second.answer(), 0);
  f.until([&] { return stop.answered() && second.answered(); });
  CHECK(second.reply().fields["record"]["recording"] == true);
  CHECK(second.reply().fields["record"]["by"] == "command");
  CHECK(first.reply().fields["record"]["file"] != second.reply().fields["record"]["file"]);
  CHECK(f.recording());
  // Not begun at all where the last word is to stop.
  Asker third, end;
  f.keeper.stop(end.answer(), 0);
  f.keeper.start(third.answer(), 0);
  Asker last;
  f.keeper.stop(last.answer(), 0);
  f.until([&] { return end.answered() && third.answered() && last.answered(); });
  CHECK_FALSE(f.recording());
  CHECK(f.files() == 2);
}

TEST_CASE("a lock right after another one is recorded, too") {
  Fixture f;
  f.lock_goes(LockState::Idle, LockState::Referencing);
  f.until([&] { return f.recording(); });
  f.lock_goes(LockState::Locked, LockState::Idle);
  f.lock_goes(LockState::Idle, LockState::Referencing);
  f.until([&] { return f.recording() && f.files() == 2; });
  CHECK(f.keeper.status(0)["by"] == "lock");
  f.lock_goes(LockState::Referencing, LockState::Idle);
  f.until([&] { return !f.recording(); });
  CHECK(f.files() == 2);
}

TEST_CASE("a lock after a lost one is recorded, whatever became of the recording before") {
  Fixture f;
  f.lock_goes(LockState::Idle, LockState::Referencing);
  f.until([&] { return f.recording(); });
  f.lock_goes(LockState::Holding, LockState::Lost);
  SECTION("it was stopped") {
    Asker stop;
    f.keeper.stop(stop.answer(), 0);
    f.until([&] { return stop.answered(); });
    CHECK_FALSE(f.recording());
    f.lock_goes(LockState::Lost, LockState::Referencing);
    f.until([&] { return f.recording(); });
    CHECK(f.files() == 2);
  }
  SECTION("its end is under way") {
    Asker stop;
    f.keeper.stop(stop.answer(), 0);
    f.lock_goes(LockState::Lost, LockState::Referencing);
    f.until([&] { return f.recording() && f.files() == 2; });
  }
  SECTION("it goes on") {
    f.lock_goes(LockState::Lost, LockState::Referencing);
    f.keeper.turn(0);
    CHECK(f.recording());
    CHECK(f.files() == 1);
  }
  CHECK(f.keeper.status(0)["by"] == "lock");
  f.lock_goes(LockState::Locked, LockState::Idle);
  f.until([&] { return !f.recording(); });
}

TEST_CASE("neither a calibration nor a lock that goes on begins a recording") {
  Fixture f;
  f.lock_goes(LockState::Idle, LockState::Calibrating);
  f.lock_goes(LockState::Calibrating, LockState::Idle);
  f.lock_goes(LockState::Holding, LockState::Locked);
  f.lock_goes(LockState::Lost, LockState::Idle);
  f.keeper.turn(0);
  CHECK_FALSE(f.recording());
  CHECK_FALSE(fs::exists(f.folder));
}

TEST_CASE("what a driver of z reports is recorded, and what came as of x and y but once") {
  Fixture f;
  f.keeper.hear_of_z(f.z_stage);
  Asker begun, ended;
  f.keeper.start(begun.answer(), 0);
  f.until([&] { return begun.answered(); });
  const auto report = [](const char* axes) {
    return nlohmann::json::parse(fmt::format(
        R"({{"instance":"0123456789abcdef","driver":"a","state":"ready","axes":[{}]}})", axes));
  };
  const auto of_z = report(R"({"axis":"z","position_nm":5})");
  const auto of_all = report(
      R"({"axis":"x","position_nm":1},{"axis":"y","position_nm":2},{"axis":"z","position_nm":3})");
  f.z_stage.take(of_z, 1);
  f.stage.take(of_all, 2);
  f.z_stage.take(of_all, 2);
  f.keeper.stop(ended.answer(), 0);
  f.until([&] { return ended.answered(); });
  const record::FileReader reader(ended.reply().fields["record"]["file"].get<std::string>());
  const std::vector<record::StageRow> rows = reader.stage();
  REQUIRE(rows.size() == 2);
  CHECK((rows[0].position_z_nm == 5 && std::isnan(rows[0].position_x_nm)));
  CHECK((rows[1].position_z_nm == 3 && rows[1].position_x_nm == 1));
}
