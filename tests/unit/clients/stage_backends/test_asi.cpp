// SPDX-License-Identifier: MIT
// The dialogue by ASI's command descriptions with `VB F=0`, and as ASITiger's adapter reads it.
#include <array>

#include "base/monotonic.hpp"
#include "clients/stage/interface/faults.hpp"
#include "clients/stage/interface/stage.hpp"
#include "support/catch.hpp"
#include "unit/clients/stage_backends/scripted_peer.hpp"

using namespace driftd::stage;
using driftd::stage::test::kAmpleMs;
using driftd::stage::test::kSilentMs;
using driftd::stage::test::options_of;
using driftd::stage::test::Script;
using driftd::stage::test::ScriptedPeer;
using driftd::stage::test::Step;
using driftd::stage::test::with;
using Over = ScriptedPeer::Over;

namespace {

/// The controller's order is not the configured one.
StageOptions options(const ScriptedPeer& peer, int timeout_ms = kAmpleMs) {
  return options_of("asi", peer, {"Y", "X"}, timeout_ms);
}

Script connected(const std::string& motor_of_x = ":A 1 \r\n") {
  return {{.expect = "VB F=0\r", .answer = ":A \r\n"},
          {.expect = "VB Z=2\r", .answer = ":A \r\n"},
          {.expect = "V\r", .answer = ":A Version: USB-9.2n \r\n"},
          {.expect = "UM Y?\r", .answer = ":Y=10000.000000 A\r\n"},
          {.expect = "SL Y?\r", .answer = ":A Y=-110.000 \r\n"},
          {.expect = "SU Y?\r", .answer = ":A Y=110.000 \r\n"},
          {.expect = "MC Y?\r", .answer = ":A 1 \r\n"},
          {.expect = "UM X?\r", .answer = ":X=10000.000000 A\r\n"},
          {.expect = "SL X?\r", .answer = ":A X=-50 \r\n"},
          {.expect = "SU X?\r", .answer = ":A X=50.5 \r\n"},
          {.expect = "MC X?\r", .answer = motor_of_x}};
}

}  // namespace

TEST_CASE("ASI: connect sets the syntax of answers and asks, by TCP and by a serial line") {
  const Over over = GENERATE(Over::Tcp, Over::Pty);
  ScriptedPeer peer(over, {connected()});
  const auto stage = make_stage(options(peer));
  const std::vector<Axis> axes = stage->connect();
  REQUIRE(axes.size() == 2);
  CHECK(axes[0].name == "Y");
  CHECK(axes[0].min_nm == -110e6);
  CHECK(axes[1].max_nm == 50.5e6);
  CHECK(axes[1].resolution_nm == Approx(1.0));
  CHECK(axes[1].closed_loop);
  CHECK(stage->description() == "ASI Version: USB-9.2n");
  CHECK(peer.problem().empty());
}

TEST_CASE("ASI: an axis that stays is not named") {
  ScriptedPeer peer(Over::Tcp,
                    {with(connected(), {{.expect = "M X=2.00\r", .answer = ":A \r\n"},
                                        {.expect = "M Y=3.00\r", .answer = ":A \r\n"}})});
  const auto stage = make_stage(options(peer));
  stage->connect();
  CHECK(stage->move_to(std::array{kStays, 200.0}));
  CHECK(stage->move_to(std::array{300.0, kStays}));
  CHECK(stage->prepare());
  CHECK_FALSE(stage->move_to(std::array{kStays, kStays}));
  CHECK(peer.problem().empty());
}

