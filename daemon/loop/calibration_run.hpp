// SPDX-License-Identifier: MIT
// One calibration in the tracking loop: tells with each frame where the stage is to go, records how
// the sample moved, and takes the stage back to its start, whatever ends the calibration.
// Housekeeping makes it and gets it back when it is over. Tracking loop; noexcept; no allocation
// after construction.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "control/identification/stage_excitation.hpp"
#include "control/identification/stage_record.hpp"
#include "control/lock/supervisor.hpp"
#include "control/values/types.hpp"

namespace driftd::daemon {

enum class CalibrationPhase : std::uint8_t { Quiet, Moving, Returning, Over };

/// Why the stage went back to its start.
enum class CalibrationEnd : std::uint8_t {
  Complete,
  Stopped,        ///< by command
  Unlocked,       ///< by command: the stage stays where it was
  MarkersLost,    ///< no drift, or stale frames, for too many frames in a row
  TooOld,         ///< frames came too old, too many in a row
  MovedTooFar,    ///< the sample did, for what the stage was told
  SampleMoved,    ///< it did while the stage rested
  TooManyFrames,  ///< more than the record has room for: the camera became faster
  NotSent,        ///< corrections do not leave in time
  StageReports,   ///< its driver does: error, limit or silence
  NoFrames,
  NoRoom,   ///< range or travel limit
  NotBack,  ///< the stage could not be brought back: corrections did not leave
  Fault,    ///< the daemon's
};

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

class CalibrationRun {
 public:
  CalibrationRun(const control::StageExcitation& excitation, const CalibrationSettings& settings);

  // Tracking loop.
  /// Where the stage is to be told to go with this frame.
  control::Vec2 wanted_nm(std::int64_t now_ns) noexcept;
  /// What became of a frame that wanted_nm() was asked for.
  void saw(const control::FrameFacts& facts, const control::Decision& decision) noexcept;
  /// How far each marker of that frame lies from the others, and the drift by those that were used.
  void saw_markers(std::span<const control::MarkerResult> results,
                   const control::DriftEstimate& drift) noexcept;
  void without_frame(std::int64_t now_ns) noexcept;
  /// What was told after `sent_ns` never left; `total_nm` was the last that did.
  void take_back(control::Vec2 total_nm, std::int64_t sent_ns) noexcept;
  /// The last move left only then.
  void left_at(std::int64_t sent_ns) noexcept;
  /// Sends the stage back to its start.
  void stop(CalibrationEnd why) noexcept;
  /// Leaves the stage where it is: nothing more may leave.
  void abandon(CalibrationEnd why) noexcept;
  bool over() const noexcept { return phase_ == CalibrationPhase::Over; }

  // Anyone who has it.
  CalibrationPhase phase() const noexcept { return phase_; }
  CalibrationEnd end() const noexcept { return end_; }
  /// 0 to 1.
  double progress() const noexcept;
  const CalibrationSettings& settings() const noexcept { return settings_; }
  const control::StageRecord& record() const noexcept { return record_; }
  /// How long the calibration took, and where it left the stage.
  double seconds() const noexcept { return 1e-9 * static_cast<double>(now_ns_ - begun_ns_); }
  control::Vec2 left_at_nm() const noexcept { return total_nm_; }
  /// The sample's farthest place from its start.
  double farthest_nm() const noexcept { return farthest_nm_; }
  control::StageSays stage_says() const noexcept { return stage_says_; }
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

  void record_sample(const control::FrameFacts& facts) noexcept;
  double allowed_nm() const noexcept;
  bool is_too_far(const control::FrameFacts& facts) noexcept;
  void judge(const control::FrameFacts& facts, const control::Decision& decision) noexcept;

  CalibrationSettings settings_;
  control::StageExcitation excitation_;
  control::StageRecord record_;
  CalibrationPhase phase_ = CalibrationPhase::Quiet;
  CalibrationEnd end_ = CalibrationEnd::Complete;
  std::int64_t begun_ns_ = 0;
  double nearest_nm_ = 0;           ///< on the way back: to the start, of what has left
  std::int64_t progress_ns_ = 0;    ///< when the stage was last told to come nearer
  std::int64_t back_since_ns_ = 0;  ///< 0: not yet
  std::int64_t now_ns_ = 0;
  int bad_frames_ = 0;
  int far_frames_ = 0;  ///< in a row, with the sample too far away
  control::Vec2 total_nm_;
  double farthest_nm_ = 0;
  control::StageSays stage_says_ = control::StageSays::Nothing;
  double late_moves_ = 0, fresh_frames_ = 0;  ///< counts
  std::int64_t longest_ns_ = 0;               ///< that a move left late by
  std::array<MarkerCourse, control::kMaxMarkers> courses_{};
  double markers_used_ = 0, frames_used_ = 0;  ///< sums
};

}  // namespace driftd::daemon
