// SPDX-License-Identifier: MIT
// The dialogue by Micro-Manager's PIEZOCONCEPT.cpp and OzoraIso's Piezo_concept_LF2.py.
#include <array>

#include "base/monotonic.hpp"
#include "clients/stage/interface/stage.hpp"
#include "support/catch.hpp"
#include "unit/clients/stage_backends/scripted_peer.hpp"

using namespace driftd::stage;
using driftd::stage::test::kAmpleMs;
using driftd::stage::test::kSilentMs;
using driftd::stage::test::options_of;
using driftd::stage::test::Script;
using driftd::stage::test::ScriptedPeer;
using driftd::stage::test::with;
using Over = ScriptedPeer::Over;

namespace {

StageOptions options(const ScriptedPeer& peer, int timeout_ms = kAmpleMs) {
  return options_of("piezoconcept", peer, {"X", "Y"}, timeout_ms);
}

Script connected() {
  return {{.expect = "VERS_\n", .answer = "Version 3.1.1\n"},
          {.expect = "INFOX\n", .answer = "L,100\n"},
          {.expect = "INFOY\n", .answer = "L,50\r\n"},
          {.expect = "GET_X\n", .answer = "50.000 um\n"},
          {.expect = "GET_Y\n", .answer = "25.000 um\n"}};
}

}  // namespace

