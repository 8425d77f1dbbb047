// SPDX-License-Identifier: MIT
// Calibrating the stage, by command: checks whether it may be moved, has the loop move it, has what
// was recorded evaluated by a thread of its own, and tells how far that is and what came out.
// Housekeeping thread; nothing here waits.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "config/config.hpp"
#include "daemon/calibration/calibration_result.hpp"
#include "daemon/camera/camera_watch.hpp"
#include "daemon/events/event_log.hpp"
#include "daemon/loop/calibration_run.hpp"
#include "daemon/loop/loop_control.hpp"
#include "daemon/orders/lock_orders.hpp"
#include "daemon/stage/driver_timing.hpp"
#include "daemon/wire/answer.hpp"

namespace driftd::daemon {

class Calibration {
 public:
  struct Limits {
    static constexpr double kLeastExcursionNm = 5, kMostExcursionNm = 10'000;
    static constexpr double kLeastSeconds = 5, kMostSeconds = 300;
  };

  /// @param config  the one in force
  /// @param nothing_to_see  why no stage can be measured now, as far as markers and exposure go;
  /// "": it can
  /// @param timing  of the stage's driver
  Calibration(const config::Config& config, LockOrders& lock, const CameraWatch& camera,
              LoopControl& loop, EventLog& events, std::function<std::string()> nothing_to_see,
              std::function<DriverTiming()> timing);
  /// An evaluation that is under way is broken off.
  ~Calibration();
  Calibration(const Calibration&) = delete;
  Calibration& operator=(const Calibration&) = delete;

  /// Answered when the stage is about to be moved. @throws CommandRefused
  void begin(std::optional<double> excursion_nm, std::optional<double> seconds, Answer answer,
             std::int64_t now_ns);
  /// The stage goes back to its start. @throws CommandRefused when nothing is under way
  void stop(const Answer& answer);
  /// What `calibration` replies: number, phase, progress, text and, in the end, the result.
  nlohmann::json progress() const;
  /// What of it is over with this process and not in the configuration, for people; "": nothing.
  std::string lost_with(const config::Config& after) const;
  void turn();
  bool is_evaluating() const noexcept { return phase_ == Phase::Fitting; }

 private:
  enum class Phase : std::uint8_t { None, Moving, Fitting, Done, Refused, Stopped, Failed };
  void check_may_begin(double excursion_nm, double seconds) const;
  void check_limits_suit(double excursion_nm, double seconds, double frames_hz) const;
  void begun(const Outcome& outcome, const Answer& answer, const StageRun* ordered,
             double excursion_nm, double seconds);
  void collect(std::unique_ptr<StageRun> given_back);
  void conclude(Phase phase, std::string text);
  const char* phase_name() const;
  bool under_way() const noexcept { return phase_ == Phase::Moving || phase_ == Phase::Fitting; }

  const config::Config& config_;
  LockOrders& lock_;
  const CameraWatch& camera_;
  LoopControl& loop_;
  EventLog& events_;
  std::function<std::string()> nothing_to_see_;
  std::function<DriverTiming()> timing_;
  DriverTiming at_first_;  ///< when the run began
  std::uint64_t number_ = 0;
  Phase phase_ = Phase::None;
  std::string text_;
  nlohmann::json result_;
  const StageRun* awaited_ = nullptr;  ///< the order's; only its address counts
  std::shared_ptr<std::atomic<bool>> cancelled_;
  std::future<CalibrationResult> evaluation_;  ///< last: it is waited for by the destructor
};

}  // namespace driftd::daemon
