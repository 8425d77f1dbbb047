// SPDX-License-Identifier: MIT
// The image sensor: turns points of light into pixel levels with photon (Poisson) and read noise.
//
// A pixel's electrons are Poisson(background + spots), clipped at the full well, plus Gaussian read
// noise; its level is offset + electrons / gain with a fixed pattern of either, rounded and
// clipped. Around the spots each pixel gets an exact Poisson number of its own. Elsewhere every
// pixel has the same distribution, which is tabulated as quantiles once and sampled with fresh
// random bits for each pixel and frame (nothing is reused between frames): about ten times as fast,
// and equal to the exact distribution to within the table (probability 1/8192, tails 1e-7). Owned
// by the Simulation; not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "camera/frame.hpp"
#include "camera/simulator/markers.hpp"
#include "camera/simulator/random.hpp"
#include "camera/simulator/scenario.hpp"

namespace driftd::simulator {

/// What the camera's registers ask of an image.
struct SensorSettings {
  int offset_x_px = 0;
  int offset_y_px = 0;
  int width_px = 0;
  int height_px = 0;
  camera::PixelFormat format = camera::PixelFormat::Mono8;
  double exposure_us = 0;
  double gain_db = 0;
};

class Sensor {
 public:
  Sensor(const CameraModel& camera, const OpticsModel& optics, std::uint64_t seed);
  /// Exposes one image of the region; `levels` gets width * height values at full bit depth.
  void image(std::span<const Spot> spots, const SensorSettings& settings, std::uint16_t* levels);

 private:
  void image_background(const SensorSettings& settings, std::uint16_t* levels);
  void image_spot(const Spot& spot, const SensorSettings& settings, std::uint16_t* levels);
  std::uint16_t level(std::size_t sensor_pixel, float electrons) const noexcept;

  CameraModel camera_;
  double sigma_x_px_, sigma_y_px_;
  Random random_;
  BulkRandom bulk_;
  QuantileTable read_noise_;
  QuantileTable background_;
  double background_e_ = -1;       ///< what background_ was made for
  float gain_factor_ = 1;          ///< 10^(dB / 20) of the image under way
  std::vector<float> offset_adu_;  ///< per sensor pixel, plus 1/2 for rounding
  std::vector<float> adu_per_e_;   ///< per sensor pixel at 0 dB
  std::vector<float> signal_e_;    ///< expected from the spots; zero between images
  std::vector<std::uint32_t> row_bits_;
};

/// Adds a spot to expected electrons: a Gaussian integrated over each pixel's area, out to 5 sigma.
/// The image covers the region of `settings`; `electrons` is what the spot sends in all.
struct SpotPatch {
  int x_begin = 0, x_end = 0, y_begin = 0, y_end = 0;  ///< region pixels touched
};
SpotPatch add_spot(const Spot& spot, Vec2 sigma_px, double electrons,
                   const SensorSettings& settings, float* signal_e);

/// Lays levels of `bit_depth` out as a pixel format. Formats with fewer bits than the camera drop
/// the lowest ones; those with more carry the levels unshifted.
void pack_levels(std::span<const std::uint16_t> levels, camera::PixelFormat format, int bit_depth,
                 std::byte* out);

/// Bytes of an image as pack_levels() lays it out.
std::size_t packed_bytes(camera::PixelFormat format, std::size_t pixels) noexcept;

}  // namespace driftd::simulator
