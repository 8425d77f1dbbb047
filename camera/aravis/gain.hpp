// SPDX-License-Identifier: MIT
// Sets a camera's gain, which one counts in dB, another as a factor and a third in steps of its
// own. Called by configure(), hence by whoever connects.
#pragma once

#include <vector>

#include "camera/aravis/handles.hpp"

namespace driftd::camera::aravis {

/// @param gain_db  what the camera cannot do exactly is noted
/// @throws CameraError for another gain than 0 of a camera whose steps have no known meaning
void set_gain(ArvCamera* camera, double gain_db, std::vector<CameraNote>& notes);

/// The analogue gain and what may be set of it, in dB: not numbers where it has none, or counts in
/// steps of its own. @throws CameraError when the camera does not answer
double read_gain_db(ArvCamera* camera, SettableRange& range);

}  // namespace driftd::camera::aravis
