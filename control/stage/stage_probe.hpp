// SPDX-License-Identifier: MIT
// Where to command the stage while the lock is held because the stage does not follow: back to
// where it last followed, then round a small square, one axis at a time, so that the stage monitor
// sees when the stage follows again; of one axis, to and fro. Owned by the supervisor, called in
// the tracking loop; noexcept.
#pragma once

#include <cstddef>
#include <cstdint>

#include "control/values/types.hpp"

namespace driftd::control {

class StageProbe {
 public:
  /// No corner is further than this from the anchor, per axis.
  static constexpr double kLargestNm = 3.5;

  /// @param axes  of the lock: of one, only x is moved
  explicit StageProbe(std::size_t axes = 2) noexcept : axes_(axes) {}
  /// @param anchor_nm  StageVerdict::anchor_nm of the frame that raised the alarm
  void begin(Vec2 anchor_nm) noexcept;
  /// The place to command, as Correction::total_nm, before the limits on step, rate and range. Once
  /// for each frame, good or not.
  /// @param total_nm     commanded last
  /// @param modelled_nm  where the modelled stage is at now_ns
  /// @param sd_nm        StageMonitor::sd_nm(): noisier motion takes larger squares
  Vec2 wanted_nm(Vec2 total_nm, Vec2 modelled_nm, Vec2 sd_nm, std::int64_t now_ns) noexcept;

 private:
  std::size_t axes_;
  Vec2 anchor_nm_, wanted_nm_;
  int corner_ = 0;  ///< 0: the anchor
  int frames_ = 0;  ///< since the modelled stage arrived at this corner
  std::int64_t arrived_ns_ = 0;
  Vec2 last_total_nm_;
};

}  // namespace driftd::control
