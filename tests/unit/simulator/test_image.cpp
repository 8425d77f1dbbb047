// SPDX-License-Identifier: MIT
// The image beyond still Gaussian spots on an even background: diffraction rings, defocus, blur by
// motion, uneven background, flicker, and a field that turns and grows.
#include <cmath>
#include <numbers>
#include <vector>

#include "simulator/airy_spot.hpp"
#include "simulator/background_structure.hpp"
#include "simulator/illumination.hpp"
#include "simulator/sensor.hpp"
#include "simulator/simulation.hpp"
#include "support/catch.hpp"
#include "unit/simulator/statistics.hpp"

using namespace driftd::simulator;
using driftd::test::Moments;

namespace {

/// (2 J1(v) / v)^2
double airy(double v) {
  if (v < 1e-9) return 1;
  const double amplitude = 2 * j1(v) / v;
  return amplitude * amplitude;
}

/// What AirySpot puts into the pixel whose centre lies at (x, y) from the spot's, for one electron.
double share(const AirySpot& spot, double x_px, double y_px) {
  float pixel = 0;
  spot.add_row(x_px, y_px, 1, 1, &pixel);
  return static_cast<double>(pixel);
}

SensorSettings region(int x, int y, int width, int height) {
  SensorSettings settings;
  settings.offset_x_px = x;
  settings.offset_y_px = y;
  settings.width_px = width;
  settings.height_px = height;
  settings.exposure_us = 1000;
  return settings;
}

/// A world with one bright marker near the middle of 64x64 pixels and nothing that moves by itself.
Scenario one_marker() {
  Scenario scenario;
  scenario.camera.width_px = scenario.camera.height_px = 64;
  scenario.camera.offset_pattern_adu = scenario.camera.gain_pattern = 0;
  scenario.camera.full_well_e = 1e7;
  scenario.camera.bit_depth = 16;
  scenario.camera.gain_e_per_adu = 10;
  scenario.camera.background_e = 0;
  scenario.markers.positions_px = {{33, 30}};
  scenario.markers.photons = 2e6;
  scenario.markers.photons_spread = 0;
  scenario.stage.noise_nm = 0;
  return scenario;
}

/// Sum and central second moments of an image above the offset.
struct Shape {
  double sum = 0, x = 0, y = 0, xx = 0, yy = 0, xy = 0;
};

Shape shape_of(const Scenario& scenario, double exposure_us) {
  Simulation simulation(scenario);
  SensorSettings settings = region(0, 0, 64, 64);
  settings.exposure_us = exposure_us;
  std::vector<std::uint16_t> levels(settings.pixels());
  simulation.expose(100'000'000, settings, levels.data());
  Shape shape;
  for (int pass = 0; pass < 2; ++pass) {  // the centroid first
    for (std::size_t i = 0; i < levels.size(); ++i) {
      const double value = levels[i] - scenario.camera.offset_adu;
      const double x = static_cast<double>(i % 64) - shape.x;
      const double y = static_cast<double>(i / 64) - shape.y;
      if (pass == 0) {
        shape.sum += value;
        shape.xx += value * static_cast<double>(i % 64);
        shape.yy += value * static_cast<double>(i / 64);
      } else if (std::abs(x) < 8 && std::abs(y) < 8) {
        shape.xx += value * x * x / shape.sum;
        shape.yy += value * y * y / shape.sum;
        shape.xy += value * x * y / shape.sum;
      }
    }
    if (pass == 0) {
      shape.x = shape.xx / shape.sum;
      shape.y = shape.yy / shape.sum;
      shape.xx = shape.yy = 0;
    }
  }
  return shape;
}

}  // namespace

