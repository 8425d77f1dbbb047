// SPDX-License-Identifier: MIT
// The image sensor: turns points of light into pixel levels with photon (Poisson) and read noise.
// Owned by the Simulation; not thread-safe.
//
// A pixel's electrons are Poisson(background + spots) plus Gaussian read noise, clipped at the full
// well; its level is offset + electrons / gain with a fixed pattern of either, rounded and clipped.
// The background with its read noise has one distribution for all pixels, which is tabulated as
// quantiles once and sampled with fresh random bits for each pixel and frame (nothing is reused
// between frames); it equals the exact distribution to within the table (pieces of probability
// 1/8192, in the tails 1e-7). Where the background is uneven or flickers, each pixel's draw is
// moved and stretched to its own mean and variance. The light of the spots is added as an exact
// Poisson number for each pixel: a sum of Poisson numbers is the Poisson number of the summed mean.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "simulator/airy_spot.hpp"
#include "simulator/background_structure.hpp"
#include "simulator/markers.hpp"
#include "simulator/pupil_spot.hpp"
#include "simulator/random.hpp"
#include "simulator/scenario.hpp"
#include "simulator/sensor_settings.hpp"

namespace driftd::simulator {

/// The pixels of a region that a spot lights up.
struct SpotPatch {
  int x_begin = 0, x_end = 0, y_begin = 0, y_end = 0;
};

/// Where a spot was during an exposure, as few points with the mean and the covariance of its
/// motion: two where it moved along a line, four where it moved in the plane, one where it stood
/// still.
struct MotionPoints {
  std::array<Vec2, 4> offset_px{};
  int count = 1;
};
/// From the covariance of the motion; less than 0.01 px rms counts as standing still.
MotionPoints motion_points(double xx_px2, double xy_px2, double yy_px2) noexcept;

/// What an exposure saw besides the spots.
struct ExposureConditions {
  double brightness = 1;  ///< relative, of all light
  double background = 1;  ///< relative, of the background besides
  Vec2 background_px;     ///< how far its structure has moved
  MotionPoints motion;
};

/// Adds a spot of `electrons` in all to the expected electrons of the region's pixels: a Gaussian
/// integrated over each pixel's area, out to 5 sigma.
SpotPatch add_spot(const Spot& spot, Vec2 sigma_px, double electrons,
                   const SensorSettings& settings, float* signal_e);

/// The same of a spot behind a pupil.
SpotPatch add_pupil_spot(const PupilSpot& pupil, const Spot& spot, double electrons,
                         const SensorSettings& settings, float* signal_e);

class Sensor {
 public:
  Sensor(const CameraModel& camera, const OpticsModel& optics, std::uint64_t seed,
         const BackgroundModel& background = {});
  /// Exposes one image of the region; `levels` gets width * height values at full bit depth.
  void image(std::span<const Spot> spots, const SensorSettings& settings, std::uint16_t* levels,
             const ExposureConditions& conditions = {});
  /// Draws ahead what the next image of these settings needs and no exposure changes: the noise of
  /// its background, half of the work. While settings stay, images are the same with and without.
  void prepare(const SensorSettings& settings);

 private:
  void shape_background(double background_e, const SensorSettings& settings,
                        const ExposureConditions& conditions);
  SpotPatch add(const Spot& spot, double electrons, const SensorSettings& settings,
                const MotionPoints& motion);
  SpotPatch add_point(const Spot& spot, double electrons, const SensorSettings& settings);
  void draw_spot(const SpotPatch& patch, int width_px);
  void digitise(const SensorSettings& settings, std::uint16_t* levels) const;

  CameraModel camera_;
  Vec2 sigma_px_;
  std::optional<AirySpot> airy_;  ///< none: spots of another shape
  std::optional<PupilSpot> pupil_;
  std::optional<PoissonTables> tables_;  ///< for the many dim pixels of the pupil's spots
  std::optional<WidthCurveModel> width_curve_;
  BackgroundStructure structure_;
  Random random_;
  BulkRandom bulk_;
  QuantileTable background_;
  double background_e_ = -1;       ///< what background_ was made for
  std::size_t prepared_px_ = 0;    ///< so many of electrons_ are drawn from background_ already
  std::vector<float> offset_adu_;  ///< per sensor pixel, plus 1/2 for rounding
  std::vector<float> adu_per_e_;   ///< per sensor pixel at 0 dB
  std::vector<float> signal_e_;    ///< expected from the spots; zero between images
  std::vector<float> electrons_;   ///< the image under way
  std::vector<std::uint32_t> bits_;
  std::vector<SpotPatch> patches_;
};

}  // namespace driftd::simulator
