// SPDX-License-Identifier: MIT
#include "clients/driftctl/camera/photon_transfer.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <random>
#include <vector>

#include "clients/driftctl/camera/saturation.hpp"
#include "simulator/sensor_settings.hpp"
#include "simulator/simulation.hpp"
#include "support/catch.hpp"

using namespace driftd::clients;
namespace sim = driftd::simulator;

namespace {

constexpr int kFrames = 384;

struct Series {
  explicit Series(const FrameShape& shape) : statistics(shape), noise(shape) {}
  void add(const std::vector<std::uint16_t>& pixels) {
    statistics.add(pixels);
    noise.add(pixels);
  }
  FrameStatistics statistics;
  NoiseBlocks noise;
};

using Change = std::function<void(std::vector<std::uint16_t>&)>;

/// Frames 12 ms apart, as snapshots come: each is added to one of what measures them.
template <typename Measured>
Measured expose(const sim::Scenario& scenario, int frames, int bits, const Change& change) {
  sim::Simulation simulation(scenario);
  sim::SensorSettings settings;
  settings.width_px = scenario.camera.width_px;
  settings.height_px = scenario.camera.height_px;
  settings.exposure_us = scenario.camera.exposure_us;
  Measured measured(
      {settings.width_px, settings.height_px, bits > 0 ? bits : scenario.camera.bit_depth});
  std::vector<std::uint16_t> levels(settings.pixels());
  for (int i = 0; i < frames; ++i) {
    simulation.expose((1 + i) * std::int64_t{12'000'000}, settings, levels.data());
    if (change) change(levels);
    measured.add(levels);
  }
  return measured;
}

Series take(const sim::Scenario& scenario, int frames = kFrames, int bits = 0,
            const Change& change = {}) {
  return expose<Series>(scenario, frames, bits, change);
}

sim::Scenario dark_of(sim::Scenario scenario) {
  scenario.camera.background_e = 0;
  scenario.markers.photons = 1e-9;
  return scenario;
}

/// Noise in blocks, most of the arithmetic, is not asked for in the dark.
FrameStatistics take_dark(const sim::Scenario& scenario, int frames = kFrames, int bits = 0,
                          const Change& change = {}) {
  return expose<FrameStatistics>(dark_of(scenario), frames, bits, change);
}

/// Whatever may disturb: drift, vibration, flicker, blinking, a field that turns, a background of
/// its own.
sim::Scenario restless() {
  sim::Scenario s;
  s.seed = 5;
  s.camera.width_px = s.camera.height_px = 224;
  s.camera.background_e = 30;
  s.optics.motion_blur = true;
  s.illumination.flicker_share = 0.01;
  s.illumination.ripple_share = 0.01;
  s.background.structure_share = 0.3;
  s.background.speed_nm_per_s = {20, -10};
  s.markers.count = 14;
  s.markers.border_px = 12;
  s.markers.photons_spread = 0.4;
  s.markers.blink = {0.3, 3, 0.3};
  s.disturbance_x.linear_nm_per_s = 8;
  s.disturbance_y.linear_nm_per_s = -5;
  s.disturbance_x.random_walk_nm_per_sqrt_s = s.disturbance_y.random_walk_nm_per_sqrt_s = 3;
  s.disturbance_x.sines = {{4, 2.1, 0}, {1, 50, 0}};
  s.disturbance_y.sines = {{3, 3.7, 0}, {1, 47, 0}};
  s.field.rotation_urad_per_s = 3;
  return s;
}

struct Setting {
  double gain, read_e, offset;
  int bits;
  double offset_pattern, gain_pattern, photons;
};

void check_numbers(const Setting& setting) {
  CAPTURE(setting.gain, setting.read_e, setting.offset, setting.bits);
  sim::Scenario scenario = restless();
  scenario.camera.gain_e_per_adu = setting.gain;
  scenario.camera.read_noise_e = setting.read_e;
  scenario.camera.offset_adu = setting.offset;
  scenario.camera.bit_depth = setting.bits;
  scenario.camera.offset_pattern_adu = setting.offset_pattern;
  scenario.camera.gain_pattern = setting.gain_pattern;
  scenario.markers.photons = setting.photons;
  const DarkResult dark = measure_dark(take_dark(scenario));
  CHECK(std::abs(dark.offset_adu.value - setting.offset) < 1);
  if (setting.offset == 0) {
    CHECK_FALSE(dark.warnings.empty());  // it hides the noise: no number instead of a wrong one
    CHECK_FALSE(dark.read_noise_adu);
  } else {
    REQUIRE(dark.read_noise_adu);
    CHECK(dark.read_noise_adu->value == Approx(setting.read_e / setting.gain).epsilon(0.1));
  }
  const Series series = take(scenario);
  const LightResult both = measure_light(series.statistics, series.noise, &dark);
  CHECK(both.gain_e_per_adu.value == Approx(setting.gain).epsilon(0.02));
  CHECK(std::abs(both.gain_e_per_adu.value - setting.gain) < 4 * both.gain_e_per_adu.sd);
  if (both.read_noise_e) {
    CHECK(both.read_noise_e->value == Approx(setting.read_e).epsilon(0.1));
  }
  const LightResult alone = measure_light(series.statistics, series.noise, nullptr);
  CHECK(std::abs(alone.gain_e_per_adu.value - setting.gain) <
        std::max(0.02 * setting.gain, 4 * alone.gain_e_per_adu.sd));
  CHECK_FALSE(alone.offset_adu);
  CHECK_FALSE(alone.read_noise_e);
  CHECK(alone.least_offset_adu < setting.offset + 1);
  CHECK(alone.most_offset_adu > setting.offset - 1);
}

}  // namespace

