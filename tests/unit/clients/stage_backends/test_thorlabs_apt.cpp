// SPDX-License-Identifier: MIT
// Messages by Thorlabs' "Motion Controllers Host-Controller Communications Protocol".
#include <array>
#include <chrono>
#include <thread>

#include "base/monotonic.hpp"
#include "clients/stage/interface/stage.hpp"
#include "support/catch.hpp"
#include "unit/clients/stage_backends/scripted_peer.hpp"

using namespace driftd::stage;
using driftd::stage::test::hex;
using driftd::stage::test::Script;
using driftd::stage::test::ScriptedPeer;
using driftd::stage::test::Step;
using Over = ScriptedPeer::Over;

namespace {

constexpr int kSilentMs = 400;

constexpr const char* kZeroedClosedEnabled = "10040080";

/// A limit that a loaded machine keeps; kSilentMs where the script stays silent.
StageOptions options(const std::string& device, std::vector<std::string> axes,
                     int timeout_ms = 10'000) {
  StageOptions options;
  options.driver = "thorlabs_apt";
  options.device = device;
  options.axes = std::move(axes);
  options.timeout_ms = timeout_ms;
  return options;
}

/// Serial number 44000123, model "BPC303", firmware 3.0.7.
std::string info(const std::string& from) {
  std::string data = hex("7b639f02") + "BPC303" + std::string(2, '\0') + hex("2c00 07000300");
  data.resize(84, '\0');
  return hex("0600 5400 81" + from) + data;
}

Step status(const std::string& at, const std::string& place, const std::string& bits) {
  return {.expect = hex("6006 0100" + at + "01"),
          .answer = hex("6106 0a00 81" + at + "0100 0000" + place + bits)};
}

/// One channel at address `at`, of 20 um (200 times 100 nm).
Script one(const std::string& at, const std::string& bits = kZeroedClosedEnabled,
           const std::string& mode = "02") {
  return {
      {.expect = hex("0500 0100" + at + "01"), .answer = info(at)},
      {.expect = hex("4106 0100" + at + "01"), .answer = hex("4206 01" + mode + "01" + at)},
      {.expect = hex("5006 0100" + at + "01"), .answer = hex("5106 0400 81" + at + "0100 c800")},
      status(at, "ff3f", bits)};
}

/// Targets in one write, behind each the question for its unit's status.
Step moves(const std::vector<std::string>& at, const std::vector<std::string>& counts) {
  std::string bytes;
  for (std::size_t i = 0; i < at.size(); ++i) {
    const auto destination = static_cast<char>(hex(at[i])[0] | '\x80');
    bytes +=
        hex("4606 0400") + destination + hex("01 0100" + counts[i] + "6006 0100" + at[i] + "01");
  }
  return {.expect = bytes};
}

Step alive(const std::string& at) {
  return {.expect = hex("6206 0000" + at + "01")};
}

/// What each address is told at first: no status messages unasked.
Step quiet(const std::string& at) {
  return {.expect = hex("1200 0000" + at + "01")};
}

/// On a loaded machine a sign of life may fall due anywhere.
class Peer : public ScriptedPeer {
 public:
  Peer(Over over, std::vector<Script> scripts)
      : ScriptedPeer(over, std::move(scripts),
                     {alive("21").expect, alive("22").expect, alive("50").expect}) {}
};

Script joined(std::initializer_list<Script> parts) {
  Script script;
  for (const Script& part : parts) script.insert(script.end(), part.begin(), part.end());
  return script;
}

Script rack() {
  return joined({{quiet("21"), quiet("22"), alive("21"), alive("22")}, one("21"), one("22")});
}

}  // namespace

TEST_CASE("Thorlabs: two names of one channel are refused, one channel of two units is not") {
  CHECK_THROWS_WITH(make_stage(options("/dev/none", {"1", "1.0"})),
                    contains("axes '1' and '1.0' are one Thorlabs channel"));
  CHECK_THROWS_WITH(make_stage(options("/dev/none", {"bay2", "bay02"})), contains("are one"));
  CHECK_NOTHROW(make_stage(options("/dev/none", {"1", "bay1"})));
  CHECK_NOTHROW(make_stage(options("/dev/none,/dev/none2", {"1", "1"})));
}

