// SPDX-License-Identifier: MIT
// Which part of housekeeping each command reaches, and what is refused before it reaches any.
#include <string>

#include "command_handlers_fixture.hpp"
#include "support/catch.hpp"
#include "turned_until.hpp"

using namespace driftd;
using namespace driftd::daemon;
using driftd::daemon::test::Asker;
using driftd::daemon::test::HandlersFixture;
using driftd::daemon::test::refused_at_once;
using Kind = LoopCommand::Kind;
using nlohmann::json;

namespace {

struct Fixture : HandlersFixture {
  json reply(const json& request) {
    Asker asker;
    handlers.carry_out(request, asker.answer(), 1000);
    return asker.reply().fields;
  }
  std::string refusal(const json& request) {
    return refused_at_once([&] {
      handlers.carry_out(
          request, [](const Outcome&) {}, 1000);
    });
  }
  /// Once the loop has obeyed.
  Reply answered(const char* command) {
    driftd::daemon::test::Asker asker;
    handlers.carry_out({{"command", command}}, asker.answer(), 1000);
    played.turn();
    loop.refresh();
    orders.turn(1001);
    return asker.reply();
  }
  /// What reaches the loop.
  Kind ordered(const char* command) {
    played.taken.clear();
    handlers.carry_out(
        {{"command", command}, {"id", 3}}, [](const Outcome&) {}, 1000);
    played.turn();
    loop.refresh();
    orders.turn(1001);
    return played.taken.size() == 1 ? played.taken[0].kind : Kind::None;
  }
};

}  // namespace

TEST_CASE("each command reaches the part that does it") {
  Fixture f;
  CHECK(f.reply({{"command", "status"}}) == json({{"status", {{"state", "holding"}}}}));
  CHECK(f.ordered("lock") == Kind::Lock);
  CHECK(f.ordered("unlock") == Kind::Unlock);
  CHECK(f.ordered("reset") == Kind::Reset);
  CHECK_FALSE(f.snapshots.pending());
  CHECK(f.reply({{"command", "snapshot"}}).empty());
  CHECK(f.snapshots.pending());
}

TEST_CASE("unlock and reset forget an interrupted lock, a reset that is refused does not") {
  for (const char* command : {"unlock", "reset"}) {
    Fixture f;
    SavedLock lock;
    lock.time = SavedTime::now();
    f.interrupted.take(lock);
    REQUIRE(f.interrupted.asks());
    f.played.tell_state(control::LockState::Holding);
    f.loop.refresh();
    CHECK(f.refusal({{"command", "reset"}}) == "refused");
    CHECK(f.interrupted.asks());
    f.played.tell_state(control::LockState::Lost);
    f.loop.refresh();
    const Reply reply = f.answered(command);
    CHECK_FALSE(f.interrupted.asks());
    if (command == std::string("unlock"))
      CHECK_THAT(reply.fields.value("forgotten", ""), contains("lock 0, interrupted "));
    CHECK_FALSE(f.answered(command).fields.contains("forgotten"));
  }
}

TEST_CASE("markers are listed, and looked for when that is asked for") {
  Fixture f;
  f.played.tell_markers(1, std::vector<control::Marker>{{.id = 4, .x_px = 20, .y_px = 30}});
  f.loop.refresh();
  for (const json& request :
       {json{{"command", "markers"}}, json{{"command", "markers"}, {"find", false}}}) {
    const json listed = f.reply(request);
    REQUIRE(listed["markers"].size() == 1);
    CHECK(listed["markers"][0]["id"] == 4);
    CHECK_FALSE(listed.contains("outdated_s"));
    CHECK_FALSE(f.keeper.find_pending());
  }
  f.played.ports.markers.writing().arrival_ns = 1'000'000'000;
  f.played.ports.markers.publish();
  f.played.report.time_ns = 3'500'000'000;  // the camera has gone
  f.played.tell();
  f.loop.refresh();
  CHECK(f.reply({{"command", "markers"}})["outdated_s"] == Approx(2.5));
  CHECK(f.reply({{"command", "markers"}, {"find", true}}).empty());
  CHECK(f.keeper.find_pending());
}

