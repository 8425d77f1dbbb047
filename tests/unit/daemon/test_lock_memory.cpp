// SPDX-License-Identifier: MIT
// What is kept of a lock, and when; and what becomes of it after the daemon's end.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "daemon/interrupted_lock.hpp"
#include "daemon/state_file.hpp"
#include "housekeeping_for_tests.hpp"
#include "saved_lock_for_tests.hpp"
#include "support/catch.hpp"

using namespace driftd;
using namespace driftd::daemon;
using namespace driftd::daemon::test;
using control::LockState;
using Kind = LoopCommand::Kind;

namespace {

constexpr std::int64_t kMs = 1'000'000;

/// One run of a daemon after another, with the same camera and configuration.
struct Fixture {
  StateFolder folder;
  config::Config config = config::default_config();
  std::int64_t now_ns = 1000 * kMs;

  struct Run {
    PlayedLoop played;
    PlayedCamera source;
    Told told;
    LoopControl loop{played.ports};
    CameraWatch camera;
    StageChannel stage;
    CorrectionGate gate;
    LockOrders orders{{}, gate, loop, [] { return true; }};
    LockMemory memory;
    InterruptedLock interrupted;
    bool is_heard = true;

    Run(const config::Config& config, const std::string& session)
        : camera(config, source, loop, told.log),
          stage(config, session, played.ports, loop, told.log),
          memory(
              config, session, camera, loop, stage, told.log,
              [] { return MarkerSizes{.spot_sigma_px = 1.35, .roi_px = 15, .saturation_adu = 0}; }),
          interrupted(config, memory, camera, loop, stage, told.log, [this] { return is_heard; }) {
      source.described.description = "maker model 7 at 10.0.0.1";
      source.described.format = camera::PixelFormat::Mono12;
      source.described.width_px = 140;
      source.described.height_px = 110;
      source.described.offset_x_px = 1000;
      source.described.offset_y_px = 500;
      camera.look();
      interrupted.take(memory.recall());
    }
    std::size_t count(const std::string& code) const {
      const std::vector<std::string> codes = told.codes();
      return static_cast<std::size_t>(std::count(codes.begin(), codes.end(), code));
    }
    std::string last(const std::string& code) const {
      std::string text;
      for (const auto& event : told.events)
        if (event["code"] == code) text = event["text"];
      return text;
    }
    const LoopCommand* ordered(Kind kind) const {
      for (auto command = played.taken.rbegin(); command != played.taken.rend(); ++command)
        if (command->kind == kind) return &*command;
      return nullptr;
    }
  };
  std::unique_ptr<Run> run;

  Fixture() {
    config.control.range_limit_nm = 1000;
    config.control.travel_limit_nm = 3000;
    config.lock.max_jump_nm = 100;
    config.lock.max_drift_nm_per_s = 0;
    start("0000000000000001");
  }
  void start(const std::string& session) {
    run.reset();
    run = std::make_unique<Run>(config, session);
  }
  void turn(std::int64_t later_ms = 10) {
    now_ns += later_ms * kMs;
    run->played.turn();
    run->loop.refresh();
    run->orders.turn(now_ns);
    run->interrupted.turn(run->orders, now_ns);
    run->memory.turn(now_ns);
  }
  void lock(LockState state, std::uint64_t lock_id, Vec2 total_nm = {}) {
    const std::array markers = {control::Marker{4, control::MarkerRole::Tracking, 1030, 526},
                                control::Marker{9, control::MarkerRole::Witness, 1095, 540}};
    run->played.tell_markers(1, markers);
    run->played.report.lock_id = lock_id;
    run->played.report.total_nm = total_nm;
    run->played.tell_state(state);
    turn();
  }
  /// Of a lock at (-40, 15), with two markers.
  void lock_and_die() {
    run->played.report.travelled_nm = {700, 0};
    run->played.report.carried_nm = {5, 0};
    lock(LockState::Locked, 3, {-40, 15});
    start("0000000000000002");
  }
  /// Its markers are found and measured, moved by so much.
  void find(Vec2 moved_nm) {
    REQUIRE(run->interrupted.wanted() != nullptr);
    run->interrupted.found(run->loop.send(LoopCommand{.kind = Kind::Markers}).value_or(0));
    measure(moved_nm);
    const std::array markers = {control::Marker{4, control::MarkerRole::Tracking, 1030, 526}};
    run->played.tell_markers(2, markers);
    turn();
  }
  void measure(Vec2 moved_nm) {
    run->played.report.drift.valid = true;
    run->played.report.drift.drift_nm = moved_nm;
    run->played.tell();
  }
  /// Until the worker has written or removed: it has its own pace.
  bool until(const std::function<bool()>& condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!condition() && std::chrono::steady_clock::now() < end) {
      run->memory.turn(now_ns);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return condition();
  }
  std::optional<SavedLock> kept() {
    const auto text = read_state(lock_file(config));
    if (!text) return std::nullopt;
    return read_saved_lock(*text);
  }
  bool is_written(const std::function<bool(const SavedLock&)>& condition) {
    return until([&] {
      const auto lock = kept();
      return lock && condition(*lock);
    });
  }
};

}  // namespace

