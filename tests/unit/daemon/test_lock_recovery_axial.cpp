// SPDX-License-Identifier: MIT
// What becomes of the lock of z beside the one of x and y: when it goes back, and to which zero.
#include <array>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "lock_saver_fixture.hpp"

using namespace driftd;
using namespace driftd::daemon;
using namespace driftd::daemon::test;

namespace {

constexpr double kZeroNm = 120.5;

std::shared_ptr<const control::BrightnessCurves> curve(double wider_px = 0) {
  std::vector<control::WidthCurve::Knot> knots;
  for (double z_nm = -400; z_nm <= 400; z_nm += 100) {
    const double x = (z_nm - 200) / 400, y = (z_nm + 200) / 400;
    knots.push_back({z_nm, 1.3 * std::sqrt(1 + x * x), 1.3 * std::sqrt(1 + y * y)});
  }
  knots[4].sigma_y_px += wider_px;
  return std::make_shared<const control::BrightnessCurves>(
      std::vector{control::WidthCurve(knots, 1, control::AxialMethod::Astigmatic)});
}

/// One marker that all is measured by, and `lock.resume: always`.
struct Fixture : DaemonsFixture {
  Fixture() {
    config.axial.method = control::AxialMethod::Astigmatic;
    config.axial.curve = "curve.yaml";
    config.axial.read = curve();
    config.axial.max_jump_nm = 80;
    config.axial.max_drift_nm_per_s = 0;
    config.drift.min_markers = 1;
    config.lock.resume = config::Resume::Always;
  }
  LockReport& z() { return run->played.report.z; }
  void tell_zero(double zero_nm) {
    PlayedLoop& played = run->played;
    MarkersReport& out = played.ports.markers.writing();
    out.frame_id = 7;
    out.commands_taken = played.report.commands_taken;
    out.count = 1;
    out.entries[0] = {};
    out.entries[0].marker = {4, control::MarkerRole::Tracking, 1030, 526};
    out.entries[0].reference = {{1030, 526}, 1.3, 800};
    out.entries[0].reference.z_nm = zero_nm;
    played.ports.markers.publish();
  }
  void hold() {
    run->played.report.lock_id = 3;
    run->played.report.lock.state = LockState::Locked;
    z().lock_id = 4;
    z().lock.state = LockState::Locked;
    z().total_nm = {-30, 0};
    z().carried_nm = {10, 0};
    z().travelled_nm = {200, 0};
    tell_zero(kZeroNm);
    turn();
  }
  /// x and y are idle.
  void hold_z_alone() {
    hold();
    run->interrupted.forget();
    run->played.tell_state(LockState::Idle);
    turns(2);
  }
  void hold_z_alone_and_die() {
    hold_z_alone();
    REQUIRE(is_written([](const SavedLock& l) { return l.of_z_alone; }));
    start("0000000000000002");
  }
  void hold_and_die() {
    hold();
    start("0000000000000002");
  }
  void turns(int count, std::int64_t each_ms = 10) {
    for (int i = 0; i < count; ++i) turn(each_ms);
  }
  /// x and y are locked, as they were ordered to be.
  void engage() {
    run->played.report.lock.state = LockState::Locked;
    tell_zero(kZeroNm);
    turn();
  }
  void resume_xy() {
    find({30, -40});
    turn();
    REQUIRE(run->ordered(Kind::Lock) != nullptr);
    engage();
    REQUIRE(run->count("lock_resumed") == 1);
  }
  void resume_xy_by_command() {
    find({30, -40});
    run->orders.lock([](const Outcome&) {}, now_ns, run->interrupted.resumption());
    turn();
    engage();
    REQUIRE(run->count("lock_resumed") == 1);
  }
  void see_z(double moved_nm) {
    z().drift.valid = true;
    z().drift.drift_nm = {moved_nm, 0};
    measure({30, -40});
  }
  const LoopCommand* order_of_z() const {
    for (const LoopCommand& command : run->played.taken)
      if (command.kind == Kind::Lock && command.group == AxisGroup::Axial) return &command;
    return nullptr;
  }
  std::string refusal() const {
    try {
      run->interrupted.axial_resumption();
    } catch (const CommandRefused& refused) {
      return refused.text;
    }
    return {};
  }
};

}  // namespace

