// SPDX-License-Identifier: MIT
// Housekeeping's smaller parts.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>

#include <spdlog/spdlog.h>

#include "base/process/watchdog.hpp"
#include "daemon/camera/camera_watch.hpp"
#include "daemon/reload.hpp"
#include "daemon/setup/compose.hpp"
#include "daemon/setup/realtime_set_up.hpp"
#include "housekeeping_for_tests.hpp"
#include "support/catch.hpp"

using namespace driftd;
using namespace driftd::daemon;
using driftd::daemon::test::PlayedCamera;
using driftd::daemon::test::PlayedLoop;
using driftd::daemon::test::Told;
using Kind = LoopCommand::Kind;

namespace {

constexpr std::int64_t kMs = 1'000'000;

struct Fixture {
  config::Config config = config::default_config();
  PlayedLoop played;
  PlayedCamera source;
  Told told;
  LoopControl loop{played.ports};
  CameraWatch camera{config, source, loop, told.log};

  const LoopSettings* settings_taken() const {
    for (auto command = played.taken.rbegin(); command != played.taken.rend(); ++command) {
      if (command->kind == Kind::Settings) return command->settings.get();
    }
    return nullptr;
  }
};

/// A configuration file of the test's own.
struct File {
  std::filesystem::path path = std::filesystem::temp_directory_path() /
                               ("driftd-test-" + std::to_string(getpid()) + ".yaml");
  explicit File(const std::string& text) { std::ofstream(path) << text; }
  ~File() { std::filesystem::remove(path); }
};

}  // namespace

TEST_CASE("a camera that comes back gives the loop its exposure") {
  Fixture f;
  f.source.described.exposure_us = 1700;
  f.source.events = {{camera::SourceEvent::Kind::Disconnected, 0, "lost it"},
                     {camera::SourceEvent::Kind::Connected, 0, "have it"}};
  f.camera.turn();
  f.played.turn();
  REQUIRE(f.told.codes() == std::vector<std::string>{"camera_disconnected", "camera_connected"});
  REQUIRE(f.settings_taken() != nullptr);
  REQUIRE(f.settings_taken()->exposure_ns == 1'700'000);
  REQUIRE(f.camera.info().exposure_us == 1700);
}

TEST_CASE("why there is no camera is known until one connects") {
  Fixture f;
  using EventKind = camera::SourceEvent::Kind;
  REQUIRE(f.camera.problem().empty());
  for (int time = 0; time < 2; ++time) {
    f.source.events = {{EventKind::Disconnected, 0, "lost it"},
                       {EventKind::ReconnectFailed, 0, "no such gain"},
                       {EventKind::Note, 0, "a note"}};
    f.camera.turn();
    REQUIRE(f.camera.problem() == "no such gain");
    f.source.events = {{EventKind::Connected, 0, "have it"}};
    f.camera.turn();
    REQUIRE(f.camera.problem().empty());
  }
}

TEST_CASE("a camera that connects has its notes told, warnings first, and again only new ones") {
  Fixture f;
  using Severity = camera::CameraNote::Severity;
  const camera::CameraNote mirror{"ReverseX", "false", "false", Severity::Info, "was mirrored"};
  const camera::CameraNote width{"region_width_px", "250", "248", Severity::Warning,
                                 "Width is 248"};
  f.source.described.camera_notes = {mirror, width};
  f.source.events = {{camera::SourceEvent::Kind::Connected, 0, "have it"}};
  f.camera.turn();
  REQUIRE(f.told.codes() ==
          std::vector<std::string>{"camera_connected", "camera_note", "camera_note"});
  const auto& told = f.told.events[1];
  REQUIRE(told["key"] == "region_width_px");
  REQUIRE(told["asked"] == "250");
  REQUIRE(told["got"] == "248");
  REQUIRE(told["severity"] == "warning");
  REQUIRE(told["level"] == "warning");
  REQUIRE(told["text"] == "Width is 248");
  REQUIRE(f.told.events[2]["key"] == "ReverseX");
  REQUIRE(f.told.events[2]["level"] == "info");
  f.source.described.camera_notes = {width};  // the mirror stays off
  f.source.events = {{camera::SourceEvent::Kind::Connected, 0, "have it"}};
  f.camera.turn();
  REQUIRE(f.told.codes().size() == 4);
  f.source.described.camera_notes = {mirror, width};  // it was switched on meanwhile
  f.source.events = {{camera::SourceEvent::Kind::Connected, 0, "have it"}};
  f.camera.turn();
  REQUIRE(f.told.codes().size() == 6);
  REQUIRE(f.told.events[5]["key"] == "ReverseX");
}

