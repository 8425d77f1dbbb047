// SPDX-License-Identifier: MIT
// What a calibration of the stage saw: the drift of every frame that had one, and every place that
// the stage was told. Filled by the tracking loop, read by identify_stage() in a worker thread;
// plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "control/values/types.hpp"

namespace driftd::control {

/// A frame with a valid drift.
struct StageFrame {
  std::int64_t taken_ns = 0;   ///< middle of the exposure, CLOCK_MONOTONIC
  Vec2 moved_nm;               ///< the frame's own drift, image axes, sample plane
  Covariance2 covariance_nm2;  ///< of moved_nm, as the estimator states it; 0: not known
};

/// A command that really was sent, after the limits. The stage is told `total_nm` until the next.
struct StageMove {
  std::int64_t sent_ns = 0;
  Vec2 total_nm;  ///< stage axes, from the place at the start of the record
};

/// In the order of time. The first second or more is quiet: nothing is commanded but (0, 0).
struct StageRecord {
  std::vector<StageFrame> samples;
  std::vector<StageMove> moves;
  std::int64_t exposure_ns = 0;
  std::size_t axes = 2;  ///< 1: x alone, for find_stage() and glimpse_stage()
};

}  // namespace driftd::control