TEST_CASE("An Airy spot has the core, the rings and the light of the textbook") {
  constexpr double kSigma = 9;
  const double unit = 1.32 / kSigma;  // optical units a pixel
  const AirySpot spot(kSigma, 0);
  const double peak = share(spot, 0, 0);
  // At the maximum of the first ring, v = 5.136, there is 1.75 % of the peak; at v = 3.832 nothing.
  CHECK(share(spot, 5.136 / unit, 0) / peak == Approx(0.0175).epsilon(0.02));
  CHECK(share(spot, 0, -3.832 / unit) / peak < 5e-4);
  // The first dark ring encloses 83.8 % of the light.
  double enclosed = 0;
  double all = 0;
  for (int y = -spot.reach_px(); y <= spot.reach_px(); ++y) {
    for (int x = -spot.reach_px(); x <= spot.reach_px(); ++x) {
      all += share(spot, x, y);
      if (unit * std::hypot(x, y) < 3.832) enclosed += share(spot, x, y);
    }
  }
  CHECK(enclosed == Approx(0.838).margin(0.003));
  // 1 - J0(v)^2 - J1(v)^2 lies within the circle of the reach; the square holds a little more.
  const double v = unit * spot.reach_px();
  CHECK(all > 1 - j0(v) * j0(v) - j1(v) * j1(v) - 1e-3);
  CHECK(all < 1);
}

TEST_CASE("A pixel of an Airy spot gets the light that falls on its area") {
  const AirySpot spot(1.3, 0);
  for (const auto& [x, y] : {std::pair{0.37, -0.21}, {2.9, -1.3}, {-4.4, 3.15}}) {
    constexpr int kPoints = 100;
    double light = 0;
    for (int i = 0; i < kPoints; ++i) {
      for (int j = 0; j < kPoints; ++j) {
        const double dx = x - 0.5 + (i + 0.5) / kPoints;
        const double dy = y - 0.5 + (j + 0.5) / kPoints;
        light += airy(1.32 / 1.3 * std::hypot(dx, dy));
      }
    }
    light *= std::pow(1.32 / 1.3, 2) / (4 * std::numbers::pi) / (kPoints * kPoints);
    INFO(x << " " << y);
    // Interpolation between table entries an eighth of a pixel apart: 0.2 % of the peak's 0.08.
    CHECK(share(spot, x, y) == Approx(light).margin(1.6e-4));
  }
}

TEST_CASE("Defocus dims the centre of an Airy spot as (sin(pi W) / (pi W))^2") {
  constexpr double kSigma = 9;
  const double peak = share(AirySpot(kSigma, 0), 0, 0);
  for (const double waves : {0.3, -0.5, 0.8}) {
    const double x = std::numbers::pi * waves;
    CHECK(share(AirySpot(kSigma, waves), 0, 0) / peak ==
          Approx(std::pow(std::sin(x) / x, 2)).margin(0.003));
  }
}

TEST_CASE("The image shows the shape that the scenario asks for, where the marker is") {
  Scenario scenario = one_marker();
  const Shape gaussian = shape_of(scenario, 1000);
  scenario.optics.shape = SpotShape::Airy;
  const Shape airy_shape = shape_of(scenario, 1000);
  CHECK(gaussian.sum == Approx(2e5).epsilon(0.01));
  CHECK(airy_shape.sum == Approx(0.93 * 2e5).epsilon(0.02));
  CHECK(airy_shape.x == Approx(33).margin(0.05));
  CHECK(airy_shape.y == Approx(30).margin(0.05));
  CHECK(gaussian.xx == Approx(1.3 * 1.3 + 1.0 / 12).margin(0.05));
  CHECK(airy_shape.xx > 1.5 * gaussian.xx);  // the rings
  scenario.optics.defocus_waves = 0.6;
  CHECK(shape_of(scenario, 1000).xx > 1.2 * airy_shape.xx);
}

