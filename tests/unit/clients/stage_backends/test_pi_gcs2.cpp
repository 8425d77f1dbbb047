// SPDX-License-Identifier: MIT
// The dialogue by PIPython's gcscommands.py and gcsmessages.py; the identification as an E-727
// gives it.
#include <array>
#include <limits>

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

constexpr const char* kIdentity =
    "(c)2015 Physik Instrumente (PI) GmbH & Co. KG, E-727, 0115005005, 13.21.00.09\n";

StageOptions options(const ScriptedPeer& peer, int timeout_ms = kAmpleMs) {
  return options_of("pi_gcs2", peer, {"1", "2"}, timeout_ms);
}

/// Connects to a piezo of 100 um; `servo` as SVO? answers.
Script connected(const std::string& servo = "1=1 \n2=1\n") {
  return {{.expect = "*IDN?\n", .answer = kIdentity},
          {.expect = "CSV?\n", .answer = "2.0\n"},
          {.expect = "SAI?\n", .answer = "1 \n2 \n3\n"},
          {.expect = "PUN? 1 2\n", .answer = "1=um \n2=um\n"},
          {.expect = "SVO? 1 2\n", .answer = servo},
          {.expect = "TMN? 1 2\n", .answer = "1=0.0000 \n2=-5.5\n"},
          {.expect = "TMX? 1 2\n", .answer = "1=100.0000 \n2=+1.05e2\n"},
          {.expect = "ONT? 1 2\n", .answer = "1=1 \n2=1\n"},
          {.expect = "ERR?\n", .answer = "0\n"}};
}

Script without_from(Script script, const std::string& expect) {
  for (std::size_t i = 0; i < script.size(); ++i) {
    if (script[i].expect == expect) script.resize(i);
  }
  return script;
}

}  // namespace

