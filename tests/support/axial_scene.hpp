// SPDX-License-Identifier: MIT
// Images of points at known heights, as the simulator's optics make them, and the Cramer-Rao bound
// of x, y and z in them. No network, no clock, no frames: what tests and benches of z need. Pixels
// are electrons. Seeded by the caller's generator.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "simulator/markers.hpp"
#include "simulator/pupil_spot.hpp"
#include "simulator/random.hpp"
#include "simulator/scenario.hpp"
#include "simulator/sensor.hpp"
#include "support/fisher.hpp"

namespace driftd::test {

/// Standard deviations that no unbiased estimate of x, y, z, photons and background falls below.
struct AxialBound {
  double x_px, y_px, z_nm;
};

class AxialScene {
 public:
  /// @param optics  of shape WidthCurve or Pupil
  AxialScene(const simulator::OpticsModel& optics, double background_e, double read_noise_e)
      : optics_(optics), background_e_(background_e), read_noise_e_(read_noise_e) {
    if (optics.shape == simulator::SpotShape::Pupil)
      pupil_ = std::make_shared<const simulator::PupilSpot>(optics.pupil, optics.pixel_size_nm);
  }

  const simulator::OpticsModel& optics() const { return optics_; }
  double background_e() const { return background_e_; }
  double read_noise_e() const { return read_noise_e_; }
  void set_background(double background_e) { background_e_ = background_e; }

  /// Expected electrons of side * side pixels; spots count from the middle of the first one.
  std::vector<double> expected(std::span<const simulator::Spot> spots, int side) const {
    // Whole spots on a larger field, of which the middle is taken: the reach is not cut.
    simulator::SensorSettings field;
    field.width_px = field.height_px = side + 2 * kMarginPx;
    std::vector<float> signal(field.pixels(), 0.0F);
    for (simulator::Spot spot : spots) {
      spot.x_px += kMarginPx;
      spot.y_px += kMarginPx;
      if (pupil_ && !(spot.sigma_px > 0)) {
        simulator::add_pupil_spot(*pupil_, spot, spot.electrons, field, signal.data());
      } else {
        const simulator::Vec2 own = {spot.sigma_px, spot.sigma_px};
        const simulator::Vec2 widths =
            spot.sigma_px > 0 ? own : simulator::widths_px(optics_.width_curve, spot.z_nm);
        simulator::add_spot(spot, widths, spot.electrons, field, signal.data());
      }
    }
    std::vector<double> pixels;
    for (int y = 0; y < side; ++y) {
      for (int x = 0; x < side; ++x) {
        const auto at = static_cast<std::size_t>((y + kMarginPx) * field.width_px + x + kMarginPx);
        pixels.push_back(background_e_ + static_cast<double>(signal[at]));
      }
    }
    return pixels;
  }

  /// One exposure of it: Poisson numbers and read noise.
  void draw(std::span<const double> expected, simulator::Random& random, float* electrons) const {
    for (std::size_t i = 0; i < expected.size(); ++i) {
      electrons[i] =
          static_cast<float>(random.poisson(expected[i]) + read_noise_e_ * random.normal());
    }
  }

  /// By central differences of the image; read noise counts as Poisson (Huang et al. 2013).
  AxialBound bound(const simulator::Spot& spot, int side) const {
    constexpr double kStepPx = 0.02;
    constexpr double kStepNm = 5;
    const auto slope = [&](double dx, double dy, double dz, double step) {
      simulator::Spot up = spot;
      simulator::Spot down = spot;
      up.x_px += dx, up.y_px += dy, up.z_nm += dz;
      down.x_px -= dx, down.y_px -= dy, down.z_nm -= dz;
      std::vector<double> change = expected({&up, 1}, side);
      const std::vector<double> before = expected({&down, 1}, side);
      for (std::size_t i = 0; i < change.size(); ++i) change[i] -= before[i];
      for (double& value : change) value /= 2 * step;
      return change;
    };
    const std::vector<double> mean = expected({&spot, 1}, side);
    const std::array<std::vector<double>, 3> d = {slope(kStepPx, 0, 0, kStepPx),
                                                  slope(0, kStepPx, 0, kStepPx),
                                                  slope(0, 0, kStepNm, kStepNm)};
    std::array<std::array<double, 5>, 5> information = {};
    for (std::size_t i = 0; i < mean.size(); ++i) {
      const std::array<double, 5> g = {d[0][i], d[1][i], d[2][i],
                                       (mean[i] - background_e_) / spot.electrons, 1};
      const double variance = mean[i] + read_noise_e_ * read_noise_e_;
      for (std::size_t j = 0; j < 5; ++j)
        for (std::size_t k = 0; k < 5; ++k) information[j][k] += g[j] * g[k] / variance;
    }
    const auto c = inverse(information);
    return {std::sqrt(c[0][0]), std::sqrt(c[1][1]), std::sqrt(c[2][2])};
  }

 private:
  static constexpr int kMarginPx = 24;
  simulator::OpticsModel optics_;
  double background_e_, read_noise_e_;
  std::shared_ptr<const simulator::PupilSpot> pupil_;
};

}  // namespace driftd::test
