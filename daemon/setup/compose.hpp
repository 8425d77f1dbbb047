// SPDX-License-Identifier: MIT
// The one place that knows both the configuration and the parts: translates one into the other.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "camera/sources.hpp"
#include "config/config.hpp"
#include "control/search/constellation.hpp"
#include "control/search/marker_detection.hpp"
#include "daemon/loop/loop_values.hpp"
#include "daemon/loop/reflection_reader.hpp"
#include "daemon/setup/fitter_choice.hpp"
#include "fitter/fitter.hpp"

namespace driftd::daemon {

bool is_recording(const config::Config& config);

/// @param on_stream_thread_start  runs once on the camera library's receiving thread
camera::AravisSettings aravis_settings(const config::Camera& camera,
                                       std::function<void()> on_stream_thread_start);
camera::ReplaySettings replay_settings(const config::Replay& replay);

/// @param on_stream_thread_start  as above
/// @throws camera::CameraError
std::unique_ptr<camera::FrameSource> make_source(const config::Config& config,
                                                 std::function<void()> on_stream_thread_start);

/// What the camera will be asked for; what it takes is in its SourceInfo.
camera::PixelFormat configured_format(const config::Config& config);

/// Why no marker, or not the region of a reflected spot, can be in images of that size; "" where
/// one can, or the size is not known yet.
std::string image_too_small(const config::Config& config, const camera::SourceInfo& source);

/// With the camera's own range for its saturation, where neither is given.
config::Config with_range(config::Config config, const camera::SourceInfo& source);

// Below, sizes of spots and ROIs that are to be chosen from the image are the assumed ones
// (config::with_sizes).

FitterWish fitter_wish(const config::Config& config, camera::PixelFormat format);
FitterMakers fitter_makers(const config::Config& config, camera::PixelFormat format,
                           fitter::Estimator estimator, std::size_t capacity);
fitter::FitOptions fit_options(const config::Config& config, camera::PixelFormat format,
                               fitter::Estimator estimator);
control::DetectionSettings detection_settings(const config::Config& config,
                                              camera::PixelFormat format);
/// What of both the image is to tell.
bool wants_sizes(const config::Config& config);
/// The same with sizes of 0 where the image is to tell them.
control::DetectionSettings open_detection_settings(const config::Config& config,
                                                   camera::PixelFormat format);
/// Without the field, which the search sets from its frame.
control::ConstellationSettings constellation_settings(const config::Config& config);
/// The same for markers of another day, on a sample that may have been taken out.
control::ConstellationSettings place_settings(const config::Config& config);
/// @param source  gives the exposure that the camera really took
LoopSettings loop_settings(const config::Config& config, const camera::SourceInfo& source);
/// Null without axial.method `reflection`. @throws fitter::FitterError
std::unique_ptr<ReflectionReader> make_reflection_reader(const config::Config& config,
                                                         camera::PixelFormat format);
control::EstimatorSettings estimator_settings(const config::Config& config);
std::unique_ptr<MarkerSet> make_marker_set(const config::Config& config,
                                           const std::vector<control::Marker>& markers);
/// Markers of mode `list`.
std::vector<control::Marker> listed_markers(const config::Config& config);
/// The most markers that are found or listed; those of a saved place, or of an interrupted lock,
/// may be more.
std::size_t marker_capacity(const config::Config& config);

}  // namespace driftd::daemon
