// SPDX-License-Identifier: MIT
// What locks found out of the stage outlives the daemon, for the same camera, description and
// controller; and what is said of it.
#include <cmath>
#include <memory>
#include <string>

#include "base/state_file.hpp"
#include "daemon/resume/sealed_json.hpp"
#include "daemon/resume/stage_memory.hpp"
#include "daemon/status/stage_words.hpp"
#include "housekeeping_for_tests.hpp"
#include "saved_lock_for_tests.hpp"
#include "support/catch.hpp"
#include "turned_until.hpp"

using namespace driftd;
using namespace driftd::daemon;
using namespace driftd::daemon::test;
using control::StageKnowledge;
using Kind = LoopCommand::Kind;

namespace {

StageKnowledge late_stage() {
  return {.stage = {.image_to_stage = {1.25, 0, 0, 1},
                    .delay_us = 9100,
                    .time_constant_us = 1000,
                    .resonance_hz = 60,
                    .damping = 0.4},
          .other_matrix = true,
          .other_response = true,
          .period_s = 0.002,
          .waiting_us = 4000,
          .driver_hz = 55};
}

/// One daemon after another, with the same state directory.
struct Daemons {
  StateFolder folder;
  config::Config config = config::default_config();

  struct Run {
    PlayedLoop played;
    PlayedCamera source;
    Told told;
    LoopControl loop{played.ports};
    CameraWatch camera;
    StageChannel stage;
    StageMemory memory;

    Run(const config::Config& config, const std::string& who)
        : camera(config, source, loop, told.log),
          stage(config, "0000000000000001", played.ports, loop, told.log),
          memory(config, camera, loop, stage, told.log) {
      source.described.description = who;
      source.described.width_px = source.described.height_px = 100;
      camera.look();
      memory.recall();
    }
    void turn() {
      played.turn();
      loop.refresh();
      memory.turn();
    }
    void find(const std::optional<StageKnowledge>& knowledge) {
      played.report.stage_knowledge = knowledge;
      ++played.report.stage_findings;
      played.tell();
      turn();
    }
    const LoopCommand* told_loop() {
      turn();
      turn();
      for (const LoopCommand& command : played.taken)
        if (command.kind == Kind::KnowStage) return &command;
      return nullptr;
    }
    bool ignored() const {
      for (const auto& event : told.events)
        if (event["code"] == "state_ignored") return true;
      return false;
    }
  };
  std::unique_ptr<Run> run;

  Daemons() { start(); }
  void start(const std::string& who = "maker model 7 at 10.0.0.1") {
    run.reset();
    run = std::make_unique<Run>(config, who);
  }
};

}  // namespace

TEST_CASE("the next daemon goes by what a lock found out of the stage") {
  Daemons d;
  CHECK(d.run->told_loop() == nullptr);
  d.run->find(late_stage());
  d.start("maker model 7 at 10.0.0.9");  // its address may change
  const LoopCommand* command = d.run->told_loop();
  REQUIRE(command != nullptr);
  CHECK(control::is_same_stage(command->knowledge.stage, late_stage().stage));
  CHECK(command->knowledge.stage.image_to_stage == late_stage().stage.image_to_stage);
  CHECK(command->knowledge.other_response);
  CHECK(command->knowledge.period_s == late_stage().period_s);
  CHECK(command->knowledge.waiting_us == late_stage().waiting_us);
  CHECK(command->knowledge.driver_hz == late_stage().driver_hz);
  CHECK_FALSE(d.run->ignored());
}

TEST_CASE("what was found of another stage, camera or description is not gone by") {
  Daemons d;
  d.run->find(late_stage());
  SECTION("another camera") {
    d.start("maker model 8 at 10.0.0.1");
  }
  SECTION("another description") {
    d.config.stage.delay_us += 1;
    d.start();
  }
  SECTION("another pixel size") {
    d.config.optics.pixel_size_nm *= 2;
    d.start();
  }
  CHECK(d.run->told_loop() == nullptr);
  CHECK(d.run->ignored());
}