TEST_CASE("each endpoint of commands has a file of its own") {
  const StateFolder folder;
  config::Config config = config::default_config();
  config.wire.commands = "ipc://commands";
  CHECK(lock_file(config) == folder.path / "lock-ipc-commands.state");
  config.wire.commands = "tcp://127.0.0.1:5557";
  CHECK(lock_file(config) == folder.path / "lock-tcp-127-0-0-1-5557.state");
}

TEST_CASE("a lock is kept with its references, its total and its travel") {
  Fixture f;
  f.lock_and_die();
  const auto lock = f.kept();
  REQUIRE(lock);
  CHECK(lock->session == "0000000000000001");
  CHECK(lock->lock_id == 3);
  CHECK(lock->total_nm.x == -40);
  CHECK(lock->travelled_nm.x == 700);
  CHECK(lock->carried_nm.x == 5);
  CHECK(lock->roi_px == 15);
  REQUIRE(lock->markers.size() == 2);
  CHECK(lock->markers[0].id == 4);
  CHECK(lock->markers[0].reference.place_px.x == 1030);
  CHECK(lock->markers[1].role == control::MarkerRole::Witness);
  CHECK(lock->meaning.at("camera") == "maker model 7");  // its address may change
}

TEST_CASE("a lock is written each second, and sooner only where the stage was told to go far") {
  Fixture f;
  f.lock(LockState::Locked, 1, {1, 0});
  REQUIRE(f.is_written([](const SavedLock& l) { return l.total_nm.x == 1; }));
  f.run->played.report.total_nm = {15, 0};
  f.run->played.tell();
  f.turn(900);
  f.turn(80);
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  CHECK(f.kept().value().total_nm.x == 1);
  f.turn(20);  // the second is over
  REQUIRE(f.is_written([](const SavedLock& l) { return l.total_nm.x == 15; }));
  f.run->played.report.total_nm = {15, 36};
  f.run->played.tell();
  f.turn(90);
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  CHECK(f.kept().value().total_nm.y == 0);
  f.run->played.report.total_nm = {15, 37};
  f.run->played.tell();
  f.turn(20);
  REQUIRE(f.is_written([](const SavedLock& l) { return l.total_nm.y == 37; }));
}

TEST_CASE("what the stage was told last is written when the daemon ends") {
  Fixture f;
  f.lock(LockState::Locked, 1, {1, 0});
  f.run->played.report.total_nm = {2, 0};
  f.run->played.tell();
  f.run->loop.refresh();
  f.run->memory.write_last();
  f.run.reset();
  CHECK(f.kept().value().total_nm.x == 2);
}

TEST_CASE("a lock that was ended is not kept; a lost one is, as lost") {
  Fixture f;
  f.lock(LockState::Locked, 1);
  REQUIRE(f.until([&] { return f.kept().has_value(); }));
  f.lock(LockState::Holding, 1);
  f.lock(LockState::Lost, 1);
  REQUIRE(f.is_written([](const SavedLock& l) { return l.lost; }));
  f.lock(LockState::Idle, 1);
  REQUIRE(f.until([&] { return !f.kept(); }));
  f.lock(LockState::Referencing, 2);
  f.lock(LockState::Idle, 2);
  f.run.reset();
  CHECK_FALSE(f.kept());
}

TEST_CASE("`never` keeps nothing and looks at nothing") {
  Fixture f;
  f.lock_and_die();
  f.config.lock.resume = config::Resume::Never;
  f.start("0000000000000003");
  CHECK(f.run->told.events.empty());
  CHECK(f.run->interrupted.status().is_null());
  CHECK_FALSE(f.kept());  // nor may a later daemon find it
  f.lock(LockState::Locked, 1);
  f.run.reset();
  CHECK_FALSE(f.kept());
}