TEST_CASE("A motion's points have its mean and its covariance") {
  const auto [xx, xy, yy] =
      GENERATE(std::array<double, 3>{0.5, 0.2, 0.3}, std::array<double, 3>{0.04, -0.05, 0.09},
               std::array<double, 3>{0.25, 0, 0});
  const MotionPoints points = motion_points(xx, xy, yy);
  Vec2 sum;
  double sum_xx = 0, sum_xy = 0, sum_yy = 0;
  for (int i = 0; i < points.count; ++i) {
    const Vec2 p = points.offset_px[static_cast<std::size_t>(i)];
    sum = {sum.x + p.x, sum.y + p.y};
    sum_xx += p.x * p.x / points.count;
    sum_xy += p.x * p.y / points.count;
    sum_yy += p.y * p.y / points.count;
  }
  CHECK(sum.x == Approx(0).margin(1e-12));
  CHECK(sum.y == Approx(0).margin(1e-12));
  CHECK(sum_xx == Approx(xx));
  CHECK(sum_xy == Approx(xy).margin(1e-12));
  CHECK(sum_yy == Approx(yy).margin(1e-12));
  CHECK(points.count == (yy == 0 ? 2 : 4));
  CHECK(motion_points(5e-5, 0, 2e-5).count == 1);
}

TEST_CASE("Motion within the exposure widens the spots by its variance") {
  Scenario scenario = one_marker();
  scenario.optics.shape = GENERATE(SpotShape::Gaussian, SpotShape::Airy);
  // A whole period of each sine in 10 ms: a variance of half the amplitude squared, 1 and 0.36
  // px^2, in phase, so that the motion runs along a line.
  scenario.disturbance_x.sines = {{100 * std::sqrt(2.0), 100, 0}};
  scenario.disturbance_y.sines = {{-60 * std::sqrt(2.0), 100, 0}};
  scenario.camera.exposure_us = 10000;
  const Shape sharp = shape_of(scenario, 10000);
  scenario.optics.motion_blur = true;
  const Shape blurred = shape_of(scenario, 10000);
  // An Airy spot's rings leave the window of the moments, and take of their width with them.
  const double margin = scenario.optics.shape == SpotShape::Gaussian ? 0.03 : 0.15;
  CHECK(blurred.xx - sharp.xx == Approx(1).margin(margin));
  CHECK(blurred.yy - sharp.yy == Approx(0.36).margin(margin));
  CHECK(blurred.xy - sharp.xy == Approx(-0.6).margin(margin));
  CHECK(blurred.x == Approx(sharp.x).margin(0.02));
  CHECK(blurred.sum == Approx(sharp.sum).epsilon(0.01));
}

TEST_CASE("The background's structure has its contrast and its grain, and moves") {
  BackgroundModel model;
  model.structure_share = 0.25;
  model.grain_px = 9;
  CameraModel camera;
  camera.width_px = 320;
  camera.height_px = 200;
  Moments mean, contrast;
  double products = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    BackgroundStructure structure(model, camera, seed);
    const std::vector<float> field = structure.relative(region(0, 0, 320, 200), {});
    Moments values;
    for (const float value : field) values.add(static_cast<double>(value));
    mean.add(values.mean());
    contrast.add(values.variance());
    for (std::size_t y = 0; y < 200; ++y) {
      for (std::size_t x = 0; x + 9 < 320; ++x) {
        products += static_cast<double>((field[y * 320 + x] - 1) * (field[y * 320 + x + 9] - 1));
      }
    }
  }
  CHECK(mean.mean() == Approx(1).margin(4 * mean.standard_error() + 1e-3));
  CHECK(contrast.mean() == Approx(0.0625).margin(4 * contrast.standard_error() + 1e-3));
  // A grain away it is correlated by exp(-1/2).
  CHECK(products / (20 * 200 * 311) / contrast.mean() == Approx(std::exp(-0.5)).margin(0.08));

  BackgroundStructure structure(model, camera, 3);
  const std::vector<float> before = structure.relative(region(40, 20, 64, 48), {});
  const std::vector<float> moved = structure.relative(region(40, 20, 64, 48), {3, -2});
  const std::vector<float> between = structure.relative(region(40, 20, 64, 48), {0.5, 0});
  CHECK(moved[10 * 64 + 13] == Approx(before[12 * 64 + 10]));
  CHECK(between[64 + 1] == Approx((before[64] + before[64 + 1]) / 2));
  CHECK(structure.relative(region(43, 18, 64, 48), {3, -2})[5] == Approx(before[5]));
}

