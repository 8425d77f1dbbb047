// SPDX-License-Identifier: MIT
// The tracking loop: pop the newest frame, cut the ROIs into the fitter's staging memory, fit,
// estimate, supervise, hand the record to the publisher; then, while that sends, what the next
// frame and others need of this one. Paced by frames. After run() has begun nothing here allocates,
// locks, logs or throws. One thread runs it; housekeeping talks to it through the members of
// LoopPorts only.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>

#include "base/monotonic.hpp"
#include "base/process/latency_histogram.hpp"
#include "base/process/latest_value.hpp"
#include "base/process/spsc_queue.hpp"
#include "camera/frame_source.hpp"
#include "control/lock/supervisor.hpp"
#include "daemon/loop/camera_clock.hpp"
#include "daemon/loop/frame_copy.hpp"
#include "daemon/loop/frame_ring.hpp"
#include "daemon/loop/observer_worker.hpp"
#include "daemon/loop/place_error.hpp"
#include "daemon/loop/record_feed.hpp"
#include "daemon/loop/records.hpp"
#include "fitter/fitter.hpp"

namespace driftd::daemon {

class Publisher;

/// Everything that crosses the loop's border.
struct LoopPorts {
  SpscQueue<LoopCommand> commands{16};                     // housekeeping -> loop
  SpscQueue<std::unique_ptr<MarkerSet>> retired_sets{16};  // loop -> housekeeping
  SpscQueue<std::unique_ptr<LoopSettings>> retired_settings{16};
  SpscQueue<std::unique_ptr<CalibrationRun>> retired_calibrations{4};
  SpscQueue<std::unique_ptr<control::MovePath>> retired_moves{16};
  SpscQueue<LockChange> lock_changes{256};  // loop -> housekeeping
  LatestValue<LoopReport> report;           // loop -> housekeeping
  LatestValue<MarkersReport> markers;       // loop -> housekeeping
  FrameCopies frame_copy;                   // loop -> housekeeping
  LatestValue<StagePlace> stage_place;      // housekeeping -> loop
  /// What the stage's driver says, from housekeeping.
  std::atomic<control::StageSays> stage_says{control::StageSays::Nothing};
  std::shared_ptr<RecordFeed> record;     ///< loop -> recorder; set before the loop runs, or never
  std::shared_ptr<FrameRing> raw_frames;  ///< loop -> frame saver; likewise
  ObserverPorts observer;                 ///< loop <-> the thread that tunes the observer
  LatencyHistogram cut, fit, control;
  std::atomic<bool> stop{false};
  Clock clock = monotonic_ns;
  /// Recordings only: set by housekeeping once it has looked for markers in the first frame.
  std::atomic<bool> markers_settled{false};
  /// Recordings only: stay at the first frame until housekeeping clears this, too.
  std::atomic<bool> held{false};
};

class TrackingLoop {
 public:
  /// @param lossless  a recording: wait for room and for markers rather than skip a frame
  TrackingLoop(camera::FrameSource& source, fitter::LiveFitter& fitter, Publisher& publisher,
               LoopPorts& ports, const LoopSettings& settings, bool lossless);

  /// Until ports.stop is set or a recording ends.
  void run() noexcept;

 private:
  /// When a frame was taken and until when it may be used.
  struct Timing {
    std::int64_t taken_ns;
    std::int64_t expires_ns;
  };

