// SPDX-License-Identifier: MIT
#include "tests/bench/stillness/random_world.hpp"

#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "control/identification/record_fit.hpp"
#include "control/stage/response_shape.hpp"
#include "simulator/random.hpp"

namespace driftd::stillness {
namespace {

constexpr std::uint64_t kWorlds = 400, kFaults = 401;  ///< streams of the seed

class Draw {
 public:
  Draw(std::uint64_t seed, std::uint64_t stream) : random_(seed, stream) {}
  double between(double low, double high) { return low + (high - low) * random_.uniform(); }
  double by_size(double low, double high) {
    return std::exp(between(std::log(low), std::log(high)));
  }
  template <typename T, std::size_t kCount>
  T one_of(const std::array<T, kCount>& values) {
    return values[static_cast<std::size_t>(random_.uniform() * kCount)];
  }

 private:
  simulator::Random random_;
};

/// What shakes a table: nothing to speak of, a quiet laboratory, a pump and a fan. Lines
/// above a quarter of the frame rate are left out: no command follows them.
std::vector<simulator::Sine> lines_of(int set, double rate_hz) {
  const auto line = [](double amplitude_nm, double frequency_hz) {
    simulator::Sine sine;
    sine.amplitude_nm = amplitude_nm;
    sine.frequency_hz = frequency_hz;
    return sine;
  };
  std::vector<simulator::Sine> lines;
  if (set == 1) lines = {line(0.6, 1.7), line(0.25, 12.3), line(0.2, 50)};
  if (set == 2) lines = {line(2.0, 2.1), line(1.0, 17.3), line(1.0, 29.7), line(0.6, 50)};
  std::erase_if(lines, [&](const simulator::Sine& s) { return s.frequency_hz > rate_hz / 4; });
  return lines;
}

void believe(Belief& b, const simulator::StageModel& stage, Described described) {
  const double delay_us = 1e3 * stage.delay_ms;
  const auto second_order = [&](double factor) {
    b.stage_delay_us = factor * delay_us;
    b.stage_resonance_hz = stage.frequency_hz / factor;
    b.stage_damping = stage.damping;
  };
  switch (described) {
    case Described::Right:
      return second_order(1);
    case Described::Defaults:
      b.stage_delay_us = 3000;
      b.stage_time_constant_us = 1000;
      return;
    case Described::Short:
      return second_order(0.3);
    case Described::Long:
      return second_order(1.8);
    case Described::FirstOrder: {
      // As much later as the first order is less late than the second.
      const double lag_us = 1e6 * control::lag_of({.order = 2,
                                                   .delay_s = 0,
                                                   .time_constant_s = 0,
                                                   .frequency_hz = stage.frequency_hz,
                                                   .damping = stage.damping});
      b.stage_time_constant_us = 0.65 * lag_us;
      b.stage_delay_us = delay_us + 0.35 * lag_us;
      return;
    }
  }
}

}  // namespace

const char* name_of(Described described) {
  constexpr std::array<const char*, 5> kNames = {"right", "defaults", "short", "long", "first"};
  return kNames[static_cast<std::size_t>(described)];
}

const char* name_of(StageFault fault) {
  constexpr std::array<const char*, 7> kNames = {"none",     "stuck",   "one stuck", "reversed",
                                                 "one rev.", "swapped", "turned"};
  return kNames[static_cast<std::size_t>(fault)];
}

RandomWorld random_world(std::uint64_t seed) {
  Draw draw(seed, kWorlds);
  RandomWorld random;
  World& world = random.world;
  simulator::Scenario& s = world.scenario;
  s.optics.pixel_size_nm = 100;
  s.optics.sigma_px = 1.3;
  s.camera.rate_hz = draw.one_of<double>(std::array<double, 6>{100, 200, 250, 400, 500, 1000});
  s.camera.exposure_us = 100;
  s.markers.count = draw.one_of(std::array<int, 3>{4, 16, 25});
  s.markers.photons = draw.by_size(3e3, 1e5);
  s.markers.photons_spread = 0;
  const int set = draw.one_of(std::array<int, 3>{0, 1, 2});
  for (simulator::AxisDisturbance* axis : {&s.disturbance_x, &s.disturbance_y}) {
    axis->linear_nm_per_s = draw.between(-8, 8);
    axis->random_walk_nm_per_sqrt_s = 1;
    axis->sines = lines_of(set, s.camera.rate_hz);
  }
  s.stage.frequency_hz = draw.one_of<double>(std::array<double, 7>{8, 15, 30, 60, 100, 150, 300});
  s.stage.damping = draw.between(0.2, 1);
  s.stage.delay_ms = draw.by_size(1, 20);
  s.stage.axis_gain = {draw.by_size(0.8, 1.25), draw.by_size(0.8, 1.25)};
  s.stage.noise_nm = 0.2;
  s.stage.noise_bandwidth_hz = 200;
  s.stage.quantisation_nm = 0.05;
  random.described =
      draw.one_of(std::array<Described, 5>{Described::Right, Described::Defaults, Described::Short,
                                           Described::Long, Described::FirstOrder});
  believe(world.belief, s.stage, random.described);
  world.belief.latency_us = 1500;
  world.judgement.seconds = 40;
  world.judgement.learn_s = 20;
  world.name = std::to_string(seed);
  world.title = "world " + world.name;
  return random;
}

void describe_right(RandomWorld& random) {
  random.described = Described::Right;
  random.world.scenario.stage.axis_gain = {1, 1};
  believe(random.world.belief, random.world.scenario.stage, Described::Right);
}

std::string add_early_fault(World& world, std::uint64_t seed) {
  using simulator::FaultKind;
  Draw draw(seed, kFaults);
  const auto [kind, name] = draw.one_of(
      std::array<std::pair<FaultKind, const char*>, 4>{{{FaultKind::StageStuck, "stuck 1 s"},
                                                        {FaultKind::StageDead, "dead"},
                                                        {FaultKind::StageReversed, "reversed"},
                                                        {FaultKind::StageTurned, "turned"}}});
  world.fault = {.kind = kind, .at_s = draw.between(0, 1), .seconds = 1, .degrees = 90};
  return name;
}

StageFault add_fault(World& world, std::uint64_t seed) {
  Draw draw(seed, kFaults);
  simulator::StageModel& stage = world.scenario.stage;
  const StageFault fault = draw.one_of(
      std::array<StageFault, 6>{StageFault::Stuck, StageFault::OneStuck, StageFault::Reversed,
                                StageFault::OneReversed, StageFault::Swapped, StageFault::Turned});
  const auto axis = static_cast<std::size_t>(draw.between(0, 2));
  switch (fault) {
    case StageFault::None:
      break;
    case StageFault::Stuck:
      stage.stuck = true;
      break;
    case StageFault::OneStuck:
      stage.axis_gain[axis] = 0;
      break;
    case StageFault::Reversed:
      stage.axis_sign = {-1, -1};
      break;
    case StageFault::OneReversed:
      stage.axis_sign[axis] = -1;
      break;
    case StageFault::Swapped:
      stage.image_to_stage = {{{0, 1}, {1, 0}}};
      break;
    case StageFault::Turned:
      stage.turn_deg = draw.one_of<double>(std::array<double, 5>{60, 90, 120, -90, -120});
      break;
  }
  return fault;
}

}  // namespace driftd::stillness
