// SPDX-License-Identifier: MIT
// What housekeeping tells of the loop: events, each once, and messages at their intervals.
#include <vector>

#include "daemon/status/reporter.hpp"
#include "housekeeping_for_tests.hpp"
#include "support/catch.hpp"

using namespace driftd;
using namespace driftd::daemon;
using control::LockReason;
using control::LockState;
using control::MarkerHealth;
using driftd::daemon::test::PlayedLoop;
using driftd::daemon::test::Told;
using nlohmann::json;

namespace {

constexpr std::int64_t kMs = 1'000'000;

struct Fixture {
  config::Config config = config::default_config();
  PlayedLoop played;
  LoopControl loop{played.ports};
  Told told;
  std::vector<TextMessage> sent;
  Reporter reporter{config, told.log,
                    [this](TextMessage message) {
                      sent.push_back(std::move(message));
                      return true;
                    },
                    [] {
                      return json{{"state", "idle"}};
                    }};
  LoopReport report;
  MarkersReport markers;

  /// The events that this report leads to.
  std::vector<json> told_by(std::int64_t now_ms = 0) {
    told.events.clear();
    reporter.tell_changes(report, markers, now_ms * kMs);
    return told.events;
  }
};

}  // namespace

TEST_CASE("a change of the lock's state is told with its reason, bad ones as warnings") {
  struct Case {
    LockState state;
    const char* level;
  };
  for (const Case& c : {Case{LockState::Idle, "info"}, Case{LockState::Referencing, "info"},
                        Case{LockState::Locked, "info"}, Case{LockState::Holding, "warning"},
                        Case{LockState::Lost, "warning"}, Case{LockState::Fault, "error"}}) {
    Fixture f;
    f.reporter.tell({.time_ns = 4'321,
                     .frame_id = 812,
                     .previous = LockState::Referencing,
                     .state = c.state,
                     .reason = LockReason::TooFewMarkers});
    REQUIRE(f.told.events.size() == 1);
    const json& event = f.told.events[0];
    CHECK(event["level"] == c.level);
    CHECK(event["code"] == "state_changed");
    CHECK(event["state"] == control::name_of(c.state));
    CHECK(event["previous"] == "referencing");
    CHECK(event["reason"] == "too_few_markers");
    CHECK(event["frame_id"] == 812);
    CHECK(event["since_ns"] == 4'321);
    CHECK(event["text"] == std::string(control::name_of(c.state)) + ": too few markers");
    CHECK_FALSE(event.contains("stage"));
  }
}

TEST_CASE("a stage that does not follow is told with what it looks like") {
  Fixture f;
  f.reporter.tell({.state = LockState::Holding,
                   .reason = LockReason::StageNotFollowing,
                   .stage = control::StageLooks::Stuck});
  CHECK(f.told.events[0]["stage"] == "stuck");
  CHECK(f.told.events[0]["text"] == "holding: stage not following, it looks stuck");
}

TEST_CASE("a lock that is lost is told with what it was held for") {
  Fixture f;
  f.reporter.tell({.previous = LockState::Holding,
                   .state = LockState::Lost,
                   .reason = LockReason::HeldTooLong,
                   .stage = control::StageLooks::TurnedOrSwapped,
                   .held_for = LockReason::StageNotFollowing});
  const json& event = f.told.events[0];
  CHECK(event["held_for"] == "stage_not_following");
  CHECK(event["stage"] == "turned_or_swapped");
  CHECK(event["text"] == "lost: held too long (stage not following, it looks turned or swapped)");
  CHECK_FALSE(event.contains("held_first"));
}

TEST_CASE("what holds a lock by now is told, and what held it at first") {
  Fixture f;
  f.reporter.tell({.previous = LockState::Holding,
                   .state = LockState::Holding,
                   .reason = LockReason::NoFrames,
                   .held_first = LockReason::TooFewMarkers});
  CHECK(f.told.events[0]["text"] == "holding: no frames, at first too few markers");
  CHECK(f.told.events[0]["held_first"] == "too_few_markers");
  f.reporter.tell({.previous = LockState::Holding,
                   .state = LockState::Lost,
                   .reason = LockReason::HeldTooLong,
                   .held_for = LockReason::NoFrames,
                   .held_first = LockReason::TooFewMarkers});
  CHECK(f.told.events[1]["text"] == "lost: held too long (no frames, at first too few markers)");
}

TEST_CASE("a jump is told with its size and what is allowed") {
  Fixture f;
  f.config.lock.max_jump_nm = 12.5;
  f.reporter.tell(
      {.state = LockState::Holding, .reason = LockReason::ImplausibleJump, .jumped_nm = {-30, 40}});
  CHECK(f.told.events[0]["jump_nm"] == 50);
  CHECK(f.told.events[0]["text"] ==
        "holding: implausible jump of 50.0 nm (lock.max_jump_nm is 12.5)");
}

TEST_CASE("a failed fitter is told once, dropped records as they come") {
  Fixture f;
  CHECK(f.told_by().empty());
  f.report.fitter = "cpu (AVX2)";
  f.report.fitter_error = "device lost";
  auto events = f.told_by();
  REQUIRE(events.size() == 1);
  CHECK(events[0]["code"] == "fitter_failed");
  CHECK(events[0]["level"] == "error");
  CHECK(events[0]["text"] == "device lost; from now on cpu (AVX2)");
  CHECK(f.told_by().empty());
  for (const std::uint64_t dropped : {3U, 10U}) {
    f.report.queue_dropped = dropped;
    events = f.told_by();
    REQUIRE(events.size() == 1);
    CHECK(events[0]["code"] == "slow_publisher");
    CHECK(events[0]["text"] == std::string(dropped == 3 ? "3" : "7") +
                                   " records were dropped: the publisher is too slow");
    CHECK(f.told_by().empty());
  }
}

TEST_CASE("a marker that no longer counts is told with the reason, and when it does again") {
  using control::StandingReason;
  Fixture f;
  f.markers.count = 2;
  f.markers.entries[0].marker.id = 4;
  f.markers.entries[1].marker.id = 9;
  for (std::size_t i = 0; i < 2; ++i) f.markers.entries[i].result.health = MarkerHealth::Good;
  CHECK(f.told_by().empty());
  control::MarkerStanding& standing = f.markers.entries[1].standing;
  standing = {.reputation = 0.05,
              .reason = StandingReason::Moved,
              .excluded = true,
              .moved_nm = {0.6, -0.8},
              .walk_nm_per_min = {0.9, 1.2}};
  auto events = f.told_by();
  REQUIRE(events.size() == 1);
  CHECK(events[0]["code"] == "marker_reputation");
  CHECK(events[0]["level"] == "warning");
  CHECK(events[0]["id"] == 9);
  CHECK(events[0]["excluded"] == true);
  CHECK(events[0]["reason"] == "moved");
  CHECK(events[0]["reputation"] == 0.05);
  CHECK(events[0]["text"] ==
        "marker 9 no longer counts: it moved by 1 nm against the others, and walks by 1.5 nm/min");
  CHECK(f.told_by().empty());
  standing = {.reputation = 0.6};
  events = f.told_by();
  REQUIRE(events.size() == 1);
  CHECK(events[0]["level"] == "info");
  CHECK(events[0]["excluded"] == false);
  CHECK(events[0]["text"] == "marker 9 counts again");
  standing = {.reason = StandingReason::Noisy, .excluded = true, .chi_square = 9};
  CHECK(f.told_by()[0]["text"] ==
        "marker 9 no longer counts: it scatters 3 times as far as its fits promise");
  // Other markers: nothing is known of them.
  f.markers.entries[0].marker.id = 5;
  standing = {};
  CHECK(f.told_by().empty());
  standing = {.reason = StandingReason::SeldomSeen, .excluded = true, .good_share = 0.25};
  CHECK(f.told_by()[0]["text"] ==
        "marker 9 no longer counts: it was good in 25 % of the frames of the last minute");
}

TEST_CASE("which law holds the lock is told while one is held, not while nothing is") {
  Fixture f;
  f.report.law = {.observer = true, .reason = control::LawReason::Configured, .changes = 2};
  for (const LockState state :
       {LockState::Idle, LockState::Referencing, LockState::Calibrating, LockState::Lost}) {
    f.report.lock.state = state;
    CHECK(f.told_by().empty());
  }
  f.report.lock.state = LockState::Locked;
  auto events = f.told_by();
  REQUIRE(events.size() == 1);
  CHECK(events[0]["code"] == "control_law");
  CHECK(events[0]["text"] == "the observer holds the lock");
  CHECK(f.told_by().empty());
  f.report.lock.state = LockState::Holding;
  f.report.law = {.observer = false,
                  .reason = control::LawReason::WorseThanPi,
                  .changes = 3,
                  .left_nm = 0.5,
                  .pi_left_nm = 0.25};
  events = f.told_by();
  REQUIRE(events.size() == 1);
  CHECK(events[0]["level"] == "warning");
  CHECK_THAT(events[0]["text"].get<std::string>(),
             contains("PI holds the lock: the observer left 0.50 nm"));
  f.report.law = {.observer = false,
                  .reason = control::LawReason::DriverTooSlow,
                  .changes = 4,
                  .frames_a_correction = 9.9};
  events = f.told_by();
  REQUIRE(events.size() == 1);
  CHECK(events[0]["level"] == "warning");
  CHECK(events[0]["why"] == "driver_too_slow");
  CHECK(events[0]["left_nm"].is_null());
  CHECK_THAT(events[0]["text"].get<std::string>(),
             contains("takes one correction in about 10 frames") && contains("a faster driver"));
}

TEST_CASE("a change of role is told, not the roles of other markers") {
  using control::MarkerRole;
  Fixture f;
  f.markers.count = 2;
  f.markers.entries[0].marker = {.id = 4, .role = MarkerRole::Tracking};
  f.markers.entries[1].marker = {.id = 9, .role = MarkerRole::Witness};
  for (std::size_t i = 0; i < 2; ++i) f.markers.entries[i].result.health = MarkerHealth::Good;
  CHECK(f.told_by().empty());
  f.markers.entries[0].marker.role = MarkerRole::Witness;
  auto events = f.told_by();
  REQUIRE(events.size() == 1);
  CHECK(events[0]["code"] == "marker_role");
  CHECK(events[0]["level"] == "info");
  CHECK(events[0]["id"] == 4);
  CHECK(events[0]["role"] == "witness");
  CHECK(events[0]["text"] == "marker 4 is a witness now");
  f.markers.entries[1].marker.role = MarkerRole::Tracking;
  events = f.told_by();
  REQUIRE(events.size() == 1);
  CHECK(events[0]["text"] == "marker 9 is used for the drift now");
  f.markers.entries[0].marker = {.id = 5, .role = MarkerRole::Tracking};
  CHECK(f.told_by().empty());
  f.markers.entries[0].marker = {.id = 5, .role = MarkerRole::Witness, .x_px = 80};
  CHECK(f.told_by().empty());  // found anew: another one with its number
}

TEST_CASE("connections that were ended are told at once, and then once a minute") {
  Fixture f;
  constexpr std::int64_t kSecondNs = 1'000'000'000;
  const std::int64_t begin_ns = 1000 * kSecondNs;
  f.reporter.tell_connections(0, begin_ns);
  CHECK(f.told.events.empty());
  for (const auto& [ended, second] :
       {std::pair<std::uint64_t, int>{3, 0}, {3, 1}, {5, 2}, {9, 59}, {10, 60}, {10, 200}}) {
    f.reporter.tell_connections(ended, begin_ns + second * kSecondNs);
  }
  REQUIRE(f.told.events.size() == 2);
  for (const std::size_t i : {0U, 1U}) {
    const json& event = f.told.events[i];
    CHECK(event["code"] == "connections_ended");
    CHECK(event["level"] == "warning");
    CHECK(event["ended"] == (i == 0 ? 3 : 10));
    CHECK(contains(i == 0 ? "connections ended: 3;" : "connections ended: 7;")
              .match(event["text"].get<std::string>()));
  }
}

TEST_CASE("the limits that hold a correction back are told when they change") {
  Fixture f;
  const auto text = [&](int limited) -> std::string {
    f.report.limited = static_cast<std::uint8_t>(limited);
    const auto events = f.told_by();
    return events.empty() ? "" : events[0]["text"].get<std::string>();
  };
  const std::string held = "the correction is held back by ";
  const std::string range = "control.range_limit_nm or control.travel_limit_nm";
  const std::string both = held + "control.rate_limit_nm_per_s and " + range;
  CHECK(text(control::kLimitStep) == held + "control.step_limit_nm");
  CHECK(text(control::kLimitStep).empty());
  CHECK(text(control::kLimitRate | control::kLimitRange) == both);
  CHECK(text(control::kLimitNone).empty());
  CHECK(text(control::kLimitRate | control::kLimitRange) == both);
  CHECK(text(control::kLimitRange) == held + range);
}

TEST_CASE("a limit that holds z back is told once in a lock") {
  Fixture f;
  f.report.z.lock_id = 4;
  const auto events = [&](int limited) {
    f.report.z.limited = static_cast<std::uint8_t>(limited);
    return f.told_by().size();
  };
  CHECK(events(control::kLimitRate) == 1);
  for (int i = 0; i < 3; ++i) {
    CHECK(events(control::kLimitNone) == 0);
    CHECK(events(control::kLimitRate) == 0);
  }
  CHECK(events(control::kLimitRate | control::kLimitRange) == 1);
  CHECK(events(control::kLimitRange) == 0);
  f.report.z.lock_id = 6;
  CHECK(events(control::kLimitRate) == 1);
}

TEST_CASE("the camera's clock: each step, and whether it can be used") {
  Fixture f;
  f.report.clock_trust = ClockTrust::Trusted;
  CHECK(f.told_by().empty());
  f.report.clock_steps = 2;
  auto events = f.told_by();
  REQUIRE(events.size() == 1);
  CHECK(events[0]["code"] == "camera_clock");
  CHECK(events[0]["level"] == "warning");
  CHECK(events[0]["steps"] == 2);
  CHECK(events[0]["trust"] == "trusted");
  CHECK(f.told_by().empty());
  for (int time = 0; time < 2; ++time) {
    f.report.clock_trust = ClockTrust::Unusable;
    events = f.told_by();
    REQUIRE(events.size() == 1);
    CHECK(events[0]["level"] == "warning");
    CHECK(events[0]["trust"] == "unusable");
    CHECK(f.told_by().empty());
    CHECK(events[0].contains("slow") == (time > 0));
    const std::string slow = time > 0 ? ", it is 2 % slow" : "";
    CHECK(events[0]["text"] == "the camera's clock does not run like real time" + slow +
                                   ": frames' ages count from their arrival");
    f.report.clock_slow = 0.02;
    f.report.clock_trust = ClockTrust::Trusted;
    events = f.told_by();
    REQUIRE(events.size() == 1);
    CHECK(events[0]["level"] == "info");
    CHECK_FALSE(events[0].contains("slow"));
    CHECK(events[0]["text"] == "the camera's clock runs like real time again");
    CHECK(f.told_by().empty());
  }
}

TEST_CASE("a marker's health is told once it has settled for 200 ms, each marker's by itself") {
  Fixture f;
  f.markers.count = 2;
  f.markers.entries[0].marker.id = 11;
  f.markers.entries[1].marker.id = 12;
  for (std::size_t i = 0; i < 2; ++i) f.markers.entries[i].result.health = MarkerHealth::Good;
  CHECK(f.told_by(1000).empty());
  f.markers.entries[1].result.health = MarkerHealth::Outlier;
  CHECK(f.told_by(1010).empty());
  CHECK(f.told_by(1209).empty());
  auto events = f.told_by(1210);
  REQUIRE(events.size() == 1);
  CHECK(events[0]["code"] == "marker_health");
  CHECK(events[0]["level"] == "warning");
  CHECK(events[0]["id"] == 12);
  CHECK(events[0]["health"] == control::name_of(MarkerHealth::Outlier));
  f.markers.entries[1].result.health = MarkerHealth::Good;
  CHECK(f.told_by(1300).empty());
  events = f.told_by(1500);
  REQUIRE(events.size() == 1);
  CHECK(events[0]["level"] == "info");
  CHECK(events[0]["id"] == 12);
}

TEST_CASE("status and markers are published at their intervals, markers once a frame") {
  Fixture f;
  f.config.wire.status_interval_ms = 200;
  f.config.wire.markers_interval_ms = 70;
  int statuses = 0;
  int markers = 0;
  for (int ms = 1000; ms < 2000; ms += 10) {
    if (ms < 1500)
      f.played.tell_markers(static_cast<std::uint64_t>(ms),
                            std::vector<control::Marker>{{.id = 1}});
    f.loop.refresh();
    f.reporter.publish(f.loop.markers(), ms * kMs);
  }
  for (const TextMessage& message : f.sent) {
    statuses += message.topic == TextMessage::Topic::Status ? 1 : 0;
    markers += message.topic == TextMessage::Topic::Markers ? 1 : 0;
  }
  CHECK(statuses == 5);
  CHECK(markers == 8);  // in the half second that had frames
}
