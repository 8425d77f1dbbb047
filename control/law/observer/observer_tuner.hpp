// SPDX-License-Identifier: MIT
// Learns the observer's models while it runs: keeps the last seconds of frames, fits both axes'
// models to them, and says when a model would have done better than the one in use. Worker thread;
// it allocates and takes its time.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

#include "control/law/observer/line_verifier.hpp"
#include "control/law/observer/model_fit.hpp"
#include "control/law/observer/observer.hpp"
#include "control/law/observer/residual_forecast.hpp"
#include "control/law/observer/stage_fit.hpp"

namespace driftd::control {

class ObserverTuner {
 public:
  explicit ObserverTuner(const ObserverSettings& settings);

  /// Frames that a first model takes.
  static constexpr std::size_t kLeastFrames = 192;
  const ObserverSettings& settings() const noexcept { return settings_; }
  /// As the frames tell what it was told.
  const StageModel& stage() const noexcept { return stage_; }
  /// As of ObserverSettings, from now on.
  void set_change_limit(double change_limit_nm) noexcept {
    settings_.change_limit_nm = change_limit_nm;
  }

  /// Likewise.
  void set_verifies_lines(bool verifies) noexcept;
  /// The camera is to send its frames later by kSlowerShare now. Where settings().verifies_lines.
  bool wants_slower_frames() const noexcept { return verifier_.wants_slower_frames(); }
  /// Whether it is asked to, for whatever lock; each time before take().
  void see_camera(bool asked_slower);

  /// The observer was reset: frames before are forgotten, models are not.
  void reset();
  /// Every frame that the observer saw, in order. One of another epoch: reset().
  void take(const ObserverFrame& frame);
  /// It is time to tune an axis; never one that is not there.
  bool is_due(std::size_t axis) const;
  /// Fits the axis' model to what was taken. @returns what is better than the model in use by more
  /// than chance; nothing: the model in use stays
  std::optional<Tuning> tune(std::size_t axis);
  /// How still the axis is expected to be as it is held now; nothing: too few frames were seen,
  /// or the axis is not there. A few milliseconds.
  std::optional<ResidualForecast> forecast(std::size_t axis) const;

 private:
  struct Axis {
    explicit Axis(const StagePreview& p) : preview(p) {}
    StagePreview preview;
    DisturbanceModel model;  ///< in use
    StageError stage;        ///< likewise
    bool has_model = false;
    double next_s = 0;        ///< when it is due, since reset()
    double surprise = 1;      ///< as of DisturbanceFilter
    double surprised_s = -1;  ///< since when; below 0: it is not
    bool again = false;       ///< it is, or was last, soon after the time before
    double calmed_s = 0;      ///< when the last time ended
    double wait_s = 0;        ///< until the next refit because of it
    double since_s = 0;       ///< the sample has moved as it does now
    double tuned_s = 0;       ///< when the model in use was found
    DisturbanceModel calm;    ///< was in use before the sample began to move otherwise
    double calm_until_s = 0;  ///< and is thought of until then
    int refits = 0;
    DisturbanceFilter filter;      ///< of the model in use, at the last frame
    double variance_nm2 = 0;       ///< a drift's by the fits, for which the model's noise holds
    double stage_noise_nm2 = 0;    ///< what fitted noise is beyond the fits', mean of the last fits
    int stage_noises = 0;          ///< fits in it
    bool has_stage_noise = false;  ///< it was found in a whole record
  };
  struct Trial {
    StageError stage;
    DisturbanceFilter filter;
    StageEchoes echoes{};
    double advantage = 0;       ///< lately
    double long_advantage = 0;  ///< since the model in use was found
  };
  double usual_variance_nm2(std::size_t axis) const;
  static DisturbanceModel present_model(const Axis& axis);
  PlaceRecord record_of(std::size_t axis, StageError stage) const;
  struct RecordPart {
    std::int64_t from_ns;
    double finest_s;  ///< of the steps
  };
  PlaceRecord record_of(std::size_t axis, StageError stage, RecordPart part) const;
  bool verifies() const noexcept;
  void decide_lines(std::size_t axis, DisturbanceModel& model);
  void ask_for_verdicts(std::size_t axis);
  void ask_of_models();
  std::optional<Tuning> take_verdicts(std::size_t axis);
  Tuning tuning_of(std::size_t axis, const Trial& trial);
  StageError fitted_stage(std::size_t axis, StageError now, std::size_t judged_from,
                          StageEvidence evidence) const;
  Trial tried(std::size_t axis, const DisturbanceModel& model, StageError stage, double from_s,
              double tuned_s) const;
  static bool is_better(const Trial& trial);
  void learn_stage_noise(std::size_t axis, double noise_nm2);
  double adapted_penalty(std::size_t axis) const;
  void schedule(Axis& axis);
  void follow(std::size_t axis, const ObserverFrame& frame, double seconds);
  double time_s(const ObserverFrame& frame) const;
  double age_s() const;

  ObserverSettings settings_;
  GainScheduler scheduler_;
  std::array<Axis, kAxes> axes_;
  StageModel stage_;  ///< was told what the observer told
  std::deque<ObserverFrame> frames_;
  LineVerifier verifier_;
  std::array<DisturbanceModel, kAxes> asked_;  ///< the models whose lines are tested
  std::array<bool, kAxes> judged_{};           ///< of the test that is over
  std::int64_t first_ns_ = 0, told_ns_ = 0;
  std::uint32_t epoch_ = 0;
  /// Factor on the times that are to hold some number of frames, too: above 1 for a slow camera.
  double stretch_;
  double late_s_ = 0;  ///< mean from the middle of an exposure to the command that follows
};

/// Makes `tuner` the one for a wish: it goes on where what it has learnt stays true, or is made
/// anew. None for a period of 0.
void wish_of_tuner(std::optional<ObserverTuner>& tuner, const ObserverSettings& wish);

}  // namespace driftd::control
