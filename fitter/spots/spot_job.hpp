// SPDX-License-Identifier: MIT
// Frames of the host in which a GPU finds spots, and fits them. Plain values.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "fitter/fitter.hpp"
#include "fitter/spots/hot_pixels.hpp"
#include "fitter/spots/spot_search.hpp"

namespace driftd::fitter {

struct SpotJob {
  FrameShape shape;  ///< of the frames as they are fitted
  std::size_t count = 0;
  const std::byte* frames = nullptr;  ///< one after another without gaps; or null:
  /// Brings one of them, from any thread.
  std::function<void(std::size_t frame, std::byte* to)> bring;
  const SpotSearch* search = nullptr;
  const HotPixels* hot = nullptr;
  int roi_px = 0;  ///< 0: they are found alone. The options and variances are of the fits
  FitOptions options;
  const float* variances = nullptr;  ///< of the pixels of a frame; null: no map
};

/// In the order of frames, and of reading in a frame.
struct FoundInFrames {
  std::vector<FrameSpot> spots;
  /// Of each, in its ROI, which begins at roi_origin(); none where roi_px is 0.
  std::vector<Localization> fits;
};

}  // namespace driftd::fitter
