// SPDX-License-Identifier: MIT
// What ImageJ, and SCIFIO after it, say of a TIFF's images in its description: lines of key=value.
// Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "camera/recording/planes.hpp"

namespace driftd::camera {

bool is_imagej(std::string_view description);
/// The number of a `key=NUMBER` on a line of its own.
std::optional<double> number_said(std::string_view description, std::string_view key);
/// How many images ImageJ says it wrote; 1 where it does not say.
std::int64_t images_said(std::string_view description);
/// The extent of a hyperstack; one axis alone where it is none.
/// @throws RecordingError where its numbers contradict one another, and for other axes of SCIFIO's
PlaneExtent extent_said(const StackSettings& settings, std::string_view description,
                        std::int64_t images);
std::optional<double> rate_said_hz(std::string_view description);

}  // namespace driftd::camera
