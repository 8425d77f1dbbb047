// SPDX-License-Identifier: MIT
// Frames by EPICS motorNPoint's LC400MotorDriver.cpp, addresses by its LC400MemoryAddr.h.
#include <array>

#include "clients/stage/interface/faults.hpp"
#include "clients/stage/interface/stage.hpp"
#include "support/catch.hpp"
#include "unit/clients/stage_backends/scripted_peer.hpp"

using namespace driftd::stage;
using driftd::stage::test::hex;
using driftd::stage::test::kAmpleMs;
using driftd::stage::test::kSilentMs;
using driftd::stage::test::options_of;
using driftd::stage::test::Script;
using driftd::stage::test::ScriptedPeer;
using driftd::stage::test::Step;
using driftd::stage::test::with;
using Over = ScriptedPeer::Over;

namespace {

StageOptions options(const ScriptedPeer& peer, int timeout_ms = kAmpleMs) {
  StageOptions options = options_of("lc400", peer, {"1", "3"}, timeout_ms);
  options.baud = 3'000'000;
  return options;
}

/// A question for the word at `address` (bytes in the order of the line) and its answer.
Step word(const std::string& address, const std::string& value) {
  return {.expect = hex("a0 " + address + " 55"), .answer = hex("a0 " + address + value + "55")};
}

/// Channels 1 to 3 are there, firmware "LC400 1.2"; channel 1 has 100 um, channel 3 has 1 mm.
Script connected(const std::string& servo_of_3 = "01000000") {
  return {word("a0038311", "f8ffffff"), word("28008311", "4c433430"), word("2c008311", "3020312e"),
          word("30008311", "32000000"), word("34008311", "00000000"), word("38008311", "00000000"),
          word("78108311", "64000000"), word("44108311", "00000000"), word("84108311", "01000000"),
          word("78308311", "01000000"), word("44308311", "31000000"),  // '1' in ASCII: mm
          word("84308311", servo_of_3)};
}

Script healthy(const std::string& target_1, const std::string& target_3) {
  return {word("84108311", "01000000"), word("08128311", "00000000"), word("18128311", target_1),
          word("84308311", "01000000"), word("08328311", "00000000"), word("18328311", target_3)};
}

}  // namespace

