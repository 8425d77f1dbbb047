// SPDX-License-Identifier: MIT
// A world of the bench: a scenario of the simulator, and in its section `bench` what the daemon
// believes of it and how it is judged. README.md of this folder lists the keys.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "simulator/scenario.hpp"
#include "tests/bench/stillness/axis_model.hpp"

namespace driftd::stillness {

/// What the configuration would say of the stage, and how late corrections leave.
struct Belief {
  double stage_delay_us = 2500;
  double stage_time_constant_us = 1500;
  double stage_resonance_hz = 0, stage_damping = 1;
  double proportional = 0;
  double integral = 0.3;
  double step_limit_nm = 20;
  double rate_limit_nm_per_s = 2000;
  double range_limit_nm = 5000;  ///< and of the travel
  int average_frames = 1;
  int min_markers = 3;
  double latency_us = 1500;      ///< middle of the exposure to the correction's arrival
  double latency_jitter_us = 0;  ///< mean of what adds to it, exponentially distributed
  double witness_share = 0;      ///< of the markers
  double rotate_witness_s = 0;   ///< 0: the same markers are witnesses all the time
};

struct Judgement {
  double seconds = 60;    ///< after the lock
  double learn_s = 20;    ///< the first of them, which are not judged
  double left_out_s = 1;  ///< after each of `left_out_at_s`, counted from the scenario's start
  std::vector<double> left_out_at_s;
  double missing_share = 0;  ///< of the frames, for all the time
};

/// The lock is one of z alone. The scenario's x stands for z: disturbance, stage and faults are of
/// that axis.
struct Axial {
  double noise_nm = 1.05;  ///< of a frame's z, a standard deviation
  double told_share = 1;   ///< what is told of it over what it is
  int markers = 13;
  double max_jump_nm = 150, max_drift_nm_per_s = 20;
};

struct World {
  std::string name;
  std::string title;
  simulator::Scenario scenario;
  Belief belief;
  Judgement judgement;
  std::optional<Axial> axial = {};
  // Not keys of the file.
  bool fitted = false;      ///< markers are drawn and fitted
  bool remembering = true;  ///< markers have a reputation
  bool acquaint = false;    ///< a lock gets to know its stage first; of laws that are not PI
  /// Happens so long (at_s) after a law begins to act.
  std::optional<simulator::Fault> fault = {};
  bool camera_obeys = true;  ///< its frame rate may be changed while it runs
  int driver_frames = 1;     ///< the stage's driver takes one correction in so many frames
};

/// @throws simulator::ScenarioError
World load_world(const std::filesystem::path& file);
World load_world_text(const std::string& text, const std::string& name);

/// The bound's commands change at most so much, rms a frame: a third of what the limits allow.
double change_limit_nm(const World& world);
/// One axis of the world, of z always that one, with its steady lines; its noise is that of the
/// best mean over the tracking markers.
AxisPhysics physics_of(const World& world, bool y_axis, double noise_nm);

}  // namespace driftd::stillness
