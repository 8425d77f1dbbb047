// SPDX-License-Identifier: MIT
// The library's search for spots, and its pixels that are too noisy for it, in frames of a stack.
#pragma once

#include "camera/recording/image_stack.hpp"
#include "fitter/spots/hot_pixels.hpp"
#include "fitter/spots/spot_search.hpp"
#include "tools/driftfit/spot.hpp"

namespace driftd::tools {

using fitter::FoundSpot;
using fitter::kNoiseSds;
using fitter::kRoundingVariance;
using fitter::median_of;
using fitter::SpotSearchSettings;

inline fitter::FrameShape frame_shape(const camera::StackShape& shape) noexcept {
  return {shape.width_px, shape.height_px, fitter_type(shape.type)};
}

struct SpotSearch : fitter::SpotSearch {
  using fitter::SpotSearch::SpotSearch;
  std::vector<FoundSpot> find(const camera::StackShape& shape, const std::byte* frame) const {
    return fitter::SpotSearch::find(frame_shape(shape), frame);
  }
};

struct HotPixels : fitter::HotPixels {
  using fitter::HotPixels::HotPixels;
  const std::byte* filled(const camera::StackShape& shape, const std::byte* frame,
                          std::vector<std::byte>& copy) const {
    return fitter::HotPixels::filled(frame_shape(shape), frame, copy);
  }
};

}  // namespace driftd::tools
