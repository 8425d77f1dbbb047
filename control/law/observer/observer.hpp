// SPDX-License-Identifier: MIT
// A control law that knows how the sample moves. Filters for both axes tell where the sample will
// be when a command takes effect, and the command brings the stage to where it should be then.
// Models come from a tuner (observer_tuner.hpp), which learns them from the frames that see()
// leaves in frame().
//
// All places are the stage's, in nm from its place at lock. A sample that moved by `m` would be
// right again with the stage at `stage - m`: this is the target that the filters follow.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "control/law/observer/disturbance_filter.hpp"
#include "control/law/observer/gain_schedule.hpp"
#include "control/law/observer/stage_preview.hpp"
#include "control/stage/expectation.hpp"
#include "control/stage/stage_model.hpp"
#include "control/values/types.hpp"

namespace driftd::control {

constexpr std::size_t kAxes = 2;
using Axes = std::array<double, kAxes>;
/// So many markers that moved alike are believed at once: a Sight of them is sure.
constexpr int kSureMarkers = 3;

struct ObserverSettings {
  double period_s = 0.002;  ///< between frames
  /// The image and the stage have the same axes here.
  StageModelSettings stage{.image_to_stage = {}, .delay_us = 0, .time_constant_us = 0};
  double penalty = 0.03;       ///< as of PreviewSettings; a tuner changes it
  double change_limit_nm = 4;  ///< largest change of command that a frame may bring
  std::size_t axes = kAxes;    ///< of 1, what belongs to the other is neither followed nor learnt
  /// The camera may be asked for other frame times, and lines that may be aliases wait for it.
  bool verifies_lines = false;
};

/// A frame with a drift.
struct Sight {
  Vec2 moved_nm;              ///< the drift, in the stage's axes
  Vec2 variance_nm2;          ///< of it, by the fits or by how they scatter
  std::int64_t taken_ns = 0;  ///< middle of the exposure
  std::int64_t now_ns = 0;    ///< when a command would be sent
  bool sure = false;          ///< so many markers agree that even a jump is believed at once
  /// Variance that a move by intention adds, because its model is wrong: since the frame before,
  /// and in this one.
  double shaken_nm2 = 0;
  Vec2 fit_noise_nm2 = {};  ///< of the drift, by the fits alone: for the forecast
};

/// What a tuner needs of a frame.
struct ObserverFrame {
  std::uint32_t epoch = 0;    ///< Observer::epoch(): another one, another tuner's past
  std::int64_t taken_ns = 0;  ///< 0: none
  Axes moved_nm{};
  Axes variance_nm2{};
  Axes fit_noise_nm2{};
  double shaken_nm2 = 0;     ///< as of Sight
  bool sure = false;         ///< as of Sight
  Axes stage_moved_nm{};     ///< from frame to frame, the largest lately
  Vec2 told_nm;              ///< the command before
  StageMotion told_stage;    ///< the modelled stage when that takes effect
  std::int64_t told_ns = 0;  ///< 0: none
  /// Commands later than the one and not later than the other never left.
  std::int64_t unsent_after_ns = 0, unsent_until_ns = 0;
  std::array<Innovation, kAxes> innovations{};
  std::array<bool, kAxes> calmed{};  ///< calmer gains than the penalty's commanded after it
};

/// How an axis of the stage differs from what the settings say.
struct StageError {
  double gain = 1;    ///< it moves so many times as far as it is told
  double late_s = 0;  ///< its dead time is so much longer
  bool operator==(const StageError&) const noexcept = default;
};

/// Where the modelled stage was, x and y, as an axis' filter follows them: for the stage monitor.
using StageEchoes = std::array<DisturbanceFilter::State, kAxes>;
StageEchoes first_echoes(Vec2 place_nm) noexcept;

/// What a tuner found for one axis. A value without heap, to be handed from thread to thread.
struct Tuning {
  std::size_t axis = 0;
  std::uint32_t epoch = 0;    ///< of the frames that it was found from
  std::int64_t taken_ns = 0;  ///< the last frame that `filter` has seen
  DisturbanceFilter filter;
  StageEchoes echoes{};
  GainSchedule gains;
  StageError stage;
  double usual_variance_nm2 = 0;  ///< by the fits; the model's noise stands for it
};

/// All that an observer needs before it can act. Made outside the loop: it takes milliseconds.
struct ObserverPlan {
  ObserverSettings settings;
  GainSchedule first_gains;
};
ObserverPlan make_plan(const ObserverSettings& settings);
/// Whether the stage or the limits are others, or the frame rate is, by more than a measured rate
/// changes by itself; about kLeastRateForLinesHz by less.
bool needs_other_plan(const ObserverSettings& has, const ObserverSettings& wants) noexcept;
bool is_same_rate(const ObserverSettings& has, const ObserverSettings& wants) noexcept;
/// Whether what was learnt with one is true for the other: at most the limits differ, and whether
/// lines are verified.
bool keeps_learnt(const ObserverSettings& has, const ObserverSettings& wants) noexcept;
/// What to wish instead of `has`. While the rate is the same, that is the rate that was learnt
/// with.
ObserverSettings next_wish(const ObserverSettings& has, const ObserverSettings& wants) noexcept;

// What the observer and its tuner have to agree on.
PreviewSettings preview_of(const ObserverSettings& settings) noexcept;
/// The model before anything is known. @param variance_nm2  of a frame's drift, by the fits
DisturbanceModel first_model(double variance_nm2, double period_s) noexcept;
/// Where the stage should have been when a frame was taken, by that frame.
double target_nm(const ObserverFrame& frame, std::size_t axis, const StageModel& stage,
                 StageError error) noexcept;
/// Where the stage was then.
Vec2 stage_nm(const ObserverFrame& frame, const StageModel& stage, StageError error) noexcept;

/// Shows a frame to an axis' filter, `seconds` after the one before.
/// @param target_nm  target_nm() of the frame
/// @param usual_variance_nm2  a drift's by the fits, for which the model's noise holds
Innovation see_frame(DisturbanceFilter& filter, const ObserverFrame& frame, std::size_t axis,
                     double target_nm, double seconds, double usual_variance_nm2) noexcept;

/// What is told of an axis: how the sample moves by itself, as far as it is known.
struct AxisMotion {
  DisturbanceModel model;
  std::array<double, kMaxLines> amplitudes_nm{};  ///< of its lines, at present
  StageError stage;
  double sd_nm = 0;          ///< of the sample's present place, by the filter
  double surprise = 1;       ///< as of DisturbanceFilter
  bool tuned = false;        ///< false: nothing was learnt yet
  std::uint64_t frames = 0;  ///< seen in this lock
  double period_s = 0;       ///< between frames
};

class Observer {
 public:
  explicit Observer(const ObserverSettings& settings);