TEST_CASE("The background's structure goes with the sample and at its own speed besides") {
  Scenario scenario;
  scenario.camera.width_px = scenario.camera.height_px = 64;
  scenario.camera.background_e = 2000;
  scenario.camera.offset_pattern_adu = scenario.camera.gain_pattern = 0;
  scenario.markers.count = 0;
  scenario.markers.border_px = 10;
  scenario.stage.noise_nm = 0;
  scenario.background.structure_share = 0.3;
  scenario.background.grain_px = 5;
  scenario.background.speed_nm_per_s = {200, -300};
  scenario.disturbance_x.step_nm = 500;
  scenario.disturbance_x.step_at_s = 0.5;
  Simulation simulation(scenario);
  const SensorSettings settings = region(0, 0, 64, 64);
  std::vector<std::uint16_t> first(settings.pixels());
  std::vector<std::uint16_t> second(settings.pixels());
  simulation.expose(0, settings, first.data());
  simulation.expose(1'000'000'000, settings, second.data());
  // How far the second image, moved back by (x, y), is from the first.
  const auto difference = [&](int x, int y) {
    Moments moments;
    for (int row = 10; row < 54; ++row) {
      for (int column = 10; column < 54; ++column) {
        moments.add(static_cast<double>(first[static_cast<std::size_t>(row * 64 + column)]) -
                    second[static_cast<std::size_t>((row + y) * 64 + column + x)]);
      }
    }
    return std::sqrt(moments.variance());
  };
  // 500 + 200 nm and -300 nm. What is left is noise: of 2000 electrons twice, in levels of 4.
  CHECK(difference(7, -3) == Approx(std::sqrt(2 * 2000.0) / 4).epsilon(0.1));
  for (const auto& [x, y] : {std::pair{7, 3}, {3, -3}, {6, -3}, {7, -2}}) {
    CHECK(difference(x, y) > 1.5 * difference(7, -3));
  }
}

TEST_CASE("Uneven, flickering background has the noise of its own light") {
  CameraModel camera;
  camera.width_px = camera.height_px = 64;
  camera.background_e = 150;
  camera.gain_pattern = camera.offset_pattern_adu = 0;
  BackgroundModel background;
  background.structure_share = 0.4;
  background.grain_px = 10;
  Sensor sensor(camera, {}, 4, background);
  ExposureConditions conditions;
  conditions.brightness = 1.3;
  const SensorSettings settings = region(0, 0, 64, 64);
  BackgroundStructure structure(background, camera, 4);
  const std::vector<float> relative = structure.relative(settings, {});
  std::vector<std::uint16_t> levels(settings.pixels());
  std::vector<Moments> pixels(settings.pixels());
  for (int frame = 0; frame < 400; ++frame) {
    sensor.image({}, settings, levels.data(), conditions);
    for (std::size_t i = 0; i < levels.size(); ++i) pixels[i].add(levels[i]);
  }
  Moments mean_error, variance_ratio;
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    const double mean_e = 150 * 1.3 * static_cast<double>(relative[i]);
    const double variance = (mean_e + 9) / 16 + 1.0 / 12;
    mean_error.add((pixels[i].mean() - 100 - mean_e / 4) / std::sqrt(variance / 400));
    variance_ratio.add(pixels[i].variance() / variance);
  }
  CHECK(std::abs(mean_error.mean()) < 0.15);  // of the standard error of a pixel's mean
  CHECK(mean_error.variance() == Approx(1).margin(0.12));
  CHECK(variance_ratio.mean() == Approx(1).margin(0.02));
}

