// SPDX-License-Identifier: MIT
// What `driftctl calibrate camera` prints, proposes and keeps: text, JSON, the file of a dark
// series, maps. Pure but for the files; any thread.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "clients/driftctl/camera/photon_transfer.hpp"
#include "config/config.hpp"

namespace driftd::clients {

using KeysAndValues = std::vector<std::pair<std::string, std::string>>;

/// A gain nearer to another makes no other noise.
constexpr double kSameGainDb = 0.1;

/// What was measured, either part or both.
struct CameraReport {
  std::optional<DarkResult> dark;
  std::optional<LightResult> light;
  std::string camera, pixel_format;            ///< as `status` names them
  std::optional<config::Camera> configured;    ///< where a configuration was named
  std::optional<double> exposure_us, gain_db;  ///< of the camera, where driftd tells them
};

/// Values for the configuration, as YAML has them.
KeysAndValues proposal(const CameraReport& report);
/// Why the values proposed are not to be set by a program, a sentence without its end: there are
/// none, or there is a gain and no offset that goes with it. Empty: they may be.
std::string why_not_written(const CameraReport& report);
/// At most 100 columns.
std::vector<std::string> to_lines(const CameraReport& report);
nlohmann::json to_json(const CameraReport& report);

/// A dark series for later use, with the camera it is of, its exposure and gain.
/// @throws std::runtime_error naming the file
void write_dark(const CameraReport& report, const std::filesystem::path& file);
/// @param now  what is measured with it
/// @throws CannotCalibrate when the file is of another camera, format, exposure or gain
/// @throws std::runtime_error naming the file when it cannot be read
DarkResult read_dark(const std::filesystem::path& file, const CameraReport& now);

/// Two planes of float32 as NumPy's format: mean and variance of each pixel, ADU and ADU^2.
/// @throws std::runtime_error naming the file
void write_maps(const FrameStatistics& statistics, const std::filesystem::path& file);

}  // namespace driftd::clients