TEST_CASE("what a lock doubts is forgotten") {
  Daemons d;
  d.run->find(late_stage());
  d.run->find(std::nullopt);
  d.start();
  CHECK(d.run->told_loop() == nullptr);
  CHECK_FALSE(d.run->ignored());
}

TEST_CASE("what was found is forgotten when another controller drives the stage") {
  Daemons d;
  Daemons::Run& run = *d.run;
  const auto drive = [&](const char* instance, const char* description, const char* state) {
    static_cast<void>(
        run.stage.take({{"command", "stage"},
                        {"instance", instance},
                        {"driver", "pi_gcs2"},
                        {"description", description},
                        {"max_rate_hz", 0},
                        {"axes", {{{"axis", "x"}, {"name", "1"}}, {{"axis", "y"}, {"name", "2"}}}},
                        {"state", state},
                        {"text", ""}},
                       1));
  };
  const auto forgets = [&] {
    run.turn();
    run.turn();
    for (const LoopCommand& command : run.played.taken)
      if (command.kind == Kind::ForgetStage) return true;
    return false;
  };
  drive("0123456789abcdef", "PI E-727 SN 1", "ready");
  run.find(late_stage());
  CHECK_FALSE(forgets());
  drive("0123456789abcdef", "PI E-727 SN 1", "stopped");
  run.stage.turn(1'000'000'000);
  CHECK_FALSE(forgets());
  drive("fedcba9876543210", "PI E-727 SN 2", "ready");
  run.played.report.lock.state = control::LockState::Locked;
  run.played.tell();
  CHECK_FALSE(forgets());
  run.played.report.lock.state = control::LockState::Idle;
  run.played.tell();
  CHECK(forgets());
  CHECK(run.ignored());
}

TEST_CASE("a file from before drivers' rates were found is read") {
  const Seal seal{"driftd-stage-found", "what was found of a stage"};
  const std::string text = to_text(SavedStageKnowledge{{}, "pi", late_stage()});
  auto body = nlohmann::json::parse(text.substr(text.find('{')));
  REQUIRE(read_stage_knowledge(sealed_json(body, seal)).knowledge.driver_hz == 55);
  body.erase("driver_hz");
  CHECK(read_stage_knowledge(sealed_json(body, seal)).knowledge.driver_hz == 0);
  body["driver_hz"] = -1;
  CHECK_THROWS_AS(read_stage_knowledge(sealed_json(body, seal)), StateError);
}

TEST_CASE("a file that is damaged is said and passed over") {
  const std::string text = to_text(SavedStageKnowledge{{}, "pi", late_stage()});
  CHECK(read_stage_knowledge(text).controller == "pi");
  std::string damaged = text;
  damaged[damaged.find("9100")] = '8';
  CHECK_THROWS_AS(read_stage_knowledge(damaged), StateError);
  StageKnowledge flat = late_stage();
  flat.stage.image_to_stage = {1, 1, 1, 1};
  CHECK_THROWS_AS(read_stage_knowledge(to_text(SavedStageKnowledge{{}, "", flat})), StateError);
  for (const control::ImageToStage& m :
       {control::ImageToStage{1e3, 0, 0, 1e3}, control::ImageToStage{1e200, 0, 0, 1e-200},
        control::ImageToStage{1e-3, 0, 0, 1}, control::ImageToStage{1, 1, 1, 1.01},
        control::ImageToStage{1e300, 1e300, -1e300, 1e300}}) {
    CAPTURE(m.a, m.d);
    StageKnowledge wild = late_stage();
    wild.stage.image_to_stage = m;
    CHECK_THROWS_WITH(read_stage_knowledge(to_text(SavedStageKnowledge{{}, "", wild})),
                      contains("0.1 to 10"));
  }
  StageKnowledge unknown = late_stage();
  unknown.stage.image_to_stage.b = unknown.stage.delay_us = std::nan("");
  CHECK_THROWS_AS(read_stage_knowledge(to_text(SavedStageKnowledge{{}, "", unknown})), StateError);
  StageKnowledge early = late_stage();
  early.stage.delay_us = -1;
  CHECK_THROWS_AS(read_stage_knowledge(to_text(SavedStageKnowledge{{}, "", early})), StateError);
}

TEST_CASE("what becomes of it is told for the lock as it is") {
  using control::StageAcquaintance;
  config::Stage told = config::default_config().stage;
  LoopReport loop;
  const auto text = [&](StageAcquaintance acquaintance, control::LockState state) {
    loop.acquaintance = acquaintance;
    loop.lock.state = state;
    return acquaintance_json(loop, told).at("text").get<std::string>();
  };
  CHECK_THAT(text(StageAcquaintance::UnderWay, control::LockState::Locked),
             contains("before the lock corrects"));
  CHECK_THAT(text(StageAcquaintance::UnderWay, control::LockState::Holding),
             contains("while the lock is held"));
  CHECK_THAT(text(StageAcquaintance::NotFound, control::LockState::Locked),
             contains("the lock goes by the configuration"));
  CHECK_THAT(text(StageAcquaintance::NotFound, control::LockState::Holding),
             contains("the lock is held, and small moves try again"));
  CHECK_THAT(text(StageAcquaintance::Doubted, control::LockState::Idle),
             contains("the next lock finds out anew"));
  told.acquaint = control::AcquaintWhen::Held;
  CHECK_THAT(text(StageAcquaintance::Doubted, control::LockState::Idle),
             contains("a lock that is held for it finds out anew"));
}

TEST_CASE("of the stage of z no command is named that measures x and y") {
  using control::StageAcquaintance;
  config::Config config = config::default_config();
  config.axial_stage.delay_us = 2500;
  const config::Stage told = stage_of(config, AxisGroup::Axial);
  CHECK(told.delay_us == 2500);
  LockReport loop;
  loop.lock.state = control::LockState::Locked;
  const auto text = [&](StageAcquaintance acquaintance) {
    loop.acquaintance = acquaintance;
    return acquaintance_json(loop, told, AxisGroup::Axial).at("text").get<std::string>();
  };
  CHECK_THAT(text(StageAcquaintance::UnderWay), contains("before the lock corrects"));
  CHECK_THAT(text(StageAcquaintance::Doubted), contains("the next lock finds out anew"));
  CHECK_THAT(text(StageAcquaintance::NotFound),
             contains("the lock goes by the configuration") && !contains("calibrate"));
  loop.stage_knowledge = StageKnowledge{.stage = {.image_to_stage = {},
                                                  .delay_us = 9100,
                                                  .time_constant_us = 1000,
                                                  .resonance_hz = 0,
                                                  .damping = 1},
                                        .other_matrix = false,
                                        .other_response = true};
  CHECK_THAT(text(StageAcquaintance::Known),
             contains(": axial.stage.* tells it so") && !contains("calibrate"));
}

TEST_CASE("what was found is told in words beside what is configured") {
  config::Stage told = config::default_config().stage;  // 3 ms and a time constant of 1 ms
  StageKnowledge found{.stage = {.image_to_stage = {},
                                 .delay_us = 9100,
                                 .time_constant_us = 1000,
                                 .resonance_hz = 0,
                                 .damping = 1},
                       .other_matrix = false,
                       .other_response = true};
  CHECK(stage_in_words(found, told) ==
        "the stage answers 10.1 ms late, configured are 4.0 ms: `driftctl calibrate --write` keeps "
        "it");
  found.other_response = false;
  CHECK(stage_in_words(found, told) == "the stage answers as configured");
  found.driver_hz = 50;
  CHECK(stage_in_words(found, told) ==
        "the stage answers as configured; its driver takes at most one correction in 20 ms");
  found.driver_hz = 0;
  found.other_matrix = true;
  found.stage.image_to_stage = {1.25, 0, 0, 1};
  CHECK_THAT(stage_in_words(found, told),
             contains("moves 0.80 (x) and 1.00 (y) times as far as configured:"));
}
