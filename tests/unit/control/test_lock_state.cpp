// SPDX-License-Identifier: MIT
// Every transition of the lock against the table of docs/internals/drift-and-lock.md, and the
// promises that must hold for any sequence of events.
#include <array>
#include <fstream>
#include <limits>
#include <random>
#include <sstream>
#include <string>

#include "control/lock/lock_state.hpp"
#include "support/catch.hpp"
#include "support/source_dir.hpp"

namespace driftd::control {
namespace {

constexpr std::int64_t kSecondNs = 1'000'000'000;
/// Unequal time-outs and counts.
constexpr LockSettings kSettings{.hold_timeout_ns = 9 * kSecondNs,
                                 .reference_timeout_ns = 7 * kSecondNs,
                                 .bad_frames_to_hold = 3,
                                 .good_frames_to_resume = 5};

constexpr std::array kStates{LockState::Idle,       LockState::Referencing, LockState::Locked,
                             LockState::Holding,    LockState::Lost,        LockState::Fault,
                             LockState::Calibrating};
struct NamedEvent {
  LockEvent event;
  const char* name;
};
constexpr std::array kEvents{NamedEvent{LockEvent::CommandLock, "CommandLock"},
                             NamedEvent{LockEvent::CommandUnlock, "CommandUnlock"},
                             NamedEvent{LockEvent::CommandCalibrate, "CommandCalibrate"},
                             NamedEvent{LockEvent::CommandReset, "CommandReset"},
                             NamedEvent{LockEvent::GoodFrame, "GoodFrame"},
                             NamedEvent{LockEvent::FewMarkers, "FewMarkers"},
                             NamedEvent{LockEvent::Coasting, "Coasting"},
                             NamedEvent{LockEvent::StaleFrame, "StaleFrame"},
                             NamedEvent{LockEvent::NoFrame, "NoFrame"},
                             NamedEvent{LockEvent::Jump, "Jump"},
                             NamedEvent{LockEvent::NotSent, "NotSent"},
                             NamedEvent{LockEvent::ReferenceDone, "ReferenceDone"},
                             NamedEvent{LockEvent::RangeExceeded, "RangeExceeded"},
                             NamedEvent{LockEvent::StageNotFollowing, "StageNotFollowing"},
                             NamedEvent{LockEvent::StageFollows, "StageFollows"},
                             NamedEvent{LockEvent::StageError, "StageError"},
                             NamedEvent{LockEvent::StageLimit, "StageLimit"},
                             NamedEvent{LockEvent::StageSilent, "StageSilent"},
                             NamedEvent{LockEvent::CalibrationOver, "CalibrationOver"},
                             NamedEvent{LockEvent::InternalFault, "InternalFault"}};

bool is_command(LockEvent event) {
  return event <= LockEvent::CommandReset;
}

std::string arrow(const Lock& lock) {
  return std::string("→ ") + name_of(lock.state) + " (" + name_of(lock.reason) + ")";
}

bool moved(const Lock& before, const Lock& after) {
  return after.state != before.state || after.since_ns != before.since_ns;
}

Lock held_by(LockReason reason, std::int64_t since_ns = 0) {
  return {.state = LockState::Holding, .reason = reason, .since_ns = since_ns, .at_first = reason};
}

std::string in_a_row(int times) {
  if (times == kSettings.bad_frames_to_hold) return "`bad_frames_to_hold`";
  return std::to_string(times) + " in a row";
}

/// What an event does in a state, in the words of the table.
std::string cell(const Lock& start, LockEvent event) {
  Lock lock = next(start, event, 1, kSettings);
  if (moved(start, lock)) return arrow(lock);
  if (lock.reason != start.reason) return std::string("bad: ") + name_of(lock.reason);
  std::string text = "-";
  if (lock.good_frames > start.good_frames) text = "good";
  if (lock.bad_frames > start.bad_frames) text = "bad";
  for (int times = 2; times <= 100; ++times) {
    lock = next(lock, event, 1, kSettings);
    if (moved(start, lock)) return text + ", " + in_a_row(times) + ": " + arrow(lock);
    if (lock.reason != start.reason)
      return text + ", " + in_a_row(times) + ": " + name_of(lock.reason);
  }
  return text;
}

std::string table() {
  const Lock columns[] = {
      {.state = LockState::Idle},
      {.state = LockState::Referencing, .reason = LockReason::LockCommanded},
      {.state = LockState::Locked, .reason = LockReason::ReferenceTaken},
      held_by(LockReason::TooFewMarkers),
      held_by(LockReason::RangeExceeded),
      held_by(LockReason::StageNotFollowing),
      {.state = LockState::Lost, .reason = LockReason::HeldTooLong},
      {.state = LockState::Fault, .reason = LockReason::InternalFault},
      {.state = LockState::Calibrating, .reason = LockReason::CalibrationCommanded}};
  std::ostringstream out;
  out << "| event | idle | referencing | locked | holding | holding (range_exceeded) | holding "
         "(stage_not_following) | lost | fault | calibrating |\n"
         "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n";
  for (const auto& [event, name] : kEvents) {
    out << "| " << name << " |";
    for (const Lock& column : columns) out << ' ' << cell(column, event) << " |";
    out << '\n';
  }
  return out.str();
}

/// The lines between "<!-- name -->" and the next empty line.
std::string section_of_page(const std::string& name) {
  std::ifstream page(driftd::test::source_dir() / "docs/internals/drift-and-lock.md");
  REQUIRE(page.good());
  std::string line;
  while (std::getline(page, line) && line != "<!-- " + name + " -->") continue;
  std::string section;
  while (std::getline(page, line) && !line.empty()) section += line + "\n";
  return section;
}

TEST_CASE("every transition is the one that docs/internals/drift-and-lock.md tells") {
  CHECK(section_of_page("transitions") == table());
}

TEST_CASE("only referencing and holding time out, by any frame event") {
  for (const LockState state : kStates) {
    const Lock start{.state = state,
                     .reason = LockReason::NoFrames,
                     .since_ns = kSecondNs,
                     .at_first = LockReason::StaleFrame};
    for (const auto& [event, name] : kEvents) {
      const Lock early = next(start, event, start.since_ns, kSettings);
      if (is_command(event) || moved(start, early)) continue;
      INFO(name_of(state) << " " << name);
      const std::int64_t timeout_ns = state == LockState::Referencing
                                          ? kSettings.reference_timeout_ns
                                          : kSettings.hold_timeout_ns;
      const Lock before = next(start, event, kSecondNs + timeout_ns - 1, kSettings);
      const Lock after = next(start, event, kSecondNs + timeout_ns, kSettings);
      CHECK(before.state == state);
      if (state == LockState::Referencing) {
        CHECK(after.state == LockState::Idle);
        CHECK(after.reason == LockReason::ReferenceTimeout);
      } else if (state == LockState::Holding) {
        CHECK(after.state == LockState::Lost);
        CHECK(after.reason == LockReason::HeldTooLong);
        CHECK(after.held_for == start.reason);
        CHECK(held_before(after) == LockReason::StaleFrame);
      } else {
        CHECK(after.state == state);
      }
    }
  }
}

TEST_CASE("a reference that is done when its time is over is taken all the same") {
  const Lock begun = next({}, LockEvent::CommandLock, kSecondNs, kSettings);
  const std::int64_t over_ns = kSecondNs + kSettings.reference_timeout_ns;
  const Lock done = next(begun, LockEvent::ReferenceDone, over_ns, kSettings);
  CHECK(done.state == LockState::Locked);
  CHECK(done.reason == LockReason::ReferenceTaken);
}

TEST_CASE("a clock that goes backwards times nothing out") {
  const Lock holding{.state = LockState::Holding, .since_ns = kSecondNs};
  CHECK(next(holding, LockEvent::NoFrame, std::numeric_limits<std::int64_t>::min(), kSettings)
            .state == LockState::Holding);
}

TEST_CASE("one bad frame stops corrections at once, a good one lets them pass again") {
  Lock lock{.state = LockState::Locked};
  CHECK(may_correct(lock));
  lock = next(lock, LockEvent::Jump, 1, kSettings);
  CHECK(lock.state == LockState::Locked);
  CHECK_FALSE(may_correct(lock));
  lock = next(lock, LockEvent::GoodFrame, 2, kSettings);
  CHECK(may_correct(lock));
}

TEST_CASE("bad frames of different kinds add up, the last one names the reason") {
  Lock lock{.state = LockState::Locked};
  lock = next(lock, LockEvent::Jump, 1, kSettings);
  lock = next(lock, LockEvent::FewMarkers, 2, kSettings);
  lock = next(lock, LockEvent::StaleFrame, 3, kSettings);
  CHECK(lock.state == LockState::Holding);
  CHECK(lock.reason == LockReason::StaleFrame);
  CHECK(lock.since_ns == 3);
}

TEST_CASE("a bad frame while holding starts the count of good ones again") {
  Lock lock = held_by(LockReason::NoFrames);
  for (int i = 0; i < kSettings.good_frames_to_resume - 1; ++i)
    lock = next(lock, LockEvent::GoodFrame, i, kSettings);
  lock = next(lock, LockEvent::FewMarkers, 10, kSettings);
  for (int i = 0; i < kSettings.good_frames_to_resume - 1; ++i) {
    lock = next(lock, LockEvent::GoodFrame, 11 + i, kSettings);
    CHECK(lock.state == LockState::Holding);
  }
  lock = next(lock, LockEvent::GoodFrame, 20, kSettings);
  CHECK(lock.state == LockState::Locked);
  CHECK(lock.reason == LockReason::Recovered);
  CHECK(may_correct(lock));
}

Lock after(Lock lock, LockEvent event, int times) {
  for (int i = 0; i < times; ++i) lock = next(lock, event, lock.since_ns + i, kSettings);
  return lock;
}

TEST_CASE("a hold is told by what holds it now, and by what did at first") {
  Lock lock = after({.state = LockState::Locked}, LockEvent::NoFrame, 1);  // the camera is away
  CHECK(lock.reason == LockReason::NoFrames);
  CHECK(held_before(lock) == LockReason::None);
  lock = after(lock, LockEvent::FewMarkers, kSettings.bad_frames_to_hold - 1);
  CHECK(lock.reason == LockReason::NoFrames);
  lock = after(lock, LockEvent::FewMarkers, 1);  // it is back, and it is dark
  CHECK(lock.reason == LockReason::TooFewMarkers);
  CHECK(held_before(lock) == LockReason::NoFrames);
  lock = after(lock, LockEvent::NoFrame, 1);  // unplugged: no frame of that kind can come
  CHECK(lock.reason == LockReason::NoFrames);
  CHECK(held_before(lock) == LockReason::None);
  lock = after(lock, LockEvent::Jump, kSettings.bad_frames_to_hold);
  CHECK(lock.reason == LockReason::ImplausibleJump);
  lock = after(lock, LockEvent::StageError, 1);
  CHECK(lock.reason == LockReason::StageError);
  const Lock lost = next(lock, LockEvent::Jump, 9 * kSecondNs, kSettings);
  CHECK(lost.state == LockState::Lost);
  CHECK(lost.held_for == LockReason::StageError);
  CHECK(held_before(lost) == LockReason::NoFrames);
}

TEST_CASE("frames of two reasons in turn tell neither anew; good ones between do not hide one") {
  Lock lock = held_by(LockReason::NoFrames);
  for (int i = 0; i < 20; ++i)
    lock = after(after(lock, LockEvent::Jump, 1), LockEvent::StaleFrame, 1);
  CHECK(lock.reason == LockReason::NoFrames);
  for (int i = 0; i < kSettings.bad_frames_to_hold; ++i)
    lock = after(after(lock, LockEvent::GoodFrame, 2), LockEvent::Jump, 1);
  CHECK(lock.reason == LockReason::ImplausibleJump);
}

TEST_CASE("a hold that good frames do not end is told by its own reason again once they are good") {
  for (const LockReason reason : {LockReason::RangeExceeded, LockReason::StageNotFollowing}) {
    Lock lock = after(held_by(reason), LockEvent::NoFrame, 2);
    CHECK(lock.reason == LockReason::NoFrames);
    lock = after(lock, LockEvent::GoodFrame, kSettings.good_frames_to_resume - 1);
    CHECK(lock.reason == LockReason::NoFrames);
    CHECK(may_probe(lock) == (reason == LockReason::StageNotFollowing));
    lock = after(lock, LockEvent::GoodFrame, 1);
    CHECK(lock.state == LockState::Holding);
    CHECK(lock.reason == reason);
    CHECK(held_before(lock) == LockReason::None);
  }
  // It follows, whatever came between; and what follows is no cure for another hold.
  Lock lock = after(held_by(LockReason::StageNotFollowing), LockEvent::NoFrame, 1);
  CHECK(after(lock, LockEvent::StageFollows, 1).state == LockState::Locked);
  lock = after(held_by(LockReason::NoFrames), LockEvent::StageFollows, 1);
  CHECK(lock.state == LockState::Holding);
}

TEST_CASE("a reference that timed out tells what was wrong with its last frames") {
  const Lock begun = next({}, LockEvent::CommandLock, 0, kSettings);
  const auto timed_out = [](const Lock& lock) {
    return next(lock, LockEvent::GoodFrame, kSettings.reference_timeout_ns, kSettings);
  };
  CHECK(timed_out(after(begun, LockEvent::NoFrame, 1)).held_for == LockReason::NoFrames);
  CHECK(timed_out(after(begun, LockEvent::Coasting, 1)).held_for == LockReason::TooFewMarkers);
  const Lock good = timed_out(after(after(begun, LockEvent::NoFrame, 1), LockEvent::GoodFrame, 1));
  CHECK(good.reason == LockReason::ReferenceTimeout);
  CHECK(good.held_for == LockReason::None);
}

TEST_CASE("counters stand still at their end: a lock of months does not overflow") {
  Lock lock{.state = LockState::Locked, .good_frames = std::numeric_limits<int>::max()};
  lock = next(lock, LockEvent::GoodFrame, 1, kSettings);
  CHECK(lock.good_frames == std::numeric_limits<int>::max());
}

TEST_CASE("for any sequence of events the lock keeps its promises") {
  std::mt19937 random(20261);
  std::uniform_int_distribution<std::size_t> any_event(0, kEvents.size() - 1);
  std::uniform_int_distribution<std::int64_t> any_pause(0, 2 * kSecondNs);
  for (int run = 0; run < 200; ++run) {
    Lock lock;
    std::int64_t now_ns = 0;
    bool commanded = false;   // a lock command since the last unlock, reset or fall to idle
    bool referenced = false;  // a reference since then
    for (int step = 0; step < 500; ++step) {
      const LockEvent event = kEvents[any_event(random)].event;
      now_ns += any_pause(random);
      const Lock before = lock;
      lock = next(before, event, now_ns, kSettings);

      if (event == LockEvent::CommandLock) commanded = true;
      if (before.state == LockState::Referencing && event == LockEvent::ReferenceDone)
        referenced = true;
      if (lock.state == LockState::Idle) commanded = referenced = false;
      if (lock.state == LockState::Referencing) referenced = false;
      if (lock.state == LockState::Locked) {
        REQUIRE(commanded);
        REQUIRE(referenced);
      }
      if (may_correct(lock)) REQUIRE(lock.state == LockState::Locked);
      if (may_probe(lock)) REQUIRE(lock.at_first == LockReason::StageNotFollowing);
      if (before.at_first == LockReason::StageNotFollowing && lock.state == LockState::Locked &&
          before.state == LockState::Holding)
        REQUIRE(event == LockEvent::StageFollows);
      if (event != LockEvent::GoodFrame && event != LockEvent::ReferenceDone &&
          event != LockEvent::StageFollows && !is_command(event))
        REQUIRE_FALSE((may_correct(lock) && !may_correct(before)));
      if (event == LockEvent::CommandUnlock) REQUIRE_FALSE(may_correct(lock));
      if (event == LockEvent::CommandReset && lock.state != before.state)
        REQUIRE((before.state == LockState::Lost || before.state == LockState::Fault));
      if (before.state == LockState::Fault && lock.state != LockState::Fault)
        REQUIRE(event == LockEvent::CommandReset);
      if (before.state == LockState::Lost && lock.state != LockState::Lost)
        REQUIRE((is_command(event) || event == LockEvent::InternalFault));
      if (moved(before, lock)) {
        REQUIRE(lock.since_ns == now_ns);
        REQUIRE(lock.reason != LockReason::None);
        REQUIRE(lock.bad_frames == 0);
        REQUIRE(lock.good_frames == 0);
      } else {
        REQUIRE((lock.reason == before.reason || lock.state == LockState::Holding));
        REQUIRE(lock.since_ns == before.since_ns);
        REQUIRE(lock.at_first == before.at_first);
      }
      const bool was_held = lock.state == LockState::Holding || lock.state == LockState::Lost;
      REQUIRE((lock.at_first != LockReason::None) == was_held);
      if (lock.state != LockState::Lost && lock.reason != LockReason::ReferenceTimeout)
        REQUIRE(lock.held_for == LockReason::None);
    }
  }
}

TEST_CASE("states and reasons have names of their own") {
  for (const LockState state : kStates) CHECK(std::string(name_of(state)) != "unknown");
  for (int i = 0; i <= static_cast<int>(LockReason::InternalFault); ++i)
    for (int j = 0; j < i; ++j)
      CHECK(std::string(name_of(static_cast<LockReason>(i))) !=
            name_of(static_cast<LockReason>(j)));
}

}  // namespace
}  // namespace driftd::control
