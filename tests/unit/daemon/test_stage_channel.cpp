// SPDX-License-Identifier: MIT
// The stage's driver as the daemon sees it: what a report may be, which driver is heard, and what
// the loop and people are told.
#include <cmath>
#include <limits>
#include <string>

#include "daemon/stage/stage_channel.hpp"
#include "housekeeping_for_tests.hpp"
#include "support/catch.hpp"

using namespace driftd;
using namespace driftd::daemon;
using control::LockState;
using control::StageSays;
using driftd::daemon::test::PlayedLoop;
using driftd::daemon::test::Told;
using nlohmann::json;

namespace {

constexpr std::int64_t kMs = 1'000'000;

json report(const char* instance = "0123456789abcdef", const char* state = "ready") {
  return {{"command", "stage"},
          {"id", 3},
          {"instance", instance},
          {"driver", "pi_gcs2"},
          {"description", "PI E-727 SN 1"},
          {"max_rate_hz", 0},
          {"axes",
           {{{"axis", "x"},
             {"name", "1"},
             {"min_nm", 0},
             {"max_nm", 100000},
             {"resolution_nm", 0.5},
             {"closed_loop", true},
             {"position_nm", 12.5},
             {"target_nm", nullptr}},
            {{"axis", "y"}, {"name", "2"}}}},
          {"state", state},
          {"text", ""},
          {"error", 0},
          {"on_target", nullptr},
          {"time_ns", 5'000'000'000},
          {"session", "this"},
          {"lock_id", 7},
          {"total_x_nm", -3.5},
          {"total_y_nm", 4.25},
          {"carried_out", 100},
          {"ignored", 2},
          {"refused", 1},
          {"rate_hz", 443.1},
          {"latency_us", {{"n", 100}, {"p50", 120.5}, {"p99", 800}, {"max", 1200}}}};
}

json with(json request, const json& change) {
  request.merge_patch(change);
  return request;
}

struct Fixture {
  config::Config config = config::default_config();
  PlayedLoop played;
  LoopControl loop{played.ports};
  Told told;
  StageChannel channel{config, "this", played.ports, loop, told.log};
  std::int64_t now_ns = 10'000 * kMs;

  Reply take(const json& request) { return channel.take(request, now_ns); }
  std::string refusal(const json& request) {
    try {
      take(request);
    } catch (const CommandRefused& refused) {
      return std::string(name_of(refused.code)) + ": " + refused.text;
    }
    return "";
  }
  void later(std::int64_t ms) {
    now_ns += ms * kMs;
    loop.refresh();
    channel.turn(now_ns);
  }
  /// Locked for so long; each tenth of a second a report of a driver that carries out `hz`, of
  /// corrections that leave for `share` of the frames.
  void drive(std::int64_t ms, double hz, double share = 1) {
    for (std::int64_t past_ms = 0; past_ms < ms; past_ms += 100) {
      played.report.corrections +=
          static_cast<std::uint64_t>(0.1 * share * played.report.frame_rate_hz);
      set_state(LockState::Locked);
      take(with(report(), {{"rate_hz", hz}}));
      for (int i = 0; i < 10; ++i) later(10);
    }
  }
  void set_state(LockState state) {
    played.tell_state(state);
    loop.refresh();
  }
  StageSays says() const { return played.ports.stage_says.load(); }
};

bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("without a driver nothing is said of the stage") {
  Fixture f;
  f.later(10'000);
  CHECK(f.says() == StageSays::Nothing);
  CHECK(f.channel.status(f.now_ns) == nullptr);
  CHECK(contains(f.channel.problem(), "no driver"));
  CHECK(f.told.events.empty());
  CHECK(f.channel.waiting_us() == 0);
}

TEST_CASE("a report is answered with the session and shows in status as it came") {
  Fixture f;
  f.set_state(LockState::Holding);
  const Reply reply = f.take(report());
  CHECK(reply.fields == json{{"session", "this"}, {"state", "holding"}});
  f.now_ns += 30 * kMs;
  const json status = f.channel.status(f.now_ns);
  CHECK(status["driver"] == "pi_gcs2");
  CHECK(status["state"] == "ready");
  CHECK(status["age_ms"] == 30.0);
  CHECK(status["axes"][0]["position_nm"] == 12.5);
  CHECK(status["axes"][0]["target_nm"] == nullptr);
  CHECK(status["axes"][1]["name"] == "2");
  CHECK(status["lock_id"] == 7);
  CHECK(status["total_x_nm"] == -3.5);
  CHECK(status["off_nm"] == nullptr);
  CHECK(status["max_rate_hz"] == nullptr);
  CHECK(status["latency_us"]["p99"] == 800.0);
  CHECK(f.says() == StageSays::Ready);
  CHECK(f.channel.problem().empty());
}

TEST_CASE("the place is for the loop, unless it is of another session or not known") {
  for (const json& change : {json::object(), json{{"session", "other"}}, json{{"session", nullptr}},
                             json{{"total_x_nm", nullptr}}}) {
    Fixture f;
    f.take(with(report(), change));
    f.played.ports.stage_place.refresh();
    const StageReadback& place = f.played.ports.stage_place.reading();
    INFO(change.dump());
    if (change.empty()) {
      CHECK(place.time_ns == 5'000'000'000);
      CHECK(place.lock_id == 7);
      CHECK(place.total_nm.x == -3.5);
      CHECK(place.total_nm.y == 4.25);
    } else {
      CHECK(place.time_ns == 0);
    }
  }
}

TEST_CASE("each state of a driver means one thing to the lock") {
  const std::pair<const char*, StageSays> meanings[] = {
      {"ready", StageSays::Ready},          {"servo_off", StageSays::Error},
      {"not_referenced", StageSays::Error}, {"limit", StageSays::Limit},
      {"error", StageSays::Error},          {"disconnected", StageSays::Error},
      {"stopped", StageSays::Silent}};
  for (const auto& [state, says] : meanings) {
    Fixture f;
    f.take(report("a", state));
    INFO(state);
    CHECK(f.says() == says);
    CHECK(f.channel.problem().empty() == (says == StageSays::Ready));
  }
}

TEST_CASE("a report that makes no sense is refused by its field and changes nothing") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::pair<json, const char*> mistakes[] = {
      {{{"instance", nullptr}}, "`instance`"},
      {{{"instance", ""}}, "`instance`"},
      {{{"instance", 5}}, "`instance`"},
      {{{"driver", std::string(301, 'x')}}, "`driver`"},
      {{{"state", "perhaps"}}, "servo_off"},
      {{{"axes", 5}}, "`axes`"},
      {{{"axes", json::array({1})}}, "`axes[0]`"},
      {{{"axes", json::array({{{"axis", "q"}}})}}, "`axes[0].axis`"},
      {{{"axes", json::array({{{"axis", "x"}}, {{"axis", "x"}}})}}, "twice"},
      {{{"axes", json::array({{{"axis", "x"}, {"min_nm", 5}, {"max_nm", 4}}})}}, "min_nm"},
      {{{"axes", json::array({{{"axis", "x"}, {"position_nm", 1e30}}})}}, "position_nm"},
      {{{"total_x_nm", "far"}}, "`total_x_nm`"},
      {{{"total_y_nm", nan}}, "`total_y_nm`"},
      {{{"carried_out", -1}}, "`carried_out`"},
      {{{"on_target", "yes"}}, "`on_target`"},
      {{{"latency_us", {{"p50", -5}}}}, "`latency_us.p50`"},
      {{{"latency_us", 7}}, "`latency_us`"},
      {{{"time_ns", 1e30}}, "`time_ns`"}};
  Fixture f;
  f.take(report("a", "servo_off"));
  for (const auto& [change, named] : mistakes) {
    json request = report("a");
    for (const auto& [key, value] : change.items()) request[key] = value;
    const std::string refusal = f.refusal(request);
    INFO(change.dump() << " -> " << refusal);
    CHECK(refusal.starts_with("bad_request: "));
    CHECK(contains(refusal, named));
    CHECK(f.channel.status(f.now_ns)["state"] == "servo_off");
  }
}

TEST_CASE("a driver's words cannot make a second line of a log") {
  Fixture f;
  f.take(with(report("a", "error"), {{"text", "no\nservo\x1b[31m"}}));
  CHECK(f.told.events.back()["text"].get<std::string>().find_first_of("\n\x1b") ==
        std::string::npos);
}

TEST_CASE("one driver is heard; another is when the first is silent or has stopped") {
  Fixture f;
  f.take(report("first"));
  CHECK(f.refusal(report("second")).starts_with("busy: another driver"));
  SECTION("silent") {
    f.later(501);
    CHECK(f.refusal(report("second")).empty());
  }
  SECTION("stopped while the lock holds") {
    f.set_state(LockState::Holding);
    f.take(report("first", "stopped"));
    CHECK(f.says() == StageSays::Silent);
    f.later(10);
    CHECK(f.refusal(report("second")).empty());
  }
  SECTION("stopped while nothing is locked") {
    f.set_state(LockState::Idle);
    f.take(report("first", "stopped"));
    f.later(10);
    CHECK(f.channel.status(f.now_ns) == nullptr);
    CHECK(f.says() == StageSays::Nothing);
    CHECK(f.refusal(report("second")).empty());
  }
  CHECK(f.says() == StageSays::Ready);
  CHECK(f.refusal(report("first")).starts_with("busy"));
}

TEST_CASE("half a second without a report is silence, told once, until it reports again") {
  Fixture f;
  f.take(report());
  f.later(500);
  CHECK(f.says() == StageSays::Ready);
  f.later(1);
  CHECK(f.says() == StageSays::Silent);
  CHECK(f.channel.status(f.now_ns)["state"] == "silent");
  f.later(1000);
  CHECK(f.told.codes() == std::vector<std::string>{"stage_driver", "stage_driver"});
  CHECK(f.told.events[1]["state"] == "silent");
  f.take(report());
  CHECK(f.says() == StageSays::Ready);
  CHECK(f.told.events.size() == 3);
  f.later(400);
  CHECK(f.says() == StageSays::Ready);
}

TEST_CASE("a driver that was silent before a lock is no part of it") {
  Fixture f;
  f.take(report());
  f.channel.forget_silent();
  CHECK(f.says() == StageSays::Ready);
  f.later(600);
  f.channel.forget_silent();
  CHECK(f.says() == StageSays::Nothing);
  CHECK(f.channel.status(f.now_ns) == nullptr);
}

TEST_CASE("changes of the state are told, repetitions are not") {
  Fixture f;
  f.take(report());
  f.take(report());
  REQUIRE(f.told.events.size() == 1);
  CHECK(f.told.events[0]["level"] == "info");
  CHECK(contains(f.told.events[0]["text"], "PI E-727"));
  f.take(with(report("0123456789abcdef", "limit"), {{"text", "axis 1 at 100 um"}}));
  f.take(with(report("0123456789abcdef", "limit"), {{"text", "axis 1 at 100 um"}}));
  REQUIRE(f.told.events.size() == 2);
  CHECK(f.told.events[1]["level"] == "warning");
  CHECK(contains(f.told.events[1]["text"], "axis 1 at 100 um"));
  CHECK(f.told.events[1]["state"] == "limit");
}

TEST_CASE("trouble that comes and goes with each report holds the lock, and is told once") {
  Fixture f;
  f.set_state(GENERATE(LockState::Locked, LockState::Holding));
  const bool limit = GENERATE(false, true);
  const json trouble = report("a", limit ? "limit" : "error");
  const StageSays says = limit ? StageSays::Limit : StageSays::Error;
  f.take(report("a"));
  CHECK(f.says() == StageSays::Ready);
  for (int i = 0; i < 20; ++i) {
    f.later(50);
    f.take(trouble);
    CHECK(f.says() == says);
    f.later(50);
    f.take(report("a"));
    CHECK(f.says() == says);
  }
  CHECK(f.told.events.size() == 2);
  f.later(149);
  f.take(report("a"));
  CHECK(f.says() == says);
  CHECK(f.told.events.size() == 2);
  f.later(1);
  f.take(report("a"));
  CHECK(f.says() == StageSays::Ready);
  REQUIRE(f.told.events.size() == 3);
  CHECK(f.told.events[2]["state"] == "ready");
  f.later(50);
  f.take(trouble);
  CHECK(f.told.events.size() == 4);
  f.take(report("a", "stopped"));  // another one has no past
  f.take(report("b"));
  CHECK(f.says() == StageSays::Ready);
}

TEST_CASE("while nothing is locked a driver that is ready again is believed at once") {
  Fixture f;
  f.set_state(GENERATE(LockState::Idle, LockState::Referencing));
  f.take(report("a", "error"));
  CHECK(f.says() == StageSays::Error);
  f.later(10);
  f.take(report("a"));
  CHECK(f.says() == StageSays::Ready);
  f.set_state(LockState::Locked);
  f.later(10);
  f.take(report("a"));
  CHECK(f.says() == StageSays::Ready);
}

TEST_CASE("a stage that takes fewer commands than frames come waits half a command more") {
  Fixture f;
  f.played.report.frame_rate_hz = 500;
  f.set_state(LockState::Locked);
  SECTION("by what it says of itself") {
    f.take(with(report(), {{"max_rate_hz", 100}, {"rate_hz", 0}}));
    CHECK(f.channel.waiting_us() == Approx(5000));
    f.later(10);
    CHECK(f.played.ports.driver_hz.load() == 100);
    f.take(with(report(), {{"max_rate_hz", 460}, {"rate_hz", 0}}));
    CHECK(f.channel.waiting_us() == 0);
    f.later(10);
    CHECK(f.played.ports.driver_hz.load() == 500);
  }
  SECTION("by what it was seen to do") {
    f.played.report.lock.since_ns = f.now_ns;
    f.set_state(LockState::Locked);
    f.drive(1900, 250);
    CHECK(f.channel.waiting_us() == 0);  // it has only begun
    f.drive(200, 250);
    CHECK(f.channel.waiting_us() == Approx(2000));
    CHECK(contains(f.told.events.back()["text"], "250 of 500"));
    f.later(10);
    CHECK(f.played.ports.driver_hz.load() == Approx(250));  // in the lock that it was seen in
    f.set_state(LockState::Idle);
    f.take(with(report(), {{"rate_hz", 0}}));
    f.later(10);
    CHECK(f.channel.waiting_us() == Approx(2000));
  }
  SECTION("a stall is forgotten") {
    f.played.report.lock.since_ns = f.now_ns;
    f.drive(2500, 250);
    CHECK(f.channel.waiting_us() == Approx(2000));
    f.drive(20'000, 500);
    CHECK(f.channel.waiting_us() == 0);
    CHECK(f.played.ports.driver_hz.load() == 500);  // it is known to take all
  }
  SECTION("frames that bring no correction are not the driver's") {
    f.played.report.lock.since_ns = f.now_ns;
    f.drive(5000, 500);
    for (int i = 0; i < 3; ++i) {  // nine in ten are bad
      f.drive(1000, 50, 0.1);
      f.drive(20'000, 50, 0.1);
      CHECK(f.channel.waiting_us() == 0);
      CHECK(f.played.ports.driver_hz.load() == 500);
      f.drive(1000, 500);
    }
  }
  SECTION("a slow driver is as slow while half of the frames are bad") {
    f.played.report.lock.since_ns = f.now_ns;
    f.drive(10'000, 50, 0.5);
    CHECK(f.played.ports.driver_hz.load() == Approx(50));
  }
  SECTION("a driver that kept up with a slow camera is not slow for a fast one") {
    f.played.report.frame_rate_hz = 100;
    f.played.report.lock.since_ns = f.now_ns;
    f.drive(3000, 100);
    f.played.report.frame_rate_hz = 500;
    f.set_state(LockState::Locked);
    CHECK(f.channel.waiting_us() == 0);
  }
}

TEST_CASE("a delay that the driver alone exceeds, and a stage elsewhere, are told once") {
  Fixture f;
  f.played.report.frame_rate_hz = 500;
  f.played.report.lock.since_ns = f.now_ns;
  f.set_state(LockState::Locked);
  const auto feed = [&](double p50_us, double off_nm, int times) {
    for (int i = 0; i < times; ++i) {
      f.played.report.stage_off_nm = off_nm;
      f.played.tell();
      f.take(with(report(), {{"rate_hz", 500}, {"latency_us", {{"p50", p50_us}}}}));
      f.later(50);
    }
  };
  feed(2900, 11, 100);  // within 3 ms, and within 10 nm and three of its steps
  CHECK(f.told.events.size() == 1);
  feed(3100, 11, 60);
  REQUIRE(f.told.events.size() == 2);
  CHECK(contains(f.told.events[1]["text"], "stage.delay_us is 3000"));
  feed(2900, 12, 30);
  feed(2900, 11, 1);
  feed(2900, 12, 30);
  CHECK(f.told.events.size() == 2);
  feed(2900, 12, 60);
  REQUIRE(f.told.events.size() == 3);
  CHECK(contains(f.told.events[2]["text"], "12.0 nm"));
  feed(3100, 12, 100);
  CHECK(f.told.events.size() == 3);
}

TEST_CASE("a delay that the driver of z alone exceeds is told with the option of z") {
  Fixture f;
  StageChannel z(f.config, "this", f.played.ports, f.loop, f.told.log, AxisGroup::Axial);
  f.played.report.z.lock.state = LockState::Locked;
  f.played.report.z.lock.since_ns = f.now_ns;
  f.played.tell();
  f.loop.refresh();
  const json axes = {{{"axis", "z"}, {"name", "3"}, {"resolution_nm", 0.5}}};
  for (int i = 0; i < 100; ++i) {
    z.take(with(report(), {{"axes", axes},
                           {"session", nullptr},
                           {"lock_id", nullptr},
                           {"total_x_nm", nullptr},
                           {"total_y_nm", nullptr},
                           {"latency_us", {{"p50", f.config.axial_stage.delay_us + 100}}}}),
           f.now_ns);
    f.later(50);
    z.turn(f.now_ns);
  }
  std::string told;
  for (const json& event : f.told.events) told += event["text"].get<std::string>() + "\n";
  CHECK(contains(told, "and axial.stage.delay_us is "));
  CHECK(contains(told, ": raise it"));
  CHECK_FALSE(contains(told, "calibrate"));
}

TEST_CASE("a driver of x and y and one of z are heard side by side, one of all for both") {
  Fixture f;
  StageChannel z(f.config, "this", f.played.ports, f.loop, f.told.log, AxisGroup::Axial);
  const auto take = [&](const json& request) {
    return take_stage_report(request, f.channel, &z, f.now_ns);
  };
  json of_z = report();
  of_z["instance"] = "z";
  of_z["axes"] = {{{"axis", "z"}, {"name", "3"}, {"resolution_nm", 1}}};
  of_z["state"] = "servo_off";
  of_z["z_session"] = "this";
  of_z["z_lock_id"] = 9;
  of_z["total_z_nm"] = 12.5;
  take(report());
  take(of_z);
  CHECK(f.says() == StageSays::Ready);
  CHECK(f.played.ports.z.stage_says.load() == StageSays::Error);
  f.played.ports.z.stage_place.refresh();
  CHECK(f.played.ports.z.stage_place.reading().total_nm.x == 12.5);
  CHECK(f.played.ports.z.stage_place.reading().lock_id == 9);
  const json status = z.status(f.now_ns);
  CHECK(status["total_z_nm"] == 12.5);
  CHECK(status["lock_id"] == 9);
  CHECK_FALSE(status.contains("total_x_nm"));
  CHECK(contains(z.problem(), "the driver of the stage of z"));
  CHECK(f.told.events.size() == 2);

  json of_all = report();
  of_all["instance"] = "all";
  of_all["axes"].push_back({{"axis", "z"}});
  of_all["state"] = "limit";
  CHECK_THROWS_AS(take(of_all), CommandRefused);  // another one moves x and y
  CHECK(f.played.ports.z.stage_says.load() == StageSays::Error);
  f.now_ns += 600 * kMs;
  f.channel.turn(f.now_ns);
  z.turn(f.now_ns);
  f.told.events.clear();
  take(of_all);
  CHECK(f.says() == StageSays::Limit);
  CHECK(f.played.ports.z.stage_says.load() == StageSays::Limit);
}

TEST_CASE("a driver of z that was never connected takes nothing from x and y") {
  Fixture f;
  StageChannel z(f.config, "this", f.played.ports, f.loop, f.told.log, AxisGroup::Axial);
  const auto take = [&](const json& request) {
    return take_stage_report(request, f.channel, &z, f.now_ns);
  };
  json of_z = report("fedcba9876543210", "disconnected");
  for (const char* key : {"session", "lock_id", "total_x_nm", "total_y_nm"}) of_z.erase(key);
  for (const char* key : {"z_session", "z_lock_id", "total_z_nm"}) of_z[key] = nullptr;
  of_z["axes"] = json::array();
  take(of_z);
  CHECK(f.says() == StageSays::Nothing);
  CHECK(f.played.ports.z.stage_says.load() == StageSays::Error);
  CHECK_NOTHROW(take(report()));  // not busy
  CHECK(f.says() == StageSays::Ready);
  f.now_ns += 600 * kMs;
  z.turn(f.now_ns);
  CHECK(f.says() == StageSays::Ready);
  CHECK(f.played.ports.z.stage_says.load() == StageSays::Silent);
}

TEST_CASE("a report that lists no axes is of those whose keys it has") {
  json bare = report();
  for (const char* key : {"axes", "session", "lock_id", "total_x_nm", "total_y_nm"})
    bare.erase(key);
  const auto is_of = [&](std::initializer_list<const char*> keys, json axes = json::array()) {
    json request = bare;
    for (const char* key : keys) request[key] = nullptr;
    request["axes"] = std::move(axes);
    const StageReport read = read_stage_report(request);
    std::string groups;
    if (read.is_of(AxisGroup::Lateral)) groups += "xy";
    if (read.is_of(AxisGroup::Axial)) groups += "z";
    return groups;
  };
  CHECK(read_stage_report(bare).is_of(AxisGroup::Lateral));
  CHECK_FALSE(read_stage_report(bare).is_of(AxisGroup::Axial));
  CHECK(is_of({}) == "xy");
  for (const char* key : {"session", "lock_id", "total_x_nm", "total_y_nm"}) {
    CHECK(is_of({key}) == "xy");
    CHECK(is_of({key, "total_z_nm"}) == "xyz");
  }
  for (const char* key : {"z_session", "z_lock_id", "total_z_nm"}) CHECK(is_of({key}) == "z");
  // Axes that are listed decide.
  CHECK(is_of({"total_z_nm"}, {{{"axis", "x"}}}) == "xy");
  CHECK(is_of({"total_x_nm"}, {{{"axis", "z"}}}) == "z");
}

TEST_CASE("where z is not held, a report of z is one of the stage") {
  Fixture f;
  json of_z = report();
  of_z["axes"] = {{{"axis", "z"}}};
  take_stage_report(of_z, f.channel, nullptr, f.now_ns);
  CHECK(f.says() == StageSays::Ready);
}