TEST_CASE("z goes back after x and y that went by themselves, to the zero that it had") {
  Fixture f;
  f.hold_and_die();
  f.resume_xy();
  f.turns(20);
  CHECK(f.order_of_z() == nullptr);  // it is not measured yet
  CHECK(f.run->interrupted.asks_axial());
  f.see_z(25);
  f.turns(2);
  const LoopCommand* order = f.order_of_z();
  REQUIRE(order != nullptr);
  REQUIRE(order->resumption);
  CHECK(order->resumption->carried_nm.x == 10 - 30);
  CHECK(order->resumption->drift_nm.x == 25);
  f.turn();
  CHECK(f.run->interrupted.asks_axial());  // until it holds
  f.z().lock.state = LockState::Locked;
  f.measure({30, -40});
  f.turns(2);
  CHECK_FALSE(f.run->interrupted.asks_axial());
}

TEST_CASE("z that was still to be locked at a place waits there in the next daemon, too") {
  Fixture f;
  f.hold();
  f.z().lock.state = LockState::Idle;
  f.run->interrupted.set_axial_at_place(SavedAxial{.lock_id = 0,
                                                   .reading = axial_reading(f.config),
                                                   .total_nm = -30,
                                                   .carried_nm = 30,
                                                   .travelled_nm = 200,
                                                   .place = "here"});
  f.turns(2);
  REQUIRE(f.is_written([](const SavedLock& l) { return l.z && l.z->place == "here"; }));
  f.start("0000000000000002");
  f.find({30, -40});
  f.turn();
  CHECK_THAT(f.run->interrupted.offer(), contains("; z was to be locked at the place `here`"));
  f.engage();
  CHECK(f.run->interrupted.axial_offer() ==
        "z is locked at the place `here` once it is measured there");
  SECTION("and is locked as soon as it is measured") {
    f.see_z(25);
    f.turns(2);
    REQUIRE(f.order_of_z() != nullptr);
    CHECK(f.order_of_z()->resumption->carried_nm.x == 0);
  }
  SECTION("or is offered, where it is too far for that") {
    f.see_z(81);
    f.turns(5);
    CHECK(f.order_of_z() == nullptr);
    CHECK_THAT(f.run->last("lock_interrupted"),
               contains("z was to be locked at the place `here`, and is not: the sample is +81 nm "
                        "from the place `here`, and axial.max_jump_nm") &&
                   contains("`driftctl lock --resume --axes z` goes back there"));
    CHECK(f.refusal().empty());
  }
  SECTION("or is offered, where it is not measured for long") {
    f.turns(30, 200);
    CHECK_THAT(f.run->last("lock_interrupted"),
               contains("z was to be locked at the place `here`, and is not: z is not measured"));
  }
}

TEST_CASE("z does not go back once a command has forgotten it, or x and y are not held") {
  Fixture f;
  f.hold_and_die();
  f.resume_xy();
  SECTION("unlock of both, which the loop has not obeyed yet") {
    f.run->interrupted.forget();
  }
  SECTION("unlock of z") {
    f.run->interrupted.forget_axial();
  }
  SECTION("x and y are idle") {
    f.run->played.tell_state(LockState::Idle);
  }
  f.turn();
  f.run->played.tell_state(LockState::Locked);
  f.see_z(25);
  f.turns(20);
  CHECK(f.order_of_z() == nullptr);
  CHECK_FALSE(f.run->interrupted.asks_axial());
  CHECK_THAT(f.refusal(), contains("no lock of z was interrupted"));
}

TEST_CASE("z that a command left out, or unlocked, is not found by a later daemon either") {
  Fixture f;
  f.hold_and_die();
  f.find({30, -40});
  f.run->interrupted.forget_axial();
  CHECK_FALSE(f.run->interrupted.has_axial());
  REQUIRE(f.is_written([](const SavedLock& l) { return !l.z; }));
  f.turn();
  f.engage();
  f.see_z(25);
  f.turns(20);
  CHECK(f.order_of_z() == nullptr);
}

TEST_CASE("where a command had x and y go back, z waits for one of its own") {
  Fixture f;
  f.config.lock.resume = config::Resume::Ask;
  f.hold_and_die();
  f.resume_xy_by_command();
  f.see_z(25);
  f.turns(20);
  CHECK(f.order_of_z() == nullptr);
  CHECK(f.refusal().empty());
  f.tell_zero(kZeroNm + 1);
  f.turn();
  CHECK_THAT(f.refusal(), contains("too few markers have the reference of z"));
}

