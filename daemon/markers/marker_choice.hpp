// SPDX-License-Identifier: MIT
// A change of the markers in use that somebody chose: what is added by its place in the picture,
// taken out, or given another role. What it says, and what becomes of the markers in use by it.
// Pure.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "control/values/types.hpp"
#include "daemon/loop/loop_values.hpp"

namespace driftd::daemon {

/// Where somebody pointed at.
struct PointedPlace {
  control::Vec2 place_px;  ///< sensor pixels
  control::MarkerRole role = control::MarkerRole::Tracking;
};

/// Whole or not at all.
struct MarkerChoice {
  std::vector<PointedPlace> add;
  std::vector<std::uint32_t> remove, tracking, witness;  ///< ids
};

/// Whether a request `markers` has such a change.
bool has_choice(const nlohmann::json& request);
/// @param request  with `add`, `remove`, `tracking`, `witness`. @throws CommandRefused
MarkerChoice read_choice(const nlohmann::json& request);

/// Those in use that stay, with their new roles, each where it is now.
/// @param in_use  as measured
/// @param roi_px  side of its ROIs
/// @throws CommandRefused for an id that is not there
std::vector<control::Marker> kept_markers(const MarkersReport& in_use, int roi_px,
                                          const MarkerChoice& choice);

/// Puts the spots found where somebody pointed behind those kept, with ids that none of `in_use`
/// has. @param spots_px  of `choice.add`, one for each. @throws CommandRefused for one that another
/// marker's ROI has in it
void add_spots(std::vector<control::Marker>& kept, const MarkersReport& in_use, int roi_px,
               const MarkerChoice& choice, std::span<const control::Vec2> spots_px);

/// "(101.2, 55.9)"
std::string place_text(control::Vec2 place_px);

}  // namespace driftd::daemon
