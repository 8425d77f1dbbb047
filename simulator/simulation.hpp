// SPDX-License-Identifier: MIT
// The simulated world in one object: disturbance, stage, markers, sensor and faults on one clock
// that runs as fast as it is asked to. Time is ns from the scenario's start and only goes forward.
// The same scenario with the same calls gives the same bits. Not thread-safe: driftd-sim wraps it
// in LiveSimulation; tests drive it directly.
//
// What the image shows: sample = disturbance + M^-1 * stage (see scenario.hpp for M and the axes);
// in z the disturbance plus `coupling` * focus stage, if there is one.
// A frame shows the mean of it over the exposure, and with `optics.motion_blur` the motion about
// it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "simulator/device_clock.hpp"
#include "simulator/illumination.hpp"
#include "simulator/markers.hpp"
#include "simulator/motion.hpp"
#include "simulator/reflected_spot.hpp"
#include "simulator/scenario.hpp"
#include "simulator/sensor.hpp"

namespace driftd::simulator {

/// The truth behind a frame: means over its exposure, displacements since the scenario's start.
struct Truth {
  std::int64_t middle_ns = 0;  ///< of the exposure
  Vec2 sample_nm;              ///< of the sample in the image: disturbance and stage together
  Vec2 disturbance_nm;         ///< image axes, without the stage
  Vec2 stage_nm;               ///< stage axes
  Vec2 commanded_nm;           ///< stage axes, newest command
  /// The same in z.
  double sample_z_nm = 0, disturbance_z_nm = 0, stage_z_nm = 0, commanded_z_nm = 0;
  bool markers_hidden = false;
  bool reflection_hidden = false;
  double background = 1;  ///< relative to the scenario's
  bool stage_stuck = false, stage_z_stuck = false;
};

enum class FrameFate : std::uint8_t { Send, Drop, Corrupt };

class Simulation {
 public:
  /// @throws ScenarioError when the scenario cannot be realised
  explicit Simulation(const Scenario& scenario);

  const Scenario& scenario() const noexcept { return scenario_; }
  std::int64_t now_ns() const noexcept { return tick_ * kTickNs; }
  /// Lets time pass up to `time_ns`; a time in the past changes nothing.
  void advance(std::int64_t time_ns);
  /// A command that reaches the stage at `time_ns`: an absolute position, stage axes.
  void command_stage(std::int64_t time_ns, Vec2 stage_nm);
  /// The same for the focus stage; nothing happens where there is none.
  void command_focus(std::int64_t time_ns, double z_nm);
  bool has_focus_stage() const noexcept { return focus_stage_.has_value(); }
  /// The newest stage command; 0 before the first.
  Vec2 commanded_nm() const noexcept { return stage_.commanded_nm(); }
  double commanded_z_nm() const noexcept {
    return focus_stage_ ? focus_stage_->commanded_nm().x : 0;
  }
  /// Where the stage truly is at `time_ns`, noise included; time does not pass. A time in the past
  /// counts as now. Faults that the scenario starts until then are not foreseen.
  Vec2 stage_nm_at(std::int64_t time_ns) const;
  double stage_z_nm_at(std::int64_t time_ns) const;
  /// Starts a fault now. @return false when its marker does not exist
  bool inject(const Fault& fault);

  /// Where the sample is now, in the image.
  Vec2 sample_nm() const noexcept;
  double sample_z_nm() const noexcept;
  /// The light of a frame that was exposed: markers and what else shines. None of the markers'
  /// where they are dark.
  void light_of(const Truth& truth, std::vector<Spot>& spots) const;
  const MarkerField& markers() const noexcept { return markers_; }
  /// An image of part of the sensor as a frame with that truth shows it, by the light of now.
  void image_of(const Truth& truth, const SensorSettings& part, std::uint16_t* levels);
  /// What the next image of these settings needs, ahead of its exposure: less is left for then.
  void prepare(const SensorSettings& settings) { sensor_.prepare(settings); }
  /// Exposes from `start_ns` on. With `levels`, draws the image (width * height values).
  Truth expose(std::int64_t start_ns, const SensorSettings& settings, std::uint16_t* levels);

  /// Whether the camera's cable is out now.
  bool camera_away() const noexcept { return now_ns() < away_until_ns_; }
  /// What becomes of the next frame under the faults of now; draws from the generator.
  FrameFate next_frame_fate();
  /// What the camera's clock shows too much at `time_ns`; nothing while it shows no time at all.
  std::optional<std::int64_t> clock_error_ns(std::int64_t time_ns) const noexcept;
  /// Further error of the next frame's own time: a jump, once, and jitter.
  std::int64_t take_frame_time_error_ns() noexcept { return clock_.take_frame_error(); }
  /// How long the next frame waits before it is sent; draws from the generator.
  std::int64_t next_delivery_delay_ns() noexcept;
  /// Share of the stream's packets that is lost once now.
  double packet_loss() const noexcept;

 private:
  struct Timed {
    std::int64_t until_ns = 0;
    double share = 0;
    bool active(std::int64_t now_ns) const noexcept { return now_ns < until_ns; }
  };
  void step();
  bool inject_into_stage(const Fault& fault, Stage& stage, std::int64_t& stuck_until_ns);
  Vec2 stage_place(const Stage& stage, std::int64_t time_ns, std::int64_t stuck_until_ns) const;
  bool inject_into_clock(const Fault& fault, std::int64_t until_ns);
  Vec2 disturbance_now() const noexcept;
  Vec2 by_stages_nm() const noexcept;
  double by_focus_nm(double stage_z_nm) const noexcept;
  class ExposureSum;
  void draw(const Truth& truth, const ExposureSum& sum, const SensorSettings& settings,
            std::uint16_t* levels);

  Scenario scenario_;
  std::int64_t tick_ = 0;
  DisturbanceAxis disturbance_x_;
  DisturbanceAxis disturbance_y_;
  DisturbanceAxis disturbance_z_;
  Stage stage_;
  std::optional<Stage> focus_stage_;  ///< its x is z
  MarkerField markers_;
  ReflectedSpot reflection_;
  Illumination illumination_;
  Sensor sensor_;
  DeviceClock clock_;
  Random fate_;
  Random delivery_;
  Vec2 disturbance_nm_;
  Vec2 steps_nm_;  ///< jumps by faults
  double disturbance_z_nm_ = 0, step_z_nm_ = 0;
  double background_ = 1;
  std::size_t next_fault_ = 0;
  std::int64_t away_until_ns_ = 0;
  std::int64_t hidden_until_ns_ = 0;
  std::int64_t reflection_hidden_until_ns_ = 0;
  std::int64_t stuck_until_ns_ = 0;
  std::int64_t focus_stuck_until_ns_ = 0;
  std::int64_t no_clock_until_ns_ = 0;
  Timed drop_;
  Timed corrupt_;
  Timed lose_;
  std::vector<Spot> spots_;
};

}  // namespace driftd::simulator
