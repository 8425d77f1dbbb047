// SPDX-License-Identifier: MIT
// The self-tuning observer with its tuner, in virtual time: tunings come as late as a worker thread
// would have them. One thread.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "control/law/controller.hpp"
#include "control/law/observer/observer.hpp"
#include "control/law/observer/observer_tuner.hpp"

namespace driftd::stillness {

/// What an observer has learnt of both axes.
using Learnt = std::array<std::optional<control::Tuning>, control::kAxes>;

class ObservedFlight {
 public:
  ObservedFlight(const control::ControllerSettings& limits,
                 const control::ObserverSettings& settings)
      : controller_(limits), observer_(settings), tuner_(settings) {}

  /// From the next frame on it flies with this and learns nothing.
  void freeze(const Learnt& learnt) {
    learnt_ = learnt;
    frozen_ = true;
  }

  /// Where the stage is told to be. @param drift  of this frame alone
  Vec2 fly(const control::DriftEstimate& drift, std::int64_t taken_ns, std::int64_t now_ns) {
    return go_on(see(drift, taken_ns, now_ns), now_ns);
  }
  /// After see(), to where that wanted it.
  Vec2 go_on(Vec2 wanted_nm, std::int64_t now_ns) {
    const Vec2 total = go_to(wanted_nm, now_ns);
    if (!frozen_) learn(now_ns);
    return total;
  }
  /// Where the observer wants the stage to be.
  Vec2 see(const control::DriftEstimate& drift, std::int64_t taken_ns, std::int64_t now_ns) {
    for (auto& late : late_) {
      if (!late || late->due_ns > now_ns) continue;
      observer_.offer(late->tuning);
      learnt_[late->tuning.axis] = late->tuning;
      late.reset();
    }
    const Vec2 wanted = observer_.see(
        {.moved_nm = drift.frame_drift_nm,
         .variance_nm2 = {drift.frame_covariance_nm2.xx, drift.frame_covariance_nm2.yy},
         .taken_ns = taken_ns,
         .now_ns = now_ns,
         .sure = drift.markers_used >= control::kSureMarkers,
         .fit_noise_nm2 = drift.frame_fit_noise_nm2});
    if (frozen_) adopt();
    return wanted;
  }
  /// Where the stage is told to be, within the limits, when somebody wants it there.
  Vec2 go_to(Vec2 wanted_nm, std::int64_t now_ns) {
    const Vec2 total = controller_.go_to(wanted_nm, now_ns).total_nm;
    observer_.told(total, now_ns);
    return total;
  }
  const control::Controller& controller() const noexcept { return controller_; }
  std::optional<control::Expectation> expectation() const { return observer_.expectation(); }
  /// The models in use; nothing: the first one still is.
  const Learnt& learnt() const noexcept { return learnt_; }
  /// The mean of both axes' newest forecasts; nothing: there are none yet.
  std::optional<double> foretold_nm2() const {
    if (!foretold_[0] || !foretold_[1]) return std::nullopt;
    return 0.5 * (foretold_[0]->total_nm2() + foretold_[1]->total_nm2());
  }

 private:
  static constexpr std::int64_t kWorkNs = 50'000'000, kForecastNs = 1'000'000'000;
  struct Late {
    std::int64_t due_ns;
    control::Tuning tuning;
  };
  void learn(std::int64_t now_ns) {
    tuner_.take(observer_.frame());
    for (std::size_t axis = 0; axis < control::kAxes; ++axis) {
      if (late_[axis] || !tuner_.is_due(axis)) continue;
      if (const auto tuning = tuner_.tune(axis)) late_[axis] = Late{now_ns + kWorkNs, *tuning};
    }
    if (now_ns < forecast_ns_) return;
    forecast_ns_ = now_ns + kForecastNs;
    for (std::size_t axis = 0; axis < control::kAxes; ++axis)
      foretold_[axis] = tuner_.forecast(axis);
  }
  /// What was learnt elsewhere begins with the place that is seen now.
  void adopt() {
    if (adopted_) return;
    for (std::size_t axis = 0; axis < control::kAxes; ++axis) {
      if (!learnt_[axis]) continue;
      control::Tuning tuning = *learnt_[axis];
      tuning.filter.start(tuning.filter.model(), observer_.filter(axis).place_nm(), 0);
      tuning.taken_ns = observer_.frame().taken_ns;
      tuning.epoch = observer_.epoch();
      observer_.offer(tuning);
    }
    adopted_ = true;
  }

  control::Controller controller_;  ///< its limits
  control::Observer observer_;
  control::ObserverTuner tuner_;
  std::array<std::optional<Late>, control::kAxes> late_;
  Learnt learnt_;
  std::array<std::optional<control::ResidualForecast>, control::kAxes> foretold_;
  std::int64_t forecast_ns_ = 0;
  bool frozen_ = false, adopted_ = false;
};

}  // namespace driftd::stillness