TEST_CASE("APT: connect to two bays asks and changes nothing, by TCP and by a serial line") {
  const Over over = GENERATE(Over::Tcp, Over::Pty);
  Peer peer(over, {rack()});
  const auto stage = make_stage(options(peer.device(), {"bay1", "bay2"}));
  const std::vector<Axis> axes = stage->connect();
  REQUIRE(axes.size() == 2);
  CHECK(axes[0].max_nm == 20'000);
  CHECK(axes[0].resolution_nm == Approx(0.6104).epsilon(1e-3));  // 20 um / 32767
  CHECK(axes[1].closed_loop);
  CHECK(stage->description() ==
        "Thorlabs BPC303, serial number 44000123, firmware 3.0.7, BPC303, serial number 44000123, "
        "firmware 3.0.7");
  CHECK(peer.problem().empty());
}

TEST_CASE("APT: both bays move by one write, and places are signed") {
  Peer peer(Over::Tcp, {joined({rack(),
                                {moves({"21", "22"}, {"ff7f", "0040"}),
                                 {.answer = status("22", "0000", kZeroedClosedEnabled).answer +
                                            status("21", "0000", kZeroedClosedEnabled).answer},
                                 status("21", "ff7f", kZeroedClosedEnabled),
                                 status("22", "feff", kZeroedClosedEnabled)}})});
  const auto stage = make_stage(options(peer.device(), {"bay1", "bay2"}));
  stage->connect();
  CHECK(stage->move_to(std::array{20'000.0, 10'000.3}));
  std::array<double, 2> place{};
  stage->read(place);
  CHECK(place[0] == Approx(20'000.0));
  CHECK(place[1] == Approx(-1.2207).epsilon(1e-3));  // noise below 0, not full travel
  CHECK(peer.problem().empty());
}

TEST_CASE("APT: a bay that stays is sent nothing and asked nothing") {
  Peer peer(Over::Tcp, {joined({rack(),
                                {moves({"22"}, {"0040"}),
                                 {.answer = status("22", "0040", kZeroedClosedEnabled).answer},
                                 moves({"21"}, {"0000"}),
                                 {.answer = status("21", "0000", kZeroedClosedEnabled).answer}}})});
  const auto stage = make_stage(options(peer.device(), {"bay1", "bay2"}));
  stage->connect();
  CHECK(stage->move_to(std::array{kStays, 10'000.3}));
  CHECK(stage->prepare());
  CHECK(stage->move_to(std::array{0.0, kStays}));
  CHECK(stage->prepare());
  CHECK_FALSE(stage->move_to(std::array{kStays, kStays}));
  CHECK(peer.problem().empty());
}

TEST_CASE("APT: two units on lines of their own") {
  Peer x(Over::Tcp, {joined({{quiet("50"), alive("50")}, one("50"), {moves({"50"}, {"0000"})}})});
  Peer y(Over::Tcp, {joined({{quiet("50"), alive("50")}, one("50"), {moves({"50"}, {"ff3f"})}})});
  const auto stage = make_stage(options(x.device() + "," + y.device(), {"1", "1"}));
  CHECK(stage->connect().size() == 2);
  CHECK(stage->move_to(std::array{0.0, 9'999.6}));
  CHECK(x.problem().empty());
  CHECK(y.problem().empty());
}

TEST_CASE("APT: open loop is told, and closed and enabled only when asked") {
  SECTION("not asked") {
    Peer peer(Over::Tcp,
              {joined({{quiet("50"), alive("50")},
                       one("50", "00000080", "01"),
                       {status("50", "0000", "00000080"), status("50", "0000", "00040000"),
                        status("50", "0000", "20040080")}})});
    const auto stage = make_stage(options(peer.device(), {"1"}));
    CHECK_FALSE(stage->connect()[0].closed_loop);
    CHECK_THAT(stage->description(), contains("axis 1 was not zeroed since power-on"));
    const Health open = stage->health();
    CHECK(open.condition == Condition::ServoOff);
    CHECK(open.text == "axis 1 is in open loop, where it ignores targets");
    REQUIRE(open.of_axes.size() == 1);
    CHECK(open.of_axes[0].axis == 0);
    CHECK_THAT(stage->health().text, contains("is not enabled"));
    CHECK(stage->health().condition == Condition::NotReferenced);
    CHECK(peer.problem().empty());
  }
  SECTION("asked") {
    Script script = joined({{quiet("50"), alive("50")}, one("50", kZeroedClosedEnabled, "01")});
    script.insert(script.begin() + 4,
                  {{.expect = hex("1002 0101 50 01  4006 0102 50 01")},
                   {.expect = hex("4106 0100 50 01"), .answer = hex("4206 0102 01 50")}});
    Peer peer(Over::Tcp, {script});
    StageOptions asked = options(peer.device(), {"1"});
    asked.switch_servo_on = true;
    CHECK(make_stage(asked)->connect()[0].closed_loop);
    CHECK(peer.problem().empty());
  }
}

TEST_CASE("APT: errors come unasked, and other messages are passed over") {
  Step told = status("50", "0000", kZeroedClosedEnabled);
  std::string rich = hex("8100 4400 81 50 4606 0a00") + "Bad parameter";
  rich.resize(6 + 68, '\0');
  told.answer = rich + hex("6106 0a00 81 21 0100 0000 0000 00000000") + told.answer;
  Step plain = status("50", "0000", kZeroedClosedEnabled);
  plain.answer = hex("8000 0000 01 50") + plain.answer;
  Peer peer(Over::Tcp, {joined({{quiet("50"), alive("50")},
                                one("50"),
                                {moves({"50"}, {"0000"}),
                                 {.answer = told.answer},
                                 status("50", "0000", kZeroedClosedEnabled),
                                 plain,
                                 status("50", "0000", kZeroedClosedEnabled)}})});
  const auto stage = make_stage(options(peer.device(), {"1"}));
  stage->connect();
  CHECK(stage->move_to(std::array{0.0}));
  CHECK_FALSE(stage->prepare());
  CHECK(stage->prepare());
  const Health error = stage->health();
  CHECK(error.condition == Condition::Error);
  CHECK(error.error == 10);
  CHECK(error.text == "error 10 about message 1606: Bad parameter");
  CHECK(stage->health().error == 0x80);
  CHECK(stage->health().condition == Condition::Ready);
  CHECK(peer.problem().empty());
}

TEST_CASE("APT: a unit in open loop takes no target, and one that is busy gets no other") {
  Peer peer(Over::Tcp, {joined({{quiet("50"), alive("50")},
                                one("50"),
                                {moves({"50"}, {"0000"}),
                                 {.answer = status("50", "0000", "10000080").answer},
                                 moves({"50"}, {"0000"})}})});
  const auto stage = make_stage(options(peer.device(), {"1"}, 4 * kSilentMs));
  stage->connect();
  CHECK(stage->move_to(std::array{0.0}));
  CHECK_FALSE(stage->prepare());
  CHECK(stage->prepare());
  CHECK(stage->move_to(std::array{0.0}));
  CHECK_THROWS_WITH(stage->move_to(std::array{0.0}), contains("no whole answer"));
  CHECK(peer.problem().empty());
}

TEST_CASE("APT: of two units the second is told nothing after a correction's time") {
  Peer x(Over::Tcp, {joined({{quiet("50"), alive("50")}, one("50"), {moves({"50"}, {"0000"})}})});
  Peer y(Over::Tcp, {joined({{quiet("50"), alive("50")}, one("50")})});
  const auto stage = make_stage(options(x.device() + "," + y.device(), {"1", "1"}));
  stage->connect();
  stage->expires_at(driftd::monotonic_ns() - 1);
  CHECK_THROWS_AS(stage->move_to(std::array{0.0, 0.0}), TooLate);
  CHECK(x.problem().empty());
  CHECK(y.problem().empty());
}

TEST_CASE("APT: a sign of life each second, and not more often") {
  ScriptedPeer peer(Over::Tcp, {joined({{quiet("50"), alive("50")},
                                        one("50"),
                                        {status("50", "0000", kZeroedClosedEnabled), alive("50"),
                                         status("50", "0000", kZeroedClosedEnabled)}})});
  const auto stage = make_stage(options(peer.device(), {"1"}));
  const std::int64_t before_ns = driftd::monotonic_ns();
  stage->connect();
  stage->health();
  if (driftd::monotonic_ns() - before_ns > 900'000'000) {
    WARN("the machine is too slow to tell");
    return;
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(1010));
  stage->health();
  CHECK(peer.problem().empty());
}

TEST_CASE("APT: a target beyond the travel is not sent") {
  Peer peer(Over::Tcp, {joined({{quiet("50"), alive("50")},
                                one("50"),
                                {status("50", "0000", kZeroedClosedEnabled)}})});
  const auto stage = make_stage(options(peer.device(), {"1"}));
  stage->connect();
  CHECK_FALSE(stage->move_to(std::array{-1.0}));
  CHECK(stage->health().condition == Condition::Limit);
  CHECK(peer.problem().empty());
}

TEST_CASE("APT: garbage, silence, a farewell, no actuator and a closed line") {
  const auto told = [](const Step& last, std::size_t keep, int timeout_ms = 10'000) {
    Script script = joined({{quiet("50"), alive("50")}, one("50")});
    script.resize(1 + keep);
    script.push_back(last);
    Peer peer(Over::Tcp, {script});
    std::string text;
    try {
      make_stage(options(peer.device(), {"1"}, timeout_ms))->connect();
    } catch (const StageError& error) {
      text = error.what();
    }
    CHECK(peer.problem().empty());
    return text;
  };
  const std::string ask = hex("0500 0100 50 01");
  CHECK_THAT(told({.expect = ask, .answer = "*IDN?\n"}, 1),
             contains("is '*IDN?\\n', expected a message to 0x01"));
  CHECK_THAT(told({.expect = ask, .answer = hex("0600 ffff 81 50")}, 1), contains("expected a"));
  CHECK_THAT(told({.expect = ask, .answer = hex("0600 5400 81 50 00")}, 1, kSilentMs),
             contains("found '\\x00', expected the 84 bytes announced"));
  CHECK_THAT(told({.expect = ask, .answer = hex("0600 0200 81 50 0000")}, 1),
             contains("expected 84 bytes of data"));
  CHECK_THAT(told({.expect = ask}, 1, kSilentMs),
             contains("no whole answer to '\\x05\\x00\\x01\\x00P\\x01'"));
  CHECK_THAT(told({.expect = ask, .answer = hex("0200 0000 01 50")}, 1), contains("disconnects"));
  CHECK_THAT(told({.expect = ask, .answer = hex("0600"), .hang_up = true}, 1),
             contains("closed the line"));
  CHECK_THAT(
      told({.expect = hex("5006 0100 50 01"), .answer = hex("5106 0400 81 50 0100 0000")}, 3),
      contains("is an actuator with its sensor connected?"));
  std::string flood;
  for (int i = 0; i < 70; ++i) flood += hex("6106 0a00 81 21 0100 0000 0000 00000000");
  CHECK_THAT(told({.expect = ask, .answer = flood}, 1), contains("64 other messages"));
}

TEST_CASE("APT: connected again after the line broke") {
  Peer peer(Over::Tcp,
            {joined({{quiet("50"), alive("50")},
                     one("50"),
                     {{.expect = hex("6006 0100 50 01"), .answer = hex("61"), .hang_up = true}}}),
             joined({{quiet("50"), alive("50")}, one("50")})});
  const auto stage = make_stage(options(peer.device(), {"1"}));
  stage->connect();
  CHECK_THROWS_WITH(stage->health(), contains("found 'a' before"));
  CHECK(stage->connect().size() == 1);
  CHECK(peer.problem().empty());
}
