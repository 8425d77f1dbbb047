// SPDX-License-Identifier: MIT
// Counts spots that are cut off at their top: neighbouring pixels of exactly one value, next to
// none above it and next to none right below. Clipped, by the camera or by whoever saved the
// recording: they fit too wide, and nothing else tells of it. Owned and called by one thread.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "fitter/fitter.hpp"

namespace driftd::tools {

class ClippedPixels {
 public:
  /// The ROIs of a batch, in any order and number of calls, as they were recorded: what is
  /// subtracted of each pixel for itself hides that they are equal.
  void look_at(const fitter::Batch& batch);
  /// A sentence, or "" where few ROIs are so.
  std::string told() const;

 private:
  template <class Pixel>
  void look_at(const Pixel* pixels, std::size_t side, std::size_t count);

  std::size_t rois_ = 0;
  std::map<double, std::size_t> flat_;  ///< how many ROIs are cut off, by the level
};

}  // namespace driftd::tools