TEST_CASE("z does not go back to another zero") {
  Fixture f;
  f.hold_and_die();
  f.resume_xy();
  f.see_z(25);
  SECTION("the markers' references are others") {
    f.tell_zero(kZeroNm + 1);
  }
  SECTION("they have none") {
    f.tell_zero(std::nan(""));
  }
  SECTION("the curve is another one") {
    f.config.axial.read = curve(0.01);
  }
  f.turns(30, 200);
  CHECK(f.order_of_z() == nullptr);
  CHECK_THAT(f.run->last("lock_interrupted"), contains("z is not held again: "));
  const std::size_t told = f.run->count("lock_interrupted");
  f.config.axial.read = curve();
  f.tell_zero(kZeroNm);
  f.see_z(25);
  f.turns(30, 200);
  CHECK(f.order_of_z() == nullptr);  // that is over, but by command
  CHECK(f.refusal().empty());
  CHECK(f.run->count("lock_interrupted") == told);
}

TEST_CASE("z does not go back by itself farther than a jump and the drift of the time") {
  Fixture f;
  f.hold_and_die();
  f.resume_xy();
  f.see_z(81);
  f.turns(5);
  CHECK(f.order_of_z() == nullptr);
  CHECK_THAT(f.run->last("lock_interrupted"), contains("+81 nm") && contains("axial.max_jump_nm") &&
                                                  contains("driftctl lock --resume --axes z"));
  f.see_z(25);
  f.turns(5);
  CHECK(f.order_of_z() == nullptr);  // it was told that it does not
  CHECK(f.refusal().empty());        // by command

  Fixture slow;
  slow.config.axial.max_drift_nm_per_s = 5;
  slow.hold_and_die();
  slow.start_with([](SavedLock& lock) {
    lock.time.wall_ns -= 10'000 * kMs;
    lock.time.uptime_ns -= 10'000 * kMs;
  });
  slow.resume_xy();
  slow.see_z(-120);
  slow.turns(2);
  CHECK(slow.order_of_z() != nullptr);
}

TEST_CASE("a loop that takes no order is asked for z no longer than five seconds") {
  Fixture f;
  f.hold_and_die();
  f.resume_xy();
  f.see_z(25);
  const std::size_t told = f.run->count("lock_interrupted");
  for (int i = 0; i < 200; ++i) {
    f.now_ns += 100 * kMs;
    f.run->loop.refresh();
    f.run->orders.turn(f.now_ns);
    f.run->z_orders.turn(f.now_ns);
    f.run->interrupted.turn(f.run->orders, f.now_ns, &f.run->z_orders);
  }
  CHECK(f.run->count("lock_interrupted") == told + 1);
  CHECK_THAT(f.run->last("lock_interrupted"), contains("does not take the order"));
  CHECK(*f.run->newest_lock <= 11);
}

TEST_CASE("z that is held on where x and y are lost is gone back to as it was held last") {
  Fixture f;
  f.hold();
  f.run->played.tell_state(LockState::Lost);
  f.turn();
  f.z().total_nm = {-70, 0};
  f.see_z(0);
  f.turns(2);
  REQUIRE(f.run->interrupted.has_axial());
  CHECK(f.run->interrupted.axial_resumption().carried_nm.x == 10 - 70);
  SECTION("not where it was unlocked since") {
    f.run->interrupted.forget_axial();
    CHECK_FALSE(f.run->interrupted.has_axial());
    CHECK_THAT(f.refusal(), contains("no lock of z was interrupted"));
    CHECK(f.is_written([](const SavedLock& l) { return l.lost && !l.z; }));
  }
  SECTION("not where it took another zero since") {
    f.z().lock.state = LockState::Referencing;
    f.tell_zero(kZeroNm - 40);
    f.measure({30, -40});
    f.turns(2);
    CHECK_THAT(f.refusal(), contains("too few markers have the reference of z"));
  }
  SECTION("not by the references of another curve, which no marker is given") {
    f.config.axial.read = curve(0.01);
    CHECK_THAT(f.refusal(), contains("another curve"));
    const SavedLock* lock = f.run->interrupted.wanted(true);
    REQUIRE(lock != nullptr);
    CHECK(std::isnan(lock->markers.at(0).reference.z_nm));
    CHECK_FALSE(f.run->interrupted.has_axial());
  }
}

