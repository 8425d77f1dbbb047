// SPDX-License-Identifier: MIT
// A Simulation that runs on CLOCK_MONOTONIC and may be used from several threads: the camera's
// stream thread has images made, the wire thread moves the stage and injects faults.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "simulator/gige_camera.hpp"
#include "simulator/simulation.hpp"

namespace driftd::simulator {

/// The truth about one exposure, whether or not its image was sent.
struct TruthRecord {
  Truth truth;
  FramePlan plan;
  std::int64_t middle_ns = 0;  ///< of the exposure, CLOCK_MONOTONIC
  bool sent = false;
  bool camera_away = false;
};

/// Stage axes; z is 0 without a focus stage.
struct StageReadback {
  Vec2 true_nm;       ///< noise included
  Vec2 commanded_nm;  ///< newest command, obeyed or not
  double true_z_nm = 0, commanded_z_nm = 0;
};

class LiveSimulation final : public FrameProducer {
 public:
  using TruthSink = std::function<void(const TruthRecord&)>;
  /// @param sink  called on the stream thread for each exposure; may be empty
  LiveSimulation(const Scenario& scenario, TruthSink sink);

  MadeFrame make(const FramePlan& plan, std::span<std::byte> image) override;
  void prepare(const SensorSettings& settings) override;
  bool camera_away() override;
  std::optional<std::int64_t> clock_error_ns(std::int64_t time_ns) override;

  /// A command that reached the stage now: absolute, stage axes. Any thread.
  void command_stage(Vec2 stage_nm);
  void command_focus(double z_nm);
  bool has_focus_stage();
  Vec2 commanded_nm();
  double commanded_z_nm();
  StageReadback stage_place();  ///< now. Any thread.
  /// Starts a fault now. @return false when its marker does not exist. Any thread.
  bool inject(const Fault& fault);
  double time_s();  ///< since the scenario's start

 private:
  std::mutex mutex_;  ///< guards simulation_
  Simulation simulation_;
  TruthSink sink_;
  const std::int64_t start_ns_;
  std::vector<std::uint16_t> levels_;
  std::vector<std::uint16_t> image_;  ///< binned and mirrored
};

}  // namespace driftd::simulator
