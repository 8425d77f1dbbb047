// SPDX-License-Identifier: MIT
// A camera's gain, offset, read noise and saturation from frames (photon transfer; Janesick 2007,
// EMVA 1288): photons make a variance of (mean - offset) / gain, the read noise one that is always
// there. Frames of the sample as it is give the slope of variance over mean, frames of the dark the
// offset and the read noise. Pure functions of the frames; one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "clients/driftctl/camera/frame_statistics.hpp"
#include "clients/driftctl/camera/noise_blocks.hpp"

namespace driftd::clients {

/// A value and its standard deviation.
struct Estimate {
  double value = 0, sd = 0;
};

/// What a series of dark frames tells.
struct DarkResult {
  FrameShape shape;
  int frames = 0;
  int step_adu = 1;                        ///< between levels
  Estimate offset_adu;                     ///< mean of the pixels
  std::optional<Estimate> read_noise_adu;  ///< without rounding; none: below what shows
  double most_read_noise_adu = 0;          ///< where there is none
  double pattern_adu = 0;                  ///< sd of the pixels' own offsets
  double clipped_share = 0;                ///< of all values that are 0
  bool only_bound = false;                 ///< nearly all are 0: the offset is that or less
  int hot_pixels = 0;                      ///< left out
  std::vector<std::string> warnings;
};

/// @throws CannotCalibrate
DarkResult measure_dark(const FrameStatistics& statistics);

/// One class of pixels of similar brightness.
struct TransferPoint {
  double mean_adu = 0, variance_adu2 = 0, sd_adu2 = 0;
  std::int64_t pixels = 0;
};

/// What a series of frames of the sample tells, with or without a dark one.
struct LightResult {
  FrameShape shape;
  int frames = 0;
  int step_adu = 1;
  Estimate gain_e_per_adu;
  /// Without a dark series the line of variance over mean leaves one number open: the more read
  /// noise, the higher the offset. Bounds by read noise >= 0 and light >= 0.
  double least_offset_adu = 0, most_offset_adu = 0, most_read_noise_e = 0;
  std::optional<Estimate> offset_adu, read_noise_e;  ///< with a dark series
  std::optional<int> saturation_adu;
  std::string saturation_text;  ///< where it comes from, or why there is none
  double brightest_adu = 0;
  double nonlinear_share = 0;  ///< of the variance half way up, against a straight line
  NeighbourNoise neighbours;
  double disturbed_share = 0;  ///< of tiles and blocks left out: light that changed otherwise
  std::vector<TransferPoint> curve;
  std::vector<std::string> warnings;
};

/// Read noise that goes with an offset, and the other way round, on the line of `light`.
double read_noise_at(const LightResult& light, double offset_adu);

/// @param dark  of the same shape, or none
/// @throws CannotCalibrate
LightResult measure_light(const FrameStatistics& statistics, const NoiseBlocks& noise,
                          const DarkResult* dark);

constexpr int kFewestFrames = 64;

}  // namespace driftd::clients
