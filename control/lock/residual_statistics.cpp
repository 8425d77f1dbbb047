// SPDX-License-Identifier: MIT
#include "control/lock/residual_statistics.hpp"

#include <algorithm>
#include <cmath>

namespace driftd::control {
namespace {

void approach(Vec2& mean, Vec2 value, double share) noexcept {
  mean.x += share * (value.x - mean.x);
  mean.y += share * (value.y - mean.y);
}

Vec2 squares(Vec2 v) noexcept {
  return {v.x * v.x, v.y * v.y};
}

Vec2 roots(Vec2 v) noexcept {
  return {std::sqrt(v.x), std::sqrt(v.y)};
}

}  // namespace

void OctaveAllan::add(Vec2 place_nm) noexcept {
  Vec2 mean = place_nm;
  for (std::size_t i = 0; i < kAllanOctaves; ++i) {
    AllanOctave& octave = octaves_[i];
    Pending& pending = pending_[i];
    if (pending.has_mean) {
      octave.differences = std::min(octave.differences + 1, kRememberedDifferences);
      const Vec2 square = squares({mean.x - pending.mean_nm.x, mean.y - pending.mean_nm.y});
      approach(octave.variance_nm2, {square.x / 2, square.y / 2}, 1.0 / octave.differences);
    }
    pending.mean_nm = mean;
    pending.has_mean = true;
    pending.has_half = !pending.has_half;
    if (pending.has_half) {
      pending.half_nm = mean;
      return;
    }
    mean = {(pending.half_nm.x + mean.x) / 2, (pending.half_nm.y + mean.y) / 2};
  }
}

void OctaveAllan::interrupt() noexcept {
  pending_ = {};
}

void ResidualStatistics::Measure::add(Vec2 place_nm, Vec2 noise, double interval_s) noexcept {
  ++frames;
  allan.add(place_nm);
  const double first = 1.0 / static_cast<double>(frames);
  const double share = std::max(first, std::min(1.0, interval_s / kSeconds));
  approach(square_nm2, squares(place_nm), share);
  approach(noise_nm2, noise, share);
  approach(mean_nm, place_nm, std::max(first, std::min(1.0, interval_s / kMeanSeconds)));
}

StillnessMeasure ResidualStatistics::Measure::told() const noexcept {
  return {.frames = frames,
          .rms_nm = roots(square_nm2),
          .mean_nm = mean_nm,
          .noise_nm = roots(noise_nm2),
          .allan = allan.octaves()};
}

void ResidualStatistics::measured(const DriftEstimate& drift, Vec2 moved_nm, double interval_s,
                                  double period_s) noexcept {
  // After a pause a frame counts for five frames' time at most.
  if (period_s > 0 && interval_s > kMissedFrames * period_s) {
    not_locked();
    interval_s = kMissedFrames * period_s;
  }
  const double step_s = std::max(0.0, interval_s);
  const auto left = [&](Vec2 nm) { return Vec2{nm.x - moved_nm.x, nm.y - moved_nm.y}; };
  in_loop_.add(left(drift.frame_drift_nm), drift.frame_noise_nm2, step_s);
  if (drift.witnesses_used > 0)
    out_of_loop_.add(left(drift.frame_witness_nm), drift.frame_witness_noise_nm2, step_s);
}

void ResidualStatistics::not_locked() noexcept {
  in_loop_.allan.interrupt();
  out_of_loop_.allan.interrupt();
}

void ResidualStatistics::new_reference() noexcept {
  in_loop_ = out_of_loop_ = {};
}

ResidualState ResidualStatistics::state() const noexcept {
  return {.in_loop = in_loop_.told(), .out_of_loop = out_of_loop_.told()};
}

}  // namespace driftd::control