TEST_CASE("ASI: a move is one command; its answer is read before the next command") {
  ScriptedPeer peer(
      Over::Tcp,
      {with(connected(), {{.expect = "M Y=1234.57 X=-0.01\r", .answer = ":A \r\n", .gap_ms = 10},
                          {.expect = "M Y=0.00 X=2.00\r", .answer = ":A\r\n"},
                          {.expect = "W Y\r", .answer = ":A 1234.56 \r\n"},
                          {.expect = "W X\r", .answer = ":A X=-0.1\r\n"}})});
  const auto stage = make_stage(options(peer));
  stage->connect();
  CHECK(stage->move_to(std::array{123'456.7, -1.2}));
  CHECK(stage->move_to(std::array{-0.3, 200.0}));
  std::array<double, 2> place{};
  stage->read(place);
  CHECK(place[0] == Approx(123'456.0));
  CHECK(place[1] == Approx(-10.0));
  CHECK(peer.problem().empty());
}

TEST_CASE("ASI: a refused move is told by the next health, with the code's meaning, once") {
  ScriptedPeer peer(Over::Tcp,
                    {with(connected(), {{.expect = "M Y=1.00 X=9000000.00\r", .answer = ":N-4\r\n"},
                                        {.expect = "M Y=1.00 X=1.00\r", .answer = ":A\r\n"},
                                        {.expect = "/\r", .answer = "B\r\n"},
                                        {.expect = "MC Y?\r", .answer = ":A 1\r\n"},
                                        {.expect = "/\r", .answer = ":A N\r\n"},
                                        {.expect = "MC X?\r", .answer = ":A X=0\r\n"},
                                        {.expect = "/\r", .answer = "N\r\n"},
                                        {.expect = "MC Y?\r", .answer = ":A 1\r\n"}})});
  const auto stage = make_stage(options(peer));
  stage->connect();
  CHECK(stage->move_to(std::array{100.0, 900e6}));
  CHECK(stage->move_to(std::array{100.0, 100.0}));
  const Health limit = stage->health();
  CHECK(limit.condition == Condition::Limit);
  CHECK(limit.error == -4);
  CHECK(limit.text == "move refused, :N-4: a parameter is out of range");
  CHECK(limit.tells_on_target);
  CHECK_FALSE(limit.on_target);
  const Health off = stage->health();
  CHECK(off.condition == Condition::ServoOff);
  CHECK(off.text == "the motor of axis X is off; `switch_servo_on` switches it on when connecting");
  CHECK(health_part(off, 1, 1).text == off.text);
  CHECK(health_part(off, 0, 1).condition == Condition::Ready);
  CHECK(off.on_target);
  CHECK(stage->health().condition == Condition::ServoOff);
  CHECK(peer.problem().empty());
}

TEST_CASE("ASI: the answer that a move owes is collected before the next target is judged") {
  ScriptedPeer peer(
      Over::Tcp,
      {with(connected(), {{.expect = "M Y=1.00 X=1.00\r", .answer = ":A\r\n", .gap_ms = 50},
                          {.expect = "M Y=2.00 X=2.00\r", .answer = ":A\r\n"}})});
  const auto stage = make_stage(options(peer));
  stage->connect();
  stage->prepare();  // nothing is owed
  CHECK(stage->move_to(std::array{100.0, 100.0}));
  std::int64_t before_ns = driftd::monotonic_ns();
  stage->prepare();
  CHECK(driftd::monotonic_ns() - before_ns > 100'000'000);  // the answer takes 200 ms
  before_ns = driftd::monotonic_ns();
  CHECK(stage->move_to(std::array{200.0, 200.0}));
  CHECK(driftd::monotonic_ns() - before_ns < 100'000'000);
  CHECK(peer.problem().empty());
}

TEST_CASE("ASI: a refused move is told before the next target, though health() has told it") {
  ScriptedPeer peer(Over::Tcp,
                    {with(connected(), {{.expect = "M Y=1.00 X=1.00\r", .answer = ":N-4\r\n"},
                                        {.expect = "/\r", .answer = "N\r\n"},
                                        {.expect = "MC Y?\r", .answer = ":A 1\r\n"},
                                        {.expect = "/\r", .answer = "N\r\n"},
                                        {.expect = "MC X?\r", .answer = ":A 1\r\n"}})});
  const auto stage = make_stage(options(peer));
  stage->connect();
  CHECK(stage->prepare());
  CHECK(stage->move_to(std::array{100.0, 100.0}));
  CHECK(stage->health().condition == Condition::Limit);
  CHECK_FALSE(stage->prepare());
  CHECK(stage->prepare());
  CHECK(stage->health().text == "move refused, :N-4: a parameter is out of range");
  CHECK(peer.problem().empty());
}

TEST_CASE("ASI: a code that is no int is refused, and a motor off outranks a refused move") {
  Script script = connected();
  script.push_back({.expect = "M Y=1.00 X=1.00\r", .answer = ":N-5\r\n"});
  script.push_back({.expect = "/\r", .answer = "N\r\n"});
  script.push_back({.expect = "MC Y?\r", .answer = ":A 0\r\n"});
  script.push_back({.expect = "M Y=1.00 X=1.00\r", .answer = ":N-1e300\r\n"});
  script.push_back({.expect = {}});
  ScriptedPeer peer(Over::Tcp, {script});
  const auto stage = make_stage(options(peer));
  stage->connect();
  CHECK(stage->move_to(std::array{100.0, 100.0}));
  const Health off = stage->health();
  CHECK(off.condition == Condition::ServoOff);
  CHECK_THAT(off.text, contains("the operation failed; the motor of axis Y is off; `switch_servo"));
  CHECK(stage->move_to(std::array{100.0, 100.0}));
  CHECK_THROWS_WITH(stage->prepare(), contains("is ':N-1e300', expected :A or :N-CODE"));
  CHECK(peer.problem().empty());
}

TEST_CASE("ASI: a motor is switched on only when asked") {
  Script script = connected(":A 0 \r\n");
  const bool ask = GENERATE(false, true);
  if (ask) {
    script.push_back({.expect = "MC X+\r", .answer = ":A \r\n"});
    script.push_back({.expect = "MC X?\r", .answer = ":A 1 \r\n"});
  }
  ScriptedPeer peer(Over::Tcp, {script});
  StageOptions asked = options(peer);
  asked.switch_servo_on = ask;
  CHECK(make_stage(asked)->connect()[1].closed_loop == ask);
  CHECK(peer.problem().empty());
}

TEST_CASE("ASI: a firmware without VB Z and an axis without a motor are driven") {
  Script script = connected(":N-1\r\n");
  script[1].answer = ":N-2\r\n";
  script.push_back({.expect = "/\r", .answer = "N\r\n"});
  ScriptedPeer peer(Over::Tcp, {script});
  const auto stage = make_stage(options(peer));
  stage->connect();
  CHECK(stage->health().condition == Condition::Ready);
  CHECK(peer.problem().empty());
}

TEST_CASE("ASI: a Tiger left in its other syntax is set back") {
  Script script = connected();
  script.insert(script.begin(), {.expect = "VB F=0\r", .answer = "\r\n"});
  ScriptedPeer peer(Over::Tcp, {script});
  CHECK_NOTHROW(make_stage(options(peer))->connect());
  CHECK(peer.problem().empty());
}

TEST_CASE("ASI: garbage, silence, half an answer and a closed line") {
  const auto told = [](const Step& last, int timeout_ms = 10'000) {
    ScriptedPeer peer(Over::Tcp, {with(connected(), {last})});
    const auto stage = make_stage(options(peer, timeout_ms));
    stage->connect();
    std::string text;
    try {
      std::array<double, 2> place{};
      stage->read(place);
    } catch (const StageError& error) {
      text = error.what();
    }
    CHECK(peer.problem().empty());
    return text;
  };
  const std::string ask = "W Y\r";
  CHECK_THAT(told({.expect = ask, .answer = "\xff\xfe\r\n"}),
             contains("the answer to 'W Y\\r' is '\\xff\\xfe', expected a line that starts with"));
  CHECK_THAT(told({.expect = ask, .answer = ":A Z=1\r\n"}), contains("expected :A Y=NUMBER"));
  CHECK_THAT(told({.expect = ask, .answer = ":A\r\n"}), contains("expected :A Y=NUMBER"));
  CHECK_THAT(told({.expect = ask, .answer = ":N-2\r\n"}), contains(":N-2: unknown axis"));
  CHECK_THAT(told({.expect = ask, .answer = ":A 12"}, kSilentMs),
             contains("within 400 ms: found ':A 12'"));
  CHECK_THAT(told({.expect = ask, .answer = ":A 1", .hang_up = true}), contains("closed the line"));
  CHECK_THAT(told({.expect = ask}, kSilentMs), contains("no whole answer to 'W Y\\r'"));
}

TEST_CASE("ASI: a second connection after one that broke off at a move") {
  ScriptedPeer peer(
      Over::Tcp,
      {with(connected(), {{.expect = "M Y=1.00 X=1.00\r", .answer = {}, .hang_up = true}}),
       with(connected(), {{.expect = "M Y=2.00 X=2.00\r", .answer = ":A\r\n"}})});
  const auto stage = make_stage(options(peer));
  stage->connect();
  stage->move_to(std::array{100.0, 100.0});
  CHECK_THROWS_AS(stage->health(), StageError);
  stage->connect();
  CHECK(stage->move_to(std::array{200.0, 200.0}));
  CHECK(peer.problem().empty());
}
