// SPDX-License-Identifier: MIT
// The tracking loop: pops the newest frame, cuts the ROIs into the fitter's staging memory, fits,
// estimates, supervises, and hands the result to the publisher. While the publisher sends, the loop
// does what the next frame and others need of this one. Paced by frames. After run() has begun
// nothing here allocates, locks, logs or throws. One thread runs it; housekeeping talks to it
// through the members of LoopPorts only.
#pragma once

#include <array>
#include <memory>
#include <optional>

#include "camera/frame_source.hpp"
#include "daemon/loop/camera_clock.hpp"
#include "daemon/loop/group_reference.hpp"
#include "daemon/loop/held_group.hpp"
#include "daemon/loop/loop_ports.hpp"
#include "daemon/loop/loop_values.hpp"
#include "daemon/loop/publisher.hpp"
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
  /// What is known of a frame, for each lock.
  struct Facts {
    explicit Facts(std::int64_t taken_ns) : xy{.taken_ns = taken_ns}, z{.taken_ns = taken_ns} {}
    control::FrameFacts xy, z;
  };

  HeldGroup::Ways ways(AxisGroup group) noexcept;
  bool measures_z() const noexcept { return settings_.z_by_widths || ports_.reflection; }
  void see_lock_order(const LoopCommand& command) noexcept;
  bool misses_z() const noexcept;
  /// Does it for each lock.
  template <typename Do>
  void each(Do&& act) noexcept {
    act(xy_);
    if (z_) act(*z_);
  }
  void take_commands() noexcept;
  void obey(LoopCommand& command) noexcept;
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
  void follow_rois(const FrameResult& result, bool new_reference) noexcept;
  void show_sweep(const Timing& timing, const FrameResult& result) noexcept;
  void supervise(Facts& facts, FrameResult& result) noexcept;
  void learn_of_frame() noexcept;
  void hand_over(FrameResult& result) noexcept;
  void account() noexcept;
  void report(std::int64_t now_ns) noexcept;
  void report_markers() noexcept;
  void copy_out(const camera::Frame& frame) noexcept;
  void keep_raw(const camera::Frame& frame) noexcept;
  void record_frame() noexcept;
  void record_stale(const camera::Frame& frame, const Timing& timing,
                    const FrameResult& judged) noexcept;
  void wait_for_markers(const camera::Frame& frame) noexcept;

  camera::FrameSource& source_;
  fitter::LiveFitter& fitter_;  ///< where the markers come without one
  Publisher& publisher_;
  LoopPorts& ports_;
  LoopSettings settings_;
  bool lossless_;

  std::unique_ptr<MarkerSet> set_;
  LoopReport report_;
  CameraClock camera_clock_;
  control::ReflectionEstimator reflection_;
  control::ReflectedSpot spot_;  ///< of the frame tracked last
  LateralReference xy_reference_;
  AxialReference z_reference_;
  HeldGroup xy_;
  std::optional<HeldGroup> z_;      ///< none: z is not measured
  control::DriftEstimate z_drift_;  ///< of the frame tracked last
  std::int64_t learnt_ns_ = 0;      ///< arrival of the frame before, as learn_of_frame() saw it
  FrameResult result_;              ///< of the frame tracked last
  std::int64_t taken_ns_ = 0;       ///< of the frame popped last
  std::uint64_t marker_sets_ = 0;   ///< that came, one after another
  std::uint32_t references_ = 0;    ///< counts what the drift is relative to
  bool unfinished_ = false;         ///< finish() is still to come for it
  bool leaves_z_ = false;           ///< the last command that says whether z is held beside x and y
  bool told_in_lock_ = false;       ///< to the source
  bool told_slower_ = false;        ///< likewise
  std::int64_t last_arrival_ns_ = 0;

  // Per marker of the present set, whichever fitter and however many markers came before.
  template <typename Value>
  using PerMarker = std::array<Value, control::kMaxMarkers>;
  PerMarker<fitter::Start> starts_ = {};
  PerMarker<control::MarkerObservation> observations_ = {};
  PerMarker<fitter::Localization> last_fits_ = {};
  PerMarker<control::RoiOrigin> last_origins_ = {};
};

}  // namespace driftd::daemon