TEST_CASE("a place that cannot be written is told once, and when it can be again") {
  Fixture f;
  std::filesystem::remove_all(f.folder.path);
  std::ofstream(f.folder.path) << "in the way";
  f.lock(LockState::Locked, 1);
  REQUIRE(f.until([&] { return f.run->count("state_not_written") == 1; }));
  CHECK_THAT(f.run->last("state_not_written"), contains(f.folder.path.string()));
  f.turn(1000);
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  f.turn(1000);
  CHECK(f.run->count("state_not_written") == 1);
  std::filesystem::remove(f.folder.path);
  f.turn(1000);
  REQUIRE(f.until([&] { return f.run->count("state_not_written") == 2; }));
  CHECK_THAT(f.run->last("state_not_written"), contains("again"));
  CHECK(f.kept());
}

TEST_CASE("corrupt state is said and ignored") {
  Fixture f;
  f.lock_and_die();
  std::string text = content_of(lock_file(f.config));
  text[text.size() / 2] = '#';
  std::ofstream(lock_file(f.config), std::ios::binary) << text;
  f.start("0000000000000003");
  CHECK(f.run->told.codes() == std::vector<std::string>{"state_ignored"});
  CHECK_THAT(f.run->last("state_ignored"), contains("checksum"));
  CHECK(f.run->interrupted.wanted() == nullptr);
}

TEST_CASE("the state of another instrument is said and ignored, by what is another") {
  struct Case {
    const char* what;
    std::function<void(Fixture&)> change;
  };
  const std::array cases = {
      Case{"camera was maker model 7, and is maker model 8",
           [](Fixture& f) { f.run->source.described.description = "maker model 8 at 10.0.0.1"; }},
      Case{"image was 140 x 110 px at (1000, 500), and is 140 x 110 px at (1000, 501)",
           [](Fixture& f) { f.run->source.described.offset_y_px = 501; }},
      Case{"camera.pixel_format was Mono12, and is Mono8",
           [](Fixture& f) { f.run->source.described.format = camera::PixelFormat::Mono8; }},
      Case{"markers.list was [], and is [77 at (1050, 550.5)]",
           [](Fixture& f) {
             f.config.markers.mode = config::MarkerMode::List;
             f.config.markers.list = {{77, 1050, 550.5, control::MarkerRole::Tracking}};
           }},
      Case{"optics.pixel_size_nm was", [](Fixture& f) { f.config.optics.pixel_size_nm *= 1.01; }},
      Case{"stage.image_to_stage was [[1, 0], [0, 1]], and is [[1, 0], [0, -1]]",
           [](Fixture& f) { f.config.stage.image_to_stage[1][1] = -1; }}};
  for (const Case& c : cases) {
    Fixture f;
    f.lock_and_die();
    c.change(f);
    f.run->camera.look();
    CHECK(f.run->interrupted.wanted() == nullptr);
    CHECK_THAT(f.run->last("state_ignored"), contains(c.what));
    CHECK_FALSE(f.run->interrupted.asks());
    CHECK(f.run->interrupted.status().is_null());
  }
}

TEST_CASE("the same camera at another address is the same") {
  Fixture f;
  f.lock_and_die();
  f.run->source.described.description = "maker model 7 at 10.0.0.2";
  f.run->camera.look();
  CHECK(f.run->interrupted.wanted() != nullptr);
}

TEST_CASE("an old state is said and ignored") {
  Fixture f;
  f.lock_and_die();
  SavedLock lock = f.kept().value();
  for (const double hours : {23.9, 24.1}) {
    SavedLock old = lock;
    old.time = SavedTime::now();
    old.time.uptime_ns -= static_cast<std::int64_t>(hours * 3600e9);
    write_state(lock_file(f.config), to_text(old));
    f.start("0000000000000003");
    CHECK((f.run->interrupted.wanted() != nullptr) == (hours < 24));
    CHECK(f.run->count("state_ignored") == (hours < 24 ? 0 : 1));
  }
}

