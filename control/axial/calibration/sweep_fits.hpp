// SPDX-License-Identifier: MIT
// The markers' mean fits at the places of a sweep, as beads in the planes of a stack, and what the
// places look like. All that it is made of outlives it. Pure; any thread.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <optional>
#include <vector>

#include "control/axial/calibration/axial_calibration.hpp"
#include "control/axial/calibration/sweep_following.hpp"

namespace driftd::control {

/// The mean of the middle half.
double middle(std::vector<double> values);

class SweepFits {
 public:
  SweepFits(const SweepRecord& record, const SweepContext& context, const SweepStage& stage)
      : record_(record), context_(context), stage_(stage), places_(record.plan().places()) {}

  /// The marker's mean over all frames of these places.
  [[nodiscard]] BeadFit fit_at(std::initializer_list<std::size_t> places, std::size_t marker) const;
  /// Its widths in the second half of the time there less those in the first, px; nothing: too few.
  [[nodiscard]] std::optional<Vec2> moved_at(std::size_t place, std::size_t marker) const;
  /// Of each step up and down together: hysteresis and a steady drift cancel.
  [[nodiscard]] ZStackBeads beads_of_steps() const;
  /// The ways up and down, in the order of where the sample was.
  [[nodiscard]] ZStackBeads beads_of_both(const std::vector<double>& drift,
                                          CalibrationSettings& settings) const;
  /// Of the markers' middle half, each less its own mean.
  [[nodiscard]] PlaceLooks looks() const;

 private:
  const SweepRecord& record_;
  const SweepContext& context_;
  const SweepStage& stage_;
  const std::vector<SweepPlace>& places_;
};

}  // namespace driftd::control
