// SPDX-License-Identifier: MIT
#include "daemon/orders/lock_orders.hpp"
#include "housekeeping_for_tests.hpp"
#include "support/catch.hpp"

using namespace driftd::daemon;
using driftd::control::LockReason;
using driftd::control::LockState;
using driftd::daemon::test::Asker;
using driftd::daemon::test::PlayedLoop;
using driftd::daemon::test::refused_at_once;
using Kind = LoopCommand::Kind;

namespace {

constexpr std::int64_t kMs = 1'000'000;

struct Fixture {
  PlayedLoop played;
  LoopControl loop{played.ports};
  CorrectionGate gate;
  bool has_markers = true;
  LockOrders orders;
  std::int64_t now_ns = 1000 * kMs;

  explicit Fixture(LockOrderSettings settings = {})
      : orders(settings, gate, loop,
               [this] { return std::string(has_markers ? "" : "no markers are known yet"); }) {
    played.tell();
    loop.refresh();
  }

  void turn(std::int64_t later_ms = 10) {
    now_ns += later_ms * kMs;
    loop.refresh();
    orders.turn(now_ns);
  }
  /// The loop takes what was sent, and housekeeping sees it.
  void both_turn(std::int64_t later_ms = 10) {
    played.turn();
    turn(later_ms);
  }
  bool passes(std::uint64_t lock_id) {
    return gate.pass(lock_id, [] {});
  }
  std::size_t count(Kind kind) const {
    std::size_t n = 0;
    for (const LoopCommand& command : played.taken) n += command.kind == kind ? 1 : 0;
    return n;
  }
  void measure_markers() {
    played.report.drift.valid = true;
    played.report.tracked_ns = played.report.frame_ns = played.report.time_ns = now_ns;
    played.tell();
  }
};

}  // namespace

TEST_CASE("a lock is answered when the loop has taken it, and not before") {
  Fixture f;
  Asker asker;
  f.orders.lock(asker.answer(), f.now_ns);
  f.turn();
  f.turn();
  REQUIRE_FALSE(asker.answered());
  REQUIRE(f.orders.pending());
  f.both_turn();
  REQUIRE(asker.reply().fields == nlohmann::json({{"state", "referencing"}, {"lock_id", 1}}));
  REQUIRE(f.passes(1));
  REQUIRE_FALSE(f.orders.pending());
  f.turn();
  REQUIRE(asker.answers == 1);
}

TEST_CASE("a lock that the loop took and did not begin is refused with the loop's reason") {
  Fixture f;
  Asker asker;
  f.orders.lock(asker.answer(), f.now_ns);
  f.played.turn();
  f.played.tell_state(LockState::Fault, LockReason::InternalFault);
  f.turn();
  REQUIRE(asker.code() == "refused");
  REQUIRE(asker.text() == "the lock is `fault`: internal fault; no correction leaves; reset it");
}

TEST_CASE("a lock that the loop does not take in time is refused, and does not happen later") {
  Fixture f;
  Asker asker;
  f.orders.lock(asker.answer(), f.now_ns);
  f.turn(499);
  REQUIRE_FALSE(asker.answered());
  f.turn(2);
  REQUIRE(asker.code() == "timeout");
  REQUIRE_FALSE(f.passes(1));
  f.turn();
  f.played.turn();  // it lives again
  REQUIRE(f.played.report.lock.state == LockState::Idle);
  REQUIRE(f.played.taken.back().kind == Kind::Unlock);
}

TEST_CASE("what cannot be locked is refused at once, and nothing is ordered") {
  Fixture f;
  Asker asker;
  const auto lock = [&] { f.orders.lock(asker.answer(), f.now_ns); };
  f.has_markers = false;
  CHECK(refused_at_once(lock) == "refused");
  f.has_markers = true;
  for (const LockState state :
       {LockState::Referencing, LockState::Locked, LockState::Holding, LockState::Fault}) {
    f.played.tell_state(state);
    f.loop.refresh();
    CHECK(refused_at_once(lock) == "refused");
  }
  f.played.report.time_ns = 600 * kMs;  // the camera was there
  f.played.tell_state(LockState::Lost);
  f.loop.refresh();
  CHECK(refused_at_once(lock) == "no_frame");
  f.played.report.time_ns = 0;
  f.played.tell();
  f.loop.refresh();
  CHECK(refused_at_once(lock).empty());
  CHECK(refused_at_once(lock) == "busy");  // the first one is under way
  f.played.turn();
  CHECK(f.count(Kind::Lock) == 1);
  Fixture recording({.recording = true, .at_start = true});
  CHECK(refused_at_once([&] { recording.orders.lock(asker.answer(), 0); }) == "refused");
}

