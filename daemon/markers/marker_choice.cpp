// SPDX-License-Identifier: MIT
#include "daemon/markers/marker_choice.hpp"

#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "daemon/wire/answer.hpp"

namespace driftd::daemon {
namespace {

using control::Marker;
using control::MarkerRole;
using nlohmann::json;

constexpr std::array kFields = {"add", "remove", "tracking", "witness"};
constexpr double kFarthestPx = 65'536;  ///< of any sensor

CommandRefused bad(std::string text) {
  return {Refusal::BadRequest, std::move(text)};
}

const json& list_of(const json& request, const char* field, const char* what) {
  static const json none = json::array();
  if (!request.contains(field)) return none;
  const json& list = request[field];
  if (!list.is_array() || list.empty() || list.size() > control::kMaxMarkers)
    throw bad(fmt::format("`{}` is a list of 1 to {} {}", field, control::kMaxMarkers, what));
  return list;
}

std::vector<std::uint32_t> ids_of(const json& request, const char* field) {
  std::vector<std::uint32_t> ids;
  for (const json& id : list_of(request, field, "ids of markers")) {
    const bool is_one = id.is_number_integer() && id.get<std::int64_t>() >= 0 &&
                        id.get<std::int64_t>() <= std::int64_t{UINT32_MAX};
    if (!is_one) throw bad(fmt::format("`{}` is a list of ids of markers, such as [3]", field));
    ids.push_back(id.get<std::uint32_t>());
  }
  return ids;
}

double place_of(const json& place, const char* axis) {
  const auto value = place.find(axis);
  const bool is_one = value != place.end() && value->is_number() &&
                      std::abs(value->get<double>()) <= kFarthestPx;  // false of no number
  if (!is_one)
    throw bad(
        fmt::format("`{}` of `add` is a number of sensor pixels, at most {}", axis, kFarthestPx));
  return value->get<double>();
}

PointedPlace pointed_of(const json& place) {
  if (!place.is_object())
    throw bad("`add` is a list of places, such as [{\"x_px\":101.2,\"y_px\":55.9}]");
  for (const auto& [key, value] : place.items()) {
    if (key != "x_px" && key != "y_px" && key != "role")
      throw bad(fmt::format("a place of `add` has `x_px`, `y_px` and `role`, not `{:.40}`", key));
  }
  PointedPlace pointed{.place_px = {place_of(place, "x_px"), place_of(place, "y_px")}};
  const json role = place.value("role", json("tracking"));
  if (role != "tracking" && role != "witness")
    throw bad("`role` of `add` is \"tracking\" or \"witness\"");
  if (role == "witness") pointed.role = MarkerRole::Witness;
  return pointed;
}

bool has(const std::vector<std::uint32_t>& ids, std::uint32_t id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

/// Where it is by the newest frame, or, where that did not show it, where it is looked for.
control::Vec2 place_now(const MarkersReport::Entry& entry, int roi_px) {
  const bool is_seen = entry.result.health == control::MarkerHealth::Good ||
                       entry.result.health == control::MarkerHealth::Unreferenced;
  if (is_seen && entry.observation.fitted) return {entry.observation.x_px, entry.observation.y_px};
  const double half_px = 0.5 * (roi_px - 1);
  return {entry.roi.x_px + half_px, entry.roi.y_px + half_px};
}

std::span<const MarkersReport::Entry> entries(const MarkersReport& report) {
  return std::span(report.entries).first(report.count);
}

void check_ids(const MarkersReport& in_use, const MarkerChoice& choice) {
  std::vector<std::uint32_t> known, named;
  for (const auto& entry : entries(in_use)) known.push_back(entry.marker.id);
  for (const auto* ids : {&choice.remove, &choice.tracking, &choice.witness}) {
    for (const std::uint32_t id : *ids) {
      if (!has(known, id))
        throw CommandRefused{
            Refusal::Refused,
            known.empty()
                ? fmt::format("there is no marker {}: none is in use", id)
                : fmt::format("there is no marker {}: there are {}", id, fmt::join(known, ", "))};
      if (has(named, id)) throw bad(fmt::format("marker {} is named twice", id));
      named.push_back(id);
    }
  }
}

}  // namespace

bool has_choice(const json& request) {
  return std::any_of(kFields.begin(), kFields.end(),
                     [&](const char* field) { return request.contains(field); });
}

MarkerChoice read_choice(const json& request) {
  MarkerChoice choice;
  for (const json& place : list_of(request, "add", "places"))
    choice.add.push_back(pointed_of(place));
  choice.remove = ids_of(request, "remove");
  choice.tracking = ids_of(request, "tracking");
  choice.witness = ids_of(request, "witness");
  return choice;
}

std::string place_text(control::Vec2 place_px) {
  return fmt::format("({:.1f}, {:.1f})", place_px.x, place_px.y);
}

std::vector<Marker> kept_markers(const MarkersReport& in_use, int roi_px,
                                 const MarkerChoice& choice) {
  check_ids(in_use, choice);
  std::vector<Marker> kept;
  for (const auto& entry : entries(in_use)) {
    Marker marker = entry.marker;
    if (has(choice.remove, marker.id)) continue;
    if (has(choice.tracking, marker.id)) marker.role = MarkerRole::Tracking;
    if (has(choice.witness, marker.id)) marker.role = MarkerRole::Witness;
    const control::Vec2 place_px = place_now(entry, roi_px);
    marker.x_px = place_px.x;
    marker.y_px = place_px.y;
    kept.push_back(marker);
  }
  return kept;
}

void add_spots(std::vector<Marker>& kept, const MarkersReport& in_use, int roi_px,
               const MarkerChoice& choice, std::span<const control::Vec2> spots_px) {
  std::vector<std::uint32_t> taken;
  for (const auto& entry : entries(in_use)) taken.push_back(entry.marker.id);
  std::uint32_t id = 0;
  for (std::size_t i = 0; i < std::min(spots_px.size(), choice.add.size()); ++i) {
    const control::Vec2 spot = spots_px[i];
    for (const Marker& other : kept) {
      const double away_px = std::hypot(spot.x - other.x_px, spot.y - other.y_px);
      if (away_px >= 0.5 * roi_px) continue;
      throw CommandRefused{
          Refusal::Refused,
          away_px < 1
              ? fmt::format("the spot at {} is marker {} already", place_text(spot), other.id)
              : fmt::format("the spot at {} is {:.1f} px from marker {}: half a ROI, {:.1f} "
                            "px, is the least",
                            place_text(spot), away_px, other.id, 0.5 * roi_px)};
    }
    do ++id;
    while (has(taken, id));
    kept.push_back({id, choice.add[i].role, spot.x, spot.y});
  }
}

}  // namespace driftd::daemon
