// SPDX-License-Identifier: MIT
// Tells that a recording lies below the dark level that was given for it. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "camera/recording/image_stack.hpp"

namespace driftd::tools {

/// A sentence where nine of ten pixels are below the offset; else "". In a dark frame half are.
/// @param frame_number  of the frame, for the sentence
/// @param offset  a pixel's value without light; `is_map`: 0, as a map was subtracted
std::string negative_light(const camera::StackShape& shape, const std::byte* frame,
                           std::int64_t frame_number, float offset, bool is_map);

}  // namespace driftd::tools
