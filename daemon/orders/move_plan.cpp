// SPDX-License-Identifier: MIT
#include "daemon/orders/move_plan.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>

#include "daemon/orders/stage_limits.hpp"
#include "daemon/setup/reflection_region.hpp"
#include "daemon/wire/answer.hpp"

namespace driftd::daemon {
namespace {

using control::Vec2;
using nlohmann::json;

constexpr double kFarthestNm = 1e6;
constexpr double kFastestNmPerS = 1e9;
constexpr double kLongestDwellS = 3600;
constexpr std::uint32_t kMostRepeats = 1'000'000;

/// The share of the step and rate limits that a move may take: the rest stays for the correction.
constexpr double kShareOfLimits = 0.75;
/// A marker that moves farther from one frame to the next may leave its ROI.
constexpr double kPixelsPerFrame = 1;
/// Where no speed is asked for.
constexpr double kUsualNmPerS = 10'000;
/// Assumed while the camera's frames have not been counted yet.
constexpr double kAssumedRateHz = 100;

[[noreturn]] void reject(const std::string& text) {
  throw CommandRefused{Refusal::BadRequest, text};
}

bool has_any(const json& object, std::initializer_list<const char*> fields) {
  return std::any_of(fields.begin(), fields.end(),
                     [&](const char* field) { return object.contains(field); });
}

double number_of(const json& object, const std::string& where, const char* field, double low,
                 double high) {
  const json& value = object.at(field);
  if (!value.is_number() || !(value.get<double>() >= low && value.get<double>() <= high))
    reject(fmt::format("`{}{}` is {:.40}; allowed is a number from {} to {}", where, field,
                       value.dump(), low, high));
  return value.get<double>();
}

/// The two numbers go together.
Vec2 place_of(const json& object, const std::string& where, const char* x, const char* y) {
  if (!object.contains(x) || !object.contains(y))
    reject(fmt::format("`{}{}` and `{}{}` go together", where, x, where, y));
  return {number_of(object, where, x, -kFarthestNm, kFarthestNm),
          number_of(object, where, y, -kFarthestNm, kFarthestNm)};
}

void read_how(const json& object, const std::string& where, MoveRequest::Place& place) {
  if (object.contains("speed_nm_per_s"))
    place.speed_nm_per_s = number_of(object, where, "speed_nm_per_s", 1e-3, kFastestNmPerS);
  if (object.contains("dwell_s"))
    place.dwell_s = number_of(object, where, "dwell_s", 0, kLongestDwellS);
}

void read_path(const json& request, MoveRequest& move) {
  const json& path = request.at("path");
  if (!path.is_array() || path.empty() || path.size() > control::MovePath::kMostPlaces)
    reject(fmt::format("`path` is {}; allowed is a list of 1 to {} places",
                       path.is_array() ? fmt::format("a list of {}", path.size()) : "no list",
                       control::MovePath::kMostPlaces));
  for (const json& item : path) {
    const std::string where = fmt::format("path[{}].", move.places.size());
    if (!item.is_object())
      reject(fmt::format("`path[{}]` is an object with `x_nm` and `y_nm`", move.places.size()));
    for (const auto& [key, value] : item.items()) {
      if (key != "x_nm" && key != "y_nm" && key != "dwell_s" && key != "speed_nm_per_s")
        reject(fmt::format(
            "unknown field `{}{:.40}`; there are x_nm, y_nm, dwell_s, speed_nm_per_s", where, key));
    }
    MoveRequest::Place place{.place_nm = place_of(item, where, "x_nm", "y_nm")};
    if (request.contains("speed_nm_per_s"))
      place.speed_nm_per_s = number_of(request, "", "speed_nm_per_s", 1e-3, kFastestNmPerS);
    read_how(item, where, place);
    move.places.push_back(place);
  }
  if (!request.contains("repeat")) return;
  const json& repeat = request.at("repeat");
  if (!repeat.is_number_integer() ||
      !(repeat.get<double>() >= 1 && repeat.get<double>() <= kMostRepeats))
    reject(fmt::format("`repeat` is a whole number from 1 to {}", kMostRepeats));
  move.repeats = repeat.get<std::uint32_t>();
}

bool flag_of(const json& request, const char* field) {
  if (!request.contains(field)) return false;
  if (!request.at(field).is_boolean()) reject(fmt::format("`{}` is true or false", field));
  return request.at(field).get<bool>();
}

/// What the way of a group of axes may be.
struct Bounds {
  control::ImageToStage matrix;
  double rate_limit_nm_per_s, step_limit_nm;
  const char* section;        ///< of these two
  double most_nm_per_frame;   ///< in the image
  const char* most_in_words;  ///< that
};

/// Of z: farther from one frame to the next the widths change too fast to be followed.
constexpr double kMostZPerFrameNm = 50;

Bounds bounds_of(const config::Config& config, AxisGroup group) {
  if (group == AxisGroup::Axial)
    return {{config.axial_stage.gain, 0, 0, 1},
            config.axial.rate_limit_nm_per_s,
            config.axial.step_limit_nm,
            "axial",
            kMostZPerFrameNm,
            "50 nm a frame"};
  const auto& m = config.stage.image_to_stage;
  return {{m[0][0], m[0][1], m[1][0], m[1][1]},
          config.control.rate_limit_nm_per_s,
          config.control.step_limit_nm,
          "control",
          kPixelsPerFrame * config.optics.pixel_size_nm,
          "one pixel a frame"};
}

std::optional<LimitPassed> passed_by(Vec2 from_lock_nm, Vec2 from_start_nm,
                                     const config::Config& config, AxisGroup group) {
  if (group == AxisGroup::Axial) return limit_passed(config.axial, from_lock_nm.x, from_start_nm.x);
  return limit_passed(config.control, from_lock_nm, from_start_nm);
}

/// So near to an end of the curve some of the markers, at heights of their own, are beyond it.
constexpr double kCurveMarginNm = 150;

/// So near to the edge of its region the reflected spot is not sent: it moves with the sample, too.
constexpr double kRegionMarginPx = 1;

/// How far z is read from where it is now.
struct AxialRoom {
  double below_nm, above_nm, margin_nm;
  const char* end;
};

/// None: z is not measured.
std::optional<AxialRoom> axial_room(const config::Config& config, const LoopReport& loop) {
  const control::AxialEstimate& z = loop.axial;
  if (config.axial.by_widths() && z.valid)
    return AxialRoom{z.curve_below_nm, z.curve_above_nm, kCurveMarginNm,
                     "the end of the curve (axial.curve), which some markers reach before"};
  const auto room = reflection_room(config, loop);
  if (!room) return std::nullopt;
  return AxialRoom{
      room->below_nm, room->above_nm, kRegionMarginPx * std::abs(config.reflection.nm_per_px),
      "where the reflected spot is read, by the edge of its region (axial.reflection)"};
}

/// A place where z is not read, or near an end and nearer than the sample is now.
void check_read(double place_nm, const config::Config& config, const LoopReport& loop) {
  const auto room = axial_room(config, loop);
  if (!room) return;
  const double way_nm = place_nm - loop.axial.z_nm;
  const double below_nm = room->below_nm + way_nm, above_nm = room->above_nm - way_nm;
  const bool low = below_nm < room->margin_nm && way_nm < 0;
  const bool high = above_nm < room->margin_nm && way_nm > 0;
  if (!low && !high) return;
  const double left_nm = low ? below_nm : above_nm;
  throw CommandRefused{Refusal::Refused,
                       fmt::format("the place {} is {:.0f} nm {} {}: {:.0f} nm have to be left",
                                   place_text({place_nm, 0}, AxisGroup::Axial), std::abs(left_nm),
                                   left_nm < 0 ? "beyond" : "from", room->end, room->margin_nm)};
}

void check_places(const MoveRequest& move, const config::Config& config, const LoopReport& loop,
                  AxisGroup group) {
  const control::ImageToStage m = bounds_of(config, group).matrix;
  const LockReport& lock = loop.of(group);
  for (const MoveRequest::Place& place : move.places) {
    // What the lock corrects beside it stays as it is now.
    const Vec2 way = m.apply(place.place_nm);
    const Vec2 total = {lock.total_nm.x - lock.move.stage_nm.x + way.x,
                        lock.total_nm.y - lock.move.stage_nm.y + way.y};
    const auto from = [&](Vec2 zero_nm) { return Vec2{zero_nm.x + total.x, zero_nm.y + total.y}; };
    const auto passed = passed_by(from(lock.carried_nm), from(lock.travelled_nm), config, group);
    if (passed)
      throw CommandRefused{Refusal::Refused,
                           fmt::format("the place {} would take the stage {}",
                                       place_text(place.place_nm, group), in_words(*passed))};
    if (group == AxisGroup::Axial) check_read(place.place_nm.x, config, loop);
  }
}

/// The fastest that the limits allow along a way, in the image.
double allowed_nm_per_s(Vec2 way_nm, const Bounds& bounds, double rate_hz) {
  const double length_nm = std::hypot(way_nm.x, way_nm.y);
  const Vec2 stage = bounds.matrix.apply({way_nm.x / length_nm, way_nm.y / length_nm});
  const double axis_nm_per_s = std::min(bounds.rate_limit_nm_per_s, bounds.step_limit_nm * rate_hz);
  return std::min(kShareOfLimits * axis_nm_per_s / std::max(std::abs(stage.x), std::abs(stage.y)),
                  bounds.most_nm_per_frame * rate_hz);
}

double speed_of(const MoveRequest::Place& place, Vec2 from_nm, const config::Config& config,
                double rate_hz, AxisGroup group) {
  const Vec2 way_nm = {place.place_nm.x - from_nm.x, place.place_nm.y - from_nm.y};
  if (way_nm.x == 0 && way_nm.y == 0) return 0;
  const Bounds bounds = bounds_of(config, group);
  const double allowed = allowed_nm_per_s(way_nm, bounds, rate_hz);
  if (!place.speed_nm_per_s) return std::min(allowed, kUsualNmPerS);
  if (*place.speed_nm_per_s <= allowed) return *place.speed_nm_per_s;
  throw CommandRefused{
      Refusal::Refused,
      fmt::format("{:.0f} nm/s on the way to {} is too fast: at {:.0f} "
                  "frames/s {}.rate_limit_nm_per_s {:.0f} and {}.step_limit_nm {:g}, of "
                  "which a quarter stays for the correction, and {} allow {:.0f}",
                  *place.speed_nm_per_s, place_text(place.place_nm, group), rate_hz, bounds.section,
                  bounds.rate_limit_nm_per_s, bounds.section, bounds.step_limit_nm,
                  bounds.most_in_words, std::floor(allowed))};
}

/// "xy", "z" or "xyz". Both where it is not said.
std::pair<bool, bool> axes_of(const json& request) {
  if (!request.contains("axes")) return {true, true};
  const json& axes = request.at("axes");
  if (axes != "xy" && axes != "z" && axes != "xyz") reject("`axes` is \"xy\", \"z\" or \"xyz\"");
  return {axes != "z", axes != "xy"};
}

}  // namespace

MoveRequest read_move(const json& request) {
  MoveRequest move;
  const bool stop = flag_of(request, "stop"), home = flag_of(request, "home");
  const bool to = has_any(request, {"x_nm", "y_nm"}), by = has_any(request, {"dx_nm", "dy_nm"});
  const bool path = request.contains("path");
  if (stop + home + to + by + path != 1)
    reject(
        "`move` wants one of: `x_nm` and `y_nm`; `dx_nm` and `dy_nm`; `z_nm`; `dz_nm`; `path`; "
        "`home`; `stop`");
  if (request.contains("repeat") && !path) reject("`repeat` goes with `path`");
  if (stop) {
    if (has_any(request, {"speed_nm_per_s", "dwell_s"})) reject("`stop` goes alone");
    return {.kind = MoveRequest::Kind::Stop, .places = {}};
  }
  if (request.contains("dwell_s")) reject("`dwell_s` is a field of a place of `path`");
  if (path) {
    read_path(request, move);
    return move;
  }
  MoveRequest::Place place;
  if (to) place.place_nm = place_of(request, "", "x_nm", "y_nm");
  if (by) place.place_nm = place_of(request, "", "dx_nm", "dy_nm");
  read_how(request, "", place);
  move.kind = by ? MoveRequest::Kind::By : MoveRequest::Kind::To;
  move.places.push_back(place);
  return move;
}

MoveRequests read_moves(const json& request) {
  const bool to = request.contains("z_nm"), by = request.contains("dz_nm");
  const bool whole = request.contains("stop") || request.contains("home");
  if (request.contains("axes") && !whole) reject("`axes` goes with `home` and `stop`");
  json lateral = request;
  for (const char* field : {"z_nm", "dz_nm", "axes"}) lateral.erase(field);
  if (!to && !by) {
    MoveRequest move = read_move(lateral);
    if (!whole) return {.xy = move};
    const auto [xy, z] = axes_of(request);
    MoveRequests moves{.of_any = !request.contains("axes")};
    if (xy) moves.xy = move;
    if (z) moves.z = std::move(move);
    return moves;
  }
  if (to && by) reject("`z_nm` and `dz_nm` exclude one another");
  if (whole || request.contains("path"))
    reject("`z_nm` and `dz_nm` go alone, or with `x_nm` and `y_nm`, or `dx_nm` and `dy_nm`");
  MoveRequest::Place place{
      .place_nm = {number_of(request, "", to ? "z_nm" : "dz_nm", -kFarthestNm, kFarthestNm), 0}};
  read_how(request, "", place);
  MoveRequests moves{.z = MoveRequest{.kind = to ? MoveRequest::Kind::To : MoveRequest::Kind::By,
                                      .places = {place}}};
  if (has_any(request, {"x_nm", "y_nm", "dx_nm", "dy_nm"}))
    moves.xy = read_move(lateral);
  else if (request.contains("dwell_s") || request.contains("repeat"))
    read_move(lateral);  // says what they go with
  return moves;
}

std::string place_text(Vec2 place_nm, AxisGroup group) {
  return group == AxisGroup::Axial ? fmt::format("(z {:.1f} nm)", place_nm.x)
                                   : fmt::format("(x {:.1f}, y {:.1f} nm)", place_nm.x, place_nm.y);
}

MovePlan plan_move(const MoveRequest& request, const config::Config& config, const LoopReport& loop,
                   AxisGroup group) {
  const MoveReport& now = loop.of(group).move;
  MoveRequest move = request;
  if (move.kind == MoveRequest::Kind::By) {
    Vec2& place = move.places.front().place_nm;
    place = {now.goal_nm.x + place.x, now.goal_nm.y + place.y};
  }
  check_places(move, config, loop, group);
  const double rate_hz = loop.frame_rate_hz > 0            ? loop.frame_rate_hz
                         : config.camera.frame_rate_hz > 0 ? config.camera.frame_rate_hz
                                                           : kAssumedRateHz;
  MovePlan plan;
  plan.path.count = move.places.size();
  plan.path.repeats = move.repeats;
  const auto way = [&](Vec2 from, std::size_t to) {
    const MoveRequest::Place& place = move.places[to];
    const double speed = speed_of(place, from, config, rate_hz, group);
    plan.fastest_nm_per_s = std::max(plan.fastest_nm_per_s, speed);
    // A place is left with the frame after the one that reached it.
    plan.duration_s += place.dwell_s + 1 / rate_hz +
                       control::move_duration_s(
                           std::hypot(place.place_nm.x - from.x, place.place_nm.y - from.y), speed);
    return speed;
  };
  Vec2 from = now.set_nm;
  for (std::size_t i = 0; i < move.places.size(); ++i) {
    const MoveRequest::Place& place = move.places[i];
    plan.path.places[i] = {place.place_nm, way(from, i), place.dwell_s};
    from = place.place_nm;
  }
  if (move.repeats > 1) {
    const double once_s = plan.duration_s;
    // The first place is reached from the last one, too: at the slower of the two speeds.
    const double again = way(from, 0);
    double& first = plan.path.places[0].speed_nm_per_s;
    first = first > 0 && again > 0 ? std::min(first, again) : std::max(first, again);
    plan.duration_s = once_s * move.repeats;
  }
  return plan;
}

}  // namespace driftd::daemon
