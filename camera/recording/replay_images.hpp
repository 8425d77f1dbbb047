// SPDX-License-Identifier: MIT
// The frames of a recording that are replayed, in memory. Used by the replay source while it is
// made.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
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
  /// As of ImageStack.
  std::optional<double> recorded_rate_hz;
  std::vector<std::string> notes;
  std::vector<bool> left_out;  ///< by frame: ImageStack::is_repeat(), but never the first
};

/// Reads the range of frames that the settings ask for. @throws RecordingError
ReplayImages read_recording(const ReplaySettings& settings);

}  // namespace driftd::camera