TEST_CASE("`ask`: it is told how far the sample moved, and nothing is locked but by command") {
  Fixture f;
  f.lock_and_die();
  CHECK(f.run->interrupted.asks());
  CHECK(f.run->interrupted.status()["phase"] == "searching");
  CHECK(refused_at_once([&] { f.run->interrupted.resumption(); }) == "refused");
  f.find({30, -40});
  for (int i = 0; i < 100; ++i) f.turn();
  CHECK(f.run->ordered(Kind::Lock) == nullptr);
  CHECK(f.run->count("lock_interrupted") == 2);
  CHECK_THAT(f.run->last("lock_interrupted"), contains("50.0 nm (x +30.0, y -40.0)"));
  CHECK_THAT(f.run->last("lock_interrupted"), contains("driftctl lock --resume"));
  const auto status = f.run->interrupted.status();
  CHECK(status["phase"] == "found");
  CHECK(status["moved_y_nm"] == -40);
  CHECK(status["interrupted_lock_id"] == 3);
  CHECK(f.run->interrupted.asks());

  const LockResumption resumption = f.run->interrupted.resumption();
  CHECK(resumption.carried_nm.x == 5 - 40);
  CHECK(resumption.carried_nm.y == 15);
  CHECK(resumption.drift_nm.x == 30);
  CHECK(resumption.largest_move_nm == 100);
  REQUIRE(f.run->ordered(Kind::Travelled) != nullptr);
  CHECK(f.run->ordered(Kind::Travelled)->travelled_nm.x == 700 - 40);
}

TEST_CASE("`always`: goes back once the markers are measured and somebody listens") {
  Fixture f;
  f.config.lock.resume = config::Resume::Always;
  f.lock_and_die();
  f.run->is_heard = false;
  f.find({30, -40});
  f.turn(300);
  CHECK(f.run->ordered(Kind::Lock) == nullptr);
  CHECK_THAT(f.run->last("lock_interrupted"), contains("nobody listens"));
  f.run->is_heard = true;
  f.turn();
  f.turn();
  const LoopCommand* order = f.run->ordered(Kind::Lock);
  REQUIRE(order != nullptr);
  REQUIRE(order->resumption);
  CHECK(order->resumption->drift_nm.y == -40);
  f.run->played.report.resumed = true;
  f.lock(LockState::Locked, 1);
  CHECK(f.run->count("lock_resumed") == 1);
  CHECK(f.run->interrupted.status().is_null());
  CHECK(f.run->interrupted.wanted() == nullptr);
  // Interrupted again, it is the same lock.
  REQUIRE(f.is_written([](const SavedLock& l) { return l.session == "0000000000000002"; }));
}

TEST_CASE("what was interrupted stays on disk until it is resumed") {
  Fixture f;
  f.config.lock.resume = config::Resume::Always;
  f.lock_and_die();
  f.find({30, -40});
  f.turn(300);
  f.run->played.report.resumed = true;
  f.lock(LockState::Referencing, 1);
  f.start("0000000000000004");  // killed once more
  CHECK(f.run->interrupted.asks());
  CHECK(f.kept().value().session == "0000000000000001");
}

TEST_CASE("`always` asks where the limits, a jump or a loss forbid the way back") {
  struct Case {
    const char* why;
    bool by_command;
    std::function<void(Fixture&)> change;
    Vec2 moved_nm;
  };
  // The stage stands at (-35, 15) of its place at lock, and at (660, 15) of its first start.
  const std::array cases = {Case{"lock.max_jump_nm", true, [](Fixture&) {}, {0, 101}},
                            Case{"control.range_limit_nm is 1000",
                                 false,
                                 [](Fixture& f) { f.config.lock.max_jump_nm = 5000; },
                                 {966, 0}},
                            Case{"control.range_limit_nm is 1000",
                                 false,
                                 [](Fixture& f) { f.config.lock.max_jump_nm = 5000; },
                                 {0, 1016}},
                            Case{"control.travel_limit_nm is 700",
                                 false,
                                 [](Fixture& f) { f.config.control.travel_limit_nm = 700; },
                                 {-41, 0}},
                            Case{"it was lost before",
                                 true,
                                 [](Fixture& f) {
                                   SavedLock lock = f.kept().value();
                                   lock.lost = true;
                                   write_state(lock_file(f.config), to_text(lock));
                                   f.start("0000000000000003");
                                 },
                                 {1, 1}}};
  for (const Case& c : cases) {
    Fixture f;
    f.config.lock.resume = config::Resume::Always;
    f.lock_and_die();
    c.change(f);
    f.find(c.moved_nm);
    for (int i = 0; i < 50; ++i) f.turn();
    INFO(c.why);
    CHECK(f.run->ordered(Kind::Lock) == nullptr);
    CHECK_THAT(f.run->last("lock_interrupted"), contains(c.why));
    const std::string told = f.run->last("lock_interrupted");
    CHECK((told.find("driftctl lock --resume") != std::string::npos) == c.by_command);
    CHECK_THAT(told, contains("driftctl unlock"));
    CHECK((refused_at_once([&] { f.run->interrupted.resumption(); }).empty()) == c.by_command);
  }
}

