// SPDX-License-Identifier: MIT
// What becomes of a lock after the daemon's end: whose it is, who decides, and how far it may go.
#include <array>
#include <functional>
#include <string>

#include "lock_saver_fixture.hpp"

using namespace driftd;
using namespace driftd::daemon;
using namespace driftd::daemon::test;
using Fixture = DaemonsFixture;

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
  for (const double hours : {23.9, 24.1}) {
    f.start_with([&](SavedLock& lock) {
      lock.time = SavedTime::now();
      lock.time.boot_id = "the boot before";  // this machine may not be up for so long
      lock.time.wall_ns -= static_cast<std::int64_t>(hours * 3600e9);
    });
    CHECK((f.run->interrupted.wanted() != nullptr) == (hours < 24));
    CHECK(f.run->count("state_ignored") == (hours < 24 ? 0 : 1));
  }
}

TEST_CASE("`ask`: it is told how far the sample moved, and nothing is locked but by command") {
  Fixture f;
  f.lock_and_die();
  CHECK(f.run->interrupted.asks());
  CHECK(f.run->interrupted.status()["phase"] == "searching");
  CHECK_THAT(f.run->interrupted.offer(),
             contains(": looking for its markers in the images of maker model 7"));
  f.run->source.connected = false;
  CHECK_THAT(f.run->interrupted.offer(),
             contains("looked for once the camera maker model 7 is connected"));
  f.run->source.connected = true;
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

TEST_CASE("a lock that was moved goes back to where it was moved to") {
  Fixture f;
  f.lock_and_die();
  f.start_with([&](SavedLock& lock) { lock.set_nm = {400, -250}; });
  f.find({430, -290});
  for (int i = 0; i < 100; ++i) f.turn();
  CHECK_THAT(f.run->last("lock_interrupted"), contains("50.0 nm (x +30.0, y -40.0)"));
  const LockResumption resumption = f.run->interrupted.resumption();
  CHECK(resumption.set_nm.x == 400);
  CHECK(resumption.set_nm.y == -250);
  CHECK(resumption.drift_nm.x == 430);  // from the reference, as the loop measures it
  CHECK(resumption.drift_nm.y == -290);
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

TEST_CASE("where the sample is by a frame of long ago is no offer") {
  for (const bool gone : {true, false}) {  // the camera; else its frames
    Fixture f;
    f.config.lock.resume = config::Resume::Always;
    f.lock_and_die();
    f.run->is_heard = false;
    f.find({30, -40});
    CHECK(f.run->interrupted.status()["moved_x_nm"] == 30);
    CHECK(refused_at_once([&] { f.run->interrupted.resumption(); }).empty());
    if (gone)
      f.run->source.connected = false;
    else
      f.run->played.report.time_ns += 700 * kMs;
    f.run->is_heard = true;
    f.turn(700);
    CHECK(f.run->interrupted.status()["moved_x_nm"].is_null());
    CHECK_THAT(f.run->interrupted.status()["text"].get<std::string>(),
               contains("no frame shows now how far") && !contains("30.0") &&
                   contains("driftctl cameras") && !contains("light"));
    CHECK(refused_at_once([&] { f.run->interrupted.resumption(); }) == "refused");
    CHECK(f.run->ordered(Kind::Lock) == nullptr);
    f.run->source.connected = true;
    f.measure({31, -40});
    f.turn();
    f.turn();
    CHECK(f.run->interrupted.status()["moved_x_nm"] == 31);
    CHECK(f.run->ordered(Kind::Lock) != nullptr);
  }
}

TEST_CASE("a resumed lock that is held at once was resumed all the same") {
  Fixture f;
  f.config.lock.resume = config::Resume::Always;
  f.lock_and_die();
  f.find({30, -40});
  f.turn(300);
  f.run->played.report.resumed = true;
  f.lock(LockState::Holding, 1);  // locked between two turns
  CHECK(f.run->count("lock_resumed") == 1);
  CHECK(f.run->interrupted.status().is_null());
}

TEST_CASE("`always` waits for the driver that the stage requires, and says so") {
  Fixture f;
  f.config.lock.resume = config::Resume::Always;
  f.config.stage.require_driver = true;
  f.lock_and_die();
  f.find({30, -40});
  f.turn(300);
  CHECK(f.run->ordered(Kind::Lock) == nullptr);
  CHECK_THAT(f.run->last("lock_interrupted"), contains("no driver has reported"));
}

TEST_CASE("a lock at start that waits for the answer says that it waits") {
  Fixture f;
  f.config.lock.at_start = true;
  f.lock_and_die();
  CHECK_THAT(f.run->last("lock_interrupted"), contains("lock.at_start waits"));
  f.find({30, -40});
  CHECK_THAT(f.run->last("lock_interrupted"), contains("lock.at_start waits"));
  f.run->interrupted.not_found("others");
  CHECK(f.run->last("lock_interrupted").find("lock.at_start waits") == std::string::npos);
}

TEST_CASE("`always` asks where the clock does not tell how long ago it was") {
  Fixture f;
  f.config.lock.resume = config::Resume::Always;
  f.lock_and_die();
  f.start_with([](SavedLock& lock) {
    lock.time.boot_id = "another";
    lock.time.wall_ns += 3600'000'000'000;  // the clock was set back, or has no battery
  });
  f.find({1, 1});
  f.turn(300);
  CHECK(f.run->ordered(Kind::Lock) == nullptr);
  CHECK_THAT(f.run->last("lock_interrupted"), contains("the clock does not tell"));
  CHECK(refused_at_once([&] { f.run->interrupted.resumption(); }).empty());  // by command
}

TEST_CASE("`always`: markers too few to tell one sample from another go back a jump, no drift") {
  struct Case {
    int matched;
    double moved_nm;
    bool goes;
  };
  for (const Case& c : {Case{2, 101, false}, Case{2, 99, true}, Case{3, 101, true}}) {
    Fixture f;
    f.config.lock.resume = config::Resume::Always;
    f.config.lock.max_drift_nm_per_s = 2;
    f.lock_and_die();
    // 100 s: 100 + 200 nm
    f.start_with([](SavedLock& lock) { lock.time.uptime_ns -= 100'000'000'000; });
    f.find({c.moved_nm, 0}, c.matched);
    f.turn(300);
    CHECK((f.run->ordered(Kind::Lock) != nullptr) == c.goes);
    if (!c.goes) CHECK_THAT(f.run->last("lock_interrupted"), contains("may be another sample's"));
  }
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
  const std::array cases = {
      Case{"lock.max_jump_nm", true, [](Fixture&) {}, {0, 101}},
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
           [](Fixture& f) { f.start_with([](SavedLock& lock) { lock.lost = true; }); },
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
    f.measure({1, 1});  // who was told that the stage stays may rely on it
    for (int i = 0; i < 50; ++i) f.turn();
    CHECK(f.run->ordered(Kind::Lock) == nullptr);
    CHECK(refused_at_once([&] { f.run->interrupted.resumption(); }).empty());
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
  // 100 s: 100 + 200 nm
  f.start_with([](SavedLock& lock) { lock.time.uptime_ns -= 100'000'000'000; });
  f.find({290, 0});
  f.turn(300);
  CHECK(f.run->ordered(Kind::Lock) != nullptr);
}

TEST_CASE("another lock, or the order to forget, ends it") {
  Fixture f;
  f.lock_and_die();
  f.find({30, -40});
  f.lock(LockState::Referencing, 1);
  CHECK_THAT(f.run->interrupted.status()["text"].get<std::string>(),
             contains("it is over once the lock that is being engaged has its reference"));
  CHECK(f.run->interrupted.status()["moved_x_nm"].is_null());
  CHECK(refused_at_once([&] { f.run->interrupted.resumption(); }) == "refused");
  CHECK(f.kept());
  f.lock(LockState::Locked, 1);
  CHECK(f.run->interrupted.status().is_null());
  REQUIRE(f.is_written([](const SavedLock& l) { return l.session == "0000000000000002"; }));

  Fixture other;
  other.lock_and_die();
  other.run->interrupted.forget();
  CHECK_FALSE(other.run->interrupted.asks());
  REQUIRE(other.until([&] { return !other.kept(); }));
  CHECK(refused_at_once([&] { other.run->interrupted.resumption(); }) == "refused");
}

TEST_CASE("a lock that was lost is gone back to as one that the daemon's end interrupted") {
  Fixture f;
  f.config.lock.resume = config::Resume::Always;  // goes back by itself only after an end
  f.run->played.report.carried_nm = {5, 0};
  f.run->played.report.travelled_nm = {700, 0};
  f.lock(LockState::Locked, 3, {-40, 15});
  CHECK(refused_at_once([&] { f.run->interrupted.resumption(); }) == "refused");
  f.lock(LockState::Lost, 3, {-40, 15});
  CHECK(f.run->count("lock_interrupted") == 0);  // nothing is measured: how far, nobody knows
  CHECK(refused_at_once([&] { f.run->interrupted.resumption(); }) == "refused");
  f.measure({300, -240});
  f.turn();
  f.turn();
  REQUIRE(f.run->count("lock_interrupted") == 1);
  CHECK_THAT(f.run->last("lock_interrupted"), contains("lock 3, lost 0.0 s ago: the sample is"));
  CHECK_THAT(f.run->last("lock_interrupted"), contains("384.2 nm (x +300.0, y -240.0)"));
  CHECK_THAT(f.run->last("lock_interrupted"), contains("driftctl lock --resume"));
  CHECK(f.run->interrupted.status()["phase"] == "found");
  CHECK(f.run->interrupted.status()["interrupted_session"] == "0000000000000001");
  CHECK(f.run->ordered(Kind::Lock) == nullptr);
  const LockResumption back = f.run->interrupted.resumption();
  CHECK(back.carried_nm.x == 5 - 40);
  CHECK(back.carried_nm.y == 15);
  CHECK(back.drift_nm.x == 300);
  CHECK(back.largest_move_nm == 100);

  SECTION("not farther than the limits reach") {
    f.measure({966, 0});
    f.turn();
    CHECK(refused_at_once([&] { f.run->interrupted.resumption(); }) == "refused");
    CHECK_THAT(f.run->interrupted.status()["text"].get<std::string>(),
               contains("control.range_limit_nm is 1000"));
  }
  SECTION("not where what gives its numbers their meaning was changed by a reload") {
    f.config.stage.image_to_stage[1][1] = -1;
    CHECK(refused_at_once([&] { f.run->interrupted.resumption(); }) == "refused");
    f.config.stage.image_to_stage[1][1] = 1;
    CHECK(refused_at_once([&] { f.run->interrupted.resumption(); }).empty());
  }
  SECTION("resumed, it is the same lock, and can be lost again") {
    f.run->played.report.resumed = true;
    f.run->played.report.carried_nm = {-35, 15};
    f.lock(LockState::Referencing, 4);
    f.lock(LockState::Locked, 4, {250, -130});
    CHECK(f.run->count("lock_resumed") == 1);
    CHECK(f.run->interrupted.status().is_null());
    f.lock(LockState::Lost, 4, {250, -130});
    CHECK(f.run->interrupted.resumption().carried_nm.x == 215);
    CHECK(f.run->interrupted.status()["interrupted_lock_id"] == 4);
  }
  SECTION("where it does not engage it can be tried again, and after the daemon's end, too") {
    f.run->played.report.resumed = true;
    f.lock(LockState::Referencing, 4);
    f.run->played.report.total_nm = {};
    f.lock(LockState::Idle, 4);
    f.turn(5000);
    CHECK(f.run->interrupted.resumption().carried_nm.x == 5 - 40);
    f.run->memory.write_last();
    f.start("0000000000000002");
    CHECK(f.run->interrupted.asks());
    CHECK(f.kept().value().total_nm.x == -40);
  }
  SECTION("another lock takes its place once it holds, and not before") {
    f.run->played.report.resumed = false;
    f.lock(LockState::Referencing, 4);
    f.lock(LockState::Idle, 4);  // it found no reference, and its markers may have others by now
    CHECK(f.run->interrupted.status()["phase"] == "searching");
    REQUIRE(f.is_written([](const SavedLock& l) { return l.lost; }));
    f.find({301, -240});
    f.turn(300);
    CHECK(f.run->ordered(Kind::Lock) == nullptr);
    CHECK(f.run->interrupted.resumption().carried_nm.x == 5 - 40);
    f.lock(LockState::Referencing, 5);
    f.lock(LockState::Locked, 5);
    CHECK(f.run->interrupted.status().is_null());
    CHECK(refused_at_once([&] { f.run->interrupted.resumption(); }) == "refused");
    REQUIRE(f.is_written([](const SavedLock& l) { return l.lock_id == 5; }));
  }
  SECTION("a lock at a place takes its place once it holds, and not before") {
    f.run->interrupted.put_aside("a place was looked for since");
    f.run->played.report.resumed = true;
    for (const LockState end : {LockState::Idle, LockState::Locked}) {
      f.run->interrupted.give_way();
      f.lock(LockState::Referencing, 4);
      f.lock(end, 4);
      f.turn();
      CHECK(f.run->interrupted.status().is_null() == (end == LockState::Locked));
    }
    CHECK(f.run->count("lock_resumed") == 0);
  }
  SECTION("other markers are found: it is kept, as it was lost, and found again") {
    REQUIRE(f.is_written([](const SavedLock& l) { return l.lost; }));
    CHECK(f.run->interrupted.wanted() == nullptr);
    REQUIRE(f.run->interrupted.wanted(true) != nullptr);
    f.run->interrupted.not_found("of 9 spots at most 2 lie like the markers");
    const std::array others = {control::Marker{1, control::MarkerRole::Tracking, 1010, 506}};
    f.run->played.tell_markers(2, others);
    f.turn();
    f.run->memory.write_last();
    CHECK(f.kept().value().markers.size() == 2);
    CHECK_THAT(f.run->interrupted.offer(), contains("`driftctl markers --find` looks for"));
    REQUIRE(f.run->interrupted.wanted(true) != nullptr);
    f.measure({310, -240});
    f.run->interrupted.found(f.run->loop.send(LoopCommand{.kind = Kind::Markers}).value(), 2);
    f.turn();
    CHECK_THAT(f.run->last("lock_interrupted"), contains("x +310.0"));
    CHECK(f.run->interrupted.resumption().carried_nm.x == 5 - 40);
  }
  SECTION("`unlock` forgets it, though the loop has still to obey") {
    f.run->interrupted.forget();
    f.turn();
    CHECK(refused_at_once([&] { f.run->interrupted.resumption(); }) == "refused");
    f.lock(LockState::Idle, 3);
    CHECK(f.run->interrupted.status().is_null());
    REQUIRE(f.until([&] { return !f.kept(); }));
  }
}

TEST_CASE("a lock that `unlock` ends in the moment of its loss is not gone back to") {
  Fixture f;
  f.lock(LockState::Locked, 3, {-40, 15});
  f.run->interrupted.forget();
  f.lock(LockState::Lost, 3, {-40, 15});
  f.measure({30, -40});
  f.lock(LockState::Idle, 3);
  CHECK(f.run->interrupted.status().is_null());
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
  SECTION("its controller is switched on later: it is asked then, and what it says is told") {
    nlohmann::json before = report("", 0);
    before["state"] = "disconnected";
    before["total_x_nm"] = before["total_y_nm"] = before["axes"][0]["position_nm"] = nullptr;
    f.run->stage.take(before, f.now_ns);
    f.find({30, -40});
    CHECK(f.run->last("lock_interrupted").find("the stage says") == std::string::npos);
    f.run->stage.take(report("0000000000000001", 47'000), f.now_ns);
    f.turn();
    CHECK_THAT(f.run->last("lock_interrupted"),
               contains("its axis 1 is -3000 nm from where it was"));
    CHECK(f.run->interrupted.resumption().carried_nm.x == 5 - 52);
  }
}
