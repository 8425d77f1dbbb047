// SPDX-License-Identifier: MIT
// Opens the stack that driftfit works on. Called once, by the thread that reads it.
#pragma once

#include <memory>
#include <string>

#include "camera/recording/image_stack.hpp"

namespace driftd::tools {

/// As camera::open_stack(). What the settings do not say about plain pixels comes from the Picasso
/// description beside them (stack.yaml).
/// @param note  null, or what of that cannot be read where the settings say enough; "": nothing
/// @throws InputError, camera::RecordingError
std::unique_ptr<camera::ImageStack> open_input(camera::StackSettings settings,
                                               std::string* note = nullptr);

}  // namespace driftd::tools
