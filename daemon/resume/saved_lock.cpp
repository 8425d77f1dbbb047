// SPDX-License-Identifier: MIT
#include "daemon/resume/saved_lock.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "base/monotonic.hpp"
#include "daemon/resume/sealed_json.hpp"

namespace driftd::daemon {
namespace {

using nlohmann::json;

// The first line is "driftd-lock VERSION CHECKSUM BYTES"; the checksum is of the bytes after it.
constexpr int kVersion = 1;
constexpr double kFarthestPx = 1e6;
constexpr std::int64_t kLatestNs = 4'000'000'000'000'000'000;  // in 2096; differences fit, too
constexpr double kFarthestNm = 1e9;

/// CRC-32 (IEEE 802.3): any change of up to 32 bits in a row shows.
std::uint32_t checksum(std::string_view text) {
  constexpr std::uint32_t kPolynomial = 0xEDB88320;
  std::uint32_t crc = 0xFFFFFFFF;
  for (const char c : text) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? kPolynomial : 0);
  }
  return ~crc;
}

std::string first_line(std::string_view body, const Seal& seal) {
  return fmt::format("{} {} {:08x} {}\n", seal.name, kVersion, checksum(body), body.size());
}

std::int64_t time_of(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return std::int64_t{now.tv_sec} * kNanosecondsPerSecond + now.tv_nsec;
}

json to_json(Vec2 v) {
  return {v.x, v.y};
}

double number(const json& value, double low, double high) {
  const double number = value.get<double>();
  if (!(number >= low && number <= high))
    throw StateError(fmt::format("it holds {}, which is not from {} to {}", number, low, high));
  return number;
}

/// Checks before the cast: a number that is not whole, or too large for its type, would become any.
std::int64_t whole(const json& value, std::int64_t high) {
  const bool fits =
      value.is_number_unsigned() && value.get<std::uint64_t>() <= static_cast<std::uint64_t>(high);
  if (!fits)
    throw StateError(fmt::format("it holds a number that is not whole from 0 to {}", high));
  return value.get<std::int64_t>();
}

Vec2 vector(const json& value, double farthest) {
  if (value.size() != 2) throw StateError("it holds a place that is not two numbers");
  return {number(value.at(0), -farthest, farthest), number(value.at(1), -farthest, farthest)};
}

json to_json(const SavedMarker& marker) {
  const control::MarkerReference& r = marker.reference;
  json value = {{"id", marker.id},
                {"witness", marker.role == control::MarkerRole::Witness},
                {"place_px", to_json(r.place_px)},
                {"sigma_px", r.sigma_px},
                {"amplitude_adu", r.amplitude_adu},
                {"variance_nm2", r.variance_nm2},
                {"trusted", r.trusted}};
  if (std::isfinite(r.z_nm)) {
    value["z_nm"] = r.z_nm;
    value["z_variance_nm2"] = r.z_variance_nm2;
  }
  return value;
}

json to_json(const SavedAxial& z) {
  json value = {{"lock_id", z.lock_id},           {"reading", z.reading},
                {"total_nm", z.total_nm},         {"carried_nm", z.carried_nm},
                {"travelled_nm", z.travelled_nm}, {"set_nm", z.set_nm}};
  if (z.driver_reported) value["driver_reported"] = true;
  if (z.time) value["time"] = to_json(*z.time);
  if (!z.place.empty()) value["place"] = z.place;
  if (z.spot)
    value["spot"] = {{"along_px", z.spot->along_px},
                     {"across_px", z.spot->across_px},
                     {"variance_px2", z.spot->variance_px2},
                     {"sigma_px", z.spot->sigma_px},
                     {"light", z.spot->light}};
  return value;
}

/// One that is read from the markers has none.
std::optional<control::SpotZero> read_spot(const json& z) {
  if (!z.contains("spot")) return std::nullopt;
  constexpr double kMost = 1e12;
  const json& spot = z.at("spot");
  return control::SpotZero{.along_px = number(spot.at("along_px"), -kFarthestPx, kFarthestPx),
                           .across_px = number(spot.at("across_px"), -kFarthestPx, kFarthestPx),
                           .variance_px2 = number(spot.at("variance_px2"), 0, kMost),
                           .sigma_px = number(spot.at("sigma_px"), 0, kFarthestPx),
                           .light = number(spot.at("light"), 0, kMost)};
}

