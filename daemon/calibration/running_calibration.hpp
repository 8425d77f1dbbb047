// SPDX-License-Identifier: MIT
// What the calibrations of both stages have in common: one at a time, by command, is ordered of the
// loop, comes back from there, is evaluated by a thread of its own, and ends in one of four ways,
// which is told with where the stage is. What is moved and what is made of it is for those that
// derive from it. Housekeeping thread; nothing here waits.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "config/config.hpp"
#include "daemon/calibration/calibration_result.hpp"
#include "daemon/camera/camera_watch.hpp"
#include "daemon/events/event_log.hpp"
#include "daemon/loop/loop_control.hpp"
#include "daemon/loop/stage_run.hpp"
#include "daemon/orders/lock_orders.hpp"
#include "daemon/wire/answer.hpp"

namespace driftd::daemon {

/// What it asks and orders; all outlive it.
struct CalibrationParts {
  const config::Config& config;  ///< the one in force
  LockOrders& lock;              ///< of the stage that is calibrated
  const CameraWatch& camera;
  LoopControl& loop;
  EventLog& events;
  /// Why no stage can be measured now, as far as markers and exposure go; "": it can.
  std::function<std::string()> nothing_to_see;
};

class RunningCalibration {
 public:
  RunningCalibration(const RunningCalibration&) = delete;
  RunningCalibration& operator=(const RunningCalibration&) = delete;
  /// An evaluation that is under way is broken off.
  virtual ~RunningCalibration();

  /// The stage goes back to its start. @throws CommandRefused when nothing is under way
  void stop(const Answer& answer);
  /// driftd ends: the stage goes back to its start, where one is moved.
  void bring_back();
  bool is_moving() const noexcept { return phase_ == Phase::Moving; }
  /// driftd has ended: what was under way is told, with where the stage was left.
  void end_with_daemon();
  /// What `calibration` replies: number, phase, progress, text and, in the end, the result.
  nlohmann::json progress() const;
  void turn();
  bool is_evaluating() const noexcept { return phase_ == Phase::Fitting; }

 protected:
  enum class Phase : std::uint8_t { None, Moving, Fitting, Done, Refused, Stopped, Failed };
  using Evaluation = std::function<CalibrationResult(const std::atomic<bool>& cancelled)>;

  RunningCalibration(const CalibrationParts& parts, AxisGroup group)
      : config_(parts.config),
        camera_(parts.camera),
        loop_(parts.loop),
        parts_(parts),
        group_(group) {}
  /// @throws CommandRefused: another one, no camera, no frames, or no markers where `by_markers`
  void check_may_begin(bool by_markers) const;
  /// @throws CommandRefused: the lock is not idle, or an order to it is under way
  void check_lock_is_idle() const { parts_.lock.check_can_calibrate(); }
  /// Has the loop play it. @param text  while it moves; @param fields  of the answer beside `run`
  void order(std::unique_ptr<StageRun> run, std::string text, nlohmann::json fields, Answer answer,
             std::int64_t now_ns);
  /// The stage is about to be moved.
  virtual void begun() {}
  /// What ended it early, where that is the stage's own to say; "": the usual words.
  virtual std::string own_reason(const StageRun& run) const = 0;
  /// Where the stage is now, for people.
  virtual std::string place_of(const StageRun& run) const = 0;
  /// How to evaluate a run that is complete; empty, with `why`: it cannot be.
  virtual Evaluation evaluation_of(std::unique_ptr<StageRun> run, std::string& why) = 0;
  /// While the stage is moved.
  virtual const char* moving_name() const;

  Phase phase() const noexcept { return phase_; }
  const nlohmann::json& result() const noexcept { return result_; }
  const LockReport& report() const noexcept { return loop_.report().of(group_); }

  const config::Config& config_;
  const CameraWatch& camera_;
  LoopControl& loop_;

 private:
  bool is_axial() const noexcept { return group_ == AxisGroup::Axial; }
  bool under_way() const noexcept { return phase_ == Phase::Moving || phase_ == Phase::Fitting; }
  bool send_stop();
  std::string reason_of(const StageRun& run) const;
  void collect(std::unique_ptr<StageRun> given_back);
  void conclude(Phase phase, std::string text);
  const char* phase_name() const;
  nlohmann::json with_axes(nlohmann::json fields) const;

  CalibrationParts parts_;
  AxisGroup group_;
  std::uint64_t number_ = 0;
  Phase phase_ = Phase::None;
  bool ends_with_daemon_ = false;
  std::string text_;
  std::string place_;  ///< of the stage, once a run has come back
  nlohmann::json result_;
  const StageRun* awaited_ = nullptr;  ///< the order's; only its address counts
  std::shared_ptr<std::atomic<bool>> cancelled_;
  std::future<CalibrationResult> evaluation_;  ///< last: it is waited for by the destructor
};

}  // namespace driftd::daemon
