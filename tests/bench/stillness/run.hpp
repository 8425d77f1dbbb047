// SPDX-License-Identifier: MIT
// One lock in one world, in virtual time: the simulator's physics, a pilot, and what became of the
// sample by truth. Deterministic: the same world, seed and law give the same bits. One thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/bench/stillness/world.hpp"

namespace driftd::stillness {

struct Flight {
  double rate_hz = 0;                             ///< of the instants
  double engaged_s = 0;                           ///< from the start to the lock
  std::array<std::vector<float>, 2> residual_nm;  ///< truth at the instants since the lock
  std::vector<bool> left_out;                     ///< which the world says not to look at
  std::vector<bool> judged;                       ///< which count: neither left out nor learning
  double change_nm2 = 0;                          ///< mean square per frame and axis
  double normalised2 = 0;  ///< mean square of errors of the published drift over their sd
  double locked_share = 0;
  std::map<std::string, std::int64_t> frames_held;  ///< not locked, by reason
  double noise_nm = 0;                              ///< of the best mean over the markers
};

/// With line phases and noise by `seed`. @throws std::invalid_argument for an unknown law
Flight fly(const World& world, const std::string& law, std::uint64_t seed);

}  // namespace driftd::stillness