TEST_CASE("what no command is or has is a bad request, and nothing is done") {
  Fixture f;
  for (const json& request : {json{{"command", "shutdown"}},
                              json{{"command", ""}},
                              json{{"command", "lock"}, {"force", true}},
                              json{{"command", "lock"}, {"resume", 1}},
                              json{{"command", "unlock"}, {"find", true}},
                              json{{"command", "snapshot"}, {"roi", 1}},
                              json{{"command", "status"}, {"find", false}},
                              json{{"command", "markers"}, {"find", 1}},
                              json{{"command", "markers"}, {"find", nullptr}},
                              json{{"command", "markers"}, {"again", true}},
                              json{{"command", "lock"}, {"place", 1}},
                              json{{"command", "lock"}, {"place", ""}},
                              json{{"command", "lock"}, {"place", "a"}, {"resume", true}},
                              json{{"command", "place"}, {"list", true}},
                              json{{"command", "place"}, {"show", "../a"}},
                              json{{"command", "place"}, {"save", "a"}, {"remove", "a"}},
                              json{{"command", "place"}, {"remove", "a"}, {"note", "b"}},
                              json{{"command", "place"}, {"show", "a"}, {"replace", true}},
                              json{{"command", "place"}, {"save", "a"}, {"note", "b\nc"}},
                              json{{"command", "place"}, {"save", "a"}, {"replace", 1}}}) {
    INFO(request);
    CHECK(f.refusal(request) == "bad_request");
  }
  CHECK_FALSE(f.orders.pending());
  CHECK_FALSE(f.keeper.find_pending());
  CHECK_FALSE(f.snapshots.pending());
  try {
    f.handlers.carry_out({{"command", "lock"}, {"force", true}}, {}, 0);
    FAIL();
  } catch (const CommandRefused& refused) {
    CHECK(refused.text == "unknown field `force` for command `lock`");
  }
}

TEST_CASE("the refusal of a command repeats the beginning of a name, not all that was sent") {
  Fixture f;
  const std::string most(40, 'a');
  for (const std::string& name : {most, most + "a"}) {
    const std::string told = name == most ? most : most + "...";
    for (const auto& [request, text] :
         {std::pair{json{{"command", name}}, "unknown command `" + told + "`; there"},
          {json{{"command", name}, {name, 1}},
           "unknown field `" + told + "` for command `" + told + "`"}}) {
      try {
        f.handlers.carry_out(request, {}, 0);
        FAIL();
      } catch (const CommandRefused& refused) {
        CHECK(refused.text.starts_with(text));
      }
    }
  }
}

TEST_CASE("to resume where no lock was interrupted is refused, and not to is a lock") {
  Fixture f;
  CHECK(f.refusal({{"command", "lock"}, {"resume", true}}) == "refused");
  f.handlers.carry_out(
      {{"command", "lock"}, {"resume", false}}, [](const Outcome&) {}, 1000);
  f.played.turn();
  REQUIRE(f.played.taken.back().kind == Kind::Lock);
  CHECK_FALSE(f.played.taken.back().resumption);
}

TEST_CASE("unlock, and a reset that is obeyed, end a place that is looked for") {
  for (const char* command : {"unlock", "reset"}) {
    Fixture f;
    Asker asker;
    f.handlers.carry_out({{"command", "lock"}, {"place", "a"}}, asker.answer(), 1000);
    REQUIRE(f.places.pending());
    f.ordered(command);
    CHECK(asker.code() == "refused");
    CHECK(asker.text() ==
          "`unlock` or `reset` came while the place `a` was looked for: it is not locked at");
  }
}

TEST_CASE("places are listed without a field, and told that there is no folder for them") {
  Fixture f;
  Asker asker;
  f.handlers.carry_out({{"command", "place"}}, asker.answer(), 1000);
  REQUIRE(driftd::daemon::test::turned_until([&] { return asker.answered(); },
                                             [&] { f.places.turn(1001); }));
  CHECK(asker.code() == "refused");
  CHECK(asker.text().find("STATE_DIRECTORY") != std::string::npos);
}

