// SPDX-License-Identifier: MIT
// Moves as orders to the loop: when they are taken, how they are answered, what is told of them.
#include <cmath>
#include <deque>

#include "daemon/orders/move_orders.hpp"
#include "housekeeping_for_tests.hpp"
#include "support/catch.hpp"

using namespace driftd::daemon;
using namespace driftd::daemon::test;

using driftd::control::LockState;
using driftd::control::MoveEnd;
using driftd::control::SetPointPhase;
using nlohmann::json;

namespace {

constexpr std::int64_t kMs = 1'000'000;

struct Fixture {
  driftd::config::Config config = driftd::config::default_config();
  PlayedLoop played;
  Told told;
  LoopControl loop{played.ports};
  MoveOrders moves{config, loop, told.log};
  std::int64_t now_ns = 1000 * kMs;
  std::deque<Asker> askers;

  Fixture() {
    played.report.frame_rate_hz = 500;
    state(LockState::Locked);
  }
  void state(LockState state) {
    played.tell_state(state);
    loop.refresh();
  }
  /// Answered now or later, it is there as long as the fixture.
  const Asker& ask(json request) {
    Asker& asker = askers.emplace_back();
    try {
      moves.order(read_move(request), asker.answer(), now_ns);
    } catch (const CommandRefused& refused) {
      asker.answer()(refused);
    }
    return asker;
  }
  /// The loop takes what it was sent, and its paths begin.
  void take(bool begins = true) {
    const std::size_t before = played.taken.size();
    played.turn();
    for (std::size_t i = before; i < played.taken.size(); ++i) {
      const LoopCommand& command = played.taken[i];
      if (command.kind != LoopCommand::Kind::Move || !begins) continue;
      played.report.move = {};
      played.report.move.id = command.move->id;
      played.report.move.phase = SetPointPhase::Moving;
      played.report.move.goal_nm = command.move->places[command.move->count - 1].place_nm;
    }
    turn();
  }
  void turn() {
    played.tell();
    loop.refresh();
    moves.turn(now_ns);
  }
};

TEST_CASE("a move is answered when the loop has taken it, and told until it is over") {
  Fixture f;
  Asker asker;
  f.moves.order(read_move({{"x_nm", 300}, {"y_nm", -40}}), asker.answer(), f.now_ns);
  f.moves.turn(f.now_ns);
  CHECK_FALSE(asker.answered());
  CHECK(f.moves.pending());
  f.take();
  REQUIRE(f.played.taken.size() == 1);
  const LoopCommand& command = f.played.taken[0];
  REQUIRE(command.kind == LoopCommand::Kind::Move);
  CHECK(command.move->places[0].place_nm.x == 300);
  CHECK(command.move->id == 1);
  REQUIRE(asker.answers == 1);
  const json reply = asker.reply().fields;
  CHECK(reply["move"] == 1);
  CHECK(reply["x_nm"] == 300);
  CHECK(reply["y_nm"] == -40);
  CHECK(reply["state"] == "locked");
  // Three quarters of the rate limit, in x; and a little y.
  CHECK(reply["speed_nm_per_s"].get<double>() == Approx(1500 * std::hypot(300, 40) / 300));
  CHECK(reply["duration_s"] > 0.2);
  CHECK(f.told.codes() == std::vector<std::string>{"move_begun"});
  CHECK_FALSE(f.moves.pending());
  f.turn();
  f.played.report.move.phase = SetPointPhase::Resting;
  f.played.report.move.end = MoveEnd::Done;
  f.played.report.move.set_nm = {300, -40};
  f.turn();
  f.turn();
  REQUIRE(f.told.codes() == std::vector<std::string>{"move_begun", "move_done"});
  CHECK(f.told.events[1]["move"] == 1);
  CHECK(f.told.events[1]["x_nm"] == 300);
}

TEST_CASE("only a locked sample is moved") {
  Fixture f;
  const json request = {{"dx_nm", 1}, {"dy_nm", 1}};
  for (const LockState state : {LockState::Idle, LockState::Referencing, LockState::Holding,
                                LockState::Lost, LockState::Fault, LockState::Calibrating}) {
    f.state(state);
    const Asker& asker = f.ask(request);
    CHECK(asker.code() == "refused");
    CHECK_THAT(asker.text(), contains(driftd::control::name_of(state)));
    CHECK(f.ask(json::parse(R"({"stop": true})")).answered() == (state != LockState::Holding));
    f.take();
  }
  CHECK(f.told.codes().empty());
}

TEST_CASE("a lock that ended meanwhile is told, not promised") {
  Fixture f;
  Asker asker;
  f.moves.order(read_move({{"home", true}}), asker.answer(), f.now_ns);
  f.played.report.lock.state = LockState::Holding;
  f.take(false);
  CHECK(asker.code() == "refused");
  CHECK_THAT(asker.text(), contains("holding"));
  CHECK(f.told.codes().empty());
}

TEST_CASE("one order at a time, and none that waits for ever") {
  Fixture f;
  const MoveRequest request = read_move({{"dx_nm", 5}, {"dy_nm", 0}});
  Asker first;
  f.moves.order(request, first.answer(), f.now_ns);
  CHECK(f.ask({{"dx_nm", 5}, {"dy_nm", 0}}).code() == "busy");
  f.now_ns += 501 * kMs;
  f.moves.turn(f.now_ns);
  CHECK(first.code() == "timeout");
  Asker second;
  f.moves.order(request, second.answer(), f.now_ns);
  f.moves.refuse_pending({Refusal::Stopping, "the end"});
  CHECK(second.code() == "stopping");
  CHECK_FALSE(f.moves.pending());
  f.played.stop_taking();
  CHECK(f.ask({{"dx_nm", 5}, {"dy_nm", 0}}).code() == "timeout");
}

TEST_CASE("a move that another one, a stop, the limits or the lock's end ends is told to be over") {
  Fixture f;
  f.ask({{"x_nm", 300}, {"y_nm", 0}});
  f.take();
  f.ask({{"x_nm", 0}, {"y_nm", 200}});
  f.take();
  CHECK(f.told.codes() == std::vector<std::string>{"move_begun", "move_ended", "move_begun"});
  CHECK(f.told.events[1]["move"] == 1);
  CHECK(f.told.events[1]["why"] == "replaced");
  f.told.events.clear();
  SECTION("stopped") {
    Asker asker;
    f.moves.order(read_move({{"stop", true}}), asker.answer(), f.now_ns);
    f.played.report.move.phase = SetPointPhase::Resting;
    f.played.report.move.end = MoveEnd::Stopped;
    f.played.report.move.set_nm = {150, 20};
    f.take();
    CHECK(f.played.taken.back().kind == LoopCommand::Kind::StopMove);
    CHECK(asker.reply().fields["x_nm"] == 150);
    CHECK(asker.reply().fields["y_nm"] == 20);
    CHECK(f.told.events.at(0)["why"] == "stopped");
  }
  SECTION("limits") {
    f.played.report.move.phase = SetPointPhase::Resting;
    f.played.report.move.end = MoveEnd::Limits;
    f.turn();
    CHECK(f.told.events.at(0)["why"] == "limits");
    CHECK(f.told.events[0]["level"] == "warning");
  }
  SECTION("unlocked") {
    f.played.report.move = {};
    f.played.report.lock.state = LockState::Lost;
    f.turn();
    CHECK(f.told.events.at(0)["why"] == "unlocked");
  }
  CHECK(f.told.events.size() == 1);
  CHECK(f.told.events[0]["code"] == "move_ended");
  CHECK(f.told.events[0]["move"] == 2);
  f.turn();
  CHECK(f.told.events.size() == 1);
}

TEST_CASE("status tells of the set-point, of none while there is no lock") {
  Fixture f;
  f.state(LockState::Idle);
  CHECK(f.moves.status()["phase"] == "unlocked");
  CHECK(f.moves.status()["x_nm"].is_null());
  CHECK(f.moves.status()["goal_y_nm"].is_null());
  f.played.report.move = {.id = 5,
                          .phase = SetPointPhase::Dwelling,
                          .end = MoveEnd::None,
                          .moving = true,
                          .set_nm = {1, 2},
                          .goal_nm = {3, 4},
                          .stage_nm = {},
                          .place = 1,
                          .places = 3,
                          .repeats_left = 7};
  f.state(LockState::Holding);
  const json status = f.moves.status();
  CHECK(status == json{{"move", 5},
                       {"phase", "dwelling"},
                       {"moving", true},
                       {"ended", ""},
                       {"x_nm", 1.0},
                       {"y_nm", 2.0},
                       {"goal_x_nm", 3.0},
                       {"goal_y_nm", 4.0},
                       {"place", 2},
                       {"places", 3},
                       {"repeats_left", 7}});
}

}  // namespace
