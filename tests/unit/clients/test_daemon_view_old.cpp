// SPDX-License-Identifier: MIT
// What a person is shown of what is old, away or strange, and of what there is none.
#include <functional>
#include <string>

#include "clients/common/plain.hpp"
#include "unit/clients/shown_examples.hpp"

using namespace driftd::test;
using driftd::clients::cut;
using driftd::clients::parse_message;
using driftd::clients::parse_plain;
using driftd::clients::plain;

TEST_CASE("Values that do not exist are dashes") {
  DaemonView view;
  json position = driftd::test::protocol_examples().at("position");
  for (auto& [key, value] : position.items()) {
    if (key.ends_with("_nm")) value = nullptr;
  }
  view.update(message("position", position), kNow_ns);
  const std::vector<Line> lines = view.summary(kNow_ns);
  CHECK(contains(line_of(lines, "drift "), "          -          - nm   sd - / -"));
  CHECK(contains(line_of(lines, "latency"), "p50 -"));
}

TEST_CASE("What a daemon, a camera or a marker says stays in its line and steers no terminal") {
  CHECK(plain("a\nb\t\x1b[31mc\x7f d") == "a b  [31mc  d");
  CHECK(plain("20 \xc2\xb5m, \xc2\x9b"
              "2J \xc2") == "20 \xc2\xb5m,   2J  ");
  const std::string hostile = "x\n\x1b[2J\xc2\x9b";
  std::function<void(json&)> spoil = [&](json& value) {
    if (value.is_string()) value = value.get<std::string>() + hostile;
    if (value.is_structured())
      for (json& part : value) spoil(part);
  };
  DaemonView view;
  for (const char* topic : {"status", "position", "correction", "markers", "event"}) {
    json body = driftd::test::protocol_examples().at(topic);
    if (topic == std::string("correction")) body["limited"] = {"step", "rate"};
    spoil(body);
    view.update(*parse_message(topic + (' ' + body.dump())), kNow_ns);
  }
  std::vector<Line> all = view.summary(kNow_ns);
  for (const auto& more : {view.marker_table(20), view.events()})
    all.insert(all.end(), more.begin(), more.end());
  all.push_back({view.one_line(kNow_ns)});
  all.push_back({view.one_line(kNow_ns + 10'000'000'000)});
  CHECK(all.size() > 20);
  for (const Line& line : all) {
    CAPTURE(line.text);
    CHECK(line.text == plain(line.text));
  }
  CHECK(view.state() == plain(view.state()));
}

TEST_CASE("Texts are cut between characters") {
  CHECK(cut("abc", 3) == "abc");
  CHECK(cut("abc", 2) == "ab");
  CHECK(cut("a\u015b", 2) == "a");
  CHECK(cut("a\u015bb", 3) == "a\u015b");
  CHECK(cut("\u20ac", 2).empty());
  CHECK(cut(std::string(100, '\x80'), 68).size() == 65);  // no UTF-8: ends all the same
  json status = driftd::test::protocol_examples().at("status");
  for (const char* key : {"/camera/problem", "/fitter/reason", "/fitter/estimator_reason"}) {
    for (std::size_t before = 50; before < 90; ++before) {
      status[json::json_pointer(key)] = std::string(before, 'a') + "\u015b\u20ac end";
      DaemonView view;
      view.set_status(status, kNow_ns);
      for (const Line& line : view.summary(kNow_ns))
        CHECK_NOTHROW(json(line.text).dump());  // throws where it is not UTF-8
    }
  }
}

TEST_CASE("What is received is plain, however deep, and what is no JSON is discarded") {
  const json sent = {{"error", "a\nb"}, {"list", {"\x1b[2J", 1}}, {"part", {{"t", "c\xc2\x9b"}}}};
  CHECK(parse_plain(sent.dump()) ==
        json({{"error", "a b"}, {"list", {" [2J", 1}}, {"part", {{"t", "c  "}}}}));
  CHECK(parse_plain("{\"error\":").is_discarded());
  const std::string open(300'000, '['), close(300'000, ']');
  CHECK(parse_plain(open + close).dump().size() < 200);  // which the stack would not hold
}

TEST_CASE("Times that no clock has are shown as the least or the most") {
  json status = driftd::test::protocol_examples().at("status");
  const auto up = [&status](double seconds) {
    status["uptime_s"] = seconds;
    DaemonView view;
    view.set_status(status, kNow_ns);
    return view.summary(kNow_ns).front();
  };
  CHECK(contains(up(3661), "up 1:01:01"));
  CHECK(contains(up(1e308), "up 27777777:46:40"));
  CHECK(contains(up(-5), "up 0:00:00"));
}

TEST_CASE("A daemon that fell silent is not shown as locked") {
  const DaemonView view = view_of_examples();
  const std::int64_t later_ns = kNow_ns + 5'000'000'000;
  const Line state = line_of(view.summary(later_ns), "state");
  CHECK(state.tone == Tone::Bad);
  CHECK(contains(state, "unknown: no message for 5 s (last: locked)"));
  CHECK(contains(line_of(view.summary(kNow_ns), "in lock"), "yes"));
  CHECK(line_of(view.summary(later_ns), "in lock").text == "in lock     -");
  CHECK(view.one_line(later_ns) == "no message for 5 s (last state: locked)");
}

TEST_CASE("How long a state lasts is by the daemon's clock, which may be another computer's") {
  json status = driftd::test::protocol_examples().at("status");
  for (const std::int64_t up_s : {100, 4'000'000}) {
    status["time_ns"] = up_s * 1'000'000'000;
    status["state_since_ns"] = (up_s - 61) * 1'000'000'000;
    DaemonView view;
    view.set_status(status, kNow_ns);
    CHECK(contains(line_of(view.summary(kNow_ns + 1'000'000'000), "state"), "locked for 0:01:02"));
  }
}

TEST_CASE("The reason of an older state is not shown beside a newer state") {
  DaemonView view = view_of_examples();
  json event = driftd::test::protocol_examples().at("event");
  event["state"] = "holding";
  view.update(message("event", event), kNow_ns);
  const Line state = line_of(view.summary(kNow_ns), "state");
  CHECK(state.tone == Tone::Warning);
  CHECK(state.text == "state       holding");
}

TEST_CASE("Losses and restarts are shown, and only then") {
  DaemonView view = view_of_examples();
  CHECK(line_of(view.summary(kNow_ns), "received").text.empty());
  Message status = message("status", driftd::test::protocol_examples().at("status"));
  status.restarted = true;
  view.update(status, kNow_ns);
  Message position = message("position", driftd::test::protocol_examples().at("position"));
  position.lost = 7;
  view.update(position, kNow_ns);
  CHECK(contains(line_of(view.summary(kNow_ns), "received"),
                 "7 messages missing, 1 restarts of driftd seen"));
}

TEST_CASE("A camera that is away is said in red") {
  DaemonView view;
  json status = driftd::test::protocol_examples().at("status");
  status["camera"]["connected"] = false;
  view.set_status(status, kNow_ns);
  const Line camera = line_of(view.summary(kNow_ns), "camera");
  CHECK(camera.tone == Tone::Bad);
  CHECK(contains(camera, "not connected"));
}

TEST_CASE("Why there is no camera is said in whole words, and nothing while there is one") {
  DaemonView view;
  json status = driftd::test::protocol_examples().at("status");
  status["camera"]["connected"] = false;
  const std::string unbroken(70, 'x');
  status["camera"]["problem"] =
      "the camera counts its gain in steps of unknown size, so that camera.gain_db 6 has no " +
      unbroken;
  view.set_status(status, kNow_ns);
  std::vector<std::string> said;
  for (const Line& line : view.summary(kNow_ns)) {
    if (line.text.starts_with("            ")) said.push_back(line.text.substr(12));
  }
  REQUIRE(said.size() >= 4);
  CHECK(said[0] == "the camera counts its gain in steps of unknown size, so that");
  CHECK(said[1] == "camera.gain_db 6 has no");
  CHECK(said[2] + said[3] == unbroken);
  CHECK(said[2].size() == 68);
  status["camera"]["problem"] = "";
  view.set_status(status, kNow_ns);
  for (const Line& line : view.summary(kNow_ns)) CHECK_FALSE(contains(line, "steps of unknown"));
}

TEST_CASE("While no frames come, what the last ones said is not shown") {
  DaemonView view = view_of_examples();
  json status = driftd::test::protocol_examples().at("status");
  status["camera"]["rate_hz"] = nullptr;
  for (const char* key : {"x_nm", "y_nm", "x_sd_nm", "y_sd_nm", "rms_x_nm", "rms_y_nm"})
    status["drift"][key] = nullptr;
  status["markers"]["used"] = nullptr;
  view.set_status(status, kNow_ns);
  const std::vector<Line> lines = view.summary(kNow_ns);
  CHECK(contains(line_of(lines, "frames"), "6001   - Hz   lost 0"));
  CHECK(contains(line_of(lines, "drift "), "          -          - nm   sd - / -"));
  CHECK(contains(line_of(lines, "drift rms"), "          -          - nm"));
  CHECK(contains(line_of(lines, "markers"), "- of 13 used, 3 witnesses"));
  CHECK(line_of(lines, "witnesses").text.empty());
  CHECK(contains(line_of(lines, "correction"), "-18.204     +7.770 nm"));
  CHECK(contains({view.one_line(kNow_ns)},
                 "drift        -        - nm  rms      -      - nm  markers -/13  - Hz  p50 41"));
}