TEST_CASE("a camera that comes later with an image too small for a marker is said to") {
  Fixture f;
  f.source.described.width_px = 300;
  f.source.described.height_px = 12;  // 5 px of the least ROI, and 4 px on both sides, are 13
  f.source.events = {{camera::SourceEvent::Kind::Connected, 0, "have it"}};
  f.camera.turn();
  REQUIRE(f.told.codes() == std::vector<std::string>{"camera_connected", "camera_note"});
  REQUIRE(f.told.events[1]["level"] == "warning");
  REQUIRE_THAT(f.told.events[1]["text"].get<std::string>(),
               contains("300 x 12 px has no room for a marker: it needs 13 px each way"));
  f.source.described.height_px = 13;
  f.source.events = {{camera::SourceEvent::Kind::Connected, 0, "have it"}};
  f.camera.turn();
  REQUIRE(f.told.codes().size() == 3);
}

TEST_CASE("settings wait for room in the loop's queue, and the newest go") {
  Fixture f;
  f.played.stop_taking();
  for (const double exposure_us : {900.0, 1300.0}) {
    f.source.described.exposure_us = exposure_us;
    f.source.events = {{camera::SourceEvent::Kind::Connected, 0, "have it"}};
    REQUIRE_NOTHROW(f.camera.turn());
  }
  f.played.turn();
  REQUIRE(f.settings_taken() == nullptr);
  f.loop.refresh();
  f.played.turn();
  REQUIRE(f.settings_taken() != nullptr);
  REQUIRE(f.settings_taken()->exposure_ns == 1'300'000);
  const auto commands = f.played.taken.size();
  f.loop.refresh();
  f.played.turn();
  REQUIRE(f.played.taken.size() == commands);
}

TEST_CASE("a reload while the loop's queue is full is taken over all the same") {
  Fixture f;
  const File file("control: {step_limit_nm: 3.5}\n");
  f.config = config::load(file.path);
  WireContext wire;
  Reload reload(f.config, file.path, wire, f.camera, f.loop, f.told.log, [] { return false; });
  std::ofstream(file.path) << "control: {step_limit_nm: 4.5}\n";
  f.played.stop_taking();
  REQUIRE_NOTHROW(reload.run());
  REQUIRE(f.told.codes() == std::vector<std::string>{"configuration_reloaded"});
  REQUIRE(f.config.control.step_limit_nm == 4.5);
  f.played.turn();
  f.loop.refresh();
  f.played.turn();
  REQUIRE(f.settings_taken() != nullptr);
  REQUIRE(f.settings_taken()->supervisor.controller.step_limit_nm == 4.5);
}

TEST_CASE("a reload with a mistake or a fixed option changes nothing") {
  for (const char* text : {"control: {step_limit_nm: -1}\n", "fitter: {roi_px: 11}\n"}) {
    Fixture f;
    const File file(text);
    WireContext wire;
    Reload reload(f.config, file.path, wire, f.camera, f.loop, f.told.log, [] { return false; });
    const double before = f.config.control.step_limit_nm;
    const int roi_px = f.config.fitter.roi_px;
    reload.run();
    CHECK(f.told.codes() == std::vector<std::string>{"configuration_rejected"});
    CHECK(f.told.events[0]["level"] == "error");
    CHECK(f.config.control.step_limit_nm == before);
    CHECK(f.config.fitter.roi_px == roi_px);
    f.played.turn();
    CHECK(f.settings_taken() == nullptr);
  }
}

