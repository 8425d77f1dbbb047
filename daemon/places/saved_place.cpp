// SPDX-License-Identifier: MIT
#include "daemon/places/saved_place.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>

#include "base/monotonic.hpp"
#include "daemon/resume/sealed_json.hpp"

namespace driftd::daemon {
namespace {

using nlohmann::json;

bool is_plain(char c) noexcept {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '-' ||
         c == '_';
}

/// How far the markers reach along each axis.
Vec2 extent_px(const SavedPlace& place) {
  Vec2 low = place.seen.markers.front().reference.place_px, high = low;
  for (const SavedMarker& marker : place.seen.markers) {
    const Vec2 at = marker.reference.place_px;
    low = {std::min(low.x, at.x), std::min(low.y, at.y)};
    high = {std::max(high.x, at.x), std::max(high.y, at.y)};
  }
  return {high.x - low.x, high.y - low.y};
}

}  // namespace

bool is_place_name(std::string_view name) noexcept {
  return !name.empty() && name.size() <= kLongestPlaceName && std::ranges::all_of(name, is_plain);
}

bool is_place_note(const std::string& note) {
  const bool is_line = std::ranges::none_of(
      note, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 127; });
  return is_line && note.size() <= kLongestPlaceNote;
}

std::string to_text(const SavedPlace& place) {
  json body = to_json(place.seen);
  body["note"] = place.note;
  return sealed_json(body, kPlaceSeal);
}

SavedPlace read_saved_place(const std::string& text) {
  return read_sealed(text, kPlaceSeal, [](const json& body) {
    SavedPlace place{.note = body.at("note").get<std::string>(), .seen = saved_lock_of(body)};
    if (!is_place_note(place.note))
      throw StateError(
          fmt::format("its note is not one line of at most {} bytes", kLongestPlaceNote));
    return place;
  });
}

std::string when_of(const SavedPlace& place) {
  const std::time_t seconds = place.seen.time.wall_ns / kNanosecondsPerSecond;
  std::tm t{};
  gmtime_r(&seconds, &t);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", t.tm_year + 1900, t.tm_mon + 1,
                     t.tm_mday, t.tm_hour, t.tm_min, t.tm_sec);
}

json summary_of(const SavedPlace& place) {
  const Vec2 extent = extent_px(place);
  return {
      {"saved_at", when_of(place)}, {"markers", place.seen.markers.size()}, {"width_px", extent.x},
      {"height_px", extent.y},      {"axes", place.seen.z ? "xyz" : "xy"},  {"note", place.note}};
}

json details_of(const SavedPlace& place) {
  json shown = summary_of(place);
  json markers = json::array();
  for (const SavedMarker& marker : place.seen.markers) {
    const control::MarkerReference& r = marker.reference;
    markers.push_back(
        {{"id", marker.id},
         {"role", marker.role == control::MarkerRole::Witness ? "witness" : "tracking"},
         {"x_px", r.place_px.x},
         {"y_px", r.place_px.y},
         {"sd_nm", std::sqrt(r.variance_nm2)},
         {"sigma_px", r.sigma_px},
         {"amplitude_adu", r.amplitude_adu}});
  }
  shown["markers"] = std::move(markers);
  shown["instrument"] = place.seen.meaning;
  shown["stage"] = nullptr;
  if (place.seen.stage)
    shown["stage"] = {{"driver", place.seen.stage->driver},
                      {"description", place.seen.stage->description},
                      {"position_nm", place.seen.stage->position_nm}};
  return shown;
}

}  // namespace driftd::daemon
