// SPDX-License-Identifier: MIT
// z as lines: what is measured of it, and its lock. Pure; any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "clients/common/shown/line.hpp"

namespace driftd::clients::shown {

/// Whether the daemon measures z at all.
bool has_axial(const nlohmann::json& status);
/// z from its reference and, where there is none, why. Nothing of a daemon that does not measure
/// it.
/// @param position  the newest, or null: then as of the last status
void add_z(const nlohmann::json& status, const nlohmann::json& position, std::vector<Line>& lines);
/// The lock of z: its state, why and what helps, whether it lies still, where its stage was told to
/// be, and what that does. Nothing where z was never held.
/// @param correction  the newest of z, or null: then as of the last status
/// @param since_told_s  how old `status` is
void add_axial_lock(const nlohmann::json& status, const nlohmann::json& correction,
                    double since_told_s, std::vector<Line>& lines);

}  // namespace driftd::clients::shown