TEST_CASE("PI: connect asks and changes nothing, by TCP and by a serial line") {
  const Over over = GENERATE(Over::Tcp, Over::Pty);
  ScriptedPeer peer(over, {connected()});
  const auto stage = make_stage(options(peer));
  const std::vector<Axis> axes = stage->connect();
  REQUIRE(axes.size() == 2);
  CHECK(axes[0].name == "1");
  CHECK(axes[0].min_nm == 0);
  CHECK(axes[0].max_nm == 100'000);
  CHECK(axes[1].min_nm == -5'500);
  CHECK(axes[1].max_nm == Approx(105'000));
  CHECK(axes[0].resolution_nm == Approx(0.1));
  CHECK(axes[0].closed_loop);
  CHECK(stage->description() == "PI E-727, serial number 0115005005, firmware 13.21.00.09");
  CHECK(peer.problem().empty());
}

TEST_CASE("PI: both axes move by one command, not before the last is dealt with; read in nm") {
  ScriptedPeer peer(
      Over::Tcp,
      {with(connected(), {{.expect = "MOV 1 50.1234 2 -0.0001\nERR?\n"},
                          {.answer = "0\n"},
                          {.expect = "MOV 1 0.0000 2 99.9999\nERR?\n"},
                          {.answer = "0\n"},
                          {.expect = "POS? 1 2\n", .answer = "1=50.12341 \n2=-0.5\n"}})});
  const auto stage = make_stage(options(peer));
  stage->connect();
  CHECK(stage->move_to(std::array{50'123.44, -0.14}));
  CHECK(stage->prepare());
  CHECK(stage->move_to(std::array{-0.04, 99'999.91}));
  std::array<double, 2> place{};
  stage->read(place);
  CHECK(place[0] == Approx(50'123.41));
  CHECK(place[1] == -500);
  CHECK(peer.problem().empty());
}

TEST_CASE("PI: an axis that stays is not named") {
  ScriptedPeer peer(Over::Tcp, {with(connected(), {{.expect = "MOV 2 50.0000\nERR?\n"},
                                                   {.answer = "0\n"},
                                                   {.expect = "MOV 1 1.0000\nERR?\n"},
                                                   {.answer = "0\n"}})});
  const auto stage = make_stage(options(peer));
  stage->connect();
  CHECK(stage->move_to(std::array{kStays, 50'000.0}));
  CHECK(stage->prepare());
  CHECK(stage->move_to(std::array{1000.0, kStays}));
  CHECK(stage->prepare());
  CHECK_FALSE(stage->move_to(std::array{kStays, kStays}));
  CHECK(peer.problem().empty());
}

TEST_CASE("PI: a motor controller counts mm and must be referenced") {
  Script script = without_from(connected(), "PUN? 1 2\n");
  script[0].answer = "(c)2013 Physik Instrumente (PI) GmbH & Co. KG, C-867, 0, 1.0\n";
  script = with(script, {{.expect = "PUN? 1 2\n", .answer = "1=MM \n2=MM\n"},
                         {.expect = "SVO? 1 2\n", .answer = "1=1 \n2=1\n"},
                         {.expect = "FRF? 1 2\n", .answer = "1=1 \n2=0\n"},
                         {.expect = "TMN? 1 2\n", .answer = "1=-12.5 \n2=-12.5\n"},
                         {.expect = "TMX? 1 2\n", .answer = "1=12.5 \n2=12.5\n"},
                         {.expect = "ONT? 1 2\n", .answer = "1=1 \n2=1\n"},
                         {.expect = "ERR?\n", .answer = "0\n"},
                         {.expect = "MOV 1 1.2345679 2 -0.0000010\nERR?\n", .answer = "5\n"},
                         {.expect = "SVO? 1 2\n", .answer = "1=1 \n2=1\n"},
                         {.expect = "FRF? 1 2\n", .answer = "1=1 \n2=0\n"}});
  ScriptedPeer peer(Over::Tcp, {script});
  const auto stage = make_stage(options(peer));
  const std::vector<Axis> axes = stage->connect();
  REQUIRE(axes.size() == 2);
  CHECK(axes[0].min_nm == -12.5e6);
  CHECK(stage->move_to(std::array{1'234'567.89, -1.0}));
  CHECK_FALSE(stage->prepare());
  const Health health = stage->health();
  CHECK(health.condition == Condition::NotReferenced);
  CHECK(health.error == 5);
  CHECK_THAT(health.text, contains("servo off or axis not referenced (axis 2)"));
  CHECK(health_part(health, 0, 1).condition == Condition::Ready);
  CHECK(health_part(health, 1, 1).condition == Condition::NotReferenced);
  CHECK(peer.problem().empty());
}

TEST_CASE("PI: motors whose servo was off, or that refuse a move, are asked for their reference") {
  Script script = without_from(connected(), "PUN? 1 2\n");
  const Step well{.expect = "FRF? 1 2\n", .answer = "1=1 \n2=1\n"};
  const Step lost{.expect = "FRF? 1 2\n", .answer = "1=1 \n2=0\n"};
  const Step on{.expect = "SVO? 1 2\n", .answer = "1=1 \n2=1\n"};
  const Step off{.expect = "SVO? 1 2\n", .answer = "1=1 \n2=0\n"};
  const Step no_error{.expect = "ERR?\n", .answer = "0\n"};
  const Step on_target{.expect = "ONT? 1 2\n", .answer = "1=1 \n2=1\n"};
  script = with(script, {{.expect = "PUN? 1 2\n", .answer = "1=mm \n2=mm\n"},
                         on,
                         well,
                         {.expect = "TMN? 1 2\n", .answer = "1=-12.5 \n2=-12.5\n"},
                         {.expect = "TMX? 1 2\n", .answer = "1=12.5 \n2=12.5\n"},
                         on_target,
                         no_error});
  // Error 5 with its servos on; then referenced, and nothing to ask; then without power for a
  // while.
  script = with(script, {{.expect = "ERR?\n", .answer = "5\n"},
                         on,
                         lost,
                         no_error,
                         on_target,
                         no_error,
                         on,
                         well,
                         no_error,
                         on_target,
                         no_error,
                         on,
                         no_error,
                         on_target,
                         no_error,
                         off,
                         well,
                         no_error,
                         on_target,
                         no_error,
                         on,
                         lost});
  ScriptedPeer peer(Over::Tcp, {script});
  const auto stage = make_stage(options(peer));
  stage->connect();
  CHECK_THAT(stage->health().text, contains("not referenced (axis 2)"));
  CHECK(stage->health().condition == Condition::NotReferenced);
  for (int i = 0; i < 4; ++i) CHECK(stage->health().condition == Condition::Ready);
  CHECK(stage->health().condition == Condition::ServoOff);
  CHECK(stage->health().condition == Condition::ServoOff);
  CHECK(stage->health().condition == Condition::NotReferenced);
  CHECK(peer.problem().empty());
}

TEST_CASE("PI: a controller that does not know PUN? is known by its model") {
  Script script = without_from(connected(), "PUN? 1 2\n");
  script = with(script, {{.expect = "PUN? 1 2\n"}, {.expect = "ERR?\n", .answer = "2\n"}});
  const Script tail = connected();
  script.insert(script.end(), tail.begin() + 4, tail.end());
  ScriptedPeer peer(Over::Tcp, {script});
  const auto stage = make_stage(options(peer, kSilentMs));
  CHECK(stage->connect()[0].max_nm == 100'000);
  CHECK(peer.problem().empty());
}

TEST_CASE("PI: a known question whose answer is late is an error, not an unknown question") {
  Script script = without_from(connected(), "PUN? 1 2\n");
  script = with(script, {{.expect = "PUN? 1 2\n"}, {.expect = "ERR?\n", .answer = "0\n"}});
  ScriptedPeer peer(Over::Tcp, {script});
  const auto stage = make_stage(options(peer, kSilentMs));
  CHECK_THROWS_WITH(stage->connect(), contains("no whole answer to 'PUN? 1 2\\n' within 400 ms"));
  CHECK(peer.problem().empty());
}

TEST_CASE("PI: a servo that is off is told, and switched on only when asked") {
  const std::string half = "1=1 \n2=0\n";
  SECTION("not asked") {
    ScriptedPeer peer(Over::Tcp,
                      {with(connected(half), {{.expect = "ERR?\n", .answer = "0\n"},
                                              {.expect = "ONT? 1 2\n", .answer = "1=1 \n2=0\n"}})});
    const auto stage = make_stage(options(peer));
    CHECK_FALSE(stage->connect()[1].closed_loop);
    const Health health = stage->health();
    CHECK(health.condition == Condition::ServoOff);
    CHECK(health.text ==
          "the servo is off (axis 2); `switch_servo_on` switches it on when connecting");
    CHECK(health_part(health, 0, 1).condition == Condition::Ready);
    CHECK(health_part(health, 1, 1).text == health.text);
    CHECK(health.tells_on_target);
    CHECK_FALSE(health.on_target);
    CHECK(peer.problem().empty());
  }
  SECTION("asked") {
    Script script = without_from(connected(), "TMN? 1 2\n");
    script.back().answer = half;
    script =
        with(script, {{.expect = "SVO 2 1\n"}, {.expect = "SVO? 1 2\n", .answer = "1=1 \n2=1\n"}});
    const Script tail = connected();
    script.insert(script.end(), tail.begin() + 5, tail.end());
    ScriptedPeer peer(Over::Tcp, {script});
    StageOptions asked = options(peer);
    asked.switch_servo_on = true;
    CHECK(make_stage(asked)->connect()[1].closed_loop);
    CHECK(peer.problem().empty());
  }
}

TEST_CASE("PI: a refused move is found before anything else is sent, and told once") {
  const Step zero{.expect = "ERR?\n", .answer = "0\n"};
  const Step servos{.expect = "SVO? 1 2\n", .answer = "1=1 \n2=1\n"};
  const Step on_target{.expect = "ONT? 1 2\n", .answer = "1=1 \n2=1\n"};
  ScriptedPeer peer(
      Over::Tcp, {with(connected(), {{.expect = "MOV 1 200.0000 2 0.0000\nERR?\n", .answer = "7\n"},
                                     servos,
                                     zero,
                                     on_target,
                                     zero,
                                     servos,
                                     {.expect = "ERR?\n", .answer = "1024\n"},
                                     {.expect = "SVO? 1 2\n", .answer = "1=0 \n2=1\n"},
                                     {.expect = "ERR?\n", .answer = "73\n"},
                                     servos,
                                     {.expect = "ERR?\n", .answer = "4711\n"},
                                     servos})});
  const auto stage = make_stage(options(peer));
  stage->connect();
  CHECK(stage->move_to(std::array{200'000.0, 0.0}));
  CHECK_FALSE(stage->prepare());
  CHECK(stage->prepare());
  const Health limit = stage->health();
  CHECK(limit.condition == Condition::Limit);
  CHECK(limit.error == 7);
  CHECK(limit.text == "error 7: move refused: position out of limits");
  CHECK(stage->health().condition == Condition::Ready);
  CHECK(stage->health().text.empty());
  const Health off = stage->health();
  CHECK(off.condition == Condition::ServoOff);
  CHECK(off.text ==
        "error 1024: motion error: the servo switched itself off (axis 1); `switch_servo_on` "
        "switches it on when connecting");
  CHECK(health_part(off, 0, 1).text == off.text);
  CHECK(health_part(off, 0, 1).error == 1024);
  CHECK(health_part(off, 1, 1).condition == Condition::Ready);
  CHECK(stage->health().condition == Condition::Error);
  CHECK_THAT(stage->health().text, contains("error 4711: see the controller's manual"));
  CHECK(peer.problem().empty());
}

TEST_CASE("PI: a servo that switches itself off behind a move is no refusal of it") {
  ScriptedPeer peer(Over::Tcp,
                    {with(connected(), {{.expect = "MOV 1 1.0000\nERR?\n", .answer = "1024\n"},
                                        {.expect = "SVO? 1 2\n", .answer = "1=1 \n2=0\n"}})});
  const auto stage = make_stage(options(peer));
  stage->connect();
  stage->move_to(std::array{1000.0, kStays});
  CHECK(stage->prepare());
  const Health health = stage->health();
  CHECK(health_part(health, 0, 1).condition == Condition::Ready);
  CHECK(health_part(health, 1, 1).condition == Condition::ServoOff);
  CHECK(peer.problem().empty());
}

TEST_CASE("PI: a halt by another program is an error") {
  ScriptedPeer peer(
      Over::Tcp, {with(connected(), {{.expect = "MOV 1 1.0000 2 1.0000\nERR?\n", .answer = "10\n"},
                                     {.expect = "SVO? 1 2\n", .answer = "1=1 \n2=1\n"}})});
  const auto stage = make_stage(options(peer));
  stage->connect();
  stage->move_to(std::array{1000.0, 1000.0});
  CHECK_FALSE(stage->prepare());
  CHECK(stage->health().condition == Condition::Error);
  CHECK(peer.problem().empty());
}

TEST_CASE("PI: another controller, command set, axis or unit is not driven") {
  const auto refused = [](const std::string& question, const std::string& answer) {
    Script script = without_from(connected(), question);
    script.push_back({.expect = question, .answer = answer});
    ScriptedPeer peer(Over::Tcp, {script});
    std::string text;
    try {
      make_stage(options(peer))->connect();
    } catch (const StageError& error) {
      text = error.what();
    }
    CHECK(peer.problem().empty());
    CHECK(text.starts_with(peer.device() + ": "));
    return text;
  };
  CHECK_THAT(refused("*IDN?\n", "SSH-2.0-OpenSSH\n"),
             contains("is 'SSH-2.0-OpenSSH', expected MAKER, MODEL, SERIAL, FIRMWARE"));
  CHECK_THAT(refused("CSV?\n", "3.0\n"), contains("'3.0', expected 2.0"));
  CHECK_THAT(refused("CSV?\n", "1.2\n"), contains("not GCS 1 or 3"));
  CHECK_THAT(refused("SAI?\n", "X \nY\n"), contains("is 'X Y', expected axis 1 among them"));
  CHECK_THAT(refused("PUN? 1 2\n", "1=deg \n2=um\n"), contains("'deg', expected um or mm"));
  CHECK_THAT(refused("TMN? 1 2\n", "2=0 \n1=0\n"), contains("expected 1=NUMBER"));
  CHECK_THAT(refused("TMN? 1 2\n", "1=0\n"), contains("1 lines', expected 2"));
  CHECK_THAT(refused("TMN? 1 2\n", "1=abc \n2=0\n"), contains("'abc', expected a number"));
  CHECK_THAT(refused("ERR?\n", "none\n"), contains("'none', expected the number of an error"));
  CHECK_THAT(refused("ERR?\n", "1e300\n"), contains("'1e300', expected the number of an error"));
}

TEST_CASE("PI: half a command of an earlier program costs one answer, not the connection") {
  Script script = connected();
  script.insert(script.begin(), {.expect = "*IDN?\n"});  // it stood behind "MOV 1 5"
  ScriptedPeer peer(Over::Pty, {script});
  CHECK_NOTHROW(make_stage(options(peer, kSilentMs))->connect());
  CHECK(peer.problem().empty());
}

TEST_CASE("PI: after an error nothing is sent until it is connected again") {
  ScriptedPeer peer(
      Over::Tcp, {with(connected(), {{.expect = "POS? 1 2\n", .answer = "1=50", .hang_up = true}}),
                  with(connected(), {{.expect = "MOV 1 1.0000 2 1.0000\nERR?\n"}})});
  const auto stage = make_stage(options(peer));
  std::array<double, 2> place{};
  CHECK_THROWS_WITH(stage->read(place), contains("not connected"));
  stage->connect();
  CHECK_THROWS_WITH(stage->read(place),
                    contains("closed the line") && contains("found '1=50' before"));
  CHECK_THROWS_AS(stage->move_to(place), StageError);
  stage->connect();
  CHECK(stage->move_to(std::array{1000.0, 1000.0}));
  CHECK(peer.problem().empty());
}

TEST_CASE("PI: a target that is no number is not sent") {
  ScriptedPeer peer(Over::Tcp,
                    {with(connected(), {{.expect = "ERR?\n", .answer = "0\n"},
                                        {.expect = "ONT? 1 2\n", .answer = "1=1 \n2=1\n"}})});
  const auto stage = make_stage(options(peer));
  stage->connect();
  CHECK_FALSE(stage->move_to(std::array{std::numeric_limits<double>::infinity(), 0.0}));
  CHECK(stage->health().condition == Condition::Error);
  CHECK(peer.problem().empty());
}

TEST_CASE("PI: a controller that is busy with a target gets no other") {
  ScriptedPeer peer(Over::Tcp, {with(connected(), {{.expect = "MOV 1 1.0000 2 1.0000\nERR?\n"}})});
  const auto stage = make_stage(options(peer, 4 * kSilentMs));
  stage->connect();
  CHECK(stage->move_to(std::array{1000.0, 1000.0}));
  CHECK_THROWS_WITH(stage->move_to(std::array{2000.0, 1000.0}), contains("no whole answer"));
  CHECK(peer.problem().empty());
}
