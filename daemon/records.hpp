// SPDX-License-Identifier: MIT
// The fixed-size values that pass between the tracking loop, the publisher and housekeeping.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "camera/frame.hpp"
#include "control/controller.hpp"
#include "control/drift_estimator.hpp"
#include "control/lock_state.hpp"
#include "control/roi_tracker.hpp"
#include "control/types.hpp"

namespace driftd::daemon {

/// One fitted frame, loop to publisher.
struct FrameRecord {
  std::uint64_t frame_id = 0;
  std::int64_t camera_time_ns = 0;
  std::int64_t arrival_ns = 0;
  std::int64_t handed_ns = 0;   ///< when the loop was done with it
  std::int64_t expires_ns = 0;  ///< a correction may not leave later than this
  control::LockState state = control::LockState::Idle;
  control::DriftEstimate drift = {};
  bool has_correction = false;
  std::uint64_t lock_id = 0;
  control::Correction correction = {};
};

/// Markers, their estimator and their windows: made by housekeeping, used by the loop, and given
/// back to housekeeping for destruction.
struct MarkerSet {
  control::DriftEstimator estimator;
  control::RoiTracker tracker;
};

/// What the loop reports of each marker after each frame (latest value).
struct MarkersReport {
  std::uint64_t frame_id = 0;
  std::int64_t arrival_ns = 0;
  std::size_t count = 0;
  struct Entry {
    control::Marker marker;
    control::MarkerObservation observation;
    control::MarkerResult result;
    control::RoiOrigin roi;
    control::MarkerReference reference;
  };
  std::array<Entry, control::kMaxMarkers> entries;
};

/// What the loop reports of itself after each frame and time-out (latest value).
struct LoopReport {
  std::uint64_t turns = 0;  ///< heartbeat: grows with every frame and every time-out
  std::int64_t time_ns = 0;
  control::Lock lock;
  std::uint64_t lock_id = 0;
  control::DriftEstimate drift;
  double rms_x_nm = 0, rms_y_nm = 0;  ///< of the last seconds
  control::Vec2 total_nm;
  std::uint8_t limited = 0;
  double frame_rate_hz = 0;
  std::uint64_t fitted = 0;       ///< frames that were fitted
  std::uint64_t valid = 0;        ///< of these, with enough healthy markers
  std::uint64_t stale = 0;        ///< frames skipped for their age
  std::uint64_t corrections = 0;  ///< computed and handed over
  std::uint64_t queue_dropped = 0;
  /// Arrival of the first of the frames in a row that gave no drift; 0: the last one gave one.
  std::int64_t markers_gone_since_ns = 0;
  bool ended = false;                  ///< the recording is over
  const char* fitter = "";             ///< what fits now; the fitter's own text
  const char* fitter_error = nullptr;  ///< why it is no longer the one chosen at start
};

/// A change of the lock's state, loop to housekeeping.
struct LockChange {
  std::int64_t time_ns = 0;
  std::uint64_t frame_id = 0;
  control::LockState previous = control::LockState::Idle;
  control::LockState state = control::LockState::Idle;
  control::LockReason reason = control::LockReason::None;
};

/// The settings that the loop can take over between two frames.
struct LoopSettings {
  control::LockSettings lock;
  control::ControllerSettings controller;
  int reference_frames = 100;
  std::int64_t max_frame_age_ns = 20'000'000;
  std::int64_t no_frame_timeout_ns = 100'000'000;
  std::int64_t range_timeout_ns = 1'000'000'000;  ///< at the range limit for so long: holding
  double max_jump_nm = 100;
  double pixel_size_nm = 100;
  std::int64_t exposure_ns = 0;  ///< the frame was taken in the middle of it ...
  std::int64_t readout_ns = 0;   ///< ... and popped this long after its end
  bool warm_start = true;
};

/// Housekeeping to loop.
struct LoopCommand {
  enum class Kind : std::uint8_t { None, Lock, Unlock, Reset, Markers, MoveRois, Settings };
  Kind kind = Kind::None;
  std::uint64_t lock_id = 0;                     ///< Lock
  std::unique_ptr<MarkerSet> markers = nullptr;  ///< Markers
  control::Vec2 displacement_px = {};            ///< MoveRois: the markers' from their references
  std::unique_ptr<LoopSettings> settings = nullptr;  ///< Settings
};

}  // namespace driftd::daemon
