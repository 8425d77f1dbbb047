// SPDX-License-Identifier: MIT
// Calibrating the stage, by command: checks whether it may be moved, has the loop move it, has what
// was recorded evaluated by a thread of its own, and tells how far that is and what came out.
// Housekeeping thread; nothing here waits.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "daemon/calibration/running_calibration.hpp"
#include "daemon/loop/calibration_run.hpp"
#include "daemon/stage/driver_timing.hpp"

namespace driftd::daemon {

class Calibration final : public RunningCalibration {
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

  /// Answered when the stage is about to be moved. @throws CommandRefused
  void begin(std::optional<double> excursion_nm, std::optional<double> seconds, Answer answer,
             std::int64_t now_ns);
  /// What of it is over with this process and not in the configuration, for people; "": nothing.
  std::string lost_with(const config::Config& after) const;

 private:
  void check_suits(double excursion_nm, double seconds) const;
  void check_limits_suit(double excursion_nm, double seconds, double frames_hz) const;
  void begun() override { at_first_ = timing_(); }
  std::string own_reason(const StageRun& run) const override;
  std::string place_of(const StageRun& run) const override;
  Evaluation evaluation_of(std::unique_ptr<StageRun> run, std::string& why) override;
  const char* moving_name() const override;

  std::function<DriverTiming()> timing_;
  DriverTiming at_first_;  ///< when the run began
};

}  // namespace driftd::daemon
