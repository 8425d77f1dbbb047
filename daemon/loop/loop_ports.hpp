// SPDX-License-Identifier: MIT
// Everything that crosses the tracking loop's border. Each queue or value has one thread on either
// side, and neither waits for the other.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/monotonic.hpp"
#include "base/process/latency_histogram.hpp"
#include "base/process/latest_value.hpp"
#include "base/process/spsc_queue.hpp"
#include "control/lock/supervisor.hpp"
#include "daemon/loop/frame_copy.hpp"
#include "daemon/loop/frame_ring.hpp"
#include "daemon/loop/loop_values.hpp"
#include "daemon/loop/observer_worker.hpp"
#include "daemon/loop/record_feed.hpp"
#include "daemon/loop/reflection_reader.hpp"

namespace driftd::daemon {

/// What crosses it for one lock alone.
struct LockPorts {
  SpscQueue<LockChange> lock_changes{256};  // loop -> housekeeping
  LatestValue<StageReadback> stage_place;   // housekeeping -> loop
  /// What the stage's driver says, from housekeeping.
  std::atomic<control::StageSays> stage_says{control::StageSays::Nothing};
  /// Corrections a second that it takes; 0: all, as far as is known. From housekeeping.
  std::atomic<double> driver_hz{0};
  SpscQueue<std::unique_ptr<StageRun>> retired_calibrations{4};  // loop -> housekeeping
  ObserverPorts observer;  ///< loop <-> the thread that tunes the observer
};

/// What it inherits is of the lock of x and y.
struct LoopPorts : LockPorts {
  LockPorts z;                                             ///< of the lock of z
  SpscQueue<LoopCommand> commands{16};                     // housekeeping -> loop
  SpscQueue<std::unique_ptr<MarkerSet>> retired_sets{16};  // loop -> housekeeping
  SpscQueue<std::unique_ptr<LoopSettings>> retired_settings{16};
  SpscQueue<std::unique_ptr<control::MovePath>> retired_moves{16};
  LatestValue<LoopReport> report;         // loop -> housekeeping
  LatestValue<MarkersReport> markers;     // loop -> housekeeping
  FrameCopies frame_copy;                 // loop -> housekeeping
  std::shared_ptr<RecordFeed> record;     ///< loop -> recorder; set before the loop runs, or never
  std::shared_ptr<FrameRing> raw_frames;  ///< loop -> frame saver; likewise
  std::unique_ptr<ReflectionReader>
      reflection;  ///< of axial.reflection; set before the loop runs, or never
  LatencyHistogram cut, fit, control;
  std::atomic<bool> stop{false};
  Clock clock = monotonic_ns;
  /// Recordings only: set by housekeeping once it has looked for markers in the first frame.
  std::atomic<bool> markers_settled{false};
  /// Recordings only: stay at the first frame until housekeeping clears this, too.
  std::atomic<bool> held{false};

  LockPorts& of(AxisGroup group) noexcept { return group == AxisGroup::Axial ? z : *this; }
};

}  // namespace driftd::daemon
