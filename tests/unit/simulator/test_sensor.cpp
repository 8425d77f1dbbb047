// SPDX-License-Identifier: MIT
#include "simulator/sensor.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <vector>

#include "support/catch.hpp"
#include "unit/simulator/statistics.hpp"

using namespace driftd::simulator;
using driftd::camera::PixelFormat;
using driftd::test::Moments;

namespace {

SensorSettings whole_sensor(const CameraModel& camera) {
  SensorSettings settings;
  settings.width_px = camera.width_px;
  settings.height_px = camera.height_px;
  settings.exposure_us = camera.exposure_us;
  return settings;
}

/// A camera without a fixed pattern and with fine levels, so that levels are electrons.
CameraModel plain_camera(int side_px) {
  CameraModel camera;
  camera.width_px = camera.height_px = side_px;
  camera.offset_pattern_adu = 0;
  camera.gain_pattern = 0;
  camera.gain_e_per_adu = 0.25;
  camera.bit_depth = 16;
  camera.offset_adu = 200;
  return camera;
}

/// Rounding to levels of 1/4 electron adds this variance.
constexpr double kRoundingVariance = 0.25 * 0.25 / 12;

}  // namespace

TEST_CASE("A spot's light adds up to its photons, wherever it sits") {
  CameraModel camera = plain_camera(64);
  const SensorSettings settings = whole_sensor(camera);
  const Vec2 sigma = GENERATE(Vec2{1.3, 1.3}, Vec2{0.8, 0.8}, Vec2{1.1, 2.4});
  for (const double shift : {0.0, 0.25, 0.5, 0.77}) {
    std::vector<float> signal(64 * 64, 0.0F);
    add_spot({31 + shift, 33 - shift, 0}, sigma, 30000, settings, signal.data());
    const double sum = std::accumulate(signal.begin(), signal.end(), 0.0);
    // Four sides with 2.9e-7 of the light beyond 5 sigma; floats keep 7 digits a pixel.
    CHECK(sum == Approx(30000).epsilon(3e-6));
    double x = 0;
    double y = 0;
    double xx = 0;
    double yy = 0;
    for (int row = 0; row < 64; ++row) {
      for (int column = 0; column < 64; ++column) {
        const double share =
            static_cast<double>(signal[static_cast<std::size_t>(row * 64 + column)]) / sum;
        x += share * column;
        y += share * row;
        xx += share * (column - 31 - shift) * (column - 31 - shift);
        yy += share * (row - 33 + shift) * (row - 33 + shift);
      }
    }
    CHECK(x == Approx(31 + shift).margin(1e-4));
    CHECK(y == Approx(33 - shift).margin(1e-4));
    // Integration over a pixel adds 1/12 to the variance; 5 sigma hold all but 1e-5 of it.
    CHECK(xx == Approx(sigma.x * sigma.x + 1.0 / 12).epsilon(1e-4));
    CHECK(yy == Approx(sigma.y * sigma.y + 1.0 / 12).epsilon(1e-4));
  }
}

TEST_CASE("A spot at the edge or outside is cut off, not misplaced") {
  CameraModel camera = plain_camera(32);
  const SensorSettings settings = whole_sensor(camera);
  std::vector<float> signal(32 * 32, 0.0F);
  add_spot({-0.5, 16, 0}, {1.3, 1.3}, 1000, settings, signal.data());
  // The edge of the sensor runs through the middle of the spot.
  CHECK(std::accumulate(signal.begin(), signal.end(), 0.0) == Approx(500).epsilon(1e-4));
  std::fill(signal.begin(), signal.end(), 0.0F);
  for (const double far : {-1e9, -100.0, 200.0, 1e9}) {
    add_spot({far, far, 0}, {1.3, 1.3}, 1000, settings, signal.data());
  }
  CHECK(std::all_of(signal.begin(), signal.end(), [](float value) { return value == 0; }));
}

TEST_CASE("The background is Poisson plus read noise in every pixel and frame") {
  CameraModel camera = plain_camera(64);
  camera.background_e = GENERATE(0.5, 20.0, 400.0);
  Sensor sensor(camera, {}, 21);
  const SensorSettings settings = whole_sensor(camera);
  std::vector<std::uint16_t> levels(64 * 64);
  Moments all;
  Moments one_pixel;
  Moments product;
  double before = 0;
  constexpr int kFrames = 200;
  for (int frame = 0; frame < kFrames; ++frame) {
    sensor.image({}, settings, levels.data());
    for (const std::uint16_t level : levels) all.add((level - camera.offset_adu) * 0.25);
    const double here = (levels[2080] - camera.offset_adu) * 0.25 - camera.background_e;
    one_pixel.add(here);
    if (frame > 0) product.add(here * before);
    before = here;
  }
  const double variance = camera.background_e + camera.read_noise_e * camera.read_noise_e;
  const double n = all.count();
  CHECK(std::abs(all.mean() - camera.background_e) < 4 * std::sqrt(variance / n));
  CHECK(std::abs(all.variance() - kRoundingVariance - variance) <
        4 * std::sqrt((2 * variance * variance + camera.background_e) / n));
  // One pixel through time: the same variance, and no memory from frame to frame.
  CHECK(std::abs(one_pixel.variance() - variance) < 4 * variance * std::sqrt(2.0 / kFrames));
  CHECK(std::abs(product.mean()) < 4 * variance / std::sqrt(kFrames - 1.0));
}

