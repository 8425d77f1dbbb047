// SPDX-License-Identifier: MIT
// Gains of a stage whose commands may change by so much a frame. A command that is only cut off
// there would let a slow stage of second order swing for ever: the farther it is from where it
// should be, the calmer the gains that command it.
//
// Piecewise-linear LQ control (Wredenhagen and Belanger 1994, Automatica 30:403): of gains for
// higher and higher penalties, the liveliest that will ask for no more than the limit from here on.
// To judge by what they ask for at present is not enough: a stage that swings comes by its place
// twice a period, where lively gains ask for little.
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