TEST_CASE("a reload reads the drop-ins, and takes all of them or nothing") {
  Fixture f;
  const File file("control: {step_limit_nm: 3.5}\n");
  f.config = config::load(file.path);
  WireContext wire;
  Reload reload(f.config, file.path, wire, f.camera, f.loop, f.told.log, [] { return false; });
  const std::filesystem::path folder = file.path.string() + ".d";
  std::filesystem::create_directory(folder);
  std::ofstream(folder / "a.yaml") << "control: {step_limit_nm: 4.5}\n";
  reload.run();
  CHECK(f.config.control.step_limit_nm == 4.5);
  std::ofstream(folder / "a.yaml") << "control: {step_limit_nm: 5.5}\n";
  std::ofstream(folder / "b.yaml") << "\ncontrol: {integral: much}\n";
  reload.run();
  std::filesystem::remove_all(folder);
  CHECK(f.told.codes() ==
        std::vector<std::string>{"configuration_reloaded", "configuration_rejected"});
  CHECK(f.told.events[1]["text"].get<std::string>().find((folder / "b.yaml").string() + ":2:") !=
        std::string::npos);
  CHECK(f.told.events[0]["text"] == file.path.string() + " with a.yaml");
  CHECK(f.config.control.step_limit_nm == 4.5);
  reload.run();
  CHECK(f.config.control.step_limit_nm == 3.5);
}

TEST_CASE("what the stage is like is reloaded while the lock is idle, and only then") {
  for (const bool idle : {true, false}) {
    for (const bool ordered : {false, true}) {
      Fixture f;
      const File file("stage: {delay_us: 3000}\n");
      f.config = config::load(file.path);
      f.played.tell_state(idle ? control::LockState::Idle : control::LockState::Holding);
      f.loop.refresh();
      WireContext wire;
      Reload reload(f.config, file.path, wire, f.camera, f.loop, f.told.log,
                    [&] { return ordered; });
      std::ofstream(file.path) << "stage: {delay_us: 4500}\n";
      reload.run();
      f.played.turn();
      INFO("idle " << idle << ", a lock is ordered " << ordered);
      if (idle && !ordered) {
        CHECK(f.told.codes() == std::vector<std::string>{"configuration_reloaded"});
        REQUIRE(f.settings_taken() != nullptr);
        CHECK(f.settings_taken()->supervisor.controller.stage_delay_us == 4500);
      } else {
        CHECK(f.told.codes() == std::vector<std::string>{"configuration_rejected"});
        CHECK(f.told.events[0]["text"].get<std::string>().find("must be idle") !=
              std::string::npos);
        CHECK(f.settings_taken() == nullptr);
        CHECK(f.config.stage.delay_us == 3000);
      }
    }
  }
}

/// The file becomes another one while the loop is as played.
void reload_as(const char* text, Fixture& f, const File& file) {
  f.played.tell();
  f.loop.refresh();
  WireContext wire;
  Reload reload(f.config, file.path, wire, f.camera, f.loop, f.told.log, [] { return false; });
  std::ofstream(file.path) << text;
  reload.run();
}

TEST_CASE("a limit that a lock stands beyond is not taken over, as it would move the sample") {
  const std::pair<const char*, const char*> limits[] = {
      {"control: {range_limit_nm: 90}\n", "control.range_limit_nm is 90"},
      {"control: {travel_limit_nm: 140}\n", "control.travel_limit_nm is 140"},
      {"axial: {range_limit_nm: 40}\n", "axial.range_limit_nm is 40"}};
  for (const bool holds : {true, false}) {
    for (const auto& [text, why] : limits) {
      Fixture f;
      const File file("log: {level: info}\n");
      f.config = config::load(file.path);
      f.played.report.lock.state = f.played.report.z.lock.state =
          holds ? control::LockState::Locked : control::LockState::Lost;
      f.played.report.total_nm = {-80, 20};
      f.played.report.carried_nm = {-20, 0};
      f.played.report.travelled_nm = {-70, 0};
      f.played.report.z.total_nm = {60, 0};
      reload_as(text, f, file);
      const std::string told = f.told.events[0]["text"];
      INFO(text << told);
      CHECK((told.find(why) != std::string::npos) == holds);
      CHECK(f.told.codes()[0] == (holds ? "configuration_rejected" : "configuration_reloaded"));
    }
  }
}

