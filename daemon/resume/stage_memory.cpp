// SPDX-License-Identifier: MIT
#include "daemon/resume/stage_memory.hpp"

#include <spdlog/fmt/fmt.h>

#include <exception>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/stretch.hpp"
#include "daemon/resume/lock_saver.hpp"
#include "daemon/resume/sealed_json.hpp"
#include "daemon/setup/compose.hpp"

namespace driftd::daemon {
namespace {

using nlohmann::json;
using Level = EventLog::Level;

constexpr Seal kStageSeal{"driftd-stage-found", "what was found of a stage"};

double number(const json& body, const char* name, double low, double high) {
  const double value = body.at(name).get<double>();
  if (!(value >= low && value <= high))
    throw StateError(fmt::format("`{}` is {:g}: allowed is {:g} to {:g}", name, value, low, high));
  return value;
}

void check_stretch(const control::ImageToStage& m) {
  if (is_of_a_stage(stretch_of(m.a, m.b, m.c, m.d))) return;
  throw StateError(
      fmt::format("its matrix [[{:g}, {:g}], [{:g}, {:g}]] is none of a stage: allowed is {}", m.a,
                  m.b, m.c, m.d, kStretchOfAStage));
}

}  // namespace

std::string to_text(const SavedStageKnowledge& saved) {
  const control::StageModelSettings& s = saved.knowledge.stage;
  const control::ImageToStage& m = s.image_to_stage;
  const json body = {{"meaning", saved.meaning},
                     {"controller", saved.controller},
                     {"image_to_stage", {m.a, m.b, m.c, m.d}},
                     {"delay_us", s.delay_us},
                     {"time_constant_us", s.time_constant_us},
                     {"resonance_hz", s.resonance_hz},
                     {"damping", s.damping},
                     {"period_s", saved.knowledge.period_s},
                     {"waiting_us", saved.knowledge.waiting_us},
                     {"driver_hz", saved.knowledge.driver_hz},
                     {"other_matrix", saved.knowledge.other_matrix},
                     {"other_response", saved.knowledge.other_response}};
  return sealed_json(body, kStageSeal);
}

SavedStageKnowledge read_stage_knowledge(const std::string& text) {
  constexpr double kMostUs = 1e6, kMostHz = 1e4;
  return read_sealed(text, kStageSeal, [](const json& body) {
    const auto m = body.at("image_to_stage").get<std::array<double, 4>>();
    SavedStageKnowledge saved;
    saved.meaning = body.at("meaning").get<std::map<std::string, std::string>>();
    saved.controller = body.at("controller").get<std::string>();
    control::StageModelSettings& s = saved.knowledge.stage;
    s.image_to_stage = {m[0], m[1], m[2], m[3]};
    check_stretch(s.image_to_stage);
    s.delay_us = number(body, "delay_us", 0, kMostUs);
    s.time_constant_us = number(body, "time_constant_us", 0, kMostUs);
    s.resonance_hz = number(body, "resonance_hz", 0, kMostHz);
    s.damping = number(body, "damping", 0.01, 100);
    saved.knowledge.period_s = number(body, "period_s", 0, 1);
    saved.knowledge.waiting_us = number(body, "waiting_us", 0, kMostUs);
    if (body.contains("driver_hz"))  // it was not looked for at first
      saved.knowledge.driver_hz = number(body, "driver_hz", 0, kMostHz);
    saved.knowledge.other_matrix = body.at("other_matrix").get<bool>();
    saved.knowledge.other_response = body.at("other_response").get<bool>();
    return saved;
  });
}

StageMemory::StageMemory(const config::Config& config, CameraWatch& camera, LoopControl& loop,
                         const StageChannel& stage, EventLog& events)
    : config_(config), camera_(camera), loop_(loop), stage_(stage), events_(events) {}

void StageMemory::recall() {
  const std::filesystem::path file = state_file(config_, "stage");
  if (is_recording(config_) || file.empty() ||
      config_.stage.acquaint == control::AcquaintWhen::Never)
    return;
  owner_.emplace(file);
  if (!owner_->is_ours()) return;  // as of the lock's file, of which it is told
  writer_.emplace(file);
  try {
    if (const auto text = read_state(file)) recalled_ = read_stage_knowledge(*text);
  } catch (const std::exception& error) {
    events_.raise(Level::Warning, "state_ignored",
                  fmt::format("what was found of the stage, in {}, is ignored: {}", file.string(),
                              error.what()));
  }
}

/// The camera and what the configuration says of it and of the stage.
std::map<std::string, std::string> StageMemory::meaning() const {
  const std::map<std::string, std::string> all = meaning_of(config_, camera_.info());
  std::map<std::string, std::string> meaning;
  for (const char* key : {"camera", "optics.pixel_size_nm", "stage.image_to_stage"})
    meaning[key] = all.at(key);
  const config::Stage& s = config_.stage;
  meaning["stage"] = fmt::format("delay_us {}, time_constant_us {}, resonance_hz {}, damping {}",
                                 s.delay_us, s.time_constant_us, s.resonance_hz, s.damping);
  return meaning;
}

std::string StageMemory::controller() const {
  const auto& report = stage_.report();
  return report ? report->driver + " " + report->description : "";
}

void StageMemory::turn() {
  forget_other_controllers();
  if (!writer_) return;
  if (loop_.report().stage_findings != seen_) keep();
  if (recalled_) hand_over();
}

/// A driver of another stage has taken over.
void StageMemory::forget_other_controllers() {
  const LoopReport& loop = loop_.report();
  const std::string now = controller();
  if (!loop.stage_knowledge) return found_on_.clear();
  if (found_on_.empty()) found_on_ = now;
  if (now.empty() || now == found_on_ || loop.lock.state == control::LockState::Locked ||
      loop.lock.state == control::LockState::Holding)
    return;
  if (std::exchange(told_other_, now) != now)
    events_.raise(Level::Info, "state_ignored",
                  "what was found of the stage is forgotten: the stage's controller is another one "
                  "now, so the next lock finds out anew");
  LoopCommand command{.kind = LoopCommand::Kind::ForgetStage};
  static_cast<void>(loop_.send(std::move(command)));  // one that has no room is sent the next time
}

void StageMemory::keep() {
  const LoopReport& loop = loop_.report();
  seen_ = loop.stage_findings;
  recalled_.reset();
  if (loop.stage_knowledge)
    writer_->write(to_text(SavedStageKnowledge{meaning(), controller(), *loop.stage_knowledge}));
  else
    writer_->remove();
}

void StageMemory::hand_over() {
  const LoopReport& loop = loop_.report();
  if (loop.lock_id != 0) return recalled_.reset();  // a lock has begun without it
  if (camera_.info().width_px <= 0 || (!recalled_->controller.empty() && controller().empty()))
    return;
  std::string other;
  for (const auto& [key, value] : meaning()) {
    const auto before = recalled_->meaning.find(key);
    if (before == recalled_->meaning.end() || before->second != value) other = key;
  }
  if (controller() != recalled_->controller) other = "the stage's controller";
  if (!other.empty()) {
    events_.raise(Level::Info, "state_ignored",
                  fmt::format("what was found of the stage is ignored: {} is another one now, so "
                              "the next lock finds out anew",
                              other));
    return recalled_.reset();
  }
  LoopCommand command{.kind = LoopCommand::Kind::KnowStage};
  command.knowledge = recalled_->knowledge;
  if (loop_.send(std::move(command))) recalled_.reset();
}

}  // namespace driftd::daemon
