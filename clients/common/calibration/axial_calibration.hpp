// SPDX-License-Identifier: MIT
// What the daemon found out by a sweep of z (docs/reference/protocol.md, `calibration`): lines for
// people, and values for the configuration. Pure functions; no socket, no file.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "clients/common/calibration_file.hpp"

namespace driftd::clients {

constexpr const char* kAxialFile = "axial-calibration.yaml";

/// Each figure with what it means. @throws nlohmann::json::exception where it is no such result
std::vector<std::string> axial_findings(const nlohmann::json& result);

/// What the configuration is to have: the curve and the stage's gain that it was made with, or the
/// slope of the reflected spot. @param curve  axial.curve
/// @throws nlohmann::json::exception where it is no such result
KeyValues axial_values(const nlohmann::json& result, const std::string& curve);

/// The stage's gain where the curve until now is right, and stays.
/// @throws std::runtime_error where the sweep does not tell it
KeyValues gain_by_curve(const nlohmann::json& result);

/// YAML of the curve, and its picture; both empty of a reflected spot.
struct CurveTexts {
  std::string curve, picture;
};
CurveTexts curve_texts(const nlohmann::json& result);

}  // namespace driftd::clients
