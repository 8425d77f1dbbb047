// SPDX-License-Identifier: MIT
// The times of frames in the metadata that Micro-Manager and NDTiff write of each.
#pragma once

#include <cstdint>
#include <vector>

#include "camera/recording/image_stack.hpp"

namespace driftd::tools {

/// A number for each frame of the stack, in s: when it was taken; NaN outside of first .. first +
/// count - 1, and where the metadata do not say. Empty: none does. While no
/// other thread reads the stack. @throws camera::RecordingError
std::vector<double> times_in_metadata(camera::ImageStack& stack, std::int64_t first,
                                      std::int64_t count);

}  // namespace driftd::tools
