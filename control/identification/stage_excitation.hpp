// SPDX-License-Identifier: MIT
// Where to send the stage, frame by frame, so that its response shows: first nowhere, while drift
// and noise are measured; then both axes at once, each by a pseudo-random sequence of its own, up,
// down and at rest for times from one frame to a whole traverse, in strokes that grow from a
// seventh to the whole excursion; then back to (0, 0) and a rest. Built anywhere (allocates), then
// owned by the tracking loop; noexcept and without allocation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "control/values/types.hpp"

namespace driftd::control {

/// Values that are not above 0 count as the defaults.
struct StageExcitationSettings {
  double excursion_nm = 100;  ///< farthest from the start, per axis
  double seconds = 20;        ///< the whole run, quiet part and return included; at least 5
  double rate_limit_nm_per_s = 2000;
  double step_limit_nm = 20;
  std::int64_t frame_period_ns = 2'000'000;
};

class StageExcitation {
 public:
  explicit StageExcitation(const StageExcitationSettings& settings = {});

  /// Stage axes, from the place at the start. Once per frame; `elapsed_ns` since the run began.
  Vec2 wanted_nm(std::int64_t elapsed_ns) const noexcept;
  /// No axis is wanted farther out than this until `elapsed_ns`. An image that moves by several
  /// times as much says that the stage moves much farther than it is told.
  double reach_nm(std::int64_t elapsed_ns) const noexcept;
  std::int64_t duration_ns() const noexcept;
  std::int64_t quiet_ns() const noexcept;      ///< nothing is wanted until then
  std::int64_t returning_ns() const noexcept;  ///< from then on back to the start

 private:
  std::size_t frame_at(std::int64_t elapsed_ns) const noexcept;

  std::int64_t period_ns_;
  std::size_t quiet_ = 0, returning_ = 0;  ///< frames
  std::vector<Vec2> wanted_nm_;            ///< a frame each
  std::vector<float> reach_nm_;
};

}  // namespace driftd::control
