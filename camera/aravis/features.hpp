// SPDX-License-Identifier: MIT
// Features of a camera by name, whatever their kind: which of them have to be what, and how one is
// set, read back and reported. Called by configure(), hence by whoever connects.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "camera/aravis/handles.hpp"

namespace driftd::camera::aravis {

/// What becomes of a camera that does not take a wanted value.
enum class Need : std::uint8_t {
  Wanted,    ///< a note of severity warning
  Required,  ///< CameraError: with another value the images mean something else
};

struct Feature {
  /// What cameras call it; each that the camera has is set. Unused ones are nullptr.
  std::array<const char*, 3> names;
  /// The first that fits the feature's kind is taken: an entry of an enumeration that the camera
  /// has, `true` or `false` of a boolean, a number. Unused ones are nullptr.
  std::array<const char*, 4> values;
  Need need;
  const char* otherwise;  ///< what goes wrong with another value: the end of a sentence
};

/// What stands between sensor and pixels, and must be right before the region is set: sequencer,
/// test pattern, mirrors, binning, decimation.
std::span<const Feature> geometry_features();
/// What alters pixel values or the exposure behind the back of a fit.
std::span<const Feature> pixel_features();
/// What makes the camera obey a frame rate.
std::span<const Feature> rate_gates();
/// What would limit the rate of triggered frames.
std::span<const Feature> rate_gates_off();

/// "%.6g".
std::string number(double value);
/// " (the camera says: ...)" for the end of a sentence, if it said anything.
std::string because(const std::string& refused);

CameraNote warning(std::string key, std::string asked, std::string got, std::string text);

/// The value as text: an entry, `true`, `false` or a number; "unreadable" when it cannot be read.
/// @throws CameraError when the camera does not answer
std::string value_of(ArvCamera* camera, const char* name);

/// Sets all that the camera has of `features` and reads it back. What was right stays untouched and
/// without a note. @throws CameraError for a required one that the camera keeps otherwise
/// although it has a value that is known to be right
void apply(ArvCamera* camera, std::span<const Feature> features, std::vector<CameraNote>& notes);

}  // namespace driftd::camera::aravis