TEST_CASE("limits are not made narrower while a move is under way") {
  using control::SetPointPhase;
  for (const auto& [moving, phase] : {std::pair{true, SetPointPhase::Moving},
                                      {false, SetPointPhase::Dwelling},
                                      {false, SetPointPhase::Resting}}) {
    for (const char* text :
         {"control: {range_limit_nm: 1500}\n", "axial: {travel_limit_nm: 900}\n"}) {
      Fixture f;
      const File file("log: {level: info}\n");
      f.config = config::load(file.path);
      f.played.report.lock.state = f.played.report.z.lock.state = control::LockState::Locked;
      for (MoveReport* move : {&f.played.report.move, &f.played.report.z.move}) {
        move->moving = moving;
        move->phase = phase;
      }
      reload_as(text, f, file);
      INFO(text << f.told.events[0]["text"]);
      CHECK(f.told.codes()[0] == (phase == SetPointPhase::Resting ? "configuration_reloaded"
                                                                  : "configuration_rejected"));
    }
  }
}

TEST_CASE("a reload takes over the log's level and keeps the camera's exposure") {
  Fixture f;
  f.source.described.exposure_us = 1700;
  f.camera.look();
  const File file("log: {level: warning}\n");
  f.config = config::load(file.path);
  WireContext wire;
  Reload reload(f.config, file.path, wire, f.camera, f.loop, f.told.log, [] { return false; });
  const auto level = spdlog::get_level();
  std::ofstream(file.path) << "log: {level: error}\n";
  reload.run();
  const auto reloaded = spdlog::get_level();
  spdlog::set_level(level);
  CHECK(reloaded == spdlog::level::err);
  CHECK(f.told.events[0]["level"] == "info");
  CHECK(f.told.events[0]["text"] == file.path.string());
  f.played.turn();
  REQUIRE(f.settings_taken() != nullptr);
  CHECK(f.settings_taken()->exposure_ns == 1'700'000);
}

TEST_CASE("a command has been taken once the loop's report counts it") {
  Fixture f;
  CHECK(f.loop.has_taken_all());
  const auto first = f.loop.send(LoopCommand{.kind = Kind::Unlock});
  const auto second = f.loop.send(LoopCommand{.kind = Kind::Reset});
  REQUIRE(first == 1);
  REQUIRE(second == 2);
  f.played.report.commands_taken = 1;
  f.played.tell();
  CHECK_FALSE(f.loop.has_taken(*first));  // not looked at yet
  f.loop.refresh();
  CHECK(f.loop.has_taken(*first));
  CHECK_FALSE(f.loop.has_taken(*second));
  CHECK_FALSE(f.loop.has_taken_all());
  f.played.report.commands_taken = 0;
  f.played.turn();
  f.loop.refresh();
  CHECK(f.loop.has_taken_all());
  f.loop.change_settings(std::make_unique<LoopSettings>(loop_settings(f.config, {})));
  CHECK_FALSE(f.loop.has_taken_all());
  f.played.turn();
  f.loop.refresh();
  CHECK(f.loop.has_taken_all());
}

TEST_CASE("a command that the loop's queue has no room for is not counted") {
  Fixture f;
  f.played.stop_taking();
  CHECK_FALSE(f.loop.send(LoopCommand{.kind = Kind::Unlock}));
  CHECK(f.loop.has_taken_all());
}

