// SPDX-License-Identifier: MIT
// Calibrating z, by command: checks whether the stage of z may be moved, has the loop take it
// through a range, and tells what came out. As RunningCalibration.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "control/axial/calibration/sweep_plan.hpp"
#include "daemon/calibration/running_calibration.hpp"
#include "daemon/loop/sweep_run.hpp"
#include "daemon/resume/sweep_memory.hpp"
#include "daemon/stage/axial_travel.hpp"

namespace driftd::daemon {

/// What is missing, the daemon chooses.
struct SweepRequest {
  std::optional<double> range_nm, step_nm, settle_s;
  std::optional<int> frames;
};

class AxialSweep final : public RunningCalibration {
 public:
  static constexpr int kFewestFrames = 2, kMostFrames = 1000;
  static constexpr double kLeastSettleS = 0.001, kMostSettleS = 5;

  /// @param config  the one in force
  /// @param lock    of z
  /// @param nothing_to_see  why no marker can be measured now; "": they can
  /// @param memory  has written where the stage begins before it moves
  /// @param travel  of the stage of z, as its driver tells it now; nothing: it does not
  AxialSweep(const config::Config& config, LockOrders& lock, const CameraWatch& camera,
             LoopControl& loop, EventLog& events, std::function<std::string()> nothing_to_see,
             SweepMemory& memory, std::function<std::optional<AxialTravel>()> travel = {});

  static constexpr std::int64_t kDiskNs = 1'500'000'000;  ///< is waited for so long

  /// Answered when the stage is about to be moved. @throws CommandRefused
  void begin(const SweepRequest& request, Answer answer, std::int64_t now_ns);
  /// As RunningCalibration's; what was not begun yet is not.
  void stop(const Answer& answer);
  /// `unlock` or `reset` came: what was not begun yet is not.
  void give_up();
  /// Answers who waits for the beginning.
  void refuse_pending(const CommandRefused& refused);
  /// Where the stage begins is being written.
  bool pending() const noexcept { return prepared_.has_value(); }
  void turn(std::int64_t now_ns);

 private:
  control::SweepSettings settings_for(const SweepRequest& request) const;
  void check_room(const SweepRequest& request, const control::SweepSettings& settings) const;
  void check_suits(const control::SweepPlan& plan) const;
  double seconds_of(const control::SweepPlan& plan) const;
  double room_beside_nm() const;
  double least_range_nm() const;
  void begun() override;
  std::string own_reason(const StageRun& run) const override;
  std::string place_of(const StageRun& run) const override;
  Evaluation evaluation_of(std::unique_ptr<StageRun> run, std::string& why) override;
  std::optional<AxialTravel> travel() const {
    return travel_ ? travel_() : std::optional<AxialTravel>();
  }

  struct Sweep {
    std::unique_ptr<SweepRun> run;
    std::string text;  ///< for people
    nlohmann::json fields;
  };
  /// As it would be from here. @throws CommandRefused
  Sweep sweep_now(const SweepRequest& request) const;
  /// @throws CommandRefused where the stage is no longer at what was written
  void check_is_there(const std::optional<AxialTravel>& written) const;

  /// What is to be ordered once the way back is written.
  struct Prepared {
    SweepRequest request;
    std::optional<AxialTravel> at;  ///< which is being written
    Answer answer;
    std::int64_t until_ns;
  };

  std::optional<Prepared> prepared_;
  SweepMemory& memory_;
  std::function<std::optional<AxialTravel>()> travel_;
  std::optional<AxialTravel> at_first_;  ///< when the run began
};

}  // namespace driftd::daemon
