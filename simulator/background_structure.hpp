// SPDX-License-Identifier: MIT
// The unevenness of the background: out-of-focus structure of the sample that moves. Owned by the
// Sensor; not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "simulator/scenario.hpp"
#include "simulator/sensor_settings.hpp"

namespace driftd::simulator {

/// A smooth random field of mean 1: a sum of plane waves of random direction and phase whose wave
/// vectors are normally distributed (spectral representation, Shinozuka and Deodatis 1991, Appl.
/// Mech. Rev. 44:191), so that it is Gaussian with a correlation of exp(-(d / grain)^2 / 2). The
/// waves fit a period of at least the sensor's side, on which it repeats; below 0 it is cut off.
class BackgroundStructure {
 public:
  BackgroundStructure(const BackgroundModel& model, const CameraModel& camera, std::uint64_t seed);
  bool even() const noexcept { return table_.empty(); }
  /// The background of each pixel of a region relative to the mean, for a field that has moved by
  /// `shift_px`. Good until the next call; drawn anew when it has moved by 0.02 px.
  const std::vector<float>& relative(const SensorSettings& settings, Vec2 shift_px);

 private:
  void draw(const SensorSettings& settings, Vec2 shift_px);

  std::size_t period_px_ = 0;
  std::vector<float> table_;  ///< one period
  std::vector<float> relative_;
  SensorSettings drawn_;
  Vec2 drawn_shift_px_;
};

}  // namespace driftd::simulator