TEST_CASE("what the loop gives back is destroyed at the next look") {
  Fixture f;
  for (int i = 0; i < 3; ++i) {
    f.played.ports.retired_sets.push(make_marker_set(f.config, {}));
    f.played.ports.retired_settings.push(
        std::make_unique<LoopSettings>(loop_settings(f.config, {})));
  }
  f.loop.refresh();
  CHECK(f.played.ports.retired_sets.empty());
  CHECK(f.played.ports.retired_settings.empty());
}

TEST_CASE("notes on refused scheduling do not grow with each connection") {
  config::RealTime settings = config::default_config().realtime;
  settings.mode = config::RealTimeMode::Prefer;
  bool refuse = true;
  RealTimeSetUp set_up(
      settings, {.keep_in_memory = []() -> std::optional<std::string> { return "no memory"; },
                 .schedule = [&](int, int, const char* thread) -> std::optional<std::string> {
                   if (refuse) return std::string(thread) + ": no";
                   return std::nullopt;
                 }});
  for (int i = 0; i < 50; ++i) set_up.schedule_camera();
  set_up.schedule_loop();
  RealTimeReport report = set_up.report();
  REQUIRE(report.notes == std::vector<std::string>{"camera: no", "driftd-loop: no", "no memory"});
  REQUIRE_FALSE(report.scheduled);
  REQUIRE_FALSE(report.memory_locked);
  refuse = false;  // what is granted at last is no note any more
  set_up.schedule_camera();
  set_up.schedule_loop();
  report = set_up.report();
  REQUIRE(report.notes == std::vector<std::string>{"no memory"});
  REQUIRE(report.scheduled);
  settings.mode = config::RealTimeMode::Require;
  REQUIRE_THROWS_AS(
      RealTimeSetUp(settings,
                    {.keep_in_memory = []() -> std::optional<std::string> { return "no memory"; },
                     .schedule = [](int, int, const char*) { return std::nullopt; }}),
      driftd::RealTimeError);
}

TEST_CASE("one priority gives each thread its own") {
  config::RealTime settings = config::default_config().realtime;
  settings.priority = 40;
  settings.loop_cpu = 3;
  settings.stream_cpu = 5;
  std::vector<std::string> asked;
  RealTimeSetUp set_up(settings,
                       {.keep_in_memory = [] { return std::optional<std::string>(); },
                        .schedule =
                            [&](int priority, int cpu, const char* thread) {
                              asked.push_back(fmt::format("{} {} {}", thread, priority, cpu));
                              return std::optional<std::string>();
                            }});
  set_up.schedule_camera();
  set_up.schedule_publisher();
  set_up.schedule_loop();
  CHECK(asked == std::vector<std::string>{"driftd-probe 40 3", "camera 45 5", "driftd-publish 35 3",
                                          "driftd-loop 40 3"});
}

TEST_CASE("the watchdog is fed at a quarter of its period, while loop and publisher live") {
  int fed = 0;
  Watchdog watchdog(400'000, [&] { ++fed; });
  Heartbeat beat{.loop_turns = 1, .loop_ended = false, .messages_sent = 1, .publisher_idle = false};
  watchdog.turn(beat, 1000 * kMs);
  REQUIRE(fed == 1);
  beat.loop_turns = beat.messages_sent = 2;
  watchdog.turn(beat, 1099 * kMs);
  REQUIRE(fed == 1);
  watchdog.turn(beat, 1100 * kMs);
  REQUIRE(fed == 2);
  beat.messages_sent = 3;  // the loop hangs
  watchdog.turn(beat, 1200 * kMs);
  REQUIRE(fed == 2);
  beat.loop_turns = 3;  // the publisher hangs with something to send
  watchdog.turn(beat, 1300 * kMs);
  REQUIRE(fed == 2);
  beat.loop_turns = 4;
  beat.publisher_idle = true;
  watchdog.turn(beat, 1400 * kMs);
  REQUIRE(fed == 3);
  beat.loop_ended = true;
  watchdog.turn(beat, 1500 * kMs);
  REQUIRE(fed == 4);
  Watchdog off(0, [&] { ++fed; });
  off.turn(beat, 9000 * kMs);
  REQUIRE(fed == 4);
}
