// SPDX-License-Identifier: MIT
// How well `driftctl calibrate camera` measures random sensors under restless light: one line a
// sensor, then how many came out within 2 % (gain), 1 ADU (offset), 10 % (read noise), and the rms
// of the gains' errors in units of their own uncertainties. A gain with a warning that it is not
// known so well, or that the black level is too low, is counted by itself.
//   driftd_photon_transfer_bench [CASES [FRAMES [SEED]]]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "clients/driftctl/camera/photon_transfer.hpp"
#include "simulator/sensor_settings.hpp"
#include "simulator/simulation.hpp"

namespace {

using namespace driftd::clients;
namespace sim = driftd::simulator;

class Dice {
 public:
  explicit Dice(unsigned seed) : random_(seed) {}
  double even(double low, double high) {
    return std::uniform_real_distribution<>(low, high)(random_);
  }
  double decades(double low, double high) { return std::exp(even(std::log(low), std::log(high))); }
  bool happens(double share) { return even(0, 1) < share; }

 private:
  std::mt19937 random_;
};

sim::AxisDisturbance random_motion(Dice& dice) {
  sim::AxisDisturbance axis;
  axis.linear_nm_per_s = dice.even(-10, 10);
  axis.random_walk_nm_per_sqrt_s = dice.decades(1, 5);
  axis.sines = {{dice.decades(0.3, 10), dice.even(1, 5), 0},
                {dice.decades(0.2, 3), dice.even(10, 100), 40}};
  return axis;
}

sim::Scenario random_world(unsigned seed) {
  Dice dice(seed);
  sim::Scenario s;
  s.seed = seed;
  sim::CameraModel& c = s.camera;
  c.bit_depth = std::vector{8, 10, 12, 16}[static_cast<std::size_t>(dice.even(0, 4))];
  c.gain_e_per_adu = dice.decades(0.2, 20);
  c.read_noise_e = dice.decades(0.5, 10);
  c.offset_adu = dice.happens(0.15) ? 0 : dice.even(0, c.bit_depth == 8 ? 40 : 200);
  c.offset_pattern_adu = dice.happens(0.2) ? 0 : dice.decades(0.1, 3);
  c.gain_pattern = dice.happens(0.2) ? 0 : dice.decades(0.001, 0.03);
  c.background_e = dice.decades(2, 200);
  s.optics.sigma_px = dice.even(0.9, 2.2);
  s.optics.motion_blur = true;
  if (dice.happens(0.3)) {
    s.optics.shape = sim::SpotShape::Airy;
    s.optics.defocus_waves = dice.even(-0.4, 0.4);
  }
  s.markers.count = static_cast<int>(dice.even(5, 25));
  s.markers.photons = dice.decades(5000, 100'000);
  s.markers.photons_spread = 0.4;
  s.markers.blink = {0.3, 3, 0.3};
  // As a user would have it: the brightest within the levels.
  const double peak_e =
      s.markers.photons * 2 / (2 * 3.14 * s.optics.sigma_px * s.optics.sigma_px) + c.background_e;
  const double room_e =
      0.8 * std::min(c.full_well_e, ((1 << c.bit_depth) - 1 - c.offset_adu) * c.gain_e_per_adu);
  if (peak_e > room_e) {
    s.markers.photons *= room_e / peak_e;
    c.background_e *= room_e / peak_e;
  }
  s.illumination.flicker_share = dice.decades(0.001, 0.03);
  s.illumination.ripple_share = dice.decades(0.001, 0.03);
  s.background.structure_share = dice.happens(0.5) ? 0.3 : 0;
  s.background.speed_nm_per_s = {20, -10};
  s.disturbance_x = random_motion(dice);
  s.disturbance_y = random_motion(dice);
  s.field.rotation_urad_per_s = dice.even(-5, 5);
  return s;
}

struct Series {
  FrameStatistics statistics;
  NoiseBlocks noise;
};

Series take(const sim::Scenario& scenario, int frames) {
  sim::Simulation simulation(scenario);
  sim::SensorSettings settings;
  settings.width_px = scenario.camera.width_px;
  settings.height_px = scenario.camera.height_px;
  settings.exposure_us = scenario.camera.exposure_us;
  const FrameShape shape{settings.width_px, settings.height_px, scenario.camera.bit_depth};
  Series series{FrameStatistics(shape), NoiseBlocks(shape)};
  std::vector<std::uint16_t> levels(settings.pixels());
  for (int i = 0; i < frames; ++i) {
    simulation.expose((1 + i) * std::int64_t{20'000'000}, settings, levels.data());
    series.statistics.add(levels);
    series.noise.add(levels);
  }
  return series;
}

struct Counts {
  int refused = 0, gain = 0, gain_within = 0, doubted = 0, doubted_within = 0, offset = 0,
      offset_within = 0, read = 0, read_within = 0, light = 0, light_within = 0;
  double pulls2 = 0;
};

bool doubted(const LightResult& light) {
  return std::any_of(light.warnings.begin(), light.warnings.end(), [](const std::string& text) {
    return text.find("not known to 2 %") != std::string::npos ||
           text.find("of the dark values are 0") != std::string::npos ||
           text.find("all dark values are 0") != std::string::npos;
  });
}

void measure(const sim::Scenario& world, int frames, Counts& counts) {
  const sim::CameraModel& c = world.camera;
  std::printf(
      "%2d bits %6.2f e-/ADU %5.2f e- %5.1f ADU pattern %.2f background %6.1f photons %6.0f:",
      c.bit_depth, c.gain_e_per_adu, c.read_noise_e, c.offset_adu, c.offset_pattern_adu,
      c.background_e, world.markers.photons);
  sim::Scenario night = world;
  night.camera.background_e = 0;
  night.markers.photons = 1e-9;
  try {
    const DarkResult dark = measure_dark(take(night, frames).statistics);
    const double off = dark.offset_adu.value - c.offset_adu;
    std::printf(" offset %+.3f", off);
    ++counts.offset;
    if (std::abs(off) < 1) ++counts.offset_within;
    if (dark.read_noise_adu) {
      const double ratio = dark.read_noise_adu->value * c.gain_e_per_adu / c.read_noise_e;
      std::printf(" read noise %.3f", ratio);
      ++counts.read;
      if (std::abs(ratio - 1) < 0.1) ++counts.read_within;
    }
    const Series series = take(world, frames);
    const LightResult both = measure_light(series.statistics, series.noise, &dark);
    const double ratio = both.gain_e_per_adu.value / c.gain_e_per_adu;
    const double sd = both.gain_e_per_adu.sd / c.gain_e_per_adu;
    const bool in_doubt = doubted(both);
    std::printf(" gain %.4f +- %.4f%s", ratio, sd, in_doubt ? " with a warning" : "");
    ++(in_doubt ? counts.doubted : counts.gain);
    if (std::abs(ratio - 1) < 0.02) ++(in_doubt ? counts.doubted_within : counts.gain_within);
    counts.pulls2 += (ratio - 1) * (ratio - 1) / (sd * sd);
    const LightResult light = measure_light(series.statistics, series.noise, nullptr);
    std::printf(" light alone %.4f +- %.4f\n", light.gain_e_per_adu.value / c.gain_e_per_adu,
                light.gain_e_per_adu.sd / c.gain_e_per_adu);
    ++counts.light;
    if (std::abs(light.gain_e_per_adu.value / c.gain_e_per_adu - 1) < 0.02) ++counts.light_within;
  } catch (const CannotCalibrate& refusal) {
    std::printf(" %s\n", refusal.what());
    ++counts.refused;
  }
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const int cases = argc > 1 ? std::atoi(argv[1]) : 50;
  const int frames = argc > 2 ? std::atoi(argv[2]) : 512;
  const int seed = argc > 3 ? std::atoi(argv[3]) : 1;
  Counts counts;
  for (int i = 0; i < cases; ++i) {
    try {
      measure(random_world(static_cast<unsigned>(1000 * seed + i)), frames, counts);
    } catch (const sim::ScenarioError&) {
      std::printf("no room for the markers: no case\n");
    }
  }
  std::printf(
      "gain within 2 %%: %d of %d, with a warning %d of %d; light alone %d of %d; offset within 1 "
      "ADU: %d of %d; read noise within 10 %%: %d of %d; refused: %d; errors in units of sd %.2f\n",
      counts.gain_within, counts.gain, counts.doubted_within, counts.doubted, counts.light_within,
      counts.light, counts.offset_within, counts.offset, counts.read_within, counts.read,
      counts.refused, std::sqrt(counts.pulls2 / std::max(1, counts.gain + counts.doubted)));
  return 0;
}