TEST_CASE("`always` goes as far as the limits reach") {
  Fixture f;
  f.config.lock.resume = config::Resume::Always;
  f.config.lock.max_jump_nm = 5000;
  f.lock_and_die();
  f.find({964, 1014});
  f.turn(300);
  CHECK(f.run->ordered(Kind::Lock) != nullptr);
}

TEST_CASE("after a long time the sample may have moved farther") {
  Fixture f;
  f.config.lock.resume = config::Resume::Always;
  f.config.lock.max_drift_nm_per_s = 2;
  f.lock_and_die();
  SavedLock lock = f.kept().value();
  lock.time.uptime_ns -= 100'000'000'000;  // 100 s: 100 + 200 nm
  write_state(lock_file(f.config), to_text(lock));
  f.start("0000000000000003");
  f.find({290, 0});
  f.turn(300);
  CHECK(f.run->ordered(Kind::Lock) != nullptr);
}

TEST_CASE("another lock, or the order to forget, ends it") {
  Fixture f;
  f.lock_and_die();
  f.find({30, -40});
  f.lock(LockState::Referencing, 1);
  CHECK(f.run->interrupted.status().is_null());
  REQUIRE(f.until([&] { return !f.kept(); }));

  Fixture other;
  other.lock_and_die();
  other.run->interrupted.forget();
  CHECK_FALSE(other.run->interrupted.asks());
  REQUIRE(other.until([&] { return !other.kept(); }));
  CHECK(refused_at_once([&] { other.run->interrupted.resumption(); }) == "refused");
}

TEST_CASE("another sample: it is told, not gone back to, and kept for when the first is back") {
  Fixture f;
  f.config.lock.resume = config::Resume::Always;
  f.lock_and_die();
  REQUIRE(f.run->interrupted.wanted() != nullptr);
  f.run->interrupted.not_found("of 9 spots at most 2 lie like the markers");
  CHECK_FALSE(f.run->interrupted.asks());
  CHECK(f.run->interrupted.wanted() == nullptr);
  CHECK(f.run->interrupted.status()["phase"] == "absent");
  CHECK_THAT(f.run->last("lock_interrupted"), contains("at most 2 lie like the markers"));
  CHECK(refused_at_once([&] { f.run->interrupted.resumption(); }) == "refused");
  for (int i = 0; i < 50; ++i) f.turn();
  CHECK(f.run->ordered(Kind::Lock) == nullptr);
  f.start("0000000000000003");
  CHECK(f.run->interrupted.asks());
}

TEST_CASE("the stage is the witness of where it was told to be, and of where it is") {
  const auto report = [](const char* session, double place_nm) {
    return nlohmann::json{{"command", "stage"},
                          {"instance", "0f3a9c5577e01d2b"},
                          {"driver", "pi_gcs2"},
                          {"state", "ready"},
                          {"session", session},
                          {"lock_id", 3},
                          {"total_x_nm", -52.0},
                          {"total_y_nm", 15.5},
                          {"axes",
                           {{{"axis", "x"},
                             {"name", "1"},
                             {"min_nm", 0},
                             {"max_nm", 1e5},
                             {"position_nm", place_nm}}}}};
  };
  Fixture f;
  f.config.lock.resume = config::Resume::Always;
  f.run->stage.take(report("0000000000000001", 50'000), f.now_ns);
  f.lock_and_die();
  CHECK(f.kept().value().stage.value().position_nm.at("1") == 50'000);

  SECTION("it is where it was: what it says of the total is newer than the file") {
    f.find({30, -40});
    f.turn(300);
    CHECK(f.run->ordered(Kind::Lock) == nullptr);  // its driver has not told yet
    f.run->stage.take(report("0000000000000001", 50'030), f.now_ns);
    f.turn();
    f.turn();
    REQUIRE(f.run->ordered(Kind::Lock) != nullptr);
    CHECK(f.run->ordered(Kind::Lock)->resumption->carried_nm.x == 5 - 52);
    CHECK(f.run->ordered(Kind::Travelled)->travelled_nm.y == 15.5);
    CHECK(f.run->last("lock_interrupted").find("the stage says") == std::string::npos);
  }
  SECTION("it is elsewhere, and knows nothing of the lock") {
    f.run->stage.take(report("", 47'000), f.now_ns);
    f.find({30, -40});
    CHECK_THAT(f.run->last("lock_interrupted"),
               contains("its axis 1 is -3000 nm from where it was"));
    CHECK(f.run->interrupted.resumption().carried_nm.x == 5 - 40);
  }
}
