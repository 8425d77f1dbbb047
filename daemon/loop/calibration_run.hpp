// SPDX-License-Identifier: MIT
// The calibration of the stage of x and y: records how the sample moved. As StageRun.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "control/identification/stage_excitation.hpp"
#include "control/identification/stage_record.hpp"
#include "control/values/types.hpp"
#include "daemon/loop/stage_run.hpp"

namespace driftd::daemon {

struct CalibrationSettings {
  double excursion_nm;  ///< largest |total| that the excitation asks for
  double most_moved;    ///< a sample moves too far when it moves so many times as far as the stage
  double most_drift_nm_per_s;  ///< ... beside its drift
  int bad_frames_to_end;       ///< in a row
  std::int64_t exposure_ns;
  std::int64_t frame_period_ns;
};

/// What a busy computer did to a record.
struct CalibrationStrain {
  double late_share = 0;  ///< of the moves: they left late, or never
  double longest_s = 0;   ///< by so much, of those that left
  double lost_share = 0;  ///< of the frames that were due: they came too old, or not at all
};

class CalibrationRun final : public StageRun {
 public:
  CalibrationRun(const control::StageExcitation& excitation, const CalibrationSettings& settings);

  // Tracking loop.
  void saw_markers(std::span<const control::MarkerResult> results,
                   const control::DriftEstimate& drift) noexcept override;
  void left_at(std::int64_t sent_ns) noexcept override;

  // Anyone who has it.
  const CalibrationSettings& settings() const noexcept { return settings_; }
  const control::StageRecord& record() const noexcept { return record_; }
  /// The sample's farthest place from its start.
  double farthest_nm() const noexcept { return farthest_nm_; }
  CalibrationStrain strain() const noexcept;
  /// Noise of a marker against the others, nm per axis (rms of both); not a number: unknown.
  double marker_noise_nm(std::size_t marker) const noexcept;
  /// Standard deviation of each element of the gain with which the markers together show a motion.
  /// Each marker lies on pixels of its own, whose gains differ: it shows the motion a little
  /// larger, smaller or turned, and how far markers differ in that tells how far their mean may be
  /// wrong. 0 where fewer than three markers were seen throughout.
  double image_gain_sd() const noexcept;

 private:
  struct MarkerCourse {
    // The differences from frame to frame, which drift hardly enters.
    control::Vec2 last_nm;
    bool has_last = false;
    double sum_nm2 = 0;
    std::uint32_t differences = 0;
    // Regression of the residual r on the drift d.
    double frames = 0;
    control::Vec2 d, rx_d, ry_d;  ///< sums
    double rx = 0, ry = 0, dx_dx = 0, dx_dy = 0, dy_dy = 0;
  };

  std::optional<control::Vec2> next_nm(std::int64_t now_ns) noexcept override;
  void see(const control::FrameFacts& facts) noexcept override;
  bool told(std::int64_t now_ns, control::Vec2 total_nm) noexcept override;
  void untold(std::int64_t sent_ns) noexcept override;
  bool is_good(control::LockEvent verdict) const noexcept override {
    return verdict == control::LockEvent::GoodFrame;
  }
  std::optional<CalibrationEnd> what_ends_it(const control::FrameFacts& facts) noexcept override;
  double share_done() const noexcept override;
  double allowed_nm() const noexcept;
  bool is_too_far(const control::FrameFacts& facts) noexcept;

  CalibrationSettings settings_;
  control::StageExcitation excitation_;
  control::StageRecord record_;
  int far_frames_ = 0;  ///< in a row, with the sample too far away
  double farthest_nm_ = 0;
  double late_moves_ = 0, fresh_frames_ = 0;  ///< counts
  std::int64_t longest_ns_ = 0;               ///< that a move left late by
  std::array<MarkerCourse, control::kMaxMarkers> courses_{};
  double markers_used_ = 0, frames_used_ = 0;  ///< sums
};

}  // namespace driftd::daemon