  /// A lock engages: the stage's present place is 0. What was learnt stays.
  void reset() noexcept;
  /// The stage or the time between frames is another one: what was learnt is forgotten, and the
  /// next frame is the first. Commands stay.
  void adopt(const ObserverPlan& plan) noexcept;
  /// As of ObserverSettings, from now on; what was learnt stays.
  void set_change_limit(double change_limit_nm) noexcept {
    settings_.change_limit_nm = change_limit_nm;
  }
  /// @returns where the stage should be told to be; never anything that is not finite: the command
  ///          before, where the sight is not finite or not later than the one before
  Vec2 see(const Sight& sight) noexcept;
  /// How much of where the stage would have to be is lines that are not followed, as of the last
  /// frame.
  Vec2 unfollowed_nm() const noexcept;
  /// What the stage was told; every command, whoever wanted it.
  void told(Vec2 total_nm, std::int64_t now_ns) noexcept;
  /// The last command left only at `sent_ns`, later than was said.
  void left_at(std::int64_t sent_ns) noexcept;
  /// The stage was never told of the commands later than `sent_ns`: StageModel::take_back().
  void take_back(Vec2 total_nm, std::int64_t sent_ns) noexcept;
  /// StageModel::shift().
  void shift(Vec2 by_nm) noexcept;
  /// Where the stage should be told to be at a time after the last frame, by what that showed.
  /// Nothing was seen since reset(): the command before.
  Vec2 coast(std::int64_t now_ns) const noexcept;
  /// How well that is known: standard deviation of the sample's place at a time, the worse axis.
  double coasting_sd_nm(std::int64_t time_ns) const noexcept;
  /// A tuning takes over when its filter has seen what happened since: a few frames later. One that
  /// is older than kRemembered frames, or of another epoch, is passed over.
  void offer(const Tuning& tuning) noexcept;

  /// For the stage monitor: how the frame of the last see() differs from what was expected.
  /// Nothing: an axis has not been tuned yet.
  std::optional<Expectation> expectation() const noexcept;
  /// The frame of the last see().
  const ObserverFrame& frame() const noexcept { return frame_; }
  const DisturbanceFilter& filter(std::size_t axis) const noexcept { return axes_[axis].filter; }
  StageError stage_error(std::size_t axis) const noexcept { return axes_[axis].stage; }
  AxisMotion motion(std::size_t axis) const noexcept;
  bool is_tuned(std::size_t axis) const noexcept { return axes_[axis].tuned; }
  /// All axes that it has.
  bool is_tuned() const noexcept;
  /// Counts reset() and adopt().
  std::uint32_t epoch() const noexcept { return epoch_; }
  const ObserverSettings& settings() const noexcept { return settings_; }
  /// Tunings that took over since construction, both axes'.
  std::uint64_t tunings() const noexcept { return tunings_; }

  static constexpr std::size_t kRemembered = 4096;

 private:
  struct Axis {
    DisturbanceFilter filter{DisturbanceModel{}};
    StageEchoes echoes{};
    Vec2 echoed_nm;  ///< the echoes' last innovations
    GainSchedule gains;
    StageError stage;
    double usual_variance_nm2 = 0;
    std::int64_t taken_ns = 0;  ///< of the filter's last frame; 0: none
    bool tuned = false;
  };
  static Axis axis_of(const Tuning& tuning) noexcept;
  void forget_frames() noexcept;
  void begin(std::size_t i) noexcept;
  Innovation follow(Axis& axis, const ObserverFrame& frame, std::size_t i) const noexcept;
  void catch_up(std::size_t i) noexcept;
  struct WantedPlace {
    double nm;
    bool calmed;  ///< by calmer gains than the penalty's
  };
  struct Wanted {
    Vec2 place_nm;
    std::array<bool, kAxes> calmed;
  };
  Wanted wanted(std::int64_t taken_ns, std::int64_t now_ns) const noexcept;
  WantedPlace wanted_on(std::size_t i, double lead_s, const StageMotion& stage) const noexcept;

  ObserverSettings settings_;
  StageModel stage_;
  GainSchedule first_gains_;
  std::array<Axis, kAxes> axes_;
  std::array<std::optional<Axis>, kAxes> offered_;
  std::vector<ObserverFrame> seen_;  ///< ring
  std::uint64_t count_ = 0;          ///< frames since reset()
  ObserverFrame frame_;
  Vec2 total_nm_;
  Vec2 stage_nm_;  ///< where the modelled stage was in the last frame
  std::int64_t told_ns_ = 0;
  std::int64_t unsent_after_ns_ = 0, unsent_until_ns_ = 0;  ///< of the last take_back()
  std::uint64_t tunings_ = 0;
  std::uint32_t epoch_ = 0;
};

}  // namespace driftd::control
