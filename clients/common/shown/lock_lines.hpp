// SPDX-License-Identifier: MIT
// What a lock does, of x and y or of z, as lines: its state, whether the sample lies still, its law
// and its stage. Pure; any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "clients/common/shown/line.hpp"

namespace driftd::clients {

/// Why images may not be taken, from the `gate` of `status`, or of the lock of z in it: "residual
/// 1.4 nm rms, tolerance 1 nm (gate.tolerance_nm)".
std::string why_not_in_lock(const nlohmann::json& gate);

namespace shown {

constexpr double kSilentAfter_s = 2.0;  // positions come per frame, status every second or so

Tone tone_of_state(const std::string& state);
/// "   limited: step rate", or "".
std::string limits(const nlohmann::json& correction);
/// Whether images may be taken, or why not.
/// @param lock  `status`, or the lock of z in it
Line gate_line(const char* name, const nlohmann::json& lock, bool silent);
/// Which law holds the lock, and which vibrations the observer has found.
void add_law(const char* name, const nlohmann::json& lock, std::vector<Line>& lines);
/// The residual in and out of the loop, and what the difference means.
void add_residual(const nlohmann::json& status, std::vector<Line>& lines);
/// The drift from the reference; of a sample that was moved from the set-point.
Line drift_line(const nlohmann::json& newest, const nlohmann::json& status);
/// Where the lock is to hold the sample, once it was moved.
void add_set_point(const nlohmann::json& status, std::vector<Line>& lines);
/// How the markers' pattern lies against its reference.
void add_pattern(const nlohmann::json& status, std::vector<Line>& lines);
/// What the stage's driver says of itself; nothing of one that only subscribes.
/// @param lock  `status`, or the lock of z in it
void add_stage(const char* name, const nlohmann::json& lock, std::vector<Line>& lines);
/// " for 0:03:12 (recovered)": since when a lock is in its state, up to `told_ns`, and why.
std::string since_and_why(const nlohmann::json& lock, const nlohmann::json* told_ns,
                          double since_told_s);

}  // namespace shown
}  // namespace driftd::clients
