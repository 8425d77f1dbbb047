// SPDX-License-Identifier: MIT
// Counts spots that are cut off at their top, by the camera or by whoever saved the recording: they
// fit too wide, and nothing else tells of it. Owned and called by one thread.
//
// Such a spot has neighbouring pixels of exactly one value, next to none above it and next to none
// right below, in the shape of a spot's middle, from where it falls off. A row of hot pixels or the
// track of a particle is no such shape, hot pixels stand on the background, a bead with a flat top
// falls off slowly; and where nothing has noise, equal pixels tell nothing. Of chance they stand at
// many levels: one level has to have most.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fitter/fitter.hpp"

namespace driftd::tools {

class ClippedPixels {
 public:
  /// @param saturation  what reaches it is not fitted, and not told
  explicit ClippedPixels(float saturation = std::numeric_limits<float>::infinity())
      : saturation_(static_cast<double>(saturation)) {}

  /// The ROIs of a batch, in any order and number of calls, as they were recorded: what is
  /// subtracted of each pixel for itself hides that they are equal.
  void look_at(const fitter::Batch& batch);
  /// The largest pixel of each ROI of the last batch; NaN where there is none.
  std::span<const float> tops() const noexcept { return tops_; }

  /// At which spots are cut off; nothing where few of the ROIs are.
  std::optional<double> level() const;
  /// ROIs that were looked at, and those of them with no pixel at a level or above (a few within
  /// 0.8 % of it may be left out, too).
  std::size_t rois() const noexcept { return rois_; }
  std::size_t below(double level) const;
  /// A sentence without an end, of a level: "12 % of the ROIs have ...: spots that are clipped fit
  /// too wide".
  std::string told(double level) const;

 private:
  template <class Pixel>
  void look_at(const Pixel* pixels, std::size_t side, std::size_t count);
  std::size_t above(double level) const;

  double saturation_;
  std::size_t rois_ = 0;
  std::map<double, std::size_t> flat_;            ///< how many ROIs are cut off, by the level
  std::map<std::uint32_t, std::size_t> by_tops_;  ///< how many have a largest pixel about there
  std::vector<float> tops_;
};

/// A level that is not above this one in few digits, so that --saturation leaves out what is there.
std::string level_in_digits(double level);

}  // namespace driftd::tools
