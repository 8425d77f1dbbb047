// SPDX-License-Identifier: MIT
// What the markers found in a frame say of its drift, where some of them may be other spots. Pure.
#pragma once

#include <cmath>
#include <optional>
#include <span>

#include "tools/driftfit/picks.hpp"

namespace driftd::tools {

/// The drift that most of the markers agree on: their median. It is the one nearer to the drift
/// before unless more of them, and two at least, agree on another: a single marker that went
/// elsewhere is another spot, markers that went together are the sample. Nothing where the markers
/// contradict one another and the drift before.
/// @param votes     position less place, of each marker found; none: the drift before
/// @param reach_px  how far from the common drift a marker's own may be
std::optional<Pick> common_drift(std::span<const Pick> votes, Pick before, double reach_px);

inline double distance_px(Pick a, Pick b) noexcept {
  return std::hypot(a.x_px - b.x_px, a.y_px - b.y_px);
}

}  // namespace driftd::tools