TEST_CASE("zeros are counted however many there are") {
  FrameStatistics statistics({2, 1, 8});
  constexpr int kMany = 70'000;
  for (int i = 0; i < kMany; ++i) statistics.add(std::array<std::uint16_t, 2>{0, 1});
  CHECK(statistics.zeros(0) == kMany);
  CHECK(statistics.zeros(1) == 0);
}

// Photons such that the brightest markers stay within the levels.
TEST_CASE("A camera's numbers come out right, whatever the sensor and however restless the light") {
  check_numbers(GENERATE(
      Setting{0.2, 10, 150, 12, 2, 0.01, 4000}, Setting{0.5, 2, 100, 12, 0, 0, 10000},
      Setting{1, 1.2, 60, 10, 0.5, 0.005, 5000}, Setting{2, 3, 20, 8, 0.5, 0.005, 3000},
      Setting{8, 5, 0, 12, 0.5, 0.005, 60000}, Setting{20, 0.5, 50, 10, 0.5, 0.005, 90000}));
}

TEST_CASE("A camera's numbers come out right with more sensors", "[.full]") {
  check_numbers(GENERATE(
      Setting{0.2, 0.5, 200, 16, 0.5, 0.005, 20000}, Setting{2, 0.8, 64, 12, 3, 0.02, 30000},
      Setting{4, 3, 100, 12, 0.5, 0.005, 30000}, Setting{4, 10, 40, 8, 0.2, 0, 6000},
      Setting{8, 2, 30, 10, 0.5, 0.01, 50000}, Setting{20, 10, 100, 12, 1, 0.01, 90000}));
}

TEST_CASE("Where few pixels of a spot stand out of the rounding, their scatter is not cut") {
  // A spot's noise is that of some ten pixels, so a block of sixteen frames scatters by 10 %.
  double sum = 0;
  for (const unsigned seed : {1U, 2U, 3U}) {
    sim::Scenario scenario;  // at rest: nothing is to be left out
    scenario.seed = seed;
    scenario.camera.width_px = scenario.camera.height_px = 256;
    scenario.camera.gain_e_per_adu = 11.1;
    scenario.camera.read_noise_e = 3.9;
    scenario.camera.offset_adu = 35;
    scenario.camera.bit_depth = 8;
    scenario.camera.background_e = 12.5;
    scenario.optics.sigma_px = 0.9;
    scenario.markers.count = 21;
    scenario.markers.photons = 5100;
    scenario.markers.photons_spread = 0.4;
    const DarkResult dark = measure_dark(take_dark(scenario));
    const Series series = take(scenario);
    sum += measure_light(series.statistics, series.noise, &dark).gain_e_per_adu.value;
  }
  CHECK(sum / 3 == Approx(11.1).epsilon(0.02));
}