TEST_CASE("Pixels of a spot have the variance of their photons") {
  CameraModel camera = plain_camera(24);
  camera.background_e = 10;
  Sensor sensor(camera, {}, 22);
  const SensorSettings settings = whole_sensor(camera);
  const std::array<Spot, 2> spots = {Spot{10.2, 11.7, 20000}, Spot{14.0, 12.0, 5000}};
  std::vector<float> signal(24 * 24, 0.0F);
  for (const Spot& spot : spots) {
    add_spot(spot, {1.3, 1.3}, spot.electrons, settings, signal.data());
  }
  std::vector<Moments> pixels(signal.size());
  std::vector<std::uint16_t> levels(signal.size());
  constexpr int kFrames = 4000;
  for (int frame = 0; frame < kFrames; ++frame) {
    sensor.image(spots, settings, levels.data());
    for (std::size_t i = 0; i < levels.size(); ++i) {
      pixels[i].add((levels[i] - camera.offset_adu) * 0.25);
    }
  }
  double chi_mean = 0;
  double chi_variance = 0;
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    const double expected = camera.background_e + static_cast<double>(signal[i]);
    const double variance = expected + camera.read_noise_e * camera.read_noise_e;
    const double mean_error = (pixels[i].mean() - expected) / std::sqrt(variance / kFrames);
    const double variance_error = (pixels[i].variance() - kRoundingVariance - variance) /
                                  std::sqrt((2 * variance * variance + expected) / kFrames);
    chi_mean += mean_error * mean_error;
    chi_variance += variance_error * variance_error;
  }
  const auto n = static_cast<double>(pixels.size());
  CHECK(std::abs(chi_mean - n) < 4 * std::sqrt(2 * n));
  CHECK(std::abs(chi_variance - n) < 4 * std::sqrt(2 * n));
}

TEST_CASE("Exposure and gain scale the image as a camera does") {
  CameraModel camera = plain_camera(32);
  camera.background_e = 100;
  Sensor sensor(camera, {}, 23);
  SensorSettings settings = whole_sensor(camera);
  const std::array<Spot, 1> spots = {Spot{16, 16, 10000}};
  std::vector<std::uint16_t> levels(32 * 32);
  const auto mean_of = [&](double exposure_us, double gain_db) {
    settings.exposure_us = exposure_us;
    settings.gain_db = gain_db;
    Moments moments;
    for (int i = 0; i < 50; ++i) {
      sensor.image(spots, settings, levels.data());
      for (const std::uint16_t level : levels) moments.add(level - camera.offset_adu);
    }
    return moments.mean();
  };
  const double once = mean_of(1000, 0);
  CHECK(once == Approx((100 + 10000.0 / 1024) * 4).epsilon(0.005));
  CHECK(mean_of(2000, 0) == Approx(2 * once).epsilon(0.005));
  CHECK(mean_of(1000, 20 * std::log10(2.0)) == Approx(2 * once).epsilon(0.005));
}

TEST_CASE("Light beyond the full well and levels beyond the depth are clipped") {
  CameraModel camera;
  camera.width_px = camera.height_px = 16;
  camera.full_well_e = 4000;
  camera.read_noise_e = 0.5;
  camera.offset_pattern_adu = camera.gain_pattern = 0;
  camera.gain_e_per_adu = 2;
  const std::array<Spot, 1> spots = {Spot{8, 8, 1e7}};
  std::vector<std::uint16_t> levels(16 * 16);
  Sensor sensor(camera, {}, 24);
  const SensorSettings settings = whole_sensor(camera);
  sensor.image(spots, settings, levels.data());
  CHECK(levels[8 * 16 + 8] == Approx(100 + 4000 / 2.0).margin(3));
  camera.full_well_e = 1e6;
  Sensor deep(camera, {}, 24);
  deep.image(spots, settings, levels.data());
  CHECK(levels[8 * 16 + 8] == 4095);
}

