// SPDX-License-Identifier: MIT
// Sets an opened camera up as asked, reads every setting back and reports what became of it. Called
// by whoever connects, after each (re)connection, before the stream exists.
#pragma once

#include "camera/aravis/handles.hpp"
#include "camera/sources.hpp"

namespace driftd::camera::aravis {

/// @returns the geometry, times and notes as the camera took them; description and connection are
///          left to the caller
/// @throws CameraError when the camera does not answer or cannot be used as configured at all (a
///         pixel format none of ours, no trigger where one is asked for)
SourceInfo configure(ArvCamera* camera, const AravisSettings& settings);

/// Of a camera that sends. @returns why it did not take it; empty when it did
std::string change_frame_rate(ArvCamera* camera, double rate_hz);

/// Sets exposure and gain of a camera that sends, and the frame rate again where these have changed
/// it.
/// @param settings  with what is ordered; @param info  what the camera took goes there
/// @returns why something is otherwise than ordered; "": nothing is
/// @throws CameraError when the camera cannot be read back either: nobody knows what it has by now
std::string adjust_exposure(ArvCamera* camera, const AravisSettings& settings,
                            const ExposureOrder& order, SourceInfo& info);

}  // namespace driftd::camera::aravis