TEST_CASE("z is gone back to by command only where x and y are found and measured") {
  Fixture f;
  f.config.lock.resume = config::Resume::Ask;
  f.hold_and_die();
  f.tell_zero(kZeroNm);
  f.see_z(25);
  f.turn();
  CHECK_THAT(f.refusal(), contains("looking for its markers"));
  f.find({30, -40});
  f.tell_zero(kZeroNm);
  f.turn();
  CHECK(f.refusal().empty());
  f.run->interrupted.put_aside("other markers are followed");
  CHECK_THAT(f.refusal(), contains("other markers are followed"));
}

TEST_CASE("the travel of z is told to the loop, by whatever curve z was read") {
  Fixture f;
  f.hold_and_die();
  f.config.axial.read = curve(0.01);
  f.start("0000000000000003");
  CHECK_FALSE(f.run->interrupted.has_axial());
  f.find({30, -40});
  f.turns(2);
  const LoopCommand* told = nullptr;
  for (const LoopCommand& command : f.run->played.taken)
    if (command.kind == Kind::Travelled && command.group == AxisGroup::Axial) told = &command;
  REQUIRE(told != nullptr);
  CHECK(told->travelled_nm.x == 200 - 30);
}

TEST_CASE("a lock of z alone goes back by itself to its own zero, near to where it was") {
  Fixture f;
  f.hold_z_alone_and_die();
  CHECK(f.run->count("lock_interrupted") == 1);
  CHECK_THAT(f.run->last("lock_interrupted"), contains("lock 4 of z, interrupted"));
  f.find({30, -40});
  f.tell_zero(kZeroNm);
  SECTION("as soon as z is measured") {
    f.turns(20);
    CHECK(f.order_of_z() == nullptr);
    f.see_z(25);
    f.turns(2);
    const LoopCommand* order = f.order_of_z();
    REQUIRE(order != nullptr);
    CHECK(order->resumption.value().carried_nm.x == 10 - 30);
    f.z().lock.state = LockState::Locked;
    f.turns(2);
    CHECK(f.run->count("lock_resumed") == 1);
    CHECK_THAT(f.run->last("lock_resumed"), contains("z is locked again"));
    CHECK(f.run->interrupted.status().is_null());
  }
  SECTION("not while nobody listens to its corrections") {
    f.run->is_heard = false;
    f.see_z(25);
    f.turns(20);
    CHECK(f.order_of_z() == nullptr);
    f.run->is_heard = true;
    f.turns(2);
    CHECK(f.order_of_z() != nullptr);
  }
  SECTION("not from beyond a jump, and not later either") {
    f.see_z(81);
    f.turns(5);
    CHECK(f.order_of_z() == nullptr);
    CHECK_THAT(f.run->last("lock_interrupted"),
               contains("+81 nm") && contains("driftctl lock --resume --axes z"));
    f.see_z(25);
    f.turns(50, 200);
    CHECK(f.order_of_z() == nullptr);
    CHECK(f.refusal().empty());  // by command
  }
  SECTION("not beyond its limits, by command either") {
    f.config.axial.range_limit_nm = 40;
    f.see_z(25);
    f.turns(20);
    CHECK(f.order_of_z() == nullptr);
    CHECK_THAT(f.refusal(), contains("axial.range_limit_nm"));
  }
  SECTION("not to another zero") {
    f.tell_zero(kZeroNm + 1);
    f.see_z(25);
    f.turns(20);
    CHECK(f.order_of_z() == nullptr);
    CHECK_FALSE(f.refusal().empty());
  }
  SECTION("not once a command has forgotten it, nor later") {
    f.run->interrupted.end_axial();
    f.see_z(25);
    f.turns(20);
    CHECK(f.order_of_z() == nullptr);
    CHECK(f.until([&] { return !f.kept(); }));
  }
  SECTION("x and y have nothing to go back to") {
    f.see_z(25);
    f.turns(2);
    REQUIRE(f.run->ordered(Kind::Lock) != nullptr);
    CHECK(f.run->interrupted.is_of_z_alone());
    CHECK_THROWS_AS(f.run->interrupted.resumption(), CommandRefused);
    CHECK(f.run->ordered(Kind::Lock)->group == AxisGroup::Axial);
  }
  SECTION("not once x and y are locked, which gives the markers other references") {
    f.run->played.report.lock_id = 9;
    f.run->played.tell_state(LockState::Locked);
    f.turns(2);
    f.run->played.tell_state(LockState::Idle);
    f.see_z(25);
    f.turns(20);
    CHECK(f.order_of_z() == nullptr);
    CHECK(f.run->interrupted.status().is_null());
  }
}

