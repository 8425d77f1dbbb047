// SPDX-License-Identifier: MIT
#include <stdlib.h>  // NOLINT(modernize-deprecated-headers): what is POSIX's in it

#include <array>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "clients/stage/report.hpp"
#include "clients/stage/sockets.hpp"
#include "daemon/stage/stage_report.hpp"
#include "support/catch.hpp"

namespace driftd::stage {
namespace {

using nlohmann::json;

const Introduction kIntroduction{"0123456789abcdef", "simulator", 500};

json report(const DriverState& state, const LatencySummary& latency = {}, std::int64_t waits_ns = 0,
            bool ended = false) {
  return json::parse(report_json(kIntroduction, state, latency, waits_ns, ended, 77));
}

DriverState connected() {
  DriverState state;
  state.connected = state.ever_connected = true;
  state.description = "a stage";
  AxisState x;
  x.axis = {.name = "1", .min_nm = 0, .max_nm = 100, .resolution_nm = 0.1};
  x.position_nm = 12.5;
  AxisState y = x;
  y.letter = 'y';
  state.axes = {x, y};
  state.position_ns = 55;
  return state;
}

}  // namespace

TEST_CASE("a report before the first connection tells whose it is by its keys", "[stage]") {
  for (const Group group : {Group::Lateral, Group::Axial}) {
    Introduction who = kIntroduction;
    who.group = group;
    const json said = json::parse(report_json(who, {}, {}, 0, false, 77));
    CHECK(said["axes"].empty());
    const daemon::StageReport read = daemon::read_stage_report(said);
    CHECK(read.is_of(daemon::AxisGroup::Axial) == (group == Group::Axial));
    CHECK(read.is_of(daemon::AxisGroup::Lateral) == (group == Group::Lateral));
  }
}

TEST_CASE("a report is complete in itself", "[stage]") {
  DriverState state = connected();
  state.session = "5be1c0ffee123457";
  state.lock_id = 3;
  state.total_nm = {1.5, -2};
  state.carried_out = 10;
  const json said = report(state, {.count = 10, .p50_us = 100, .p99_us = 200, .max_us = 300});
  CHECK(said["command"] == "stage");
  CHECK(said["instance"] == "0123456789abcdef");
  CHECK(said["driver"] == "simulator");
  CHECK(said["description"] == "a stage");
  CHECK(said["max_rate_hz"] == 500.0);
  CHECK(said["state"] == "ready");
  CHECK(said["text"] == "");
  CHECK(said["time_ns"] == 55);
  CHECK(said["session"] == "5be1c0ffee123457");
  CHECK(said["lock_id"] == 3);
  CHECK(said["total_x_nm"] == 1.5);
  CHECK(said["total_y_nm"] == -2.0);
  CHECK(said["latency_us"]["p99"] == 200.0);
  REQUIRE(said["axes"].size() == 2);
  CHECK(said["axes"][1]["axis"] == "y");
  CHECK(said["axes"][0]["position_nm"] == 12.5);
  CHECK(said["axes"][0]["target_nm"].is_null());
}

TEST_CASE("what is not known is null", "[stage]") {
  const json said = report({});
  CHECK(said["state"] == "disconnected");
  CHECK(said["text"] == "not connected yet");
  CHECK(said["axes"].empty());
  for (const char* key : {"on_target", "session", "lock_id", "total_x_nm", "total_y_nm"})
    CHECK(said[key].is_null());
  CHECK(said["latency_us"]["p50"].is_null());
  CHECK(said["latency_us"]["n"] == 0);
}

TEST_CASE("the worst that is known is what a report says", "[stage]") {
  DriverState state = connected();
  const std::pair<Condition, const char*> words[] = {{Condition::Ready, "ready"},
                                                     {Condition::ServoOff, "servo_off"},
                                                     {Condition::NotReferenced, "not_referenced"},
                                                     {Condition::Limit, "limit"},
                                                     {Condition::Error, "error"},
                                                     {Condition::Disconnected, "disconnected"}};
  for (const auto& [condition, word] : words) {
    state.health.condition = condition;
    CHECK(report(state)["state"] == word);
  }
  state.health = {.error = 0, .text = ""};
  state.range_text = "x is at the end";
  CHECK(report(state)["state"] == "limit");
  CHECK(report(state)["text"] == "x is at the end");
  CHECK(report(state, {}, 400'000'000)["state"] == "error");
  CHECK(report(state, {}, 100'000'000)["state"] == "limit");
  CHECK(report(state, {}, 0, true)["state"] == "stopped");
  state.range_text.clear();
  state.refuses = true;
  CHECK(report(state)["state"] == "error");
  CHECK(report(state)["text"] != "");
}

TEST_CASE("on target is told where the controller tells it", "[stage]") {
  DriverState state = connected();
  CHECK(report(state)["on_target"].is_null());
  state.health.tells_on_target = true;
  CHECK(report(state)["on_target"] == false);
  state.health.on_target = true;
  CHECK(report(state)["on_target"] == true);
}

TEST_CASE("a text that is no UTF-8 does not break a report", "[stage]") {
  DriverState state = connected();
  state.description = "\xff\xfe";
  CHECK_NOTHROW(report(state));
}

TEST_CASE("the daemon takes every report", "[stage]") {
  DriverState state = connected();
  state.description = std::string(1000, 'd') + "\xc3\xa4";
  state.health.condition = Condition::Error;
  state.health.text = std::string(299, 't') + "\xc3\xa4";
  DriverState worst = state;  // each byte of a text takes six in JSON
  worst.description = worst.health.text = std::string(1000, '\x01');
  worst.axes[0].axis.name = worst.axes[1].axis.name = std::string(1000, '"');
  for (const DriverState& one : {DriverState{}, connected(), state, worst}) {
    for (const bool ended : {false, true}) {
      CHECK(report_json(kIntroduction, one, {}, 0, ended, 77).size() <= 4096);
      const json said = report(one, {.count = 3, .p50_us = 1, .p99_us = 2, .max_us = 3}, 0, ended);
      INFO(said.dump());
      daemon::StageReport heard;
      CHECK_NOTHROW(heard = daemon::read_stage_report(said));
      CHECK(daemon::name_of(heard.state) == said["state"].get<std::string>());
      CHECK(heard.latency.p99_us == 2.0);
      CHECK(heard.axes.size() == one.axes.size());
      CHECK(heard.text.size() <= 300);
      CHECK(heard.text.find("\xef\xbf\xbd") == std::string::npos);
    }
  }
}

TEST_CASE("figures are one line for people", "[stage]") {
  DriverState state;
  state.carried_out = 41230;
  state.ignored = 3;
  CHECK(figures(state, {.count = 41230, .p50_us = 120.4, .p99_us = 310, .max_us = 5000}, 0) ==
        "41230 corrections carried out, 0 in the last second; 3 ignored, 0 refused; from driftd to "
        "the controller p50 120 us, p99 310 us, max 5000 us");
}

TEST_CASE("a daemon that answers again may be at another place", "[stage]") {
  const char* was = ::getenv("RUNTIME_DIRECTORY");
  const std::string before = was == nullptr ? "" : was;
  std::string folder = (std::filesystem::temp_directory_path() / "driftd-stage-XXXXXX").string();
  REQUIRE(::mkdtemp(folder.data()) != nullptr);
  zmq::context_t context;
  std::array<zmq::socket_t, 2> daemons;
  for (const std::size_t i : {0U, 1U}) {
    const std::string place = folder + (i == 0 ? "/a" : "/b");
    std::filesystem::create_directory(place);
    daemons[i] = zmq::socket_t(context, zmq::socket_type::pub);
    daemons[i].bind("ipc://" + place + "/corrections");
  }
  CorrectionSocket socket(context, "ipc://corrections", Group::Lateral);
  const auto hears = [&](zmq::socket_t& daemon) {
    for (int i = 0; i < 1000; ++i) {
      daemon.send(zmq::str_buffer("correction {}"));
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      if (socket.newest()) return true;
    }
    return false;
  };
  constexpr std::int64_t kNow_ns = 1;  // no time passes in which it would look by itself
  ::setenv("RUNTIME_DIRECTORY", (folder + "/a").c_str(), 1);
  socket.look(true, kNow_ns);
  CHECK(hears(daemons[0]));
  ::setenv("RUNTIME_DIRECTORY", (folder + "/b").c_str(), 1);
  socket.look(false, kNow_ns);
  socket.look(true, kNow_ns);
  CHECK(hears(daemons[1]));
  if (was == nullptr)
    ::unsetenv("RUNTIME_DIRECTORY");
  else
    ::setenv("RUNTIME_DIRECTORY", before.c_str(), 1);
  std::filesystem::remove_all(folder);
}

}  // namespace driftd::stage