TEST_CASE("Illumination flickers by its share and ripples with the mains") {
  IlluminationModel model;
  SECTION("flicker") {
    model.flicker_share = 0.02;
    model.flicker_bandwidth_hz = 50;
    Illumination light(model, 3);
    Moments values;
    double products = 0;
    double last = light.brightness();
    constexpr int kSamples = 20000;
    for (int i = 1; i <= 10 * kSamples; ++i) {
      light.step(i * 1e-4);
      if (i % 10 != 0) continue;
      values.add(light.brightness());
      products += (light.brightness() - 1) * (last - 1);
      last = light.brightness();
    }
    // 1 ms apart correlated by exp(-2 pi 50 * 0.001) = 0.73: some 3,000 independent of 20,000.
    CHECK(values.mean() == Approx(1).margin(4 * 0.02 / std::sqrt(3000)));
    CHECK(std::sqrt(values.variance()) == Approx(0.02).epsilon(0.06));
    CHECK(products / kSamples / values.variance() == Approx(0.7304).margin(0.04));
  }
  SECTION("ripple") {
    model.ripple_share = 0.05;
    model.ripple_hz = 120;
    Illumination light(model, 3);
    light.step(0.0013);
    CHECK(light.brightness() == Approx(1 + 0.05 * std::sin(2 * std::numbers::pi * 120 * 0.0013)));
  }
  SECTION("all light alike, averaged over the exposure") {
    Scenario scenario = one_marker();
    scenario.illumination.ripple_share = 0.5;
    scenario.illumination.ripple_hz = 20;
    scenario.camera.exposure_us = 12500;  // a quarter of the period, from its start on
    const Shape shape = shape_of(scenario, 12500);
    CHECK(shape.sum == Approx(2e5 * (1 + 0.5 * 2 / std::numbers::pi)).epsilon(0.01));
  }
}

TEST_CASE("The field turns and grows about the sensor's centre") {
  Scenario scenario;
  scenario.markers.positions_px = {{177.5, 107.5}};  // 50 right of the centre, 20 above
  scenario.field.rotation_urad_per_s = 2000;
  scenario.field.scale_ppm_per_s = -500;
  MarkerField field(scenario, 1);
  std::vector<Spot> spots;
  field.step(20);
  field.spots({{100, -300}, 0, false}, spots);
  // 0.04 rad and 0.99 after 20 s; y points down, so that from x to y is clockwise.
  CHECK(spots[0].x_px == Approx(127.5 + 0.99 * (50 * std::cos(0.04) + 20 * std::sin(0.04)) + 1));
  CHECK(spots[0].y_px == Approx(127.5 + 0.99 * (50 * std::sin(0.04) - 20 * std::cos(0.04)) - 3));
}

TEST_CASE("Bins hold the sum of their pixels up to the top level, mirrored") {
  // 6 columns, 2 rows of a sensor of 8x5: bins of 2x1, the last column of bins left out.
  const std::vector<std::uint16_t> part = {1, 2, 30, 40, 500, 600, 7, 8, 90, 10, 11, 12};
  SensorSettings image = region(1, 3, 3, 2);
  image.binning_x = 2;
  image.reverse_x = image.reverse_y = true;
  const SensorSettings from = part_of_sensor(image, 8, 5);
  CHECK(from.offset_x_px == 0);  // bins 1 to 3 from the right are bins 0 to 2
  CHECK(from.offset_y_px == 0);  // rows 3 and 4 from the bottom are rows 0 and 1
  CHECK(from.width_px == 6);
  CHECK(from.height_px == 2);
  std::vector<std::uint16_t> levels(6);
  read_out(part, image, 10, levels);
  CHECK(levels == std::vector<std::uint16_t>{23, 100, 15, 1023, 70, 3});
  image = region(0, 0, 6, 2);
  image.reverse_x = image.reverse_y = true;
  levels.resize(12);
  read_out(part, image, 10, levels);
  CHECK(levels == std::vector<std::uint16_t>(part.rbegin(), part.rend()));
}