namespace {

struct ZFixture : HandlersFixture {
  Outcome asked(const json& request) {
    Asker asker;
    try {
      z_handlers.carry_out(request, asker.answer(), 1000);
    } catch (const CommandRefused& refused) {
      return refused;
    }
    played.turn();
    loop.refresh();
    for (LockOrders* of : {&orders, &z_orders}) of->turn(1001);
    for (MoveOrders* of : {&moves, &z_moves}) of->turn(1001);
    REQUIRE(asker.answered());
    return *asker.outcome;
  }
  json reply(const json& request) {
    const Outcome outcome = asked(request);
    if (const auto* refused = std::get_if<CommandRefused>(&outcome)) FAIL(refused->text);
    return std::get<Reply>(outcome).fields;
  }
  std::string refusal(const json& request) {
    const Outcome outcome = asked(request);
    const auto* refused = std::get_if<CommandRefused>(&outcome);
    return refused != nullptr ? refused->text : "";
  }
  control::LockState& state(AxisGroup group) { return played.report.of(group).lock.state; }
};

}  // namespace

TEST_CASE("lock and unlock are of the axes that are named, a plain lock of z by axial.hold") {
  using control::LockState;
  ZFixture f;
  CHECK(f.reply({{"command", "lock"}})["lock_id"] == 1);
  CHECK(f.state(AxisGroup::Axial) == LockState::Idle);
  CHECK(f.reply({{"command", "lock"}, {"axes", "z"}})["lock_id"] == 2);
  CHECK(f.state(AxisGroup::Axial) == LockState::Referencing);
  CHECK(f.reply({{"command", "unlock"}, {"axes", "z"}})["state"] == "idle");
  CHECK(f.state(AxisGroup::Axial) == LockState::Idle);
  CHECK(f.state(AxisGroup::Lateral) == LockState::Referencing);
  CHECK(f.gate.pass(1, [] {}));
  json both = f.reply({{"command", "unlock"}});
  CHECK(both["state"] == "idle");
  CHECK(both["z"]["state"] == "idle");
  CHECK(f.state(AxisGroup::Lateral) == LockState::Idle);

  f.config.axial.hold = true;
  both = f.reply({{"command", "lock"}});
  CHECK(both["lock_id"] == 3);
  CHECK(both["z"]["lock_id"] == 4);
  f.state(AxisGroup::Lateral) = f.state(AxisGroup::Axial) = LockState::Locked;
  f.played.tell();
  f.loop.refresh();
  CHECK(f.reply({{"command", "unlock"}, {"axes", "xy"}})["state"] == "idle");
  CHECK(f.state(AxisGroup::Axial) == LockState::Locked);
  CHECK(f.reply({{"command", "lock"}})["lock_id"] == 5);  // what holds already is no obstacle
  CHECK(f.state(AxisGroup::Axial) == LockState::Locked);
  CHECK_THAT(f.refusal({{"command", "lock"}, {"axes", "z"}}),
             contains("the lock of z is `locked`"));
  CHECK_THAT(f.refusal({{"command", "lock"}, {"axes", "y"}}), contains("axes"));
  f.state(AxisGroup::Lateral) = LockState::Locked;
  f.state(AxisGroup::Axial) = LockState::Holding;
  f.played.tell();
  f.loop.refresh();
  CHECK_THAT(f.refusal({{"command", "lock"}}),
             contains("the lock is `locked` already, and the lock of z is `holding`"));
}

TEST_CASE("x and y are locked without a z that cannot be, and the reply says why") {
  ZFixture f;
  f.why_no_z = "z is not measured now: no frames come";
  const json both = f.reply({{"command", "lock"}, {"axes", "xyz"}});
  CHECK(both["state"] == "referencing");
  CHECK(both["z"]["refused"] == f.why_no_z);
  CHECK_THAT(f.refusal({{"command", "lock"}, {"axes", "z"}}), contains("z is not measured"));
}

