// SPDX-License-Identifier: MIT
// How much the stage may differ from what the observer has learnt before the lock swings: learnt
// once, then flown without learning by stages that move farther, or later. Any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tests/bench/stillness/world.hpp"

namespace driftd::stillness {

/// The largest that were found stable. What is stable at the end of the search is told as that.
struct Margins {
  double gain = 1;     ///< at most kMostGain
  double late_ms = 0;  ///< at most kMostLateMs
};
constexpr double kMostGain = 8, kMostLateMs = 40;

/// @param bound_nm  of the noise of a frame: a residual of many times the bound is a lock that
/// swings
Margins find_margins(const World& world, const std::string& law, std::uint64_t seed,
                     const std::function<double(double)>& bound_nm);

}  // namespace driftd::stillness
