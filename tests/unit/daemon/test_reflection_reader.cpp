// SPDX-License-Identifier: MIT
// The reflected spot in drawn frames: how well its place is read, and what else shines there.
#include "daemon/loop/reflection_reader.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numbers>
#include <random>
#include <vector>

#include "daemon/loop/surroundings.hpp"
#include "daemon/setup/compose.hpp"
#include "support/catch.hpp"

using namespace driftd;
using namespace driftd::daemon;
using control::AxialReason;

namespace {

constexpr int kWidth = 80, kHeight = 60, kSide = 24, kLeft = 600, kTop = 400;
constexpr double kGain = 4, kOffset = 100, kReadNoise = 3, kBackground = 20;  // e/ADU, ADU, e, e
constexpr double kPhotons = 2e5, kSigma = 2, kX = 39.7, kY = 30.2;

struct Light {
  double x_px, y_px, sigma_px, photons;

  double at(int x, int y) const {
    const double u = (x - x_px) / sigma_px, v = (y - y_px) / sigma_px;
    return photons / (2 * std::numbers::pi * sigma_px * sigma_px) *
           std::exp(-0.5 * (u * u + v * v));
  }
};

constexpr Light kSpot = {kX, kY, kSigma, kPhotons};

/// A region of a sensor of 12 bits, and what reads the reflection in its middle.
class Scene {
 public:
  control::ReflectedSpot read(const std::vector<Light>& lights) {
    for (int y = 0; y < kHeight; ++y) {
      for (int x = 0; x < kWidth; ++x) {
        double electrons = kBackground;
        for (const Light& light : lights) electrons += light.at(x, y);
        std::poisson_distribution<int> photons(electrons);
        std::normal_distribution<double> noise(0, kReadNoise);
        const double adu = kOffset + (photons(random_) + noise(random_)) / kGain;
        pixels_[static_cast<std::size_t>(y * kWidth + x)] =
            static_cast<std::uint16_t>(std::clamp(std::lround(adu), 0L, 4095L));
      }
    }
    return reader_->read(frame());
  }
  control::ReflectedSpot read_even(std::uint16_t adu) {
    std::fill(pixels_.begin(), pixels_.end(), adu);
    return reader_->read(frame());
  }
  camera::Frame frame() const {
    return {.pixels = reinterpret_cast<const std::byte*>(pixels_.data()),
            .format = camera::PixelFormat::Mono12,
            .width_px = kWidth,
            .height_px = kHeight,
            .offset_x_px = kLeft,
            .offset_y_px = kTop};
  }

 private:
  static config::Config config() {
    config::Config c = config::default_config();
    c.axial.method = control::AxialMethod::Reflection;
    c.camera.gain_e_per_adu = kGain;
    c.camera.offset_adu = kOffset;
    c.camera.read_noise_e = kReadNoise;
    c.reflection = {
        .x_px = kLeft + 40, .y_px = kTop + 30, .roi_px = kSide, .nm_per_px = 33, .angle_deg = 0};
    return c;
  }
  std::mt19937 random_{5};
  std::vector<std::uint16_t> pixels_ =
      std::vector<std::uint16_t>(static_cast<std::size_t>(kWidth) * kHeight);
  std::unique_ptr<ReflectionReader> reader_ =
      make_reflection_reader(config(), camera::PixelFormat::Mono12);
};

/// Cramer-Rao bound of the spot's x in the region, its other parameters known or not: x is even
/// to all of them.
double bound_px() {
  double information = 0;
  for (int y = 18; y < 18 + kSide; ++y) {
    for (int x = 28; x < 28 + kSide; ++x) {
      const double electrons = kSpot.at(x, y);
      const double slope = electrons * (x - kX) / (kSigma * kSigma);
      information += slope * slope / (electrons + kBackground + kReadNoise * kReadNoise);
    }
  }
  return 1 / std::sqrt(information);
}

}  // namespace

TEST_CASE("the reflected spot is read at the bound of its light, and its sd is its scatter") {
  Scene scene;
  constexpr int kFrames = 600;
  double sum = 0, squares = 0, told2 = 0, across = 0;
  for (int i = 0; i < kFrames; ++i) {
    const control::ReflectedSpot spot = scene.read({kSpot});
    REQUIRE(spot.reason == AxialReason::Measured);
    const double off_px = spot.x_px - (kLeft + kX);
    sum += off_px, squares += off_px * off_px, across += spot.y_px - (kTop + kY);
    told2 += spot.x_sd_px * spot.x_sd_px;
  }
  const double mean = sum / kFrames;
  const double sd = std::sqrt(squares / kFrames - mean * mean);
  const double error = bound_px() / std::sqrt(2.0 * kFrames);  // of an sd, by its scatter
  CHECK(sd == Approx(bound_px()).margin(4 * error));
  CHECK(std::sqrt(told2 / kFrames) == Approx(bound_px()).margin(4 * error));
  CHECK(std::abs(mean) < 4 * bound_px() / std::sqrt(kFrames));
  CHECK(std::abs(across / kFrames) < 4 * bound_px() / std::sqrt(kFrames));
}

TEST_CASE("what shines beside the reflected spot is told, and where") {
  Scene scene;
  scene.read({kSpot});
  for (int i = 0; i < 100; ++i) REQUIRE_FALSE(scene.read({kSpot}).has_company);
  const control::ReflectedSpot spot = scene.read({kSpot, {49, 22, 1.2, 8000}});
  REQUIRE(spot.reason == AxialReason::Measured);
  CHECK(spot.has_company);
  CHECK(spot.company_px.x == Approx(kLeft + 49).margin(1.01));
  CHECK(spot.company_px.y == Approx(kTop + 22).margin(1.01));
  CHECK_FALSE(scene.read({kSpot}).has_company);
}

TEST_CASE("a region without its spot is no reading") {
  Scene scene;
  REQUIRE(scene.read({kSpot}).reason == AxialReason::Measured);
  CHECK(scene.read_even(100).reason == AxialReason::Dark);
  CHECK(scene.read({}).reason != AxialReason::Measured);
  Light near_edge = kSpot;
  near_edge.x_px = 29.5;
  CHECK(scene.read({near_edge}).reason == AxialReason::OutOfRange);
  Light bright = kSpot;
  bright.photons *= 10;  // over 4095
  CHECK(scene.read({bright}).reason == AxialReason::Saturated);
  CHECK(scene.read({kSpot}).reason == AxialReason::Measured);
}

TEST_CASE("surroundings are the median about a ROI, where the frame holds half of them") {
  Scene scene;
  scene.read({kSpot});
  const float around = surroundings_adu(scene.frame(), 34, 24, 13);
  CHECK(around == Approx(kOffset + kBackground / kGain).margin(1.5));
  CHECK(surroundings_adu(scene.frame(), 0, 0, 13) != surroundings_adu(scene.frame(), 0, 0, 13));
  CHECK(std::isfinite(surroundings_adu(scene.frame(), 34, 2, 13)));  // above the frame: a quarter
}
