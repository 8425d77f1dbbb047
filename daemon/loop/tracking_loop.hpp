// SPDX-License-Identifier: MIT
// The tracking loop: pops the newest frame, cuts the ROIs into the fitter's staging memory, fits,
// estimates, supervises, and hands the result to the publisher. While the publisher sends, the loop
// does what the next frame and others need of this one. Paced by frames. After run() has begun
// nothing here allocates, locks, logs or throws. One thread runs it; housekeeping talks to it
// through the members of LoopPorts only.
#pragma once

#include <array>
#include <memory>

#include "camera/frame_source.hpp"
#include "control/lock/supervisor.hpp"
#include "daemon/loop/camera_clock.hpp"
#include "daemon/loop/lock_session.hpp"
#include "daemon/loop/loop_ports.hpp"
#include "daemon/loop/loop_values.hpp"
#include "daemon/loop/observer_link.hpp"
#include "daemon/loop/publisher.hpp"
#include "daemon/loop/stage_offset.hpp"
#include "fitter/fitter.hpp"

namespace driftd::daemon {

class TrackingLoop {
 public:
  /// @param lossless  a recording: wait for room and for markers rather than skip a frame
  TrackingLoop(camera::FrameSource& source, fitter::LiveFitter& fitter, Publisher& publisher,
               LoopPorts& ports, const LoopSettings& settings, bool lossless);

  /// Runs until ports.stop is set or a recording ends.
  void run() noexcept;

 private:
  /// When a frame was taken and until when it may be used.
  struct Timing {
    std::int64_t taken_ns;
    std::int64_t expires_ns;
  };

  void take_commands() noexcept;
  void obey(LoopCommand& command) noexcept;
  void compare_place() noexcept;
  void change_z(const LoopSettings& next) noexcept;
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
  void estimate(const camera::Frame& frame, FrameResult& result,
                control::FrameFacts& facts) noexcept;
  void restart_average() noexcept;
  void follow_rois(const FrameResult& result, bool new_reference) noexcept;
  void supervise(control::FrameFacts& facts, FrameResult& result) noexcept;
  void see_late_send(const Publisher::Sent& sent, std::int64_t now_ns) noexcept;
  void see_residual(const control::FrameFacts& facts) noexcept;
  void learn_of_frame() noexcept;
  void hand_over(FrameResult& result) noexcept;
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
  LockSession session_;
  ObserverLink observer_;
  control::AcquisitionGate gate_;
  control::ResidualStatistics residual_;
  std::int64_t learnt_ns_ = 0;  ///< arrival of the frame before, as learn_of_frame() saw it
  StageOffset stage_off_;
  std::int64_t place_ns_ = 0;  ///< of the last that was compared
  CameraClock camera_clock_;
  control::ReflectionEstimator reflection_;
  LoopReport report_;
  FrameResult result_;              ///< of the frame tracked last
  std::int64_t taken_ns_ = 0;       ///< of the frame popped last
  std::uint32_t references_ = 0;    ///< counts what the drift is relative to
  bool has_new_reference_ = false;  ///< that frame was the first against a new one
  bool unfinished_ = false;         ///< finish() is still to come for it
  bool told_in_lock_ = false;       ///< to the source
  int coasted_frames_ = 0;          ///< in a row
  std::int64_t last_arrival_ns_ = 0;
  double mean_square_x_nm2_ = 0, mean_square_y_nm2_ = 0;
  std::uint64_t chain_ = 0;         ///< Publisher::broken() as far as it was dealt with
  std::uint64_t refused_seen_ = 0;  ///< Publisher::refused() likewise
  /// When the last correction that left late was handed over, and since when it counts.
  std::int64_t late_ns_ = 0, left_ns_ = 0;

  // Per marker of the present set, whichever fitter and however many markers came before.
  template <typename Value>
  using PerMarker = std::array<Value, control::kMaxMarkers>;
  PerMarker<fitter::Start> starts_ = {};
  PerMarker<control::MarkerObservation> observations_ = {};
  PerMarker<fitter::Localization> last_fits_ = {};
  PerMarker<control::RoiOrigin> last_origins_ = {};
};

}  // namespace driftd::daemon