/// A driftd that did not hold z did not write it.
std::optional<SavedAxial> read_axial(const json& body) {
  if (!body.contains("z")) return std::nullopt;
  const json& z = body.at("z");
  const auto nm = [&](const char* key) { return number(z.at(key), -kFarthestNm, kFarthestNm); };
  std::optional<SavedTime> time;
  if (z.contains("time")) time = saved_time_of(z.at("time"));
  return SavedAxial{.lock_id = static_cast<std::uint64_t>(whole(z.at("lock_id"), INT64_MAX)),
                    .reading = z.at("reading").get<std::string>(),
                    .total_nm = nm("total_nm"),
                    .carried_nm = nm("carried_nm"),
                    .travelled_nm = nm("travelled_nm"),
                    .set_nm = nm("set_nm"),
                    .spot = read_spot(z),
                    // An earlier driftd did not write it.
                    .driver_reported = z.value("driver_reported", false),
                    .time = std::move(time),
                    .place = z.value("place", "")};
}

SavedMarker read_marker(const json& value) {
  constexpr double kMost = 1e9;
  SavedMarker marker = {.id = static_cast<std::uint32_t>(whole(value.at("id"), UINT32_MAX)),
                        .role = value.at("witness").get<bool>() ? control::MarkerRole::Witness
                                                                : control::MarkerRole::Tracking,
                        .reference = {.place_px = vector(value.at("place_px"), kFarthestPx),
                                      .sigma_px = number(value.at("sigma_px"), 0, kMost),
                                      .amplitude_adu = number(value.at("amplitude_adu"), 0, kMost),
                                      .variance_nm2 = number(value.at("variance_nm2"), 0, kMost),
                                      .trusted = value.at("trusted").get<bool>()}};
  if (value.contains("z_nm")) {
    marker.reference.z_nm = number(value.at("z_nm"), -kFarthestNm, kFarthestNm);
    marker.reference.z_variance_nm2 = number(value.at("z_variance_nm2"), 0, kMost);
  }
  return marker;
}

std::optional<SavedStage> read_stage(const json& value) {
  if (value.is_null()) return std::nullopt;
  return SavedStage{.driver = value.at("driver").get<std::string>(),
                    .description = value.at("description").get<std::string>(),
                    .position_nm = value.at("position_nm").get<std::map<std::string, double>>()};
}

}  // namespace

json to_json(const SavedTime& time) {
  return {{"wall_ns", time.wall_ns}, {"uptime_ns", time.uptime_ns}, {"boot_id", time.boot_id}};
}

SavedTime saved_time_of(const json& body) {
  return {.wall_ns = whole(body.at("wall_ns"), kLatestNs),
          .uptime_ns = whole(body.at("uptime_ns"), kLatestNs),
          .boot_id = body.at("boot_id").get<std::string>()};
}

SavedLock saved_lock_of(const json& body, bool of_z_alone) {
  SavedLock lock{.time = saved_time_of(body),
                 .session = body.at("session").get<std::string>(),
                 .lock_id = static_cast<std::uint64_t>(whole(body.at("lock_id"), INT64_MAX)),
                 .lost = body.at("lost").get<bool>(),
                 .meaning = body.at("meaning").get<std::map<std::string, std::string>>(),
                 .markers = {},
                 .spot_sigma_px = number(body.at("spot_sigma_px"), 0, 1e3),
                 .roi_px = static_cast<int>(number(body.at("roi_px"), 0, 1e3)),
                 .saturation_adu = static_cast<int>(number(body.at("saturation_adu"), 0, 1e6)),
                 // A driftd in which nobody could choose them did not write it.
                 .chosen = body.value("chosen", false),
                 .total_nm = vector(body.at("total_nm"), kFarthestNm),
                 .carried_nm = vector(body.at("carried_nm"), kFarthestNm),
                 .travelled_nm = vector(body.at("travelled_nm"), kFarthestNm),
                 // A driftd without moves did not write it.
                 .set_nm = vector(body.value("set_nm", json{0, 0}), kFarthestNm),
                 .stage = read_stage(body.at("stage")),
                 .z = read_axial(body),
                 .of_z_alone = of_z_alone};
  if (of_z_alone && !lock.z) throw StateError("it is of z alone, and holds none");
  if (of_z_alone) lock.lock_id = lock.z->lock_id;
  const bool needs_markers = !of_z_alone || !lock.z->spot;
  const json& markers = body.at("markers");
  if ((markers.empty() && needs_markers) || markers.size() > control::kMaxMarkers)
    throw StateError(fmt::format("it holds {} markers", markers.size()));
  for (const json& marker : markers) lock.markers.push_back(read_marker(marker));
  return lock;
}