TEST_CASE("Piezoconcept: connect asks and never sends _RAZ_, by TCP and by a serial line") {
  const Over over = GENERATE(Over::Tcp, Over::Pty);
  ScriptedPeer peer(over, {connected()});
  const auto stage = make_stage(options(peer));
  const std::vector<Axis> axes = stage->connect();
  REQUIRE(axes.size() == 2);
  CHECK(axes[0].min_nm == 0);
  CHECK(axes[0].max_nm == 100'000);
  CHECK(axes[1].max_nm == 50'000);
  CHECK(axes[0].resolution_nm == Approx(1.526).epsilon(1e-3));  // 100 um / 65535
  CHECK(axes[1].resolution_nm == 1);  // of a thousandth of a um, as it is sent
  CHECK(stage->description() == "Piezoconcept, firmware 3.1.1");
  CHECK(peer.problem().empty());
}

TEST_CASE("Piezoconcept: the answers that a move owes are collected before the next is judged") {
  ScriptedPeer peer(
      Over::Tcp,
      {with(connected(),
            {{.expect = "MOVEX 1.000u\nMOVEY 1.000u\n", .answer = "Ok\nOk\n", .gap_ms = 30},
             {.expect = "MOVEX 2.000u\nMOVEY 2.000u\n", .answer = {}}})});
  const auto stage = make_stage(options(peer));
  stage->connect();
  CHECK(stage->move_to(std::array{1000.0, 1000.0}));
  std::int64_t before_ns = driftd::monotonic_ns();
  stage->prepare();
  CHECK(driftd::monotonic_ns() - before_ns > 90'000'000);  // the answers take 180 ms
  before_ns = driftd::monotonic_ns();
  CHECK(stage->move_to(std::array{2000.0, 2000.0}));
  CHECK(driftd::monotonic_ns() - before_ns < 90'000'000);
  CHECK(peer.problem().empty());
}

TEST_CASE("Piezoconcept: an axis that stays is sent nothing and owes no answer") {
  ScriptedPeer peer(Over::Tcp,
                    {with(connected(), {{.expect = "MOVEY 1.000u\n", .answer = "Ok\n"},
                                        {.expect = "MOVEX 2.000u\n", .answer = "Ok\n"}})});
  const auto stage = make_stage(options(peer));
  stage->connect();
  CHECK(stage->move_to(std::array{kStays, 1000.0}));
  CHECK(stage->prepare());
  CHECK(stage->move_to(std::array{2000.0, kStays}));
  CHECK(stage->prepare());
  CHECK_FALSE(stage->move_to(std::array{kStays, kStays}));
  CHECK(peer.problem().empty());
}

TEST_CASE("Piezoconcept: both axes in one write, both answers before the next command") {
  ScriptedPeer peer(
      Over::Tcp,
      {with(connected(), {{.expect = "MOVEX 50.123u\nMOVEY 0.000u\n", .answer = "Ok\nOk\n"},
                          {.expect = "MOVEX 100.000u\nMOVEY 0.001u\n", .answer = "Ok\r\nOk\r\n"},
                          {.expect = "GET_X\n", .answer = "99.998 \xb5m\n"},
                          {.expect = "GET_Y\n", .answer = "1 nm\n"}})});
  const auto stage = make_stage(options(peer));
  stage->connect();
  CHECK(stage->move_to(std::array{50'123.4, 0.2}));
  CHECK(stage->move_to(std::array{100'000.0, 0.9}));
  std::array<double, 2> place{};
  stage->read(place);
  CHECK(place[0] == Approx(99'998.0));
  CHECK(place[1] == 1);
  CHECK(peer.problem().empty());
}

TEST_CASE("Piezoconcept: an answer other than Ok is told, once; a bad target is not sent") {
  ScriptedPeer peer(Over::Tcp,
                    {with(connected(), {{.expect = "MOVEX 1.000u\nMOVEY 1.000u\n",
                                         .answer = "Ok\nError : out of range\n"},
                                        {.expect = "GET_X\n", .answer = "1.000 um\n"},
                                        {.expect = "GET_X\n", .answer = "1.000 um\n"},
                                        {.expect = "GET_X\n", .answer = "1.000 um\n"}})});
  const auto stage = make_stage(options(peer));
  stage->connect();
  CHECK(stage->move_to(std::array{1000.0, 1000.0}));
  const Health refused = stage->health();
  CHECK(refused.condition == Condition::Error);
  CHECK(refused.text == "move refused: it answered 'Error : out of range', expected 'Ok'");
  CHECK(stage->health().condition == Condition::Ready);
  CHECK_FALSE(stage->prepare());  // told once more, for the target's sake
  CHECK(stage->health().condition == Condition::Error);
  CHECK(stage->prepare());
  CHECK_FALSE(stage->move_to(std::array{1000.0, 50'000.1}));
  const Health limit = stage->health();
  CHECK(limit.condition == Condition::Limit);
  CHECK(limit.text == "axis Y: target 50000.1 nm is outside 0.0 nm to 50000.0 nm");
  CHECK_FALSE(limit.tells_on_target);
  CHECK(peer.problem().empty());
}

TEST_CASE("Piezoconcept: a controller that starts anew at opening is asked again") {
  Script script = connected();
  script.insert(script.begin(), {.expect = "VERS_\n"});
  ScriptedPeer peer(Over::Pty, {script});
  CHECK_NOTHROW(make_stage(options(peer, kSilentMs))->connect());
  CHECK(peer.problem().empty());
}

TEST_CASE("Piezoconcept: one that answers by empty lines is not asked for ever") {
  Script script = connected();
  script[0].answer = "\r\n";
  script.insert(script.begin(), 2, script[0]);
  ScriptedPeer peer(Over::Tcp, {script});
  const auto stage = make_stage(options(peer));
  CHECK(stage->connect().size() == 2);
  CHECK(stage->description() == "Piezoconcept");
  CHECK(peer.problem().empty());
}

TEST_CASE("Piezoconcept: a firmware without INFOX lists its travels by INFOS") {
  ScriptedPeer peer(Over::Tcp,
                    {{{.expect = "VERS_\n", .answer = "Version 2.0\n"},
                      {.expect = "INFOX\n", .answer = "Error\n"},
                      {.expect = "INFOS\n",
                       .answer = "Piezoconcept product : LF2\nSerial : 7\nTravel range X : 100 "
                                 "\xc2\xb5m\nTravel range Y : 200 um\nTravel range Z : 0 um\n"},
                      {.expect = "GET_X\n", .answer = "50.000 um\n"},
                      {.expect = "GET_Y\n", .answer = "25.000 um\n"}}});
  const std::vector<Axis> axes = make_stage(options(peer))->connect();
  REQUIRE(axes.size() == 2);
  CHECK(axes[0].max_nm == 100'000);
  CHECK(axes[1].max_nm == 200'000);
  CHECK(peer.problem().empty());
}

TEST_CASE("Piezoconcept: garbage, silence, an absent axis and a closed line") {
  const auto told = [](const Script& script, int timeout_ms = 10'000) {
    ScriptedPeer peer(Over::Tcp, {script});
    std::string text;
    try {
      make_stage(options(peer, timeout_ms))->connect();
    } catch (const StageError& error) {
      text = error.what();
    }
    CHECK(peer.problem().empty());
    return text;
  };
  Script script = connected();
  script[4].answer = "25.000 m\n";  // a mu that was lost: metres?
  CHECK_THAT(told(script), contains("is '25.000 m', expected NUMBER um, or nm"));
  script[4].answer = "25.0";
  CHECK_THAT(told(script, kSilentMs),
             contains("found '25.0'") && contains("RE_ON switches them on"));
  script[4] = {.expect = "GET_Y\n", .answer = "25", .hang_up = true};
  CHECK_THAT(told(script), contains("the other end closed the line"));
  script = connected();
  script.resize(3);
  script[2].answer = "L,0\n";
  CHECK_THAT(told(script), contains("axis Y has a travel of 0.0 nm"));
  script[2].answer = "L,many\n";
  CHECK_THAT(told(script), contains("is 'L,many', expected L,TRAVEL in um"));
  CHECK_THAT(told({{.expect = "VERS_\n", .answer = "login:\n"}}),
             contains("is 'login:', expected Version NUMBER"));
  // Nothing at all: three times for the version, once for the travel, once for the listing.
  CHECK_THAT(told({{.expect = "VERS_\nVERS_\nVERS_\nINFOX\nINFOS\n"}}, kSilentMs),
             contains("no whole answer to 'INFOS\\n' within 400 ms"));
}

TEST_CASE("Piezoconcept: broken off between the two answers, and connected again") {
  ScriptedPeer peer(
      Over::Tcp,
      {with(connected(),
            {{.expect = "MOVEX 1.000u\nMOVEY 1.000u\n", .answer = "Ok\nO", .hang_up = true}}),
       with(connected(), {{.expect = "MOVEX 2.000u\nMOVEY 2.000u\n", .answer = "Ok\nOk\n"}})});
  const auto stage = make_stage(options(peer));
  stage->connect();
  stage->move_to(std::array{1000.0, 1000.0});
  CHECK_THROWS_AS(stage->move_to(std::array{1500.0, 1500.0}), StageError);
  stage->connect();
  CHECK(stage->move_to(std::array{2000.0, 2000.0}));
  CHECK(stage->health().condition == Condition::Ready);
  CHECK(peer.problem().empty());
}
