// SPDX-License-Identifier: MIT
// Reads a recording into memory: a TIFF stack or a file of plain pixels. Used by the replay source
// while it is made; everything here throws CameraError with the file's name in it.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "camera/frame.hpp"
#include "camera/sources.hpp"

namespace driftd::camera {

/// Frames first_frame .. first_frame + count - 1 of a file, one after another without padding.
struct ReplayImages {
  std::vector<std::byte> pixels;
  PixelFormat format = PixelFormat::Mono8;  ///< Mono8 or Mono16
  int width_px = 0;
  int height_px = 0;
  int first_frame = 0;
  int count = 0;
  /// Frames per second by the file's own metadata (ImageJ `finterval` or `fps`), if it has any.
  std::optional<double> recorded_rate_hz;
};

/// Reads the range of frames that the settings ask for. @throws CameraError
ReplayImages read_recording(const ReplaySettings& settings);

}  // namespace driftd::camera
