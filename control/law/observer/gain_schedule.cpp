// SPDX-License-Identifier: MIT
#include "control/law/observer/gain_schedule.hpp"

namespace driftd::control {
namespace {

/// Penalties of the calmer gains: 0.03 to 500,000.
constexpr double kLeastPenalty = 0.03, kPenaltyStep = 8;
/// Gains may ask for so many times the limit. Commands of a linear-quadratic regulator can be
/// halved without harm (Safonov and Athans 1977, IEEE Trans. Autom. Control 22:173), and the
/// largest change is one that hardly ever comes. 1 leaves 1.06 times the bound between knocks where
/// 2 and 4 leave 1.03, and 2 is calm after 97 ms where 1 needs 136.
constexpr double kCutOff = 2;

}  // namespace

std::size_t GainSchedule::set_for(const StageAhead& ahead, double change_limit_nm) const noexcept {
  const double most_nm = kCutOff * change_limit_nm;
  std::size_t k = 0;
  // What is no number goes on to calmer gains, too.
  while (k + 1 < count && !(sets[k].to_do.length_nm(ahead) <= most_nm)) ++k;
  return k;
}

GainScheduler::GainScheduler(const PreviewSettings& settings) {
  if (settings.response.order != 2 || share_of_a_frame(settings) >= kFastShare) return;
  PreviewSettings calmer = settings;
  calmer.penalty = kLeastPenalty;
  for (std::size_t i = 1; i < GainSchedule::kMost; ++i, calmer.penalty *= kPenaltyStep)
    calmer_.emplace_back(calmer);
}

GainSchedule GainScheduler::schedule(const StagePreview& preview,
                                     const DisturbanceModel& model) const noexcept {
  GainSchedule schedule(preview.gains(model));
  if (calmer_.empty()) return schedule;
  schedule.sets[0].to_do = preview.to_do(model);
  for (const StagePreview& calmer : calmer_)
    if (calmer.settings().penalty > preview.settings().penalty)
      schedule.sets[schedule.count++] = {calmer.gains(model), calmer.to_do(model)};
  return schedule;
}

}  // namespace driftd::control
