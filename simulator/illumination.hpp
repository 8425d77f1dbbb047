// SPDX-License-Identifier: MIT
// The light source's brightness over time, common to markers and background. Part of the
// Simulation, stepped by it; not thread-safe.
#pragma once

#include <cstdint>

#include "simulator/random.hpp"
#include "simulator/scenario.hpp"

namespace driftd::simulator {

/// Relative brightness: 1 + first-order low-pass noise (an Ornstein-Uhlenbeck process, exact on the
/// grid) + the ripple of the supply, a sine at twice the mains frequency; never negative. Diodes
/// have 0.1 to 1 % rms.
class Illumination {
 public:
  Illumination(const IlluminationModel& model, std::uint64_t seed);
  void step(double time_s) noexcept;
  double brightness() const noexcept { return brightness_; }

 private:
  IlluminationModel model_;
  Random random_;
  double memory_ = 0;
  double flicker_ = 0;
  double brightness_ = 1;
};

}  // namespace driftd::simulator
