// SPDX-License-Identifier: MIT
// What the corrections of one group of axes mean for the stage: whether they count, where their
// zero lies, and how far the limits let them go. Knows neither sockets nor a controller. Owned and
// called by the thread that owns the Stage. Lengths are on the controller's axes, corrections' own
// apart.
//
// The zero of a lock is where the stage was told last before it. Where nobody knows that (this
// program started in mid-lock, the controller came back with the stage elsewhere, somebody else
// moved it), the zero is taken so that the first correction moves by no more than what is new in
// it: the present position - (total - delta). Sensors may stand off from the targets: they are only
// asked how far the stage has moved, and the last target says from where.
//
// An axis of z, which may carry an objective to a cover glass, goes no farther than its range from
// where it was at its lock's first correction either, whatever that says of its zero.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "clients/stage/config.hpp"
#include "clients/stage/correction.hpp"

namespace driftd::stage {

/// What becomes of a correction.
enum class Verdict : std::uint8_t {
  Move,
  Expired,
  OldLock,     ///< its lock_id is lower than one seen of this session
  OldSession,  ///< another run of driftd has replaced its session
};

struct Limited {
  bool step = false, rate = false, range = false;
  bool any() const { return step || rate || range; }
};

struct Target {
  PerAxis nm{};
  std::array<Limited, kAxes> limited{};
};

class Follower {
 public:
  /// A stage that was not told anything for so long does not move any more.
  static constexpr std::int64_t kAtRest_ns = 200'000'000;

  /// @param settings  of each axis of the group
  Follower(Group group, std::span<const AxisSettings> settings);

  /// After each connect(), of the group's axes as all that follows.
  /// @throws StageError when the configured range has nothing in common with the travel
  void connected(std::span<const Axis> axes, const PerAxis& position_nm);
  /// The stage does not obey from now on, as with a servo off.
  void disobeys() { disobeyed_nm_ = position_nm_; }
  /// It obeys again, with the axes as they are now. One that has no sensor, before and after, is at
  /// its last target, unless its reading has changed meanwhile by more than a step.
  /// @throws StageError as connected()
  void resumed(std::span<const Axis> axes, const PerAxis& position_nm);
  /// Whether this reading would mean that somebody else moved the stage: it is worth a second one.
  bool surprises(const PerAxis& position_nm, std::int64_t now_ns) const;
  /// Where the stage was just now. One that somebody else moved gets a new zero.
  void seen(const PerAxis& position_nm, std::int64_t now_ns);

  /// Wants to see it again, some time later, to know whether it rests.
  bool wants_rest() const { return rest_unseen_; }
  /// An axis that stood still over several rests, though it was told to go; each is told once.
  std::optional<std::size_t> take_in_vain();
  /// Some axis was where it was at its last two rests: that it takes targets means nothing.
  bool stays_in_vain() const;
  bool place_unknown() const { return place_unknown_ != std::array<bool, kAxes>{}; }

  Verdict judge(const Correction& correction, std::int64_t now_ns) const;
  /// The correction, whose verdict is Move, takes a new zero: a position read right now is wanted.
  bool takes_zero(const Correction& correction) const;
  /// Where the stage has to go for a correction whose verdict is Move. From now on its lock counts.
  Target plan(const Correction& correction, std::int64_t now_ns);
  /// The target is about to be sent. If neither of the next two follows, nobody knows what became
  /// of it.
  void sends() { under_way_ = true; }
  /// The controller has taken the target.
  void moved(const Target& target, std::int64_t now_ns);
  /// The target of the last moved() was not taken, as the controller says only now: a step counts
  /// from where it did before. Nothing where none was taken since the last refusal or connection.
  void not_taken();
  /// It has not, or one of two controllers has not: each axis is where it was, or there.
  void refused(const Target& target, std::int64_t now_ns);

  /// Where the axis is sent at all: the configured range within the travel.
  double from_nm(std::size_t axis) const { return rules_[axis].from_nm; }
  double to_nm(std::size_t axis) const { return rules_[axis].to_nm; }
  /// Where z is found beyond its ends: nothing may be sent from there, as it is nowhere that it was
  /// ever sent, or the reading is wrong.
  std::optional<double> beyond_ends_nm() const;
  /// The last target taken.
  const std::optional<PerAxis>& last_target_nm() const { return last_nm_; }
  /// A position against the present lock's zero, in the corrections' own nm; empty before any lock.
  std::optional<PerAxis> total_nm(const PerAxis& position_nm) const;
  /// Session and lock of the last correction planned.
  const std::optional<std::string>& session() const { return session_; }
  std::int64_t lock_id() const { return lock_id_; }

