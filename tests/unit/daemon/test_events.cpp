// SPDX-License-Identifier: MIT
#include "daemon/events/event_log.hpp"
#include "daemon/status/reporter.hpp"
#include "housekeeping_for_tests.hpp"
#include "support/catch.hpp"

using namespace driftd;
using namespace driftd::daemon;
using driftd::control::MarkerHealth;
using driftd::daemon::test::Told;
using nlohmann::json;
using Level = EventLog::Level;

namespace {

constexpr std::int64_t kMs = 1'000'000;

std::int64_t time_ns = 0;
std::int64_t test_clock() noexcept {
  return time_ns;
}

struct Fixture {
  std::vector<json> sent;
  bool room = true;
  EventLog log{[this](const TextMessage& message) {
                 if (room) sent.push_back(json::parse("{" + message.fields + "}"));
                 return room;
               },
               test_clock};

  void raise(const std::string& code, int from, int to) {
    for (int i = from; i <= to; ++i) log.raise(Level::Warning, code, "text", {{"number", i}});
  }
  std::vector<int> numbers(const std::string& code) const {
    std::vector<int> numbers;
    for (const json& event : sent) {
      if (event["code"] == code) numbers.push_back(event["number"]);
    }
    return numbers;
  }
};

std::vector<int> range(int from, int to) {
  std::vector<int> numbers;
  for (int i = from; i <= to; ++i) numbers.push_back(i);
  return numbers;
}

/// What is told of markers whose health was `before` for long and then settles as `after`.
json told_of(const std::vector<MarkerHealth>& before, const std::vector<MarkerHealth>& after) {
  Told told;
  const config::Config config = config::default_config();
  Reporter reporter(
      config, told.log, [](const TextMessage&) { return true; }, [] { return json::object(); });
  const LoopReport loop;
  MarkersReport markers;
  std::int64_t now_ns = 5'000 * kMs;
  for (const auto* healths : {&before, &after}) {
    markers.count = healths->size();
    for (std::size_t i = 0; i < healths->size(); ++i) {
      markers.entries[i].marker.id = static_cast<std::uint32_t>(i + 3);
      markers.entries[i].result.health = (*healths)[i];
    }
    told.events.clear();
    for (const std::int64_t later_ms : {0, 199, 201}) {
      reporter.tell_changes(loop, markers, now_ns + later_ms * kMs);
      if (later_ms < 200) CHECK(told.events.empty());
    }
    now_ns += 1'000 * kMs;
  }
  REQUIRE(told.events.size() <= 1);
  return told.events.empty() ? json() : told.events.front();
}

}  // namespace

TEST_CASE("ten events a second of a code are told at once, the last of the rest a second later") {
  Fixture f;
  time_ns = 7'300 * kMs;
  f.raise("camera_note", 1, 10);
  CHECK(f.numbers("camera_note") == range(1, 10));
  time_ns = 7'400 * kMs;
  f.raise("camera_note", 11, 14);
  f.raise("camera_clock", 1, 1);  // another code has ten of its own
  time_ns = 7'999 * kMs;
  f.log.turn();
  CHECK(f.numbers("camera_note") == range(1, 10));
  CHECK(f.numbers("camera_clock") == range(1, 1));
  time_ns = 8'000 * kMs;
  f.log.turn();
  REQUIRE(f.sent.size() == 12);
  const json& late = f.sent.back();
  CHECK(late["number"] == 14);
  CHECK(late["left_out"] == 3);
  CHECK(late["time_ns"] == 7'400 * kMs);
  CHECK(late["level"] == "warning");
  f.log.turn();
  CHECK(f.sent.size() == 12);  // once
}

TEST_CASE("what had to wait goes before the next event of its code") {
  Fixture f;
  time_ns = 3'000 * kMs;
  f.raise("camera_note", 1, 11);
  time_ns = 4'100 * kMs;
  f.raise("camera_note", 12, 22);
  CHECK(f.numbers("camera_note") == range(1, 21));
  CHECK_FALSE(f.sent[10].contains("left_out"));  // the eleventh waited, and none was left out
  time_ns = 5'000 * kMs;
  f.log.turn();
  CHECK(f.numbers("camera_note") == range(1, 22));
}

TEST_CASE("every change of the lock is told, however many there are in a second") {
  Fixture f;
  time_ns = 3'000 * kMs;
  f.raise("state_changed", 1, 35);
  CHECK(f.numbers("state_changed") == range(1, 35));
}

TEST_CASE("one event tells of all markers whose health changed at once") {
  const std::vector<MarkerHealth> good(16, MarkerHealth::Good);
  std::vector<MarkerHealth> changed(16, MarkerHealth::FitFailed);
  changed[1] = MarkerHealth::Good;
  changed[4] = MarkerHealth::Outlier;
  const json event = told_of(good, changed);
  CHECK(event["code"] == "marker_health");
  CHECK(event["level"] == "warning");
  CHECK(event["text"] ==
        "markers 3, 5, 6, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18: fit failed; marker 7: outlier");
  REQUIRE(event["markers"].size() == 15);
  CHECK(event["markers"][0] == json({{"id", 3}, {"health", "fit_failed"}}));
  CHECK(event["markers"][3] == json({{"id", 7}, {"health", "outlier"}}));
  CHECK_FALSE(event.contains("id"));
  CHECK(told_of(good, good).is_null());
}

TEST_CASE("markers that are good again are told of as no warning") {
  const json event = told_of({MarkerHealth::Outlier, MarkerHealth::Implausible, MarkerHealth::Good},
                             {MarkerHealth::Good, MarkerHealth::Good, MarkerHealth::Good});
  CHECK(event["level"] == "info");
  CHECK(event["text"] == "markers 3, 4: good");
}

TEST_CASE("one marker whose health changed is named by fields of the event itself, too") {
  const json event = told_of({MarkerHealth::Good, MarkerHealth::Good},
                             {MarkerHealth::Good, MarkerHealth::Outlier});
  CHECK(event["text"] == "marker 4: outlier");
  CHECK(event["id"] == 4);
  CHECK(event["health"] == "outlier");
  CHECK(event["markers"] == json::parse(R"([{"id": 4, "health": "outlier"}])"));
}

TEST_CASE("every change of markers' health is told, however many there are in a second") {
  Fixture f;
  time_ns = 3'000 * kMs;
  f.raise("marker_health", 1, 35);
  CHECK(f.numbers("marker_health") == range(1, 35));
}
