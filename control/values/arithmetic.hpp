// SPDX-License-Identifier: MIT
// Arithmetic with places and times, for the sources of this folder and the loop.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "control/values/types.hpp"

namespace driftd::control {

inline bool is_finite(Vec2 v) noexcept {
  return std::isfinite(v.x) && std::isfinite(v.y);
}

inline Vec2 difference(Vec2 a, Vec2 b) noexcept {
  return {a.x - b.x, a.y - b.y};
}

/// Never negative; times that no clock gives do not overflow.
inline double seconds_between(std::int64_t earlier_ns, std::int64_t later_ns) noexcept {
  return std::max(0.0, 1e-9 * (static_cast<double>(later_ns) - static_cast<double>(earlier_ns)));
}

}  // namespace driftd::control