TEST_CASE("after an unlock nothing leaves, before the loop knows of it") {
  Fixture f;
  Asker locker;
  f.orders.lock(locker.answer(), f.now_ns);
  f.both_turn();
  f.played.tell_state(LockState::Locked);
  REQUIRE(f.passes(1));
  Asker asker;
  f.orders.unlock(asker.answer(), f.now_ns);
  REQUIRE_FALSE(f.passes(1));
  f.turn();
  REQUIRE_FALSE(asker.answered());
  f.both_turn();
  REQUIRE(asker.reply().fields == nlohmann::json({{"state", "idle"}}));
}

TEST_CASE("an unlock that came before the loop took the lock says that the lock did not happen") {
  Fixture f;
  Asker locker;
  Asker unlocker;
  f.orders.lock(locker.answer(), f.now_ns);
  f.orders.unlock(unlocker.answer(), f.now_ns);
  f.both_turn();
  REQUIRE(locker.code() == "refused");
  REQUIRE(unlocker.reply().fields["state"] == "idle");
}

TEST_CASE("an unlock in `fault` is refused, a reset is not") {
  Fixture f;
  f.played.tell_state(LockState::Fault, LockReason::InternalFault);
  Asker unlocker;
  f.orders.unlock(unlocker.answer(), f.now_ns);
  f.both_turn();
  REQUIRE(unlocker.code() == "refused");
  Asker resetter;
  f.orders.reset(resetter.answer(), f.now_ns);
  f.both_turn();
  REQUIRE(resetter.reply().fields["state"] == "idle");
}

TEST_CASE("a reset leaves a lock that is engaged, or about to be, alone") {
  Fixture f;
  Asker locker;
  Asker asker;
  f.orders.lock(locker.answer(), f.now_ns);
  const auto reset = [&] { f.orders.reset(asker.answer(), f.now_ns); };
  CHECK(refused_at_once(reset) == "busy");
  f.both_turn();
  for (const LockState state : {LockState::Referencing, LockState::Locked, LockState::Holding}) {
    f.played.tell_state(state);
    f.turn();
    CHECK(refused_at_once(reset) == "refused");
  }
  f.both_turn();
  CHECK(f.count(Kind::Reset) == 0);
  CHECK(f.passes(1));
  CHECK(f.played.report.lock.state == LockState::Holding);
  CHECK_FALSE(asker.answered());
}

TEST_CASE("a reset ends a lost lock, and finds nothing to do in idle") {
  Fixture f;
  f.gate.open(3);
  for (const LockState state : {LockState::Lost, LockState::Idle}) {
    f.played.tell_state(state);
    f.turn();
    Asker asker;
    f.orders.reset(asker.answer(), f.now_ns);
    f.both_turn();
    CHECK(asker.reply().fields == nlohmann::json({{"state", "idle"}}));
    CHECK_FALSE(f.passes(3));
  }
}

TEST_CASE("any number of unlocks at once is one order") {
  Fixture f;
  std::vector<Asker> askers(100);  // the loop's queue holds 16
  for (Asker& asker : askers) f.orders.unlock(asker.answer(), f.now_ns);
  f.both_turn();
  REQUIRE(f.count(Kind::Unlock) == 1);
  for (const Asker& asker : askers) REQUIRE(asker.reply().fields["state"] == "idle");
}

TEST_CASE("orders that wait are bounded") {
  Fixture f;
  Asker asker;
  int busy = 0;
  for (int i = 0; i < 1000; ++i) {
    busy += refused_at_once([&] { f.orders.unlock(asker.answer(), f.now_ns); }) == "busy" ? 1 : 0;
  }
  REQUIRE(busy == 1000 - 256);
}

TEST_CASE("an unlock that the loop's queue has no room for is refused, and reaches it later") {
  Fixture f;
  f.gate.open(4);
  f.played.stop_taking();
  Asker asker;
  f.orders.unlock(asker.answer(), f.now_ns);
  REQUIRE(asker.code() == "timeout");
  REQUIRE_FALSE(f.passes(4));
  f.turn();
  f.played.turn();
  f.turn();
  f.played.turn();
  REQUIRE(f.count(Kind::Unlock) == 1);
}

