// SPDX-License-Identifier: MIT
// The level at which an image is cut off, from the image alone: a camera may saturate below the
// largest value of its pixel format (12 bits in 16, left or right aligned). Pure; not real time.
#pragma once

#include <cstdint>
#include <span>

namespace driftd::control {

struct ClipLevel {
  std::uint32_t level_adu = 0;  ///< 0: the image is not seen to be cut off
  std::size_t pixels = 0;       ///< that have it
};

/// The largest value that so many pixels share as those of no other large value do: at least
/// eight, at least eight times the mean of the sixteen next lower values there are, and eight times
/// those that are brighter.
ClipLevel clip_level(std::span<const std::uint16_t> image);

}  // namespace driftd::control