TEST_CASE("z that is held beside an offer is kept with it, as it is now") {
  Fixture f;
  f.config.lock.resume = config::Resume::Ask;
  f.hold_and_die();
  f.find({30, -40});
  const auto hold_z = [&f](double zero_nm) {
    f.z().lock_id = 1;
    f.z().lock.state = LockState::Locked;
    f.z().total_nm = {-70, 0};
    f.z().move.set_nm = {55, 0};
    f.tell_zero(zero_nm);
    f.measure({30, -40});
  };
  SECTION("by the references that the markers have then") {
    hold_z(kZeroNm + 33);
    f.turns(2);
    CHECK(f.is_written([](const SavedLock& l) {
      return !l.of_z_alone && l.lock_id == 3 && l.total_nm.x == 0 && l.z && l.z->lock_id == 1 &&
             l.z->total_nm == -70 && l.z->set_nm == 55 && l.z->time &&
             l.markers.front().reference.z_nm == kZeroNm + 33;
    }));
    SECTION("each second, and sooner where it moved") {
      f.z().total_nm = {-75, 0};
      f.turns(5);
      CHECK(f.kept()->z->total_nm == -70);
      f.turns(100);
      CHECK(f.is_written([](const SavedLock& l) { return l.z->total_nm == -75; }));
      f.z().total_nm = {-100, 0};
      f.turns(15);
      CHECK(f.is_written([](const SavedLock& l) { return l.z->total_nm == -100; }));
    }
    SECTION("to the end of the daemon") {
      f.z().total_nm = {-71, 0};
      f.run->played.turn();
      f.run->loop.refresh();
      f.run->memory.write_last();
      CHECK(f.is_written([](const SavedLock& l) { return l.z->total_nm == -71; }));
    }
    SECTION("and alone once a command has forgotten x and y") {
      f.run->interrupted.forget();
      f.run->memory.write_last();
      f.turns(2);
      CHECK(f.is_written([](const SavedLock& l) { return l.of_z_alone; }));
    }
    SECTION("not once it is unlocked, which the loop has not obeyed yet") {
      CHECK_THAT(f.run->interrupted.end_axial(), contains("z of lock 3"));
      f.turns(120);
      CHECK(f.is_written([](const SavedLock& l) { return !l.z; }));
    }
  }
  SECTION("not where its markers are others") {
    f.run->interrupted.put_aside("others are in use");
    hold_z(7);
    f.turns(2);
    CHECK(f.is_written([](const SavedLock& l) { return !l.z; }));
    CHECK_FALSE(f.run->interrupted.has_axial());
  }
}

TEST_CASE("z that was held for longer than x and y are kept goes back alone") {
  Fixture f;
  f.hold();
  REQUIRE(f.is_written([](const SavedLock& l) { return l.z.has_value(); }));
  f.start_with([](SavedLock& lock) {
    lock.z->time = lock.time;
    lock.time.wall_ns -= std::int64_t{25} * 3600 * 1'000'000'000;
    lock.time.uptime_ns = 0;
    lock.time.boot_id = "before";
  });
  CHECK_THAT(f.run->last("state_ignored"), contains("older than"));
  CHECK(f.run->interrupted.is_of_z_alone());
  CHECK(f.run->interrupted.status()["interrupted_lock_id"] == 4);
}

TEST_CASE("z goes back once its stage is heard") {
  Fixture f;
  f.hold_and_die();
  f.resume_xy();
  f.run->is_heard = false;
  f.see_z(25);
  f.turns(1000);
  CHECK(f.order_of_z() == nullptr);
  CHECK_THAT(f.run->interrupted.axial_offer(), contains("as soon as it is heard"));
  CHECK_THAT(f.run->last("lock_interrupted"), contains("nobody listens to corrections of z yet"));
  f.run->is_heard = true;
  f.turns(2);
  CHECK(f.order_of_z() != nullptr);
  CHECK(f.run->count("lock_interrupted") == 3);
}