TEST_CASE("Light alone whose noise is cut off at 0 says so") {
  sim::Scenario scenario = restless();
  scenario.camera.offset_adu = 0;
  scenario.camera.background_e = 1;
  const Series series = take(scenario);
  const auto warnings = measure_light(series.statistics, series.noise, nullptr).warnings;
  CHECK(std::any_of(warnings.begin(), warnings.end(), [](const std::string& text) {
    return text.find("% of the values are 0") != std::string::npos;
  }));
}

TEST_CASE("Moving light does not count as photons: the same sensor, still and restless") {
  sim::Scenario still = restless();
  still.illumination = {};
  still.markers.blink = {};
  still.disturbance_x = still.disturbance_y = {};
  still.background = {};
  const Series calm = take(still);
  const Series moved = take(restless());
  const double gain = measure_light(calm.statistics, calm.noise, nullptr).gain_e_per_adu.value;
  CHECK(measure_light(moved.statistics, moved.noise, nullptr).gain_e_per_adu.value ==
        Approx(gain).epsilon(0.025));
  // Without taking it out, a bright pixel's variance is far more than its photons'.
  double most = 0;
  for (std::size_t i = 0; i < moved.statistics.shape().pixels(); ++i) {
    const double photons = (moved.statistics.mean(i) - 100) / 4;
    if (photons > 200) most = std::max(most, moved.statistics.spread(i) / (photons / 1));
  }
  CHECK(most > 2);
}

TEST_CASE("Left-aligned levels count as they come") {
  sim::Scenario scenario = restless();
  const Change align = [](std::vector<std::uint16_t>& levels) {
    for (auto& level : levels) level = static_cast<std::uint16_t>(level << 4);
  };
  const DarkResult dark = measure_dark(take_dark(scenario, kFrames, 16, align));
  const Series series = take(scenario, kFrames, 16, align);
  const LightResult light = measure_light(series.statistics, series.noise, &dark);
  CHECK(light.step_adu == 16);
  CHECK(light.gain_e_per_adu.value == Approx(4.0 / 16).epsilon(0.02));
  CHECK(dark.offset_adu.value == Approx(1600).margin(16));
  REQUIRE(light.read_noise_e);
  CHECK(light.read_noise_e->value == Approx(3).epsilon(0.1));
  CHECK(light.saturation_adu == 65520);
  REQUIRE_FALSE(light.warnings.empty());
  CHECK_THAT(light.warnings.front(), contains("left aligned"));
}

TEST_CASE("Saturation shows where pixels stand still, by the levels or by a full well") {
  sim::Scenario scenario = restless();
  scenario.markers.photons = 400'000;
  scenario.camera.gain_pattern = 0;
  const auto [full_well_e, level] =
      GENERATE(std::pair{1e6, 4095}, std::pair{8000.0, 2100});  // 100 + 8000 / 4
  scenario.camera.full_well_e = full_well_e;
  const Series series = take(scenario);
  const LightResult light = measure_light(series.statistics, series.noise, nullptr);
  REQUIRE(light.saturation_adu);
  CHECK(std::abs(*light.saturation_adu - level) <= 4);  // the pattern of the offsets
  CHECK(light.gain_e_per_adu.value == Approx(4).epsilon(0.03));
}