  void take_commands() noexcept;
  void obey(LoopCommand& command) noexcept;
  void take_back_unsent() noexcept;
  void lock(const LoopCommand& command) noexcept;
  void begin_reference() noexcept;
  bool kept_reference_is_due() noexcept;
  void calibrate(LoopCommand& command) noexcept;
  void end_calibration() noexcept;
  void compare_place() noexcept;
  void order(control::LockEvent command) noexcept;
  void move_rois(control::Vec2 displacement_px) noexcept;
  void forget_fits() noexcept;
  void without_frame(camera::PopStatus status) noexcept;
  void handle(const camera::Frame& frame) noexcept;
  Timing time(const camera::Frame& frame) noexcept;
  void track(const camera::Frame& frame, const Timing& timing) noexcept;
  void finish() noexcept;
  fitter::LiveFitter& fitter() const noexcept {
    return set_ && set_->fitter ? *set_->fitter : fitter_;
  }
  void measure(const camera::Frame& frame) noexcept;
  void estimate(const camera::Frame& frame, FrameRecord& record,
                control::FrameFacts& facts) noexcept;
  void follow_rois(const FrameRecord& record, bool new_reference) noexcept;
  void supervise(control::FrameFacts& facts, FrameRecord& record) noexcept;
  void after_change(control::LockState before) noexcept;
  void see_residual(const control::FrameFacts& facts) noexcept;
  void take_tunings() noexcept;
  bool is_meant(const control::ObserverSettings& wish) noexcept;
  void let_observer_learn() noexcept;
  void learn_of_frame() noexcept;
  void hand_over(FrameRecord& record) noexcept;
  void account(const control::DriftEstimate& drift) noexcept;
  void report(std::int64_t now_ns) noexcept;
  void report_move() noexcept;
  void report_markers() noexcept;
  void copy_out(const camera::Frame& frame) noexcept;
  void keep_raw(const camera::Frame& frame) noexcept;
  void record_frame() noexcept;
  void record_stale(const camera::Frame& frame, const Timing& timing) noexcept;
  void wait_for_markers(const camera::Frame& frame) noexcept;

  camera::FrameSource& source_;
  fitter::LiveFitter& fitter_;  ///< where the markers come without one
  Publisher& publisher_;
  LoopPorts& ports_;
  LoopSettings settings_;
  bool lossless_;

  std::unique_ptr<MarkerSet> set_;
  control::Supervisor supervisor_;
  control::AcquisitionGate gate_;
  control::ResidualStatistics residual_;
  std::int64_t learnt_ns_ = 0;  ///< arrival of the frame before, as learn_of_frame() saw it
  std::uint64_t lock_id_ = 0;
  std::uint64_t engaged_id_ = 0;  ///< of the last lock that engaged: whose total the controller has
  std::optional<LockResumption> resumption_;     ///< of the last lock that was ordered
  int frames_to_resume_ = 0;                     ///< good ones; 0: none is to be resumed
  std::unique_ptr<CalibrationRun> calibration_;  ///< while it is under way
  PlaceError stage_off_;
  std::int64_t place_ns_ = 0;  ///< of the last that was compared
  CameraClock camera_clock_;
  LoopReport report_;
  FrameRecord record_;              ///< of the frame tracked last
  std::int64_t taken_ns_ = 0;       ///< of the frame popped last
  std::uint32_t references_ = 0;    ///< counts what the drift is relative to
  bool has_new_reference_ = false;  ///< that frame was the first against a new one
  bool unfinished_ = false;         ///< finish() is still to come for it
  /// Of the observer's thread, last; none: nothing yet.
  std::optional<control::ObserverSettings> wished_;
  std::int64_t wished_otherwise_ns_ = 0;  ///< since when another rate would be wished
  bool told_in_lock_ = false;             ///< to the source
  std::uint32_t foretold_epoch_ = 0;      ///< of the observer, whose forecasts are reported
  int coasted_frames_ = 0;                ///< in a row
  std::uint64_t frame_id_ = 0;
  std::int64_t last_arrival_ns_ = 0;
  double mean_square_x_nm2_ = 0, mean_square_y_nm2_ = 0;
  std::uint64_t chain_ = 0;         ///< Publisher::broken() as far as it was dealt with
  std::uint64_t refused_seen_ = 0;  ///< Publisher::refused() likewise

  // Per marker of the present set, whichever fitter and however many markers came before.
  template <typename Value>
  using PerMarker = std::array<Value, control::kMaxMarkers>;
  PerMarker<fitter::Start> starts_ = {};
  PerMarker<control::MarkerObservation> observations_ = {};
  PerMarker<fitter::Localization> last_fits_ = {};
  PerMarker<control::RoiOrigin> last_origins_ = {};
};

}  // namespace driftd::daemon
