// SPDX-License-Identifier: MIT
// Counts spots whose brightest pixels are all one value, the largest there is: clipped, by the
// camera or by whoever saved the recording. They fit too wide, and nothing else tells of it. Owned
// and called by one thread.
#pragma once

#include <cstddef>
#include <string>

#include "fitter/fitter.hpp"

namespace driftd::tools {

class ClippedPixels {
 public:
  /// The ROIs of a batch, in any order and number of calls.
  void look_at(const fitter::Batch& batch);
  /// A sentence, or "" where few ROIs are so.
  std::string told() const;

 private:
  template <class Pixel>
  void look_at(const Pixel* pixels, std::size_t area, std::size_t count);

  double largest_ = 0;               ///< pixel
  std::size_t rois_ = 0, flat_ = 0;  ///< looked at; with several pixels of `largest_`
};

}  // namespace driftd::tools