TEST_CASE(
    "A pixel that reached the largest value is told, and none is called unsaturated beside it") {
  FrameStatistics below({8, 8, 8}), at_the_top({8, 8, 8});
  std::mt19937 random(3);
  for (int frame = 0; frame < 20; ++frame) {
    std::vector<std::uint16_t> levels(64);
    for (std::uint16_t& level : levels) level = static_cast<std::uint16_t>(90 + random() % 20);
    levels[11] = 180;  // of the same spot
    levels[10] = frame % 2 == 0 ? 254 : 240;
    below.add(levels);
    levels[10] = frame % 2 == 0 ? 255 : 240;
    at_the_top.add(levels);
  }
  CHECK(find_saturation(below).text ==
        "no pixel is saturated; the brightest value was 254 ADU, the largest of 8 bits is 255");
  CHECK_FALSE(find_saturation(below).level_adu);
  const Saturation reached = find_saturation(at_the_top);
  CHECK_THAT(reached.text, contains("1 pixel reached 255 ADU, the largest value of 8 bits"));
  CHECK(reached.level_adu == 255);
  CHECK(reached.seen);
}

TEST_CASE("A hot pixel is no light that reached the largest value, nor hides where spots clip") {
  std::mt19937 random(3);
  FrameStatistics hot({8, 8, 12}), clipped({8, 8, 12});
  for (int frame = 0; frame < 20; ++frame) {
    std::vector<std::uint16_t> levels(64);
    for (std::uint16_t& level : levels) level = static_cast<std::uint16_t>(90 + random() % 20);
    levels[54] = 1200;
    levels[55] = static_cast<std::uint16_t>(700 + random() % 20);
    levels[10] = 4095;
    hot.add(levels);
    for (const std::size_t pixel : {45u, 46u, 53u, 54u, 62u}) levels[pixel] = 2100;  // a full well
    clipped.add(levels);
  }
  const Saturation none = find_saturation(hot);
  CHECK_FALSE(none.level_adu);
  CHECK_FALSE(none.seen);
  CHECK_THAT(none.text, contains("no pixel is saturated; the brightest value was 1200 ADU") &&
                            contains("without 1 pixel at 4095 ADU whose neighbours are dark"));
  const Saturation well = find_saturation(clipped);
  CHECK(well.level_adu == 2100);
  CHECK_THAT(well.text, contains("5 pixels are saturated, at 2100 to 2100 ADU"));
}

TEST_CASE("A camera that makes something of its image is told") {
  const auto warnings = [](const Change& change) {
    const Series series = take(restless(), kFrames, 0, change);
    return measure_light(series.statistics, series.noise, nullptr).warnings;
  };
  const auto tell = [](const std::vector<std::string>& all, const char* what) {
    return std::any_of(all.begin(), all.end(), [&](const std::string& text) {
      return text.find(what) != std::string::npos;
    });
  };
  const auto gamma = [](std::vector<std::uint16_t>& levels) {
    for (auto& level : levels) {
      level = static_cast<std::uint16_t>(std::lround(4095 * std::pow(level / 4095.0, 0.45)));
    }
  };
  const auto doubled = [](std::vector<std::uint16_t>& levels) {
    for (auto& level : levels) level = static_cast<std::uint16_t>(level + level / 2);
  };
  const auto smooth = [](std::vector<std::uint16_t>& levels) {
    for (std::size_t i = 0; i + 1 < levels.size(); ++i) {
      levels[i] = static_cast<std::uint16_t>((levels[i] + levels[i + 1] + 1) / 2);
    }
  };
  const std::vector<std::string> plain = warnings({});
  CHECK_FALSE(tell(plain, "straight line"));
  CHECK_FALSE(tell(plain, "never occur"));
  CHECK_FALSE(tell(plain, "neighbours"));
  CHECK(tell(warnings(gamma), "straight line"));
  CHECK(tell(warnings(doubled), "never occur"));
  CHECK(tell(warnings(smooth), "neighbours"));
}

