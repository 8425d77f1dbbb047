// SPDX-License-Identifier: MIT
// Moves under lock in one world, in virtual time, as a script would make them: one place after the
// other, each held for a while, judged by truth. Deterministic for a seed. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/bench/stillness/world.hpp"

namespace driftd::stillness {

struct MoveScript {
  std::vector<Vec2> places_nm;  ///< from the reference, one after the other
  double speed_nm_per_s = 10'000;
  double stay_s = 0.2;      ///< at each, from the arrival
  double before_s = 5;      ///< of lock, before the first
  double settled_nm = 1.5;  ///< each axis, when it counts as settled ...
  double for_s = 0.02;      ///< ... once it stays so near for so long
};

/// What truth says of one place. Arrival: the command that ends the way has reached the stage.
struct VisitedPlace {
  Vec2 place_nm;
  double settled_s = -1;  ///< from the arrival; below 0: never
  double in_lock_s = -1;  ///< from the arrival until `in_lock`; below 0: never
  Vec2 error_nm;          ///< mean of the stay after its first 20 ms, from the place
  double rms_nm = 0;      ///< of the same
  bool early = false;     ///< `in_lock` was true on the way, or beyond a tolerance and a half
};

struct MoveFlight {
  std::vector<VisitedPlace> places;
  double locked_share = 0;     ///< of the frames since the first move
  std::string reason;          ///< why it was not locked, last
  double largest_step_nm = 0;  ///< of a command
  double seconds = 0;          ///< since the first move
};

/// @throws std::runtime_error when it never locks
MoveFlight fly_moves(const World& world, const MoveScript& script, const std::string& law,
                     std::uint64_t seed);

/// Rows of `columns` by `rows` places around the reference, there and back.
std::vector<Vec2> tiling(int columns, int rows, double pitch_nm);

}  // namespace driftd::stillness