 private:
  struct AxisRules {
    double scale = 1;  ///< with its sign
    double min_nm = 0, max_nm = 0;
    double step_nm = 0, rate_nm_per_s = 0, range_nm = 0;
    double from_nm = 0, to_nm = 0;  ///< min_nm to max_nm within the travel
    double near_nm = 0;             ///< outside by no more it is at the end
    bool closed_loop = true;
    bool fenced = false;  ///< the range counts from where the axis was, too
  };
  /// Where an axis is, as far as anybody knows: what a target changes, and a late refusal brings
  /// back.
  struct Place {
    double base_nm = 0;  ///< what a step counts from: the last target, or where the stage was found
    double lowest_nm = 0, highest_nm = 0;  ///< between them it is; apart after a refusal or a loss
    /// Sensor minus target, at rest after the last move that was followed by rest.
    std::optional<double> offset_nm;
    double first_offset_nm = 0;     ///< as learnt first, which later ones stay near
    bool offset_in_doubt = false;   ///< it was learnt before the stage was moved
    bool was_sent = false;          ///< a target was taken since the stage was found there
    std::optional<double> rest_nm;  ///< what is read at rest since, of z without a sensor

    void is_at(double nm) { base_nm = lowest_nm = highest_nm = nm; }
    void may_be_at(double nm) {
      lowest_nm = std::min(lowest_nm, nm);
      highest_nm = std::max(highest_nm, nm);
    }
    /// What the sensor says, as a target.
    double of_sensor(double position_nm) const { return position_nm - offset_nm.value_or(0); }
  };
  /// What the last two rests between which the target moved have shown.
  struct Rest {
    double position_nm = 0, target_nm = 0;
    int in_vain = 0;    ///< rests in a row at which the position was the same
    bool told = false;  ///< that, of this one
  };
  static AxisRules rules_of(const AxisSettings& settings, Group group);
  void take_axes(std::span<const Axis> axes);
  /// Marks the axes that are farther from where they should be than a step and `slack_nm`.
  void compare(const PerAxis& position_nm, const PerAxis& slack_nm);
  bool is_away(std::size_t axis, double position_nm, double slack_nm) const;
  PerAxis slack_nm(std::int64_t now_ns) const;
  bool at_rest(std::int64_t now_ns) const;
  bool may_tell_offset(std::int64_t now_ns) const;
  bool is_still(const PerAxis& position_nm, std::int64_t now_ns);
  void watch_without_sensor(const PerAxis& position_nm);
  void note_behind();
  void learn(const PerAxis& position_nm, std::int64_t now_ns);
  void may_be_at(const PerAxis& position_nm);
  bool is_new_lock(const Correction& correction) const;
  double limit(std::size_t axis, double wanted_nm, std::int64_t now_ns, Limited& limited) const;

  std::string_view letters_;
  std::size_t count_;  ///< of axes: what is behind them in the arrays stays as it is
  std::array<AxisRules, kAxes> rules_{};
  PerAxis position_nm_{};
  PerAxis disobeyed_nm_{};                   ///< where it was then
  std::array<bool, kAxes> place_unknown_{};  ///< the next zero comes from the position
  std::array<Place, kAxes> places_;
  std::optional<std::int64_t> learnt_ns_;  ///< when one was learnt last
  std::optional<std::int64_t> first_ns_;   ///< of the first of two readings at rest
  PerAxis first_nm_{};                     ///< that
  std::array<std::optional<double>, kAxes> behind_nm_, last_behind_nm_;  ///< the same, in motion
  std::array<Rest, kAxes> rest_{};
  /// What moved() has changed, for not_taken().
  struct Before {
    std::array<Place, kAxes> places;
    std::optional<PerAxis> last_nm;
  };
  std::optional<Before> before_;
  bool under_way_ = false;    ///< a target was sent, and not answered
  bool rest_unseen_ = false;  ///< the stage was not seen at rest since the last move
  PerAxis zero_nm_{};
  PerAxis fence_nm_{};  ///< where the axis was at its lock's first correction
  std::optional<PerAxis> last_nm_;
  std::optional<std::int64_t> last_ns_;  ///< when last_nm_ was taken
  std::optional<std::string> session_;
  std::int64_t lock_id_ = 0;
  std::set<std::string> old_sessions_;
};

}  // namespace driftd::stage
