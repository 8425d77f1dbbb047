// SPDX-License-Identifier: MIT
#include "daemon/orders/move_plan.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string>

#include "daemon/orders/stage_limits.hpp"
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

control::ImageToStage matrix_of(const config::Config& config) {
  const auto& m = config.stage.image_to_stage;
  return {m[0][0], m[0][1], m[1][0], m[1][1]};
}

void check_places(const MoveRequest& move, const config::Config& config, const LoopReport& loop) {
  const control::ImageToStage m = matrix_of(config);
  for (const MoveRequest::Place& place : move.places) {
    // What the lock corrects beside it stays as it is now.
    const Vec2 way = m.apply(place.place_nm);
    const Vec2 total = {loop.total_nm.x - loop.move.stage_nm.x + way.x,
                        loop.total_nm.y - loop.move.stage_nm.y + way.y};
    const auto from = [&](Vec2 zero_nm) { return Vec2{zero_nm.x + total.x, zero_nm.y + total.y}; };
    const auto passed =
        limit_passed(config.control, from(loop.carried_nm), from(loop.travelled_nm));
    if (!passed) continue;
    throw CommandRefused{Refusal::Refused,
                         fmt::format("the place (x {:.1f}, y {:.1f} nm) would take the stage {}",
                                     place.place_nm.x, place.place_nm.y, in_words(*passed))};
  }
}

/// The fastest that the limits allow along a way, in the image.
double allowed_nm_per_s(Vec2 way_nm, const config::Config& config, double rate_hz) {
  const double length_nm = std::hypot(way_nm.x, way_nm.y);
  const Vec2 stage = matrix_of(config).apply({way_nm.x / length_nm, way_nm.y / length_nm});
  const double axis_nm_per_s =
      std::min(config.control.rate_limit_nm_per_s, config.control.step_limit_nm * rate_hz);
  return std::min(kShareOfLimits * axis_nm_per_s / std::max(std::abs(stage.x), std::abs(stage.y)),
                  kPixelsPerFrame * config.optics.pixel_size_nm * rate_hz);
}

double speed_of(const MoveRequest::Place& place, Vec2 from_nm, const config::Config& config,
                double rate_hz) {
  const Vec2 way_nm = {place.place_nm.x - from_nm.x, place.place_nm.y - from_nm.y};
  if (way_nm.x == 0 && way_nm.y == 0) return 0;
  const double allowed = allowed_nm_per_s(way_nm, config, rate_hz);
  if (!place.speed_nm_per_s) return std::min(allowed, kUsualNmPerS);
  if (*place.speed_nm_per_s <= allowed) return *place.speed_nm_per_s;
  throw CommandRefused{
      Refusal::Refused,
      fmt::format("{:.0f} nm/s on the way to (x {:.1f}, y {:.1f} nm) is too fast: at {:.0f} "
                  "frames/s control.rate_limit_nm_per_s {:.0f} and control.step_limit_nm {:g}, of "
                  "which a quarter stays for the correction, and one pixel a frame allow {:.0f}",
                  *place.speed_nm_per_s, place.place_nm.x, place.place_nm.y, rate_hz,
                  config.control.rate_limit_nm_per_s, config.control.step_limit_nm,
                  std::floor(allowed))};
}

}  // namespace

MoveRequest read_move(const json& request) {
  MoveRequest move;
  const bool stop = flag_of(request, "stop"), home = flag_of(request, "home");
  const bool to = has_any(request, {"x_nm", "y_nm"}), by = has_any(request, {"dx_nm", "dy_nm"});
  const bool path = request.contains("path");
  if (stop + home + to + by + path != 1)
    reject("`move` wants one of: `x_nm` and `y_nm`; `dx_nm` and `dy_nm`; `path`; `home`; `stop`");
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

MovePlan plan_move(const MoveRequest& request, const config::Config& config,
                   const LoopReport& loop) {
  MoveRequest move = request;
  if (move.kind == MoveRequest::Kind::By) {
    Vec2& place = move.places.front().place_nm;
    place = {loop.move.goal_nm.x + place.x, loop.move.goal_nm.y + place.y};
  }
  check_places(move, config, loop);
  const double rate_hz = loop.frame_rate_hz > 0            ? loop.frame_rate_hz
                         : config.camera.frame_rate_hz > 0 ? config.camera.frame_rate_hz
                                                           : kAssumedRateHz;
  MovePlan plan;
  plan.path.count = move.places.size();
  plan.path.repeats = move.repeats;
  const auto way = [&](Vec2 from, std::size_t to) {
    const MoveRequest::Place& place = move.places[to];
    const double speed = speed_of(place, from, config, rate_hz);
    plan.fastest_nm_per_s = std::max(plan.fastest_nm_per_s, speed);
    // A place is left with the frame after the one that reached it.
    plan.duration_s += place.dwell_s + 1 / rate_hz +
                       control::move_duration_s(
                           std::hypot(place.place_nm.x - from.x, place.place_nm.y - from.y), speed);
    return speed;
  };
  Vec2 from = loop.move.set_nm;
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
