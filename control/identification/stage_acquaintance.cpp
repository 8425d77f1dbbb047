// SPDX-License-Identifier: MIT
#include "control/identification/stage_acquaintance.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "control/identification/command_waiting.hpp"
#include "control/identification/gain_course.hpp"
#include "control/identification/record_fit.hpp"

namespace driftd::control {
namespace {

constexpr std::size_t kFewestInGlimpse = 30, kFewestInRecord = 60;
/// The noise model remembers so long: vibrations of 10 Hz on are told apart.
constexpr double kNoiseMemoryS = 0.15;
constexpr std::size_t kQuietOrder = 12;  ///< of the noise model from the quiet part alone
/// Longer than any record: one stretch.
constexpr double kAllS = 100;
/// From this period on a search at one lag may miss the valley that is the deepest.
constexpr double kSlowFramesS = 0.004;
/// The described response is kept unless another one lowers chi square by so much.
constexpr double kEvidence = 18;
/// What the fit leaves over the noise of the quiet part, in mean squares, where it explains the
/// record; and which part of it a dead time may be. A few commands of a driver that takes one now
/// and then are explained by anything.
constexpr double kExplained = 2, kMostDelayShare = 0.2;
/// Commands wait for the driver where so much of the response's width surely is that, and it is
/// so many frames.
constexpr double kLeastWaiting = 0.15, kSureSd = 2, kFewestFrames = 3;
/// The described matrix is kept where no element differs by so many standard deviations.
constexpr double kSameSd = 2;

/// The described stage's response, as the fit has it.
ResponseShape shape_of(const StageModelSettings& described) {
  ResponseShape shape = response_of(described);
  shape.delay_s = 1e-6 * std::max(0.0, described.delay_us);
  if (shape.order == 1) shape.time_constant_s = std::max(shape.time_constant_s, 1e-6);
  return shape;
}

SeenGain gain_of(const ResponseFit& fit, const ImageToStage& m, std::size_t axes) {
  const auto& g = fit.linear;
  const double excess =
      std::max(1.0, fit.chi_square / static_cast<double>(std::max<std::size_t>(1, fit.equations)));
  if (axes == 1) {
    const std::size_t x = fit.index_of(0, 0);
    return {.xx = m.a * g[0][0],
            .xx_sd = std::abs(m.a) * std::sqrt(excess * std::max(0.0, fit.covariance_of(x, x)))};
  }
  SeenGain seen{.xx = m.a * g[0][0] + m.b * g[1][0],
                .xy = m.a * g[0][1] + m.b * g[1][1],
                .yx = m.c * g[0][0] + m.d * g[1][0],
                .yy = m.c * g[0][1] + m.d * g[1][1]};
  const auto sd = [&](double of_x, double of_y, std::size_t command) {
    const std::size_t x = fit.index_of(0, command), y = fit.index_of(1, command);
    const double variance = of_x * of_x * fit.covariance_of(x, x) +
                            2 * of_x * of_y * fit.covariance_of(x, y) +
                            of_y * of_y * fit.covariance_of(y, y);
    return std::sqrt(excess * std::max(0.0, variance));
  };
  seen.xx_sd = sd(m.a, m.b, 0);
  seen.xy_sd = sd(m.a, m.b, 1);
  seen.yx_sd = sd(m.c, m.d, 0);
  seen.yy_sd = sd(m.c, m.d, 1);
  return seen;
}

bool is_finite(const SeenGain& g) {
  return std::isfinite(g.xx + g.xy + g.yx + g.yy + g.xx_sd + g.xy_sd + g.yx_sd + g.yy_sd);
}

bool is_same(const SeenGain& g) {
  return std::abs(g.xx - 1) <= kSameSd * g.xx_sd && std::abs(g.xy) <= kSameSd * g.xy_sd &&
         std::abs(g.yx) <= kSameSd * g.yx_sd && std::abs(g.yy - 1) <= kSameSd * g.yy_sd;
}

/// By the noise of the quiet part.
ResponseFit first_fit(FitData& data) {
  const std::size_t order = std::clamp<std::size_t>(data.begin / 10, 1, kQuietOrder);
  mark_history(data.slots, order);
  fit_noise(data, data.moved_nm, order, 0, data.begin);
  const ResponseShape found = search_shape(data, kAllS);
  const bool slow = data.slots.period_s > kSlowFramesS;
  return fit_response(data, fit_from_several(data, found, slow).front().shape, kFitRounds);
}

/// By the described response, where that explains the record about as well; its errors are those of
/// the one that was found.
std::optional<ResponseFit> by_description(const FitData& data, const ResponseFit& found,
                                          const StageModelSettings& described) {
  ResponseFit kept = fit_gains(data, shape_of(described));
  if (!kept.converged || kept.chi_square > found.chi_square + kEvidence) return std::nullopt;
  kept.covariance = found.covariance;
  kept.unknowns = found.unknowns;
  kept.shape.order = found.shape.order;  // whose unknowns the covariance has
  return kept;
}

void describe(const ResponseShape& shape, StageModelSettings& stage) {
  stage.delay_us = 1e6 * std::max(0.0, shape.delay_s);
  if (shape.order == 1) {
    stage.time_constant_us = 1e6 * shape.time_constant_s;
    stage.resonance_hz = 0;
  } else {
    stage.resonance_hz = shape.frequency_hz;
    stage.damping = shape.damping;
  }
}

StageFinding finding_of(const ResponseFit& fit, const FitData& data,
                        const StageModelSettings& described) {
  StageFinding finding;
  if (!fit.converged) return finding;
  finding.stage = described;
  finding.gain = gain_of(fit, described.image_to_stage, data.axes);
  finding.noise_nm = data.noise[0].sd();
  if (data.axes > 1) finding.noise_nm = std::max(finding.noise_nm, data.noise[1].sd());
  finding.delay_sd_us = 1e6 * std::sqrt(std::max(0.0, fit.covariance_of(0, 0)));
  finding.known = is_finite(finding.gain);
  return finding;
}

/// Corrections a second that the driver takes; 0: all, as far as is seen.
/// @param slots  before frames were left out that the fit does not explain: they show it best
double driver_hz(FitData data, const FrameSlots& slots, const ResponseFit& fit) {
  data.slots = slots;
  const SeenWaiting waiting = see_waiting(data, fit);
  const bool waits = waiting.share - kSureSd * waiting.share_sd > kLeastWaiting &&
                     waiting.period_s > kFewestFrames * data.slots.period_s;
  return waits ? 1 / waiting.period_s : 0;
}

}  // namespace

ImageToStage SeenGain::corrected(const ImageToStage& m) const noexcept {
  const double det = xx * yy - xy * yx;
  return {(yy * m.a - xy * m.c) / det, (yy * m.b - xy * m.d) / det, (xx * m.c - yx * m.a) / det,
          (xx * m.d - yx * m.b) / det};
}

double SeenGain::sd() const noexcept {
  return std::max({xx_sd, xy_sd, yx_sd, yy_sd});
}

StageFinding glimpse_stage(const StageRecord& record, const StageModelSettings& described) {
  PreparedRecord prepared = prepare(record, kFewestInGlimpse);
  if (prepared.verdict.refusal != StageRefusal::None) return {};
  const ResponseFit fit = first_fit(prepared.data);
  if (!fit.converged) return {};
  const FitData& data = prepared.data;
  StageFinding finding = finding_of(fit, data, described);
  finding.explained = fit.chi_square < kExplained * static_cast<double>(fit.equations) &&
                      fit.shape.delay_s < kMostDelayShare * (data.end_s - data.begin_s);
  if (const auto kept = by_description(data, fit, described))
    finding.as_described = gain_of(*kept, described.image_to_stage, data.axes);
  return finding;
}

StageFinding find_stage(const StageRecord& record, const StageModelSettings& described) {
  PreparedRecord prepared = prepare(record, kFewestInRecord);
  if (prepared.verdict.refusal != StageRefusal::None) return {};
  const FrameSlots slots = prepared.data.slots;
  ResponseFit fit = first_fit(prepared.data);
  if (!fit.converged) return {};
  const bool slow = prepared.data.slots.period_s > kSlowFramesS;
  const auto order =
      std::max(kNoiseOrder, static_cast<std::size_t>(kNoiseMemoryS / prepared.data.slots.period_s));
  fit = with_simplest_order(prepared.data, settle(prepared, std::move(fit), slow, order).fit);
  const auto kept = by_description(prepared.data, fit, described);
  StageFinding finding = finding_of(kept ? *kept : fit, prepared.data, described);
  if (!finding.known) return finding;
  finding.other_response = !kept;
  finding.driver_hz = driver_hz(prepared.data, slots, fit);
  if (!kept) describe(fit.shape, finding.stage);
  finding.other_matrix = !is_same(finding.gain);
  if (finding.other_matrix)
    finding.stage.image_to_stage = finding.gain.corrected(described.image_to_stage);
  return finding;
}

}  // namespace driftd::control