TEST_CASE("What does not tell is refused with a reason") {
  const sim::Scenario scenario = restless();
  const auto refused = [&](const Series& series, const DarkResult* dark, const char* why) {
    CHECK_THROWS_WITH(measure_light(series.statistics, series.noise, dark), contains(why));
  };
  refused(take(scenario, 48), nullptr, "too few");
  {
    std::vector<std::uint16_t> first;
    refused(take(scenario, 96, 0,
                 [&](std::vector<std::uint16_t>& levels) {
                   if (first.empty()) first = levels;
                   levels = first;
                 }),
            nullptr, "all the same");
  }
  {
    std::mt19937 random(1);
    refused(take(scenario, 96, 0,
                 [&](std::vector<std::uint16_t>& levels) {  // markers that are no brighter in noise
                   for (std::size_t i = 0; i < levels.size(); ++i) {
                     levels[i] = static_cast<std::uint16_t>(100 + i % 224 * 4 + random() % 9);
                   }
                 }),
            nullptr, "");
  }
  CHECK_THROWS_AS(([&] {
                    const Series series = take(dark_of(scenario), 96);
                    measure_light(series.statistics, series.noise, nullptr);
                  }()),
                  CannotCalibrate);
  CHECK_THROWS_WITH(measure_dark(expose<FrameStatistics>(scenario, 96, 0, {})),
                    contains("not dark"));
  DarkResult dark = measure_dark(take_dark(scenario, 96));
  const Series series = take(scenario, 96);
  dark.offset_adu.value += 20;
  refused(series, &dark, "darker");
  dark.shape.bits = 8;
  refused(series, &dark, "measure the dark anew");
}

TEST_CASE("Vibration of half a pixel: refused, or right, but not wrong") {
  sim::Scenario scenario = restless();
  scenario.disturbance_x.sines = {{60, 7.3, 0}};
  scenario.disturbance_y.sines = {{60, 9.1, 0}};
  const Series series = take(scenario);
  try {
    const LightResult light = measure_light(series.statistics, series.noise, nullptr);
    CHECK(std::abs(light.gain_e_per_adu.value - 4) < std::max(0.1, 4 * light.gain_e_per_adu.sd));
  } catch (const CannotCalibrate& refusal) {
    SUCCEED(refusal.what());
  }
}

TEST_CASE("What moves and flickers is taken out of a spot's changes, and noise is not") {
  const FrameShape shape{32, 32, 16};
  NoiseBlocks moving(shape);
  NoiseBlocks noisy(shape);
  FrameStatistics raw(shape);
  std::mt19937_64 random(2);
  std::normal_distribution<double> normal;
  constexpr double kNoise = 20;
  for (int frame = 0; frame < 64; ++frame) {
    const double x = 16.3 + 0.05 * normal(random);
    const double y = 15.4 + 0.05 * normal(random);
    const double light = 1 + 0.02 * normal(random);
    std::vector<std::uint16_t> spot(shape.pixels());
    std::vector<std::uint16_t> noise(shape.pixels());
    for (std::size_t i = 0; i < spot.size(); ++i) {
      const double dx = static_cast<double>(i % 32) - x;
      const double dy = static_cast<double>(i / 32) - y;
      spot[i] = static_cast<std::uint16_t>(
          std::lround(light * (1000 + 40000 * std::exp(-(dx * dx + dy * dy) / 3.4))));
      noise[i] = static_cast<std::uint16_t>(std::lround(1000 + kNoise * normal(random)));
    }
    moving.add(spot);
    raw.add(spot);
    noisy.add(noise);
  }
  double changed = 0;
  for (std::size_t i = 0; i < shape.pixels(); ++i) changed += raw.spread(i);
  double left = 0;
  double seen = 0;
  double expected = 0;
  for (std::size_t t = 0; t < 4; ++t) {
    for (std::size_t b = 0; b < 4; ++b) {
      for (std::size_t i = 0; i < kTilePixels; ++i) {
        left += static_cast<double>(moving.tiles()[t].blocks[b].variance[i]) / 4;
        seen += static_cast<double>(noisy.tiles()[t].blocks[b].variance[i]);
        expected += static_cast<double>(noisy.tiles()[t].blocks[b].unit[i]) * kNoise * kNoise;
      }
    }
  }
  CHECK(left < 1e-3 * changed);
  CHECK(seen == Approx(expected).epsilon(0.02));  // of 60,000 values: 0.6 %
}
