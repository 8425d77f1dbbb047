// SPDX-License-Identifier: MIT
// Gains for a stage whose commands may change by only so much a frame. If commands were merely cut
// off at this limit, a slow stage of second order would swing for ever. Instead the gains become
// calmer the farther the stage is from where it should be.
//
// Piecewise-linear LQ control (Wredenhagen and Belanger 1994, Automatica 30:403): of gains for
// higher and higher penalties it takes the liveliest that will ask for no more than the limit from
// here on. What they ask for at present is not enough to judge by: a stage that swings passes its
// place twice a period, and lively gains ask for little there.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "control/law/observer/disturbance_model.hpp"
#include "control/law/observer/stage_preview.hpp"

namespace driftd::control {

struct GainSet {
  PreviewGains gains;
  ToDo to_do;
};

/// A value without heap.
struct GainSchedule {
  GainSchedule() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): gains are a schedule of one set
  GainSchedule(const PreviewGains& only) { sets[0].gains = only; }

  /// The set to go by: the first that has no more to do than twice the limit, else the last. Its
  /// command may still change by more than the limit.
  /// @param change_limit_nm  of a frame's change of command
  std::size_t set_for(const StageAhead& ahead, double change_limit_nm) const noexcept;

  static constexpr std::size_t kMost = 10;
  std::array<GainSet, kMost> sets{};  ///< calmer and calmer
  std::size_t count = 1;
};

/// Makes schedules of one stage, outside the loop: it takes milliseconds to construct.
class GainScheduler {
 public:
  explicit GainScheduler(const PreviewSettings& settings);
  /// The gains of `preview`, and calmer ones if the stage is slow against the frames and of second
  /// order.
  GainSchedule schedule(const StagePreview& preview, const DisturbanceModel& model) const noexcept;

 private:
  std::vector<StagePreview> calmer_;
};

}  // namespace driftd::control