TEST_CASE("orders that wait when the daemon ends are refused, each once") {
  Fixture f;
  std::vector<Asker> askers(3);
  f.orders.lock(askers[0].answer(), f.now_ns);
  f.orders.unlock(askers[1].answer(), f.now_ns);
  f.orders.unlock(askers[2].answer(), f.now_ns);
  f.orders.refuse_pending({Refusal::Stopping, "driftd is stopping"});
  REQUIRE_FALSE(f.orders.pending());
  f.both_turn();
  for (const Asker& asker : askers) {
    CHECK(asker.code() == "stopping");
    CHECK(asker.text() == "driftd is stopping");
    CHECK(asker.answers == 1);
  }
}

TEST_CASE("lock.at_start locks once markers are measured") {
  Fixture f({.recording = false, .at_start = true});
  f.has_markers = false;
  f.both_turn(60'000);  // no camera for a minute
  REQUIRE(f.count(Kind::Lock) == 0);
  CHECK(f.orders.waits_for() == "no markers are known yet");
  f.has_markers = true;
  f.both_turn();
  f.both_turn();
  REQUIRE(f.count(Kind::Lock) == 0);  // known and not measured
  CHECK(f.orders.waits_for() == "too few markers are measured now");
  f.measure_markers();
  f.both_turn();
  f.both_turn();
  REQUIRE(f.count(Kind::Lock) == 1);
  CHECK(f.orders.waits_for().empty());
  f.played.tell_state(LockState::Locked);
  f.both_turn();
  f.played.tell_state(LockState::Idle);  // whyever
  for (int i = 0; i < 5; ++i) f.both_turn(1000);
  REQUIRE(f.count(Kind::Lock) == 1);
}

TEST_CASE("lock.at_start is tried again when it was refused or no reference came about") {
  Fixture f({.recording = false, .at_start = true});
  f.measure_markers();
  f.played.stop_taking();
  f.turn();  // refused: no room
  f.played.turn();
  REQUIRE(f.count(Kind::Lock) == 0);
  f.both_turn(1000);
  f.both_turn();
  REQUIRE(f.count(Kind::Lock) == 1);
  f.played.tell_state(LockState::Idle, LockReason::ReferenceTimeout);
  f.both_turn(1000);
  f.both_turn();
  REQUIRE(f.count(Kind::Lock) == 2);
}

TEST_CASE("lock.at_start does nothing after an order of the user's") {
  for (const Kind kind : {Kind::Unlock, Kind::Reset}) {
    Fixture f({.recording = false, .at_start = true});
    Asker asker;
    if (kind == Kind::Unlock)
      f.orders.unlock(asker.answer(), f.now_ns);
    else
      f.orders.reset(asker.answer(), f.now_ns);
    f.both_turn();
    f.measure_markers();
    for (int i = 0; i < 5; ++i) f.both_turn(1000);
    CHECK(f.count(Kind::Lock) == 0);
  }
}

TEST_CASE("a lock that was refused leaves lock.at_start to come") {
  Fixture f({.recording = false, .at_start = true});
  f.has_markers = false;
  Asker asker;
  REQUIRE(refused_at_once([&] { f.orders.lock(asker.answer(), f.now_ns); }) == "refused");
  f.has_markers = true;
  f.measure_markers();
  f.both_turn();
  f.both_turn();
  REQUIRE(f.count(Kind::Lock) == 1);
}

TEST_CASE("a second lock has the next number, and only that one passes the gate") {
  Fixture f;
  for (const std::uint64_t number : {1U, 2U}) {
    Asker asker;
    f.orders.lock(asker.answer(), f.now_ns);
    f.both_turn();
    CHECK(asker.reply().fields == nlohmann::json({{"state", "referencing"}, {"lock_id", number}}));
    CHECK(f.played.taken.back().lock_id == number);
    CHECK(f.passes(number));
    CHECK_FALSE(f.passes(3 - number));
    f.played.tell_state(LockState::Lost);
    f.turn();
  }
}

TEST_CASE("a lock that the loop reports under another number did not happen") {
  Fixture f;
  Asker asker;
  f.orders.lock(asker.answer(), f.now_ns);
  f.played.turn();
  f.played.report.lock_id = 7;
  f.played.tell_state(LockState::Locked, LockReason::ReferenceTaken);
  f.turn();
  REQUIRE(asker.code() == "refused");
  REQUIRE(asker.text() == "the lock is `locked`: reference taken");
}

TEST_CASE("without lock.at_start no lock engages by itself") {
  Fixture f;
  f.measure_markers();
  for (int i = 0; i < 5; ++i) f.both_turn(1000);
  REQUIRE(f.count(Kind::Lock) == 0);
}

TEST_CASE("lock.at_start is tried once a second") {
  Fixture f({.recording = false, .at_start = true});
  f.measure_markers();
  f.played.stop_taking();
  f.turn();  // no room
  f.played.turn();
  f.turn(999);
  f.played.turn();
  REQUIRE(f.count(Kind::Lock) == 0);
  f.turn(1);
  f.played.turn();
  REQUIRE(f.count(Kind::Lock) == 1);
}

TEST_CASE("lock.at_start waits for a frame that shows where the sample is now") {
  Fixture f({.recording = false, .at_start = true});
  f.measure_markers();
  f.played.report.time_ns += 600 * kMs;  // the camera has gone
  for (int i = 0; i < 5; ++i) f.both_turn(1000);
  CHECK(f.count(Kind::Lock) == 0);
  CHECK(f.orders.waits_for().starts_with("no camera gives frames: see the camera's power"));
  f.measure_markers();
  f.both_turn();
  f.both_turn();
  CHECK(f.count(Kind::Lock) == 1);
}

TEST_CASE("while somebody is asked what to lock, nothing is locked at start") {
  Fixture f({.recording = false, .at_start = true});
  f.measure_markers();
  f.orders.hold_back_at_start(true);
  for (int i = 0; i < 200; ++i) f.both_turn();
  REQUIRE(f.count(Kind::Lock) == 0);
  f.orders.hold_back_at_start(false);
  f.both_turn();
  f.both_turn();
  REQUIRE(f.count(Kind::Lock) == 1);
}

TEST_CASE("an order to resume reaches the loop with what it resumes") {
  Fixture f;
  Asker asker;
  f.orders.lock(asker.answer(), f.now_ns,
                LockResumption{.carried_nm = {7, -8}, .drift_nm = {3, 4}, .largest_move_nm = 50});
  f.both_turn();
  REQUIRE(f.played.taken.back().resumption);
  CHECK(f.played.taken.back().resumption->carried_nm.y == -8);
  CHECK(asker.reply().fields["lock_id"] == 1);
  Fixture other;
  other.orders.lock(asker.answer(), other.now_ns);
  other.both_turn();
  CHECK_FALSE(other.played.taken.back().resumption);
}

TEST_CASE("locks of z have numbers of the same row, a gate of their own and a name in words") {
  Fixture f;
  const auto newest = std::make_shared<std::uint64_t>(0);
  CorrectionGate z_gate;
  std::string why_no_z;
  LockOrders xy({.newest_id = newest}, f.gate, f.loop, [] { return std::string(); });
  LockOrders z({.group = AxisGroup::Axial, .newest_id = newest}, z_gate, f.loop,
               [&] { return why_no_z; });
  const auto turn = [&] {
    f.played.turn();
    f.loop.refresh();
    xy.turn(f.now_ns);
    z.turn(f.now_ns);
  };
  Asker first, second;
  xy.lock(first.answer(), f.now_ns);
  z.lock(second.answer(), f.now_ns);
  turn();
  CHECK(first.reply().fields["lock_id"] == 1);
  CHECK(second.reply().fields == nlohmann::json({{"state", "referencing"}, {"lock_id", 2}}));
  CHECK(f.played.taken[1].group == AxisGroup::Axial);
  CHECK(z_gate.pass(2, [] {}));
  CHECK_FALSE(z_gate.pass(1, [] {}));
  CHECK(f.gate.pass(1, [] {}));
  Asker end;
  z.unlock(end.answer(), f.now_ns);
  turn();
  CHECK(end.reply().fields["state"] == "idle");
  CHECK_FALSE(z_gate.pass(2, [] {}));
  CHECK(f.gate.pass(1, [] {}));  // x and y go on
  CHECK(f.played.report.lock.state == LockState::Referencing);
  f.played.report.z.lock.state = LockState::Fault;
  turn();
  CHECK(refused_at_once([&] { z.check_can_lock(); }) == "refused");
  f.played.report.z.lock.state = LockState::Idle;
  turn();
  why_no_z = "z is not measured now";
  CHECK(refused_at_once([&] { z.lock([](const Outcome&) {}, f.now_ns); }) == "refused");
}
