// SPDX-License-Identifier: MIT
// The state file of a lock and the file of a place: one as it is, or the JSON alone, which then
// gets its checksum.
#include "daemon/places/saved_place.hpp"

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "fuzz/fuzz.hpp"

namespace driftd::fuzz {
namespace {

using namespace daemon;

void check_place(Vec2 place, double farthest) {
  require(std::abs(place.x) <= farthest && std::abs(place.y) <= farthest, "places are near");
}

void check_size(double size, double most) {
  require(size >= 0 && size <= most, "sizes are finite and not below 0");
}

void check_lock(const SavedLock& lock) {
  require(!lock.markers.empty() && lock.markers.size() <= control::kMaxMarkers, "it has markers");
  for (const SavedMarker& marker : lock.markers) {
    check_place(marker.reference.place_px, 1e6);
    for (const double size :
         {marker.reference.sigma_px, marker.reference.amplitude_adu, marker.reference.variance_nm2})
      check_size(size, 1e9);
  }
  for (const Vec2 place : {lock.total_nm, lock.carried_nm, lock.travelled_nm})
    check_place(place, 1e9);
  check_size(lock.spot_sigma_px, 1e3);
  check_size(lock.roi_px, 1e3);
  check_size(lock.saturation_adu, 1e6);
  for (const char* boot_id : {"b", "another"}) {
    const SavedTime now{
        .wall_ns = 1'800'000'000'000'000'000, .uptime_ns = 1'000'000'000'000, .boot_id = boot_id};
    if (const auto s = seconds_between(lock.time, now)) check_size(*s, 1e11);
  }
  const std::string written = to_text(lock);
  require(to_text(read_saved_lock(written)) == written, "what is written reads as the same");
}

/// Nothing where it is refused.
template <typename Saved>
std::optional<Saved> read(const std::string& given, const Seal& seal,
                          Saved (*reader)(const std::string&)) {
  try {
    return reader(given.starts_with('{') ? sealed(given, seal) : given);
  } catch (const StateError& error) {
    require(error.what()[0] != '\0', "a refusal says something");
    return std::nullopt;
  }
}

void check_saved_place(const SavedPlace& place) {
  require(is_place_note(place.note), "a note is a line");
  check_lock(place.seen);
  const std::string written = to_text(place);
  require(to_text(read_saved_place(written)) == written, "what is written reads as the same");
  require(when_of(place).size() == 20, "it tells when it was", when_of(place));
  require(details_of(place).at("markers").size() == place.seen.markers.size(), "all are shown");
}

}  // namespace

void saved_lock(Bytes bytes) {
  const std::string given = text_of(bytes);
  if (const auto lock = read(given, kLockSeal, &read_saved_lock)) check_lock(*lock);
  if (const auto place = read(given, kPlaceSeal, &read_saved_place)) check_saved_place(*place);
}

}  // namespace driftd::fuzz