TEST_CASE("without a z there is none to lock, to unlock or to move") {
  Fixture f;
  for (const json& request :
       {json{{"command", "lock"}, {"axes", "z"}}, json{{"command", "unlock"}, {"axes", "xyz"}},
        json{{"command", "move"}, {"z_nm", 5}}})
    CHECK(f.refusal(request) == "refused");
}

TEST_CASE("z is moved alone, or with x and y, or none of them is") {
  using control::LockState;
  ZFixture f;
  f.played.report.frame_rate_hz = 500;
  CHECK_THAT(f.refusal({{"command", "move"}, {"z_nm", 5}}), contains("the lock of z is `idle`"));
  f.state(AxisGroup::Axial) = LockState::Locked;
  f.played.tell();
  f.loop.refresh();
  f.played.taken.clear();
  CHECK_THAT(f.refusal({{"command", "move"}, {"x_nm", 9}, {"y_nm", 0}, {"z_nm", 5}}),
             contains("the lock is `idle`"));
  CHECK(f.played.taken.empty());
  CHECK_THAT(f.refusal({{"command", "move"}, {"z_nm", 2500}}), contains("axial.range_limit_nm"));
  f.reply({{"command", "move"}, {"stop", true}});  // of whom there is something to stop
  REQUIRE(f.played.taken.size() == 1);
  CHECK(f.played.taken[0].kind == Kind::StopMove);
  CHECK(f.played.taken[0].group == AxisGroup::Axial);
}

TEST_CASE("z is unlocked, and x and y are stopped, whatever refuses that to the other") {
  using control::LockState;
  ZFixture f;
  f.state(AxisGroup::Lateral) = f.state(AxisGroup::Axial) = LockState::Locked;
  f.played.tell();
  f.loop.refresh();
  MoveRequest stop;
  stop.kind = MoveRequest::Kind::Stop;
  f.z_moves.order(
      stop, [](const Outcome&) {}, 1000);
  const json stopped = f.reply({{"command", "move"}, {"stop", true}});
  CHECK_THAT(stopped["z"]["refused"].get<std::string>(), contains("another move"));
  CHECK(stopped["state"] == "locked");
  CHECK(f.played.taken.back().kind == Kind::StopMove);
  CHECK(f.played.taken.back().group == AxisGroup::Lateral);

  for (int i = 0; i < 256; ++i) f.orders.unlock([](const Outcome&) {}, 1000);
  CHECK_THAT(f.refusal({{"command", "unlock"}}), contains("too many orders"));
  CHECK(f.state(AxisGroup::Axial) == LockState::Idle);
}

TEST_CASE("z is not locked at start where somebody locked x and y alone") {
  ZFixture f;
  f.reply({{"command", "lock"}});
  CHECK_FALSE(f.z_orders.is_at_start_over());
  f.reply({{"command", "unlock"}, {"axes", "xy"}});
  f.reply({{"command", "lock"}, {"axes", "xy"}});
  CHECK(f.z_orders.is_at_start_over());
}

TEST_CASE("reset is of the lock that needs it") {
  using control::LockState;
  ZFixture f;
  f.state(AxisGroup::Lateral) = LockState::Locked;
  f.state(AxisGroup::Axial) = LockState::Lost;
  f.played.tell();
  f.loop.refresh();
  json told = f.reply({{"command", "reset"}});
  CHECK(told["state"] == "idle");
  CHECK(told["axes"] == "z");
  CHECK(told["xy"]["state"] == "locked");  // as it stays
  CHECK(f.state(AxisGroup::Axial) == LockState::Idle);
  CHECK(f.state(AxisGroup::Lateral) == LockState::Locked);
  CHECK_THAT(f.refusal({{"command", "reset"}}), contains("the lock is `locked`"));
  f.state(AxisGroup::Lateral) = LockState::Lost;
  f.state(AxisGroup::Axial) = LockState::Holding;
  f.played.tell();
  f.loop.refresh();
  told = f.reply({{"command", "reset"}});
  CHECK(told["state"] == "idle");
  CHECK(told["z"]["state"] == "holding");
  CHECK_FALSE(told.contains("axes"));
}