TEST_CASE("The fixed pattern stays, belongs to the sensor and moves with the region") {
  CameraModel camera = plain_camera(64);
  camera.offset_pattern_adu = 20;
  camera.background_e = 0;
  camera.read_noise_e = 0.5;
  Sensor sensor(camera, {}, 25);
  SensorSettings settings = whole_sensor(camera);
  constexpr int kFrames = 100;
  std::vector<double> full(64 * 64, 0.0);
  std::vector<std::uint16_t> levels(64 * 64);
  for (int i = 0; i < kFrames; ++i) {
    sensor.image({}, settings, levels.data());
    for (std::size_t p = 0; p < full.size(); ++p)
      full[p] += levels[p] / static_cast<double>(kFrames);
  }
  Moments pattern;
  for (const double value : full) pattern.add(value);
  CHECK(std::sqrt(pattern.variance()) == Approx(20).epsilon(0.05));
  settings.offset_x_px = 8;
  settings.offset_y_px = 20;
  settings.width_px = 32;
  settings.height_px = 16;
  sensor.image({}, settings, levels.data());
  // A single frame differs from the mean by the read noise, 2 levels rms.
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 32; ++column) {
      const double expected = full[static_cast<std::size_t>((row + 20) * 64 + column + 8)];
      CHECK(std::abs(levels[static_cast<std::size_t>(row * 32 + column)] - expected) < 12);
    }
  }
}

TEST_CASE("Packed images unpack to the camera's levels") {
  using driftd::camera::Frame;
  const PixelFormat format = GENERATE(
      PixelFormat::Mono8, PixelFormat::Mono10, PixelFormat::Mono10Packed, PixelFormat::Mono10p,
      PixelFormat::Mono12, PixelFormat::Mono12Packed, PixelFormat::Mono12p, PixelFormat::Mono16);
  // An odd number of pixels ends in the middle of every packing's group.
  const int width = GENERATE(8, 7);
  const int height = 5;
  std::vector<std::uint16_t> levels(static_cast<std::size_t>(width * height));
  for (std::size_t i = 0; i < levels.size(); ++i) {
    levels[i] = static_cast<std::uint16_t>((i * 1103 + 17) % 4096);
  }
  const std::size_t bytes = packed_bytes(format, levels.size());
  CHECK(bytes == driftd::camera::image_bytes(format, width, height));
  std::vector<std::byte> packed(bytes);
  pack_levels(levels, format, 12, packed.data());
  Frame frame;
  frame.pixels = packed.data();
  frame.format = format;
  frame.width_px = width;
  frame.height_px = height;
  std::vector<std::uint16_t> unpacked(levels.size());
  driftd::camera::unpack(frame, unpacked.data());
  const int shift = std::max(0, 12 - driftd::camera::bits_per_pixel(format));
  for (std::size_t i = 0; i < levels.size(); ++i) CHECK(unpacked[i] == levels[i] >> shift);
}

TEST_CASE("The same seed images the same pixels") {
  CameraModel camera = plain_camera(32);
  const SensorSettings settings = whole_sensor(camera);
  const std::array<Spot, 1> spots = {Spot{16, 16, 10000}};
  const auto draw = [&](std::uint64_t seed) {
    Sensor sensor(camera, {}, seed);
    std::vector<std::uint16_t> levels(32 * 32);
    for (int i = 0; i < 3; ++i) sensor.image(spots, settings, levels.data());
    return levels;
  };
  CHECK(draw(1) == draw(1));
  CHECK(draw(1) != draw(2));
}

TEST_CASE("Images whose noise was drawn ahead are the same images") {
  const CameraModel camera = plain_camera(32);
  SensorSettings settings = whole_sensor(camera);
  Sensor ahead(camera, {}, 5);
  Sensor sensor(camera, {}, 5);
  std::vector<std::uint16_t> image(32 * 32), expected(32 * 32), before(32 * 32);
  const auto expose = [&] {
    before = expected;
    ahead.image({}, settings, image.data());
    sensor.image({}, settings, expected.data());
  };
  for (int i = 0; i < 3; ++i) {
    if (i != 1) ahead.prepare(settings);
    expose();
    CHECK(image == expected);
    CHECK(image != before);
  }
  SECTION("not those of a smaller region") {
    SensorSettings part = settings;
    part.height_px = 8;
    ahead.prepare(part);
    expose();
    before.assign(image.begin(), image.end());
    ahead.image({}, settings, image.data());
    CHECK_FALSE(std::equal(image.begin() + 8 * 32, image.end(), before.begin() + 8 * 32));
    before.assign(image.begin(), image.end());
    ahead.prepare(part);
    ahead.image({}, settings, image.data());
    CHECK_FALSE(std::equal(image.begin() + 8 * 32, image.end(), before.begin() + 8 * 32));
  }
  SECTION("not those of another exposure") {
    ahead.prepare(settings);
    settings.exposure_us *= 4;
    expose();
    Moments levels;
    for (const std::uint16_t value : image) levels.add(value);
    const double mean = camera.offset_adu + 4 * camera.background_e / camera.gain_e_per_adu;
    CHECK(levels.mean() == Approx(mean).epsilon(0.01));
  }
}
