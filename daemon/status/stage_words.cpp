// SPDX-License-Identifier: MIT
#include "daemon/status/stage_words.hpp"

#include <spdlog/fmt/fmt.h>

#include <cmath>
#include <numbers>

#include "control/stage/stage_model.hpp"
#include "daemon/wire/number_or_null.hpp"

namespace driftd::daemon {
namespace {

control::StageModelSettings model_of(const config::Stage& told) {
  const auto& m = told.image_to_stage;
  return {.image_to_stage = {m[0][0], m[0][1], m[1][0], m[1][1]},
          .delay_us = told.delay_us,
          .time_constant_us = told.time_constant_us,
          .resonance_hz = told.resonance_hz,
          .damping = told.damping};
}

/// Until a ramp is followed: dead time and what the response adds.
double late_ms(const control::StageModelSettings& stage) {
  const control::ResponseShape shape = control::response_of(stage);
  const double lag_s = shape.order == 1 ? shape.time_constant_s
                                        : shape.damping / (std::numbers::pi * shape.frequency_hz);
  return 1e-3 * stage.delay_us + 1e3 * lag_s;
}

std::string response_in_words(const control::StageModelSettings& found,
                              const control::StageModelSettings& told) {
  std::string text = fmt::format("answers {:.1f} ms late, configured are {:.1f} ms", late_ms(found),
                                 late_ms(told));
  if (found.resonance_hz > 0)
    text += fmt::format(" ({:.1f} ms of dead time, then {:.3g} Hz with a damping of {:.2f})",
                        1e-3 * found.delay_us, found.resonance_hz, found.damping);
  return text;
}

/// How far the axes move for a step that the described matrix says is 1.
std::string matrix_in_words(const control::ImageToStage& found, const control::ImageToStage& told) {
  const control::Vec2 x = told.apply(found.invert({1, 0})), y = told.apply(found.invert({0, 1}));
  std::string text =
      fmt::format("moves {:.2f} (x) and {:.2f} (y) times as far as configured", x.x, y.y);
  constexpr double kToTell = 0.02;
  if (std::abs(x.y) > kToTell || std::abs(y.x) > kToTell)
    text += fmt::format(", and {:.2f} and {:.2f} of it across", x.y, y.x);
  return text;
}

}  // namespace

std::string stage_in_words(const control::StageKnowledge& found, const config::Stage& told,
                           AxisGroup group) {
  const control::StageModelSettings configured = model_of(told);
  std::string text;
  if (found.other_response) text = response_in_words(found.stage, configured);
  if (found.other_matrix)
    text += (text.empty() ? "" : ", and ") +
            (group == AxisGroup::Axial
                 ? fmt::format("moves {:.2f} times as far as configured",
                               configured.image_to_stage.a / found.stage.image_to_stage.a)
                 : matrix_in_words(found.stage.image_to_stage, configured.image_to_stage));
  if (text.empty())
    text = "answers as configured";
  else if (group == AxisGroup::Axial)
    text += ": axial.stage.* tells it so";
  else
    text += ": `driftctl calibrate --write` keeps it";
  if (found.driver_hz > 0)
    text += fmt::format("; its driver takes at most one correction in {:.0f} ms",
                        1e3 / found.driver_hz);
  return "the stage " + text;
}

config::Stage stage_of(const config::Config& config, AxisGroup group) {
  config::Stage stage = config.stage;
  if (group == AxisGroup::Lateral) return stage;
  const config::AxialStage& axial = config.axial_stage;
  stage.image_to_stage = {{{axial.gain, 0}, {0, 1}}};
  stage.delay_us = axial.delay_us;
  stage.time_constant_us = axial.time_constant_us;
  stage.resonance_hz = axial.resonance_hz;
  stage.damping = axial.damping;
  return stage;
}

nlohmann::json acquaintance_json(const LockReport& loop, const config::Stage& told,
                                 AxisGroup group) {
  using control::StageAcquaintance;
  const auto& found = loop.stage_knowledge;
  const bool held = loop.lock.state == control::LockState::Holding;
  std::string text;
  if (loop.acquaintance == StageAcquaintance::UnderWay)
    text = fmt::format("small moves find out how the stage answers, {}",
                       held ? "while the lock is held" : "before the lock corrects");
  else if (found)
    text = stage_in_words(*found, told, group);
  else if (loop.acquaintance == StageAcquaintance::Doubted)
    text =
        fmt::format("the stage does not answer any more as it was found to: {} finds out anew",
                    told.acquaint == control::AcquaintWhen::First ? "the next lock"
                                                                  : "a lock that is held for it");
  else if (loop.acquaintance == StageAcquaintance::NotFound)
    text = fmt::format(
        "how the stage answers was not found out, which takes 44 frames/s that show the markers, "
        "and room for moves of 5 nm within the limits: the lock {}{}",
        held ? "is held, and small moves try again" : "goes by the configuration",
        group == AxisGroup::Axial ? "" : "; `driftctl calibrate --write` measures it");
  nlohmann::json stage;
  if (found) {
    const control::StageModelSettings& s = found->stage;
    const control::ImageToStage& m = s.image_to_stage;
    const bool second = s.resonance_hz > 0;
    stage = {{"image_to_stage", {{m.a, m.b}, {m.c, m.d}}},
             {"delay_us", s.delay_us},
             {"time_constant_us", number_or_null(s.time_constant_us, !second)},
             {"resonance_hz", number_or_null(s.resonance_hz, second)},
             {"damping", number_or_null(s.damping, second)}};
    if (group == AxisGroup::Axial) {
      stage.erase("image_to_stage");
      stage["gain"] = m.a;
    }
  }
  return {{"state", control::name_of(loop.acquaintance)}, {"text", text}, {"stage", stage}};
}

}  // namespace driftd::daemon