TEST_CASE("LC400: connect reads what is there, by TCP and by a serial line") {
  const Over over = GENERATE(Over::Tcp, Over::Pty);
  ScriptedPeer peer(over, {connected("00000000")});
  const auto stage = make_stage(options(peer));
  const std::vector<Axis> axes = stage->connect();
  REQUIRE(axes.size() == 2);
  CHECK(axes[0].min_nm == -50'000);
  CHECK(axes[0].max_nm == 50'000);
  CHECK(axes[0].resolution_nm == Approx(0.09537).epsilon(1e-4));  // 100 um / 1048574
  CHECK(axes[0].closed_loop);
  CHECK(axes[1].max_nm == 500'000);
  CHECK_FALSE(axes[1].closed_loop);
  CHECK(stage->description() == "nPoint LC.400, firmware LC400 1.2");
  CHECK(peer.problem().empty());
}

TEST_CASE("LC400: a move is one write for both channels, positions are signed counts") {
  // 10 um of 100: 104857.4 counts; -250 um of 1000: -262143.5, away from 0.
  ScriptedPeer peer(Over::Tcp, {with(connected(), {{.expect = hex("a2 18128311 99990100 55"
                                                                  "a2 18328311 0000fcff 55")},
                                                   word("18328311", "0000fcff"),
                                                   word("34138311", "99990100"),
                                                   word("34338311", "0000fcff")})});
  const auto stage = make_stage(options(peer));
  stage->connect();
  CHECK(stage->move_to(std::array{10'000.0, -250'000.0}));
  std::array<double, 2> place{};
  stage->read(place);
  CHECK(place[0] == Approx(10'000.0).margin(0.05));
  CHECK(place[1] == Approx(-250'000.0).margin(0.5));
  CHECK(peer.problem().empty());
}

TEST_CASE("LC400: a channel that stays is sent nothing, and not asked for its target") {
  ScriptedPeer peer(Over::Tcp, {with(connected(), {{.expect = hex("a2 18128311 99990100 55")},
                                                   word("18128311", "99990100"),
                                                   {.expect = hex("a2 18128311 00000000 55")},
                                                   word("18128311", "00000000"),
                                                   {.expect = hex("a2 18328311 0000fcff 55")},
                                                   word("18328311", "0000fcff")})});
  const auto stage = make_stage(options(peer));
  stage->connect();
  for (const double nm : {10'000.0, 0.0}) {
    CHECK(stage->move_to(std::array{nm, kStays}));
    CHECK(stage->prepare());
  }
  CHECK(stage->move_to(std::array{kStays, -250'000.0}));
  CHECK(stage->prepare());
  CHECK_FALSE(stage->move_to(std::array{kStays, kStays}));
  CHECK(peer.problem().empty());
}

TEST_CASE("LC400: a target beyond the travel is not sent, for nothing there would refuse it") {
  ScriptedPeer peer(Over::Tcp, {with(connected(), healthy("00000000", "00000000"))});
  const auto stage = make_stage(options(peer));
  stage->connect();
  CHECK_FALSE(stage->move_to(std::array{50'010.0, 0.0}));
  const Health health = stage->health();
  CHECK(health.condition == Condition::Limit);
  CHECK(health.text == "axis 1: target 50010.0 nm is outside -50000.0 nm to 50000.0 nm");
  CHECK(peer.problem().empty());
}

TEST_CASE("LC400: a servo is switched on only when asked") {
  Script script = connected("00000000");
  script.push_back({.expect = hex("a2 84308311 01000000 55")});
  script.push_back(word("84308311", "01000000"));
  ScriptedPeer peer(Over::Tcp, {script});
  StageOptions asked = options(peer);
  asked.switch_servo_on = true;
  CHECK(make_stage(asked)->connect()[1].closed_loop);
  CHECK(peer.problem().empty());
}

TEST_CASE("LC400: health sees a servo off, a waveform and a target that did not arrive") {
  Script script = connected();
  script.push_back({.expect = hex("a2 18128311 01000000 55 a2 18328311 02000000 55")});
  script.push_back(word("18328311", "02000000"));
  script = with(script, healthy("01000000", "02000000"));
  Script lost = healthy("01000000", "07000000");
  lost[0] = word("84108311", "00000000");
  lost[4] = word("08328311", "01000000");
  ScriptedPeer peer(Over::Tcp, {with(script, lost)});
  const auto stage = make_stage(options(peer));
  stage->connect();
  CHECK(stage->move_to(std::array{0.1, 2.0}));
  const Health well = stage->health();
  CHECK(well.condition == Condition::Ready);
  CHECK_FALSE(well.tells_on_target);
  const Health ill = stage->health();
  CHECK(ill.condition == Condition::ServoOff);
  CHECK(ill.text ==
        "the servo of channel 1 is off; a waveform moves channel 3; channel 3 has target 6.7 nm, "
        "expected 1.9 nm; `switch_servo_on` switches it on when connecting");
  CHECK(peer.problem().empty());
}

TEST_CASE("LC400: a target that was not kept is told before the next, of either channel") {
  const Step targets{.expect = hex("a2 18128311 01000000 55 a2 18328311 02000000 55")};
  ScriptedPeer peer(Over::Tcp, {with(connected(), {targets,
                                                   word("18328311", "02000000"),
                                                   targets,
                                                   word("18128311", "00000000"),
                                                   targets,
                                                   {.expect = hex("a0 18328311 55")}})});
  const auto stage = make_stage(options(peer, 4 * kSilentMs));
  stage->connect();
  const std::array place{0.1, 2.0};
  CHECK(stage->move_to(place));
  CHECK(stage->prepare());
  CHECK(stage->move_to(place));
  CHECK_FALSE(stage->prepare());
  CHECK(stage->prepare());
  CHECK(stage->move_to(place));
  CHECK_THROWS_WITH(stage->move_to(place), contains("no whole answer"));  // it is busy with one
  CHECK(peer.problem().empty());
}

TEST_CASE("LC400: a waveform on one channel does not hide that the other's servo is off") {
  Script ill = healthy("00000000", "00000000");
  ill[1] = word("08128311", "01000000");
  ill[3] = word("84308311", "00000000");
  ScriptedPeer peer(Over::Tcp, {with(connected(), ill)});
  const auto stage = make_stage(options(peer));
  stage->connect();
  const Health health = stage->health();
  CHECK(health.condition == Condition::ServoOff);
  CHECK_THAT(health.text, contains("a waveform moves channel 1; the servo of channel 3 is off"));
  CHECK(health_part(health, 0, 1).text == "a waveform moves channel 1");
  CHECK(health_part(health, 1, 1).text ==
        "the servo of channel 3 is off; `switch_servo_on` switches it on when connecting");
  CHECK(peer.problem().empty());
}

TEST_CASE("LC400: a target that is another's is told once") {
  Script script = with(connected(), {{.expect = hex("a2 18128311 01000000 55"
                                                    "a2 18328311 02000000 55")},
                                     word("18328311", "02000000")});
  script = with(script, healthy("05000000", "02000000"));  // another program wrote
  script = with(script, healthy("05000000", "02000000"));
  script.push_back({.expect = hex("a2 18128311 01000000 55 a2 18328311 02000000 55")});
  script.push_back(word("18128311", "01000000"));
  Script off = healthy("01000000", "02000000");
  off[0] = word("84108311", "00000000");
  script = with(script, off);
  script = with(script, healthy("00000000", "02000000"));  // the servo is on again, from 0
  ScriptedPeer peer(Over::Tcp, {script});
  const auto stage = make_stage(options(peer));
  stage->connect();
  CHECK(stage->move_to(std::array{0.1, 2.0}));
  CHECK(stage->health().condition == Condition::Error);
  CHECK(stage->health().condition == Condition::Ready);
  CHECK(stage->move_to(std::array{0.1, 2.0}));
  CHECK(stage->health().condition == Condition::ServoOff);
  CHECK(stage->health().condition == Condition::Ready);
  CHECK(peer.problem().empty());
}

TEST_CASE("LC400: answers that make no sense, and none") {
  const auto refused = [](Script script, int timeout_ms = 10'000) {
    ScriptedPeer peer(Over::Tcp, {std::move(script)});
    std::string text;
    try {
      make_stage(options(peer, timeout_ms))->connect();
    } catch (const StageError& error) {
      text = error.what();
    }
    CHECK(peer.problem().empty());
    return text;
  };
  const std::string ask = hex("a0 a0038311 55");
  // Another address, another end, and a channel that is not there.
  CHECK_THAT(refused({{.expect = ask, .answer = hex("a0 a4038311 f8ffffff 55")}}),
             contains("expected \\xa0\\xa0\\x03\\x83\\x11, a word and \\x55"));
  CHECK_THAT(refused({{.expect = ask, .answer = hex("a0 a0038311 f8ffffff 54")}}),
             contains("a word and \\x55"));
  CHECK_THAT(refused({word("a0038311", "fcffffff")}), contains("expected channel 3 among them"));
  Script angle = connected();
  angle.resize(8);
  angle[7] = word("44108311", "02000000");
  CHECK_THAT(refused(angle), contains("is 'unit 2', expected 0 (um) or 1 (mm)"));
  Script nothing = connected();
  nothing.resize(8);
  nothing[6] = word("78108311", "00000000");
  nothing.resize(8);
  CHECK_THAT(refused(nothing), contains("is '0', expected the range of channel 1"));
  // Half a frame twice: it was asked again with nothing left over, and the speed is spoken of.
  const Step half{.expect = ask, .answer = hex("a0 a003")};
  CHECK_THAT(refused({half, half}, kSilentMs), contains("within 400 ms: found '\\xa0\\xa0\\x03'") &&
                                                   contains("3000000 by USB and 230400"));
}

TEST_CASE("LC400: a frame in slow bytes is whole") {
  Script script = connected();
  script[0].gap_ms = 5;
  ScriptedPeer peer(Over::Pty, {script});
  CHECK_NOTHROW(make_stage(options(peer))->connect());
  CHECK(peer.problem().empty());
}

TEST_CASE("LC400: unplugged in the middle, and connected again") {
  Script first = connected();
  first.push_back({.expect = hex("a0 34138311 55"), .answer = hex("a034"), .hang_up = true});
  ScriptedPeer peer(Over::Tcp, {first, connected()});
  const auto stage = make_stage(options(peer));
  stage->connect();
  std::array<double, 2> place{};
  CHECK_THROWS_WITH(stage->read(place), contains("found '\\xa04' before"));
  CHECK(stage->connect().size() == 2);
  CHECK(peer.problem().empty());
}