TEST_CASE("a way back of z that was not found is offered") {
  Fixture f;
  f.hold_and_die();
  f.resume_xy();
  f.see_z(25);
  f.turns(2);
  REQUIRE(f.order_of_z() != nullptr);
  f.z().lock_id = f.order_of_z()->lock_id;
  f.z().lock.state = LockState::Referencing;
  f.measure({30, -40});
  f.turns(2);
  CHECK(f.run->interrupted.asks_axial());
  f.z().lock.state = LockState::Idle;
  f.measure({30, -40});
  f.turns(2);
  CHECK_THAT(f.run->interrupted.axial_offer(),
             contains("`driftctl lock --resume --axes z` goes back there"));
  CHECK(f.refusal().empty());
}

TEST_CASE("a lock of z alone is kept while it holds, and no longer") {
  Fixture f;
  f.hold_z_alone();
  REQUIRE(f.is_written([](const SavedLock& l) { return l.of_z_alone && l.z->total_nm == -30; }));
  SECTION("x and y are locked, too") {
    f.run->played.report.lock_id = 9;
    f.run->played.tell_state(LockState::Locked);
    f.turns(2);
    REQUIRE(f.is_written([](const SavedLock& l) { return !l.of_z_alone && l.z; }));
    f.run->interrupted.forget();  // and unlocked, which the loop has not obeyed yet
    CHECK(f.until([&] { return !f.kept(); }));
    f.run->played.tell_state(LockState::Idle);
    f.turns(2);
    CHECK(f.is_written([](const SavedLock& l) { return l.of_z_alone; }));
  }
  SECTION("unlocked, which the loop has not obeyed yet") {
    f.run->interrupted.end_axial();
    f.turns(20);
    CHECK(f.until([&] { return !f.kept(); }));
  }
  SECTION("lost") {
    f.z().lock.state = LockState::Lost;
    f.turns(2);
    CHECK(f.until([&] { return !f.kept(); }));
  }
}

TEST_CASE("a lock of z alone by another curve is told and given up") {
  Fixture f;
  f.hold_z_alone();
  REQUIRE(f.is_written([](const SavedLock& l) { return l.of_z_alone; }));
  f.config.axial.read = curve(0.01);
  f.start("0000000000000002");
  f.turn();
  CHECK(f.run->interrupted.wanted() == nullptr);
  CHECK_THAT(f.run->last("state_ignored"), contains("z is read otherwise"));
  CHECK(f.run->interrupted.status().is_null());
}

TEST_CASE("z of a reflected spot goes back to where the spot was, without markers") {
  constexpr control::SpotZero kSpot{
      .along_px = 12.5, .across_px = 7.25, .variance_px2 = 1e-4, .sigma_px = 2, .light = 3e5};
  Fixture f;
  f.config.axial.method = control::AxialMethod::Reflection;
  f.run->played.report.spot_zero = kSpot;
  f.hold_z_alone();
  REQUIRE(f.is_written([](const SavedLock& l) { return l.of_z_alone && l.markers.empty(); }));
  f.start("0000000000000002");
  CHECK(f.run->interrupted.wanted() == nullptr);  // others are looked for as ever
  f.run->interrupted.put_aside("markers were chosen since");
  control::SpotZero other = kSpot;
  other.along_px += 1;
  f.run->played.report.spot_zero = other;
  f.see_z(25);
  f.turns(3);
  CHECK(f.order_of_z() == nullptr);  // that is from another zero
  const LoopCommand* told = f.run->ordered(Kind::SpotZero);
  REQUIRE(told != nullptr);
  CHECK(told->spot_zero.is_at(kSpot));
  CHECK(told->spot_zero.light == kSpot.light);
  f.run->played.report.spot_zero = kSpot;
  f.see_z(-20);
  f.turns(2);
  REQUIRE(f.order_of_z() != nullptr);
  CHECK(f.order_of_z()->resumption.value().drift_nm.x == -20);
}

TEST_CASE("a curve that was written anew under the same name is another one") {
  Fixture f;
  const std::string reading = axial_reading(f.config);
  f.config.axial.read = curve();
  CHECK(axial_reading(f.config) == reading);
  f.config.axial.read = curve(1e-9);
  CHECK(axial_reading(f.config) != reading);
  f.config.axial.read = curve();
  f.config.fitter.roi_px += 2;
  CHECK(axial_reading(f.config) != reading);
}
