// SPDX-License-Identifier: MIT
// Camera, frames, record, latency and fitter as lines. Pure; any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "clients/common/shown/line.hpp"

namespace driftd::clients::shown {

Line camera_line(const nlohmann::json& status);
/// What the camera took otherwise than asked, a line each.
void add_camera_warnings(const nlohmann::json& status, std::vector<Line>& lines);
Line frames_line(const nlohmann::json& status);
Line markers_line(const nlohmann::json& status);
/// A recording under way, or why there is none any more; nothing where that is as ordered.
void add_record(const nlohmann::json& status, std::vector<Line>& lines);
Line latency_line(const nlohmann::json& status);
Line fitter_line(const nlohmann::json& status);

}  // namespace driftd::clients::shown
