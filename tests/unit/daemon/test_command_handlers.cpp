// SPDX-License-Identifier: MIT
// Which part of housekeeping each command reaches, and what is refused before it reaches any.
#include <string>

#include "daemon/command_handlers.hpp"
#include "housekeeping_for_tests.hpp"
#include "support/catch.hpp"

using namespace driftd;
using namespace driftd::daemon;
using driftd::daemon::test::Asker;
using driftd::daemon::test::PlayedCamera;
using driftd::daemon::test::PlayedLoop;
using driftd::daemon::test::refused_at_once;
using driftd::daemon::test::Told;
using Kind = LoopCommand::Kind;
using nlohmann::json;

namespace {

struct Fixture {
  config::Config config = config::default_config();
  ChosenFitter fitter{.fitter = fitter::make_cpu_live_fitter(13, 16, {}),
                      .reason = {},
                      .estimator_reason = {},
                      .saturation_adu = 65535};
  PlayedLoop played;
  PlayedCamera source;
  Told told;
  CorrectionGate gate;
  LoopControl loop{played.ports};
  CameraWatch camera{config, source, loop, told.log};
  LockOrders orders{{}, gate, loop, [] { return true; }};
  MarkerKeeper keeper{config, fitter, camera, loop, told.log};
  Snapshots snapshots{[] { return 13; }, camera, loop};
  StageChannel stage{config, "session", played.ports, loop, told.log};
  Calibration calibration{
      config, orders, camera, loop, told.log, [] { return true; }, [] { return 0.0; }};
  LockMemory memory{config, "session", camera, loop, stage, told.log, [] { return MarkerSizes{}; }};
  InterruptedLock interrupted{config, memory, camera, loop, stage, told.log, [] { return true; }};
  RecordKeeper record{config, "session", std::make_shared<RecordFeed>(1), source, camera, loop,
                      stage,  told.log};
  CommandHandlers handlers{
      orders,      interrupted, keeper, snapshots,
      calibration, stage,       record, [] { return json{{"state", "holding"}}; }};

  json reply(const json& request) {
    Asker asker;
    handlers.carry_out(request, asker.answer(), 1000);
    return asker.reply().fields;
  }
  std::string refusal(const json& request) {
    return refused_at_once([&] {
      handlers.carry_out(
          request, [](const Outcome&) {}, 1000);
    });
  }
  /// What reaches the loop.
  Kind ordered(const char* command) {
    played.taken.clear();
    handlers.carry_out(
        {{"command", command}, {"id", 3}}, [](const Outcome&) {}, 1000);
    played.turn();
    loop.refresh();
    orders.turn(1001);
    return played.taken.size() == 1 ? played.taken[0].kind : Kind::None;
  }
};

}  // namespace

TEST_CASE("each command reaches the part that does it") {
  Fixture f;
  CHECK(f.reply({{"command", "status"}}) == json({{"status", {{"state", "holding"}}}}));
  CHECK(f.ordered("lock") == Kind::Lock);
  CHECK(f.ordered("unlock") == Kind::Unlock);
  CHECK(f.ordered("reset") == Kind::Reset);
  CHECK_FALSE(f.snapshots.pending());
  CHECK(f.reply({{"command", "snapshot"}}).empty());
  CHECK(f.snapshots.pending());
}

TEST_CASE("markers are listed, and looked for when that is asked for") {
  Fixture f;
  f.played.tell_markers(1, std::vector<control::Marker>{{.id = 4, .x_px = 20, .y_px = 30}});
  f.loop.refresh();
  for (const json& request :
       {json{{"command", "markers"}}, json{{"command", "markers"}, {"find", false}}}) {
    const json listed = f.reply(request);
    REQUIRE(listed["markers"].size() == 1);
    CHECK(listed["markers"][0]["id"] == 4);
    CHECK_FALSE(f.keeper.find_pending());
  }
  CHECK(f.reply({{"command", "markers"}, {"find", true}}).empty());
  CHECK(f.keeper.find_pending());
}

TEST_CASE("what no command is or has is a bad request, and nothing is done") {
  Fixture f;
  for (const json& request :
       {json{{"command", "shutdown"}}, json{{"command", ""}},
        json{{"command", "lock"}, {"force", true}}, json{{"command", "lock"}, {"resume", 1}},
        json{{"command", "unlock"}, {"find", true}}, json{{"command", "snapshot"}, {"roi", 1}},
        json{{"command", "status"}, {"find", false}}, json{{"command", "markers"}, {"find", 1}},
        json{{"command", "markers"}, {"find", nullptr}},
        json{{"command", "markers"}, {"again", true}}}) {
    INFO(request);
    CHECK(f.refusal(request) == "bad_request");
  }
  CHECK_FALSE(f.orders.pending());
  CHECK_FALSE(f.keeper.find_pending());
  CHECK_FALSE(f.snapshots.pending());
  try {
    f.handlers.carry_out({{"command", "lock"}, {"force", true}}, {}, 0);
    FAIL();
  } catch (const CommandRefused& refused) {
    CHECK(refused.text == "unknown field `force` for command `lock`");
  }
}

TEST_CASE("the refusal of a command repeats the beginning of a name, not all that was sent") {
  Fixture f;
  const std::string most(40, 'a');
  for (const std::string& name : {most, most + "a"}) {
    const std::string told = name == most ? most : most + "...";
    for (const auto& [request, text] :
         {std::pair{json{{"command", name}}, "unknown command `" + told + "`; there"},
          {json{{"command", name}, {name, 1}},
           "unknown field `" + told + "` for command `" + told + "`"}}) {
      try {
        f.handlers.carry_out(request, {}, 0);
        FAIL();
      } catch (const CommandRefused& refused) {
        CHECK(refused.text.starts_with(text));
      }
    }
  }
}

TEST_CASE("to resume where no lock was interrupted is refused, and not to is a lock") {
  Fixture f;
  CHECK(f.refusal({{"command", "lock"}, {"resume", true}}) == "refused");
  f.handlers.carry_out(
      {{"command", "lock"}, {"resume", false}}, [](const Outcome&) {}, 1000);
  f.played.turn();
  REQUIRE(f.played.taken.back().kind == Kind::Lock);
  CHECK_FALSE(f.played.taken.back().resumption);
}
