// SPDX-License-Identifier: MIT
// Calibrating z, by command: checks whether the stage of z may be moved, has the loop take it
// through a range, has what was recorded evaluated by a thread of its own, and tells how far that
// is and what came out. Housekeeping thread; nothing here waits.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "config/config.hpp"
#include "control/axial/calibration/sweep_plan.hpp"
#include "daemon/calibration/calibration_result.hpp"
#include "daemon/camera/camera_watch.hpp"
#include "daemon/events/event_log.hpp"
#include "daemon/loop/loop_control.hpp"
#include "daemon/loop/sweep_run.hpp"
#include "daemon/orders/lock_orders.hpp"
#include "daemon/wire/answer.hpp"

namespace driftd::daemon {

/// What is missing, the daemon chooses.
struct SweepRequest {
  std::optional<double> range_nm, step_nm, settle_s;
  std::optional<int> frames;
};

class AxialSweep {
 public:
  static constexpr int kFewestFrames = 2, kMostFrames = 1000;
  static constexpr double kLeastSettleS = 0.001, kMostSettleS = 5;

  /// @param config  the one in force
  /// @param lock    of z
  /// @param nothing_to_see  why no marker can be measured now; "": they can
  AxialSweep(const config::Config& config, LockOrders& lock, const CameraWatch& camera,
             LoopControl& loop, EventLog& events, std::function<std::string()> nothing_to_see);
  AxialSweep(const AxialSweep&) = delete;
  AxialSweep& operator=(const AxialSweep&) = delete;

  /// Answered when the stage is about to be moved. @throws CommandRefused
  void begin(const SweepRequest& request, Answer answer, std::int64_t now_ns);
  /// The stage goes back to its start. @throws CommandRefused when nothing is under way
  void stop(const Answer& answer);
  /// What `calibration` of z replies: number, phase, progress, text and, in the end, the result.
  nlohmann::json progress() const;
  void turn();
  bool is_evaluating() const noexcept { return phase_ == Phase::Fitting; }

 private:
  enum class Phase : std::uint8_t { None, Moving, Fitting, Done, Refused, Stopped, Failed };
  void check_may_begin() const;
  control::SweepSettings settings_for(const SweepRequest& request) const;
  void check_suits(const control::SweepPlan& plan) const;
  void collect(std::unique_ptr<StageRun> run);
  void conclude(Phase phase, std::string text);
  const char* phase_name() const;

  const config::Config& config_;
  LockOrders& lock_;
  const CameraWatch& camera_;
  LoopControl& loop_;
  EventLog& events_;
  std::function<std::string()> nothing_to_see_;
  std::uint64_t number_ = 0;
  Phase phase_ = Phase::None;
  std::string text_;
  nlohmann::json result_;
  const StageRun* awaited_ = nullptr;          ///< the order's; only its address counts
  std::future<CalibrationResult> evaluation_;  ///< last: it is waited for by the destructor
};

}  // namespace driftd::daemon
