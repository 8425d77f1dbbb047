// SPDX-License-Identifier: MIT
// What is known of each pixel of a camera: gain, offset and variance. Maps are files of one page;
// with gains or offsets the recording is read in electrons, or counts above the offset. Made and
// used by one thread.
#pragma once

#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "camera/recording/image_stack.hpp"
#include "fitter/fitter.hpp"
#include "tools/driftfit/spot_search.hpp"

namespace driftd::tools {

struct CameraMapFiles {
  std::filesystem::path gain, offset, variance;  ///< empty: none
  /// x and y in the maps of the frames' first pixel; none: maps have the frames' size.
  std::vector<int> origin_px;

  bool any() const noexcept { return !gain.empty() || !offset.empty() || !variance.empty(); }
};

/// Maps of a recording's frames, cut to them.
class CameraMaps {
 public:
  CameraMaps() = default;  ///< none
  /// @throws InputError for a map that is not what it says: of another size, or with pixels that
  /// have no such gain (1e-12 to 1e12), offset (finite) or variance (0 or more; infinite: gone);
  /// camera::RecordingError for a file that is no TIFF
  CameraMaps(const CameraMapFiles& files, const camera::StackShape& frames);

  /// The recording as floats, (pixel - offset) gain, with pixels that are gone (of infinite
  /// variance) as 0; itself where no map says so. A pixel at or above saturation becomes NaN.
  /// @param noise  of the pixels as recorded, says what a map does not; then that of those read:
  ///   of gain 1 and offset 0 where maps have made them so, and the read noise of the median pixel
  /// @param saturation_adu  of the pixels as recorded; infinite where it has been applied
  std::unique_ptr<camera::ImageStack> applied_to(std::unique_ptr<camera::ImageStack> stack,
                                                 fitter::NoiseModel& noise, float& saturation_adu);

  /// Whether frames are floats of (pixel - offset) gain since applied_to().
  bool convert() const noexcept { return converted_; }
  /// What the recording has where frames have `light`; of recorded floats to 16 bits of it.
  float as_recorded(std::size_t pixel, float light) const noexcept;

  /// Each pixel's variance in a frame as applied_to() reads it, in squares of its unit; null: no
  /// map.
  const float* variances() const noexcept {
    return variances_.empty() ? nullptr : variances_.data();
  }
  const HotPixels& hot() const noexcept { return hot_; }
  /// As applied_to() was given it: of the pixels as recorded; infinite: none.
  float saturation_adu() const noexcept { return saturation_adu_; }
  /// Standard deviation that rounding to whole counts has left in what applied_to() reads; 0: the
  /// pixels tell it themselves.
  double rounding_noise() const noexcept { return rounding_noise_; }

 private:
  std::vector<float> gains_, offsets_, variances_;
  HotPixels hot_;
  double rounding_noise_ = 0;
  bool converted_ = false;
  bool whole_counts_ = false;  ///< of the recording
  float offset_adu_ = 0;       ///< of all pixels, without a map
  float saturation_adu_ = std::numeric_limits<float>::infinity();
};

}  // namespace driftd::tools
