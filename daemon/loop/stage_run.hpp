// SPDX-License-Identifier: MIT
// One calibration in the tracking loop: tells with each frame where the stage is to go, and takes
// it back to its start, whatever ends the calibration. What is told and what is recorded is for
// those that derive from it. Housekeeping makes it and gets it back when it is over. Tracking loop;
// noexcept; no allocation after construction.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "control/axial/brightness_curves.hpp"
#include "control/axial/reflection_estimator.hpp"
#include "control/lock/supervisor.hpp"
#include "control/values/types.hpp"

namespace driftd::daemon {

enum class CalibrationPhase : std::uint8_t { Quiet, Moving, Returning, Over };

/// Why the stage went back to its start.
enum class CalibrationEnd : std::uint8_t {
  Complete,
  Stopped,         ///< by command
  Unlocked,        ///< by command: the stage stays where it was
  MarkersLost,     ///< no drift, or stale frames, for too many frames in a row
  TooOld,          ///< frames came too old, too many in a row
  MovedTooFar,     ///< the sample did, for what the stage was told
  SampleMoved,     ///< it did while the stage rested
  TooManyFrames,   ///< more than the record has room for: the camera became faster
  NotSent,         ///< corrections do not leave in time
  StageReports,    ///< its driver does: error, limit or silence
  MarkersChanged,  ///< others took their place
  NoFrames,
  NoRoom,   ///< range or travel limit
  NotBack,  ///< the stage could not be brought back: corrections did not leave
  Fault,    ///< the daemon's
};

/// What a frame shows, for the calibration of z.
struct FrameSight {
  std::int64_t taken_ns = 0;
  std::span<const control::MarkerObservation> markers;
  std::uint64_t marker_set = 0;  ///< another number: other markers
  control::FitUnits units;
  bool has_lateral = false;
  /// Where the sample is, less where the stage of x and y has taken it.
  control::Vec2 lateral_nm{};
  const control::ReflectedSpot* spot = nullptr;
};

class StageRun {
 public:
  virtual ~StageRun() = default;
  StageRun(const StageRun&) = delete;
  StageRun& operator=(const StageRun&) = delete;

  // Tracking loop.
  /// Where the stage is to be told to go with this frame.
  control::Vec2 wanted_nm(std::int64_t now_ns) noexcept;
  /// A frame that may be used, before it is judged.
  virtual void look(const FrameSight& /*sight*/) noexcept {}
  /// What became of a frame that wanted_nm() was asked for.
  void saw(const control::FrameFacts& facts, const control::Decision& decision) noexcept;
  /// How far each marker of that frame lies from the others, and the drift by those that were used.
  virtual void saw_markers(std::span<const control::MarkerResult> /*results*/,
                           const control::DriftEstimate& /*drift*/) noexcept {}
  void without_frame(std::int64_t now_ns) noexcept;
  /// What was told after `sent_ns` never left; `total_nm` was the last that did.
  void take_back(control::Vec2 total_nm, std::int64_t sent_ns) noexcept;
  /// The last move left only then.
  virtual void left_at(std::int64_t sent_ns) noexcept = 0;
  /// Sends the stage back to its start.
  void stop(CalibrationEnd why) noexcept;
  /// Leaves the stage where it is: nothing more may leave.
  void abandon(CalibrationEnd why) noexcept;
  bool over() const noexcept { return phase_ == CalibrationPhase::Over; }
  /// 0 to 1.
  double progress() const noexcept;

  // Anyone who has it.
  CalibrationPhase phase() const noexcept { return phase_; }
  CalibrationEnd end() const noexcept { return end_; }
  /// How long the calibration took, and where it left the stage.
  double seconds() const noexcept { return 1e-9 * static_cast<double>(now_ns_ - begun_ns_); }
  control::Vec2 left_at_nm() const noexcept { return total_nm_; }
  control::StageSays stage_says() const noexcept { return stage_says_; }

 protected:
  /// At the start again, the sample is watched for so long at least: where has it come to?
  static constexpr std::int64_t kLeastRestNs = 300'000'000;
  /// @param bad_frames_to_end  in a row
  explicit StageRun(int bad_frames_to_end, std::int64_t rest_ns = kLeastRestNs)
      : bad_frames_to_end_(bad_frames_to_end), rest_ns_(rest_ns) {}

  /// Where the stage is to be; nothing: it has been everywhere.
  virtual std::optional<control::Vec2> next_nm(std::int64_t now_ns) noexcept = 0;
  virtual void see(const control::FrameFacts& /*facts*/) noexcept {}
  /// The stage is told to be there. @returns whether it could be noted
  virtual bool told(std::int64_t now_ns, control::Vec2 total_nm) noexcept = 0;
  virtual void untold(std::int64_t sent_ns) noexcept = 0;
  virtual bool is_good(control::LockEvent verdict) const noexcept = 0;
  /// Why what the frame shows ends it.
  virtual std::optional<CalibrationEnd> what_ends_it(
      const control::FrameFacts& /*facts*/) noexcept {
    return std::nullopt;
  }
  /// While it goes on, 0 to 1.
  virtual double share_done() const noexcept = 0;

  bool goes_on() const noexcept {
    return phase_ == CalibrationPhase::Quiet || phase_ == CalibrationPhase::Moving;
  }
  void begin_to_move() noexcept { phase_ = CalibrationPhase::Moving; }
  bool has_begun() const noexcept { return begun_ns_ != 0; }
  std::int64_t elapsed_ns() const noexcept { return now_ns_ - begun_ns_; }
  std::int64_t begun_ns() const noexcept { return begun_ns_; }

 private:
  void judge(const control::FrameFacts& facts, const control::Decision& decision) noexcept;

  int bad_frames_to_end_;
  std::int64_t rest_ns_;
  CalibrationPhase phase_ = CalibrationPhase::Quiet;
  CalibrationEnd end_ = CalibrationEnd::Complete;
  std::int64_t begun_ns_ = 0;
  double nearest_nm_ = 0;           ///< on the way back: to the start, of what has left
  std::int64_t progress_ns_ = 0;    ///< when the stage was last told to come nearer
  std::int64_t back_since_ns_ = 0;  ///< 0: not yet
  std::int64_t now_ns_ = 0;
  int bad_frames_ = 0;
  control::Vec2 total_nm_;
  control::StageSays stage_says_ = control::StageSays::Nothing;
};

}  // namespace driftd::daemon
