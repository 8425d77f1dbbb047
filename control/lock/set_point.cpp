// SPDX-License-Identifier: MIT
#include "control/lock/set_point.hpp"

#include <algorithm>
#include <cmath>

namespace driftd::control {
namespace {

Vec2 between(Vec2 from, Vec2 to, double share) noexcept {
  return {from.x + share * (to.x - from.x), from.y + share * (to.y - from.y)};
}

double length_of(Vec2 from, Vec2 to) noexcept {
  return std::hypot(to.x - from.x, to.y - from.y);
}

bool is_way(double length_nm, double speed_nm_per_s) noexcept {
  return length_nm > 0 && speed_nm_per_s > 0 && std::isfinite(length_nm / speed_nm_per_s);
}

}  // namespace

double move_duration_s(double length_nm, double speed_nm_per_s) noexcept {
  return is_way(length_nm, speed_nm_per_s) ? length_nm / speed_nm_per_s + kMoveRampS : 0;
}

double move_share(double time_s, double length_nm, double speed_nm_per_s) noexcept {
  if (!is_way(length_nm, speed_nm_per_s)) return 1;
  const double way_s = length_nm / speed_nm_per_s;
  // The integral of the straight line from 0 to 1 within `way_s`, which stays at 1 after that.
  const auto integral = [&](double t) {
    if (t <= 0) return 0.0;
    return t < way_s ? t * t / (2 * way_s) : t - way_s / 2;
  };
  const double share = (integral(time_s) - integral(time_s - kMoveRampS)) / kMoveRampS;
  return std::clamp(share, 0.0, 1.0);
}

void SetPoint::reset(Vec2 place_nm) noexcept {
  stop();
  now_ = {.place_nm = place_nm};
  path_.id = 0;
}

void SetPoint::begin(const MovePath& path) noexcept {
  path_ = path;
  path_.count = std::min(path.count, MovePath::kMostPlaces);
  if (path_.count == 0 || path_.repeats == 0) return stop();
  index_ = 0;
  repeats_left_ = path_.repeats;
  set_out();
}

void SetPoint::set_out() noexcept {
  phase_ = SetPointPhase::Moving;
  from_nm_ = now_.place_nm;
  now_ = {.place_nm = from_nm_};
}

void SetPoint::go_on_from(Vec2 place_nm) noexcept {
  const bool is_there = now_.place_nm.x == place_nm.x && now_.place_nm.y == place_nm.y;
  now_.place_nm = place_nm;
  if (phase_ == SetPointPhase::Moving || (phase_ == SetPointPhase::Dwelling && !is_there))
    set_out();
}

SetPoint::Progress SetPoint::after(double interval_s) const noexcept {
  Progress then = now_;
  if (phase_ == SetPointPhase::Resting) return then;
  const MovePlace& goal = path_.places[index_];
  then.time_s += std::max(interval_s, 0.0);
  if (phase_ == SetPointPhase::Dwelling) {
    then.over = !(then.time_s < goal.dwell_s);
    return then;
  }
  const double length_nm = length_of(from_nm_, goal.place_nm);
  then.over = then.time_s >= move_duration_s(length_nm, goal.speed_nm_per_s);
  then.place_nm = then.over ? goal.place_nm
                            : between(from_nm_, goal.place_nm,
                                      move_share(then.time_s, length_nm, goal.speed_nm_per_s));
  return then;
}

Vec2 SetPoint::ahead_nm(double interval_s) const noexcept {
  return after(interval_s).place_nm;
}

void SetPoint::advance(double interval_s, double share) noexcept {
  if (phase_ == SetPointPhase::Resting) return;
  const Progress then = after(interval_s);
  const bool whole = phase_ == SetPointPhase::Dwelling || share >= 1;
  if (!whole) {
    const double part = std::clamp(share, 0.0, 1.0);
    const MovePlace& goal = path_.places[index_];
    const double end_s = move_duration_s(length_of(from_nm_, goal.place_nm), goal.speed_nm_per_s);
    now_.time_s += part * (std::min(then.time_s, end_s) - now_.time_s);
    now_.place_nm = between(now_.place_nm, then.place_nm, part);
    return;
  }
  now_ = then;
  if (!now_.over) return;
  if (phase_ == SetPointPhase::Moving) {
    phase_ = SetPointPhase::Dwelling;
    now_ = {.place_nm = now_.place_nm, .over = !(path_.places[index_].dwell_s > 0)};
  }
  if (now_.over) go_to_next();
}

void SetPoint::go_to_next() noexcept {
  if (++index_ >= path_.count) {
    index_ = 0;
    if (--repeats_left_ == 0) {
      index_ = path_.count - 1;
      return stop();
    }
  }
  set_out();
}

}  // namespace driftd::control
