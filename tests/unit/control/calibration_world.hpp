// SPDX-License-Identifier: MIT
// A calibration run in virtual time: the simulator's world, the controller with its limits between
// excitation and stage, and white measurement noise instead of images; worlds drawn at random, and
// worlds that cannot be calibrated. Deterministic for a seed.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "control/identification/stage_excitation.hpp"
#include "control/identification/stage_identification.hpp"
#include "control/identification/stage_record.hpp"
#include "control/law/controller.hpp"
#include "simulator/random.hpp"
#include "simulator/simulation.hpp"

namespace driftd::control::test {

struct CalibrationWorld {
  simulator::Scenario scenario;
  double frame_rate_hz = 500;
  double exposure_us = 1000;
  double noise_nm = 0.5;  ///< measurement noise per frame and axis
  double age_ms = 1.5;    ///< middle of the exposure to the command
  double age_jitter_ms = 0.1;
  double time_jitter_us = 0;  ///< rms error of taken_ns
  double missing_share = 0;
  double outlier_share = 0;  ///< frames whose drift is wrong by some 50 nm
  bool states_noise = true;
  /// What the stage's driver makes of a commanded change; nothing: it passes it on.
  std::function<Vec2(double time_s, Vec2 delta_nm)> driver;
  /// What is wrong with the measured drift.
  std::function<Vec2(double time_s)> image_error;
  std::function<bool(double time_s)> frame_lost;
  std::vector<std::pair<double, simulator::Fault>> faults;
};

struct CalibrationRun {
  StageRecord record;
  Vec2 left_nm;  ///< true place of the stage at the end against its start, stage axes
  double seconds = 0;
  double farthest_nm = 0;  ///< commanded, per axis
  /// The simulator moves on a grid: how long a command waits for its next tick, on the mean.
  double tick_wait_us = 0;
};

using Wanted = std::function<Vec2(std::int64_t elapsed_ns)>;

/// Plays `wanted` for `duration_ns` through a controller with these limits.
inline CalibrationRun play_calibration(const CalibrationWorld& world,
                                       const ControllerSettings& limits, const Wanted& wanted,
                                       std::int64_t duration_ns, std::uint64_t seed) {
  simulator::Simulation sim(world.scenario);
  simulator::Random random(seed, 77);
  Controller controller(limits);
  controller.reset();
  simulator::SensorSettings sensor;
  sensor.exposure_us = world.exposure_us;
  CalibrationRun run;
  run.record.exposure_ns = std::llround(1e3 * world.exposure_us);
  const auto period_ns = std::llround(1e9 / world.frame_rate_hz);
  // The scenario's first tenth of a second lets nothing start at time 0.
  constexpr std::int64_t kStartNs = 100'000'000;
  Vec2 first_stage, first_moved, told, last_stage;
  std::size_t next_fault = 0;
  bool started = false;
  int moved_often = 0;
  for (std::int64_t frame = 0; frame * period_ns < duration_ns; ++frame) {
    const std::int64_t start_ns = kStartNs + frame * period_ns;
    const double time_s = 1e-9 * static_cast<double>(frame * period_ns);
    while (next_fault < world.faults.size() && world.faults[next_fault].first <= time_s)
      sim.inject(world.faults[next_fault++].second);
    const simulator::Truth truth = sim.expose(start_ns, sensor, nullptr);
    last_stage = truth.stage_nm;
    Vec2 moved{truth.sample_nm.x + world.noise_nm * random.normal(),
               truth.sample_nm.y + world.noise_nm * random.normal()};
    if (world.outlier_share > 0 && random.uniform() < world.outlier_share)
      moved = {moved.x + 50 * random.normal(), moved.y + 50 * random.normal()};
    if (world.image_error) {
      const Vec2 error = world.image_error(time_s);
      moved = {moved.x + error.x, moved.y + error.y};
    }
    if (frame == 0) {
      first_stage = truth.stage_nm;
      first_moved = moved;
    }
    const bool lost =
        random.uniform() < world.missing_share || (world.frame_lost && world.frame_lost(time_s));
    const std::int64_t taken_ns =
        truth.middle_ns + std::llround(1e3 * world.time_jitter_us * random.normal());
    const std::int64_t now_ns =
        truth.middle_ns +
        std::llround(1e6 *
                     (world.age_ms +
                      (world.age_jitter_ms > 0 ? random.exponential(world.age_jitter_ms) : 0.0)));
    if (lost) continue;
    const double variance = world.states_noise ? world.noise_nm * world.noise_nm : 0;
    run.record.samples.push_back({.taken_ns = taken_ns,
                                  .moved_nm = {moved.x - first_moved.x, moved.y - first_moved.y},
                                  .covariance_nm2 = {variance, 0, variance}});
    const Vec2 before = controller.total_nm();
    const Correction correction = started
                                      ? controller.go_to(wanted(frame * period_ns), now_ns)
                                      : controller.update({}, std::min(taken_ns, now_ns), now_ns);
    started = true;
    if (!run.record.moves.empty() && now_ns <= run.record.moves.back().sent_ns) continue;
    run.record.moves.push_back({.sent_ns = now_ns, .total_nm = correction.total_nm});
    run.farthest_nm = std::max(
        {run.farthest_nm, std::abs(correction.total_nm.x), std::abs(correction.total_nm.y)});
    Vec2 delta{correction.total_nm.x - before.x, correction.total_nm.y - before.y};
    if (delta.x != 0 || delta.y != 0) {
      const std::int64_t due_ns = now_ns + std::llround(1e6 * world.scenario.stage.delay_ms);
      const std::int64_t beyond_ns = due_ns % simulator::kTickNs;
      run.tick_wait_us +=
          beyond_ns > 0 ? 1e-3 * static_cast<double>(simulator::kTickNs - beyond_ns) : 0;
      ++moved_often;
    }
    if (world.driver) delta = world.driver(time_s, delta);
    told = {told.x + delta.x, told.y + delta.y};
    sim.command_stage(now_ns, told);
  }
  run.left_nm = {last_stage.x - first_stage.x, last_stage.y - first_stage.y};
  run.tick_wait_us /= std::max(1, moved_often);
  run.seconds = 1e-9 * static_cast<double>(duration_ns);
  return run;
}

/// Residual per axis (rms of the true sample, less its mean) of a lock in the world; the first two
/// seconds do not count.
inline double locked_residual_nm(const CalibrationWorld& world, const ControllerSettings& settings,
                                 double seconds, std::uint64_t seed) {
  simulator::Scenario scenario = world.scenario;
  scenario.seed = seed;
  simulator::Simulation sim(scenario);
  simulator::Random random(seed, 78);
  Controller controller(settings);
  controller.reset();
  simulator::SensorSettings sensor;
  sensor.exposure_us = world.exposure_us;
  const double period_s = 1 / world.frame_rate_hz;
  Vec2 first, sum, squares;
  double count = 0;
  for (int frame = 0; frame * period_s < seconds; ++frame) {
    const simulator::Truth truth =
        sim.expose(100'000'000 + std::llround(1e9 * frame * period_s), sensor, nullptr);
    if (frame == 0) first = truth.sample_nm;
    const Vec2 place{truth.sample_nm.x - first.x, truth.sample_nm.y - first.y};
    const std::int64_t now_ns =
        truth.middle_ns +
        std::llround(1e6 * (world.age_ms + random.exponential(world.age_jitter_ms)));
    const Correction correction = controller.update(
        {place.x + world.noise_nm * random.normal(), place.y + world.noise_nm * random.normal()},
        truth.middle_ns, now_ns);
    sim.command_stage(now_ns, correction.total_nm);
    if (frame * period_s < 2) continue;
    sum = {sum.x + place.x, sum.y + place.y};
    squares = {squares.x + place.x * place.x, squares.y + place.y * place.y};
    ++count;
  }
  return std::sqrt(0.5 * (squares.x / count - sum.x * sum.x / count / count + squares.y / count -
                          sum.y * sum.y / count / count));
}

inline StageExcitationSettings excitation_settings(const CalibrationWorld& world,
                                                   const ControllerSettings& limits,
                                                   double seconds = 20) {
  return {.excursion_nm = 100,
          .seconds = seconds,
          .rate_limit_nm_per_s = limits.rate_limit_nm_per_s,
          .step_limit_nm = limits.step_limit_nm,
          .frame_period_ns = std::llround(1e9 / world.frame_rate_hz)};
}

/// The standard excitation.
inline CalibrationRun calibrate_in(const CalibrationWorld& world, const ControllerSettings& limits,
                                   std::uint64_t seed, double seconds = 20) {
  const StageExcitation excitation(excitation_settings(world, limits, seconds));
  return play_calibration(
      world, limits, [&](std::int64_t elapsed_ns) { return excitation.wanted_nm(elapsed_ns); },
      excitation.duration_ns(), seed);
}

/// The matrix that a calibration should find: hysteresis keeps back its share of all motions that
/// are small against its reach, so that small motions need so much more. Valid for an excursion
/// below a tenth of the reach, the first of the simulator's thresholds.
inline ImageToStage true_matrix(const simulator::StageModel& stage) {
  const double angle = stage.turn_deg * std::numbers::pi / 180;
  const double c = std::cos(angle), s = std::sin(angle);
  const double keep = 1 - stage.hysteresis_share;
  // Platform = turn * [gain, coupling] * sign; its inverse after M gives commands.
  const double a = stage.axis_gain[0] * stage.axis_sign[0] * keep;
  const double b = stage.coupling[0] * stage.axis_sign[1] * keep;
  const double d = stage.coupling[1] * stage.axis_sign[0] * keep;
  const double e = stage.axis_gain[1] * stage.axis_sign[1] * keep;
  const std::array<double, 4> p = {c * a - s * d, c * b - s * e, s * a + c * d, s * b + c * e};
  const double det = p[0] * p[3] - p[1] * p[2];
  const ImageToStage inverse{p[3] / det, -p[1] / det, -p[2] / det, p[0] / det};
  const auto& m = stage.image_to_stage;
  return {inverse.a * m[0][0] + inverse.b * m[1][0], inverse.a * m[0][1] + inverse.b * m[1][1],
          inverse.c * m[0][0] + inverse.d * m[1][0], inverse.c * m[0][1] + inverse.d * m[1][1]};
}

/// Largest difference of an element, against the matrix' size (Frobenius / sqrt 2).
inline double matrix_error(const ImageToStage& found, const ImageToStage& truth) {
  const double size = std::sqrt(
      0.5 * (truth.a * truth.a + truth.b * truth.b + truth.c * truth.c + truth.d * truth.d));
  return std::max({std::abs(found.a - truth.a), std::abs(found.b - truth.b),
                   std::abs(found.c - truth.c), std::abs(found.d - truth.d)}) /
         size;
}

inline double true_bandwidth_hz(const simulator::StageModel& stage) {
  return ResponseShape{.order = 2, .frequency_hz = stage.frequency_hz, .damping = stage.damping}
      .bandwidth_hz();
}

/// A command waits for the simulator's next tick, and a frame's mean is that of the ticks before
/// each tenth of it. Both look like dead time.
inline double true_delay_us(const simulator::StageModel& stage, const CalibrationRun& run) {
  return 1e3 * stage.delay_ms + run.tick_wait_us + 0.5e-3 * static_cast<double>(simulator::kTickNs);
}

inline simulator::AxisDisturbance random_disturbance(simulator::Random& random) {
  simulator::AxisDisturbance axis;
  axis.linear_nm_per_s = 10 * (2 * random.uniform() - 1);
  axis.random_walk_nm_per_sqrt_s = 2 * random.uniform();
  constexpr std::array<std::array<double, 2>, 5> kLines = {
      {{1, 1.3}, {0.5, 2.7}, {0.4, 13}, {0.2, 27}, {0.3, 50}}};
  for (const auto& line : kLines)
    axis.sines.push_back({.amplitude_nm = 2 * line[0] * random.uniform(),
                          .frequency_hz = line[1] * (0.8 + 0.4 * random.uniform()),
                          .phase_deg = 360 * random.uniform()});
  return axis;
}

/// The worlds of the issue: any rotation, mirrored or not, scale 0.5 to 2, dead time 0.5 to 30 ms,
/// response 8 to 300 Hz with damping 0.4 to 1, drift and vibration, hysteresis 2 %.
inline CalibrationWorld random_world(std::uint64_t seed) {
  simulator::Random random(seed, 5);
  const auto between = [&](double low, double high) {
    return low + (high - low) * random.uniform();
  };
  const auto log_between = [&](double low, double high) {
    return low * std::pow(high / low, random.uniform());
  };
  CalibrationWorld world;
  simulator::Scenario& scenario = world.scenario;
  scenario.seed = seed;
  scenario.markers.count = 1;
  scenario.disturbance_x = random_disturbance(random);
  scenario.disturbance_y = random_disturbance(random);
  const double angle = between(0, 2 * std::numbers::pi);
  const double scale = log_between(0.5, 2);
  const double mirror = random.uniform() < 0.5 ? -1 : 1;
  scenario.stage.image_to_stage = {{{scale * std::cos(angle), -mirror * scale * std::sin(angle)},
                                    {scale * std::sin(angle), mirror * scale * std::cos(angle)}}};
  scenario.stage.axis_sign = {random.uniform() < 0.3 ? -1 : 1, random.uniform() < 0.3 ? -1 : 1};
  scenario.stage.coupling = {between(-0.03, 0.03), between(-0.03, 0.03)};
  scenario.stage.delay_ms = log_between(0.5, 30);
  scenario.stage.frequency_hz = log_between(8, 300);
  scenario.stage.damping = between(0.4, 1);
  scenario.stage.hysteresis_share = 0.02;
  world.noise_nm = between(0.3, 1);
  world.age_ms = between(1, 3);
  world.age_jitter_ms = between(0.02, 0.2);
  return world;
}

/// A world that cannot be calibrated, and how a refusal may look.
struct ImpossibleWorld {
  std::string name;
  CalibrationWorld world;
  std::vector<StageRefusal> refusals;
  bool limits_leave_no_room = false;
};

inline bool within(double time_s, double begin_s, double end_s) {
  return time_s >= begin_s && time_s < end_s;
}

/// The worlds of the issue and some more, each in a random one.
inline std::vector<ImpossibleWorld> impossible_worlds() {
  using simulator::Fault;
  using simulator::FaultKind;
  using enum StageRefusal;
  std::vector<ImpossibleWorld> all;
  std::uint64_t seed = 100;
  const auto add = [&](const char* name, std::vector<StageRefusal> refusals) -> CalibrationWorld& {
    all.push_back({name, random_world(++seed), std::move(refusals), false});
    return all.back().world;
  };
  const auto driver = [&](const char* name, std::vector<StageRefusal> refusals,
                          std::function<Vec2(double, Vec2)> f) {
    add(name, std::move(refusals)).driver = std::move(f);
  };
  const auto fault = [&](const char* name, std::vector<StageRefusal> refusals, double at_s,
                         const Fault& f) {
    add(name, std::move(refusals)).faults = {{at_s, f}};
  };
  driver("x dead", {AxisDead}, [](double, Vec2 d) { return Vec2{0, d.y}; });
  driver("y dead", {AxisDead}, [](double, Vec2 d) { return Vec2{d.x, 0}; });
  add("stage dead", {StageDead}).scenario.stage.stuck = true;
  driver("x reversed twice", {Reversed}, [](double t, Vec2 d) {
    return Vec2{within(t, 8, 13) ? -d.x : d.x, d.y};
  });
  driver("y reversed twice, short", {Reversed}, [](double t, Vec2 d) {
    return Vec2{d.x, within(t, 9, 11.5) ? -d.y : d.y};
  });
  driver("y reversed from 10 s", {Reversed}, [](double t, Vec2 d) {
    return Vec2{d.x, t > 10 ? -d.y : d.y};
  });
  driver("x reversed now and then", {Reversed}, [](double t, Vec2 d) {
    return Vec2{std::fmod(t, 4) > 2.5 ? -d.x : d.x, d.y};
  });
  driver("x reversed every 0.3 s", {Reversed, Stuck, GainChanged, NotLinear, AxisDead},
         [](double t, Vec2 d) {
           return Vec2{std::fmod(t, 0.6) > 0.3 ? -d.x : d.x, d.y};
         });
  fault("both reversed from 11 s", {Reversed}, 11, {.kind = FaultKind::StageReversed});
  driver("axes swapped from 9 s", {Swapped}, [](double t, Vec2 d) {
    return t > 9 ? Vec2{d.y, d.x} : d;
  });
  driver("axes swapped for a while", {Swapped}, [](double t, Vec2 d) {
    return within(t, 7, 11) ? Vec2{d.y, d.x} : d;
  });
  fault("turned by 90 degrees from 9 s", {Swapped}, 9,
        {.kind = FaultKind::StageTurned, .degrees = 90});
  add("slow, 400 nm/s", {Slow}).scenario.stage.slew_nm_per_s = 400;
  add("slow, 150 nm/s", {Slow}).scenario.stage.slew_nm_per_s = 150;
  fault("stuck for 3 s", {Stuck}, 8, {.kind = FaultKind::StageStuck, .seconds = 3});
  fault("dead from 12 s", {Stuck}, 12, {.kind = FaultKind::StageDead});
  driver("stuck every now and then", {Stuck, GainChanged, NotLinear},
         [](double t, Vec2 d) { return std::fmod(t, 1.7) > 1.3 ? Vec2{} : d; });
  fault("gain 1.5 from 10 s", {GainChanged}, 10, {.kind = FaultKind::StageGain, .factor = 1.5});
  fault("gain 0.6 from 9 s", {GainChanged}, 9, {.kind = FaultKind::StageGain, .factor = 0.6});
  driver("sticks below 30 nm", {NotLinear, GainChanged, Stuck},
         [waiting = Vec2{}](double, Vec2 d) mutable {
           waiting = {waiting.x + d.x, waiting.y + d.y};
           Vec2 out;
           if (std::abs(waiting.x) > 30) std::swap(out.x, waiting.x);
           if (std::abs(waiting.y) > 30) std::swap(out.y, waiting.y);
           return out;
         });
  driver("moves by the cube", {NotLinear, GainChanged}, [place = Vec2{}](double, Vec2 d) mutable {
    const auto cube = [](double v) { return v * v * v / 4000; };
    const Vec2 before = place;
    place = {place.x + d.x, place.y + d.y};
    return Vec2{cube(place.x) - cube(before.x), cube(place.y) - cube(before.y)};
  });
  driver("both axes drive x", {Parallel}, [](double, Vec2 d) { return Vec2{d.x + d.y, 0}; });
  add("markers swapped", {Jumped}).image_error = [](double t) {
    return t > 8 ? Vec2{400, -150} : Vec2{};
  };
  add("markers swapped to and fro", {Jumped}).image_error = [](double t) {
    return std::fmod(t, 1.5) > 0.8 ? Vec2{150, -80} : Vec2{};
  };
  add("knocked by 45 nm", {Jumped}).image_error = [](double t) {
    return t > 11 ? Vec2{45, 0} : Vec2{};
  };
  add("few frames", {TooFewFrames}).missing_share = 0.8;
  add("no frames from 6 s on", {TooFewFrames}).frame_lost = [](double t) {
    return within(t, 6, 19.5);
  };
  add("noise of 400 nm", {Unresolved}).noise_nm = 400;
  add("no room to move", {TooLittleMotion});
  all.back().limits_leave_no_room = true;
  return all;
}

}  // namespace driftd::control::test
