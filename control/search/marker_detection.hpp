// SPDX-License-Identifier: MIT
// Finding markers in an image without being told where they are. Two pure steps with the fit
// between them (the daemon fits the candidates): candidates, then judgement. Not real time.
#pragma once

#include <cstdint>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "control/values/types.hpp"
#include "fitter/fitter.hpp"

namespace driftd::control {

/// A square of the sensor where no markers are looked for.
struct LeftOut {
  double x_px = 0, y_px = 0;  ///< its middle
  int side_px = 0;            ///< 0: there is none

  /// Whether a ROI around a place reaches into it.
  bool meets(double at_x_px, double at_y_px, int roi_px) const noexcept;
};

struct DetectionSettings {
  int roi_px;
  int max_count;             ///< markers kept, witnesses included
  double expected_sigma_px;  ///< sets the smoothing and background scales
  double min_snr;            ///< fitted amplitude over noise of the local background
  double min_sigma_px, max_sigma_px;
  double min_distance_px;        ///< to the next spot, kept or not; 0: roi_px
  double border_px;              ///< ROI's clearance from the frame's border
  std::uint32_t saturation_adu;  ///< 0: not checked
  double max_residual_ratio;     ///< shape: rms residual over expected noise
  double witness_fraction;       ///< set aside when at least min_for_witness are found
  int min_for_witness;
  LeftOut left_out = {};
};

/// A local maximum above the background; x, y in region pixels; its ROI origin may be cut there.
struct Candidate {
  int x_px = 0, y_px = 0;
  int roi_x_px = 0, roi_y_px = 0;
  double height_adu = 0;
  double noise_adu = 0;  ///< local background noise (sd)
  bool saturated = false;
};

/// Spots weaker than this share of a marker do not disturb it (a bright bead's own rings).
constexpr double kDisturbingHeight = 0.1;
/// Least noise of pixels in whole counts: rounding has this standard deviation (1 / sqrt 12).
constexpr double kQuantisationNoiseAdu = 0.29;

struct Rejection {
  double x_px, y_px;
  std::string reason;  ///< "SNR 4.2 below 10"
};

struct DetectionResult {
  std::vector<Marker> markers;  ///< ids 1.. in order of quality; sensor pixels
  std::vector<Rejection> rejected;
};

/// What ends a search early, and what its bounds cost.
struct SearchBounds {
  std::stop_token stop = {};       ///< when asked, the search ends soon with a result of no use
  std::size_t spots_left_out = 0;  ///< the faintest; the result is what it is without them
};

/// The brightest ones come first.
/// @param image  row-major, width x height region pixels
std::vector<Candidate> find_candidates(std::span<const std::uint16_t> image, int width_px,
                                       int height_px, const DetectionSettings& settings,
                                       SearchBounds* bounds = nullptr);

/// A fit of each candidate's ROI, in its coordinates.
/// @throws fitter::FitterError for a side or options that the fitter refuses
std::vector<fitter::Localization> fit_candidates(std::span<const std::uint16_t> image, int width_px,
                                                 std::span<const Candidate> candidates, int roi_px,
                                                 const fitter::FitOptions& options);

/// @param fits  one for each candidate, in its ROI's coordinates
/// @param offset_x_px, offset_y_px  the region's place on the sensor
DetectionResult judge_candidates(std::span<const Candidate> candidates,
                                 std::span<const fitter::Localization> fits, int width_px,
                                 int height_px, int offset_x_px, int offset_y_px,
                                 const DetectionSettings& settings);

/// Every spot that could be fitted, each once, whether or not it would make a marker; saturated
/// ones left out. Parameters as above.
std::vector<FittedSpot> fitted_spots(std::span<const Candidate> candidates,
                                     std::span<const fitter::Localization> fits, int offset_x_px,
                                     int offset_y_px, const DetectionSettings& settings);

}  // namespace driftd::control
