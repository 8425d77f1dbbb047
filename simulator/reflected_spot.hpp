// SPDX-License-Identifier: MIT
// The spot of a laser beam that the cover glass reflects, as reflection autofocus watches it. Owned
// and stepped by the Simulation.
#pragma once

#include <cstdint>
#include <optional>

#include "simulator/markers.hpp"
#include "simulator/random.hpp"
#include "simulator/scenario.hpp"

namespace driftd::simulator {

class ReflectedSpot {
 public:
  ReflectedSpot(const ReflectionModel& model, std::uint64_t seed) noexcept;
  /// Lets the laser's pointing wander for a tick.
  void step() noexcept;
  /// Where it is for a sample at `z_nm`; none: the scenario has no such spot.
  std::optional<Spot> at(double z_nm) const noexcept;

 private:
  ReflectionModel model_;
  Vec2 px_per_nm_;
  Random random_;
  Vec2 pointing_px_;
};

}  // namespace driftd::simulator
