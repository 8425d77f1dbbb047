// SPDX-License-Identifier: MIT
// Where the lock is to hold the sample, and how it gets there: a path of straight lines from place
// to place, each run at a speed that begins and ends smoothly, with a stay at each place. It knows
// neither stages nor limits: its caller says for how much of the way there was room. Owned by the
// supervisor. Tracking loop; no allocation; noexcept.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "control/values/types.hpp"

namespace driftd::control {

/// A speed that is not positive is none: the place is reached at once.
struct MovePlace {
  Vec2 place_nm;              ///< image axes, sample plane, from the lock's reference
  double speed_nm_per_s = 0;  ///< on the way there, at most
  double dwell_s = 0;         ///< stays so long
};

struct MovePath {
  static constexpr std::size_t kMostPlaces = 100;

  std::uint64_t id = 0;  ///< for reports
  std::array<MovePlace, kMostPlaces> places;
  std::size_t count = 0;      ///< so many of `places` are used
  std::uint32_t repeats = 1;  ///< runs through so many times
};

/// The speed grows and falls within this, so that a stage of second order does not ring.
inline constexpr double kMoveRampS = 0.010;
/// From `length_nm` away at this speed at most, both ramps included.
double move_duration_s(double length_nm, double speed_nm_per_s) noexcept;
/// Share of that way after `time_s`, 0 to 1: a straight line in time, averaged over kMoveRampS.
double move_share(double time_s, double length_nm, double speed_nm_per_s) noexcept;

enum class SetPointPhase : std::uint8_t {
  Resting,   ///< there is no path
  Moving,    ///< on the way to a place
  Dwelling,  ///< at one
};

class SetPoint {
 public:
  /// No path; the set-point is there from now on.
  void reset(Vec2 place_nm = {}) noexcept;
  /// From where it is through these places.
  void begin(const MovePath& path) noexcept;
  /// It stays where it is.
  void stop() noexcept { phase_ = SetPointPhase::Resting; }
  /// It is at `place_nm` and stands still, and goes on from there to the same place.
  void go_on_from(Vec2 place_nm) noexcept;

  /// Where it would be `interval_s` later. A place on the way is never passed, only reached.
  Vec2 ahead_nm(double interval_s) const noexcept;
  /// It went so far: `share` of the way to ahead_nm(interval_s).
  void advance(double interval_s, double share) noexcept;

  Vec2 place_nm() const noexcept { return now_.place_nm; }
  /// Where the path ends, or is.
  Vec2 goal_nm() const noexcept {
    return phase_ == SetPointPhase::Resting ? now_.place_nm
                                            : path_.places[path_.count - 1].place_nm;
  }
  SetPointPhase phase() const noexcept { return phase_; }
  std::uint64_t id() const noexcept { return path_.id; }
  std::size_t count() const noexcept { return path_.count; }
  std::size_t index() const noexcept { return index_; }  ///< of the place that it goes to
  std::uint32_t repeats_left() const noexcept { return repeats_left_; }  ///< this one included

 private:
  /// On the way to a place, or at it.
  struct Progress {
    Vec2 place_nm;
    double time_s = 0;  ///< since it set out, or arrived
    bool over = false;  ///< it has arrived, or stayed as long as it should
  };

  Progress after(double interval_s) const noexcept;
  void set_out() noexcept;
  void go_to_next() noexcept;

  MovePath path_;
  SetPointPhase phase_ = SetPointPhase::Resting;
  std::size_t index_ = 0;
  std::uint32_t repeats_left_ = 0;
  Vec2 from_nm_;  ///< where it set out
  Progress now_;
};

}  // namespace driftd::control