SavedTime SavedTime::now() {
  SavedTime time{.wall_ns = time_of(CLOCK_REALTIME), .uptime_ns = time_of(CLOCK_BOOTTIME)};
  std::ifstream("/proc/sys/kernel/random/boot_id") >> time.boot_id;
  return time;
}

std::ptrdiff_t same_zeros(const MarkersReport& now, const std::vector<SavedMarker>& before) {
  const auto has_same = [&before](const MarkersReport::Entry& entry) {
    return entry.marker.role == control::MarkerRole::Tracking &&
           std::ranges::any_of(before, [&entry](const SavedMarker& saved) {
             return saved.id == entry.marker.id && saved.reference.trusted &&
                    saved.reference.z_nm == entry.reference.z_nm;  // NaN: none, and not the same
           });
  };
  return std::ranges::count_if(std::span(now.entries).first(now.count), has_same);
}

std::optional<double> seconds_between(const SavedTime& before, const SavedTime& now) {
  const bool same_boot = !before.boot_id.empty() && before.boot_id == now.boot_id;
  const std::int64_t ns =
      same_boot ? now.uptime_ns - before.uptime_ns : now.wall_ns - before.wall_ns;
  if (ns < 0) return std::nullopt;
  return 1e-9 * static_cast<double>(ns);
}

std::string duration_text(double s) {
  if (s < 100) return fmt::format("{:.1f} s", s);
  if (s < 6000) return fmt::format("{:.0f} min", s / 60);
  return fmt::format("{:.1f} h", s / 3600);
}

json to_json(const SavedLock& lock) {
  json markers = json::array();
  for (const SavedMarker& marker : lock.markers) markers.push_back(to_json(marker));
  json stage = nullptr;
  if (lock.stage)
    stage = {{"driver", lock.stage->driver},
             {"description", lock.stage->description},
             {"position_nm", lock.stage->position_nm}};
  json body = {{"session", lock.session},
               {"lock_id", lock.lock_id},
               {"lost", lock.lost},
               {"meaning", lock.meaning},
               {"spot_sigma_px", lock.spot_sigma_px},
               {"roi_px", lock.roi_px},
               {"saturation_adu", lock.saturation_adu},
               {"chosen", lock.chosen},
               {"total_nm", to_json(lock.total_nm)},
               {"carried_nm", to_json(lock.carried_nm)},
               {"travelled_nm", to_json(lock.travelled_nm)},
               {"set_nm", to_json(lock.set_nm)},
               {"stage", stage},
               {"markers", markers}};
  body.update(to_json(lock.time));
  if (lock.z) body["z"] = to_json(*lock.z);
  return body;
}

std::string to_text(const SavedLock& lock) {
  return sealed_json(to_json(lock), lock.of_z_alone ? kAxialSeal : kLockSeal);
}

std::string sealed_json(const json& body, const Seal& seal) {
  return sealed(body.dump(1, ' ', false, json::error_handler_t::replace) + "\n", seal);
}

std::string sealed(std::string_view body, const Seal& seal) {
  return first_line(body, seal).append(body);
}

std::string unsealed(const std::string& text, const Seal& seal) {
  const std::string start = fmt::format("{} ", seal.name);
  if (text.empty()) throw StateError("it is empty");
  if (!text.starts_with(start))
    throw StateError(fmt::format("it does not begin as {} does", seal.what));
  const std::size_t line = text.find('\n');
  const std::string head = text.substr(0, line);
  const std::string version = fmt::format("{} ", kVersion);
  if (head.compare(start.size(), version.size(), version) != 0) {
    const std::string theirs =
        head.substr(start.size(), head.find(' ', start.size()) - start.size());
    throw StateError(fmt::format("its version is {:.20}, this driftd reads {}", theirs, kVersion));
  }
  std::string body = line == std::string::npos ? "" : text.substr(line + 1);
  if (head + "\n" != first_line(body, seal))
    throw StateError("its checksum or its length is wrong");
  return body;
}

SavedLock read_saved_lock(const std::string& text) {
  const bool of_z_alone = text.starts_with(fmt::format("{} ", kAxialSeal.name));
  return read_sealed(text, of_z_alone ? kAxialSeal : kLockSeal,
                     [of_z_alone](const json& body) { return saved_lock_of(body, of_z_alone); });
}

}  // namespace driftd::daemon
