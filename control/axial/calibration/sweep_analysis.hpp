// SPDX-License-Identifier: MIT
// What a sweep of z says: the curve of widths, or the slope of a reflected spot; how the stage
// does, and whether a lock may go by it. Pure; takes tens of milliseconds; any thread.
// docs/internals/axial.md, "Calibration by the stage", has the limits.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "control/axial/calibration/axial_calibration.hpp"
#include "control/axial/calibration/sweep_record.hpp"
#include "control/axial/curve_file.hpp"

namespace driftd::control {

struct SweepContext {
  AxialMethod method = AxialMethod::Astigmatic;
  CurveFits fits;                  ///< of the markers; not of Reflection
  double max_drift_nm_per_s = 20;  ///< of the sample in z
  double stage_gain = 1;           ///< nm that the stage was told for 1 nm of the sample
  /// The curve that z was read by until now; null: none.
  const BrightnessCurves* curve = nullptr;
  std::string source = {};  ///< of the curve, for people
};

/// A spot along the line that it moves on.
struct SpotSlope {
  double nm_per_px = 0, angle_deg = 0;
  double relative_sd = 0;  ///< of nm_per_px
  double off_line_nm = 0;  ///< rms of the places about a straight line
  double noise_nm = 0;     ///< of one frame, as its fit tells
};

struct SweepFindings {
  // By widths.
  std::optional<CurveFile> curve;
  std::string picture;          ///< SVG of it
  double from_crossing_nm = 0;  ///< where the sample is, on the curve
  double lower_nm = 0, upper_nm = 0;
  double crossing_sigma_px = 0;
  double scatter_factor = 0;
  double photons = 0;
  double marker_sd_nm = 0;  ///< of one marker in one frame
  std::size_t markers_used = 0, markers_left_out = 0;
  double heights_nm = 0, heights_tilt_nm_per_um = 0;
  std::optional<double> uneven_nm;      ///< of the steps, rms
  double wobble_nm = 0;                 ///< sideways of a marker by itself, within 100 nm; median
  std::optional<double> light_change;   ///< from the first visit of the start to the last, share
  std::optional<double> gain_by_curve;  ///< the stage's gain, if the curve until now is right
  // Of a reflected spot.
  std::optional<SpotSlope> spot;
  // Of both.
  double predicted_sd_nm = 0;                      ///< of the lock's z in one frame
  double hysteresis_nm = 0, hysteresis_sd_nm = 0;  ///< down less up
  double drift_nm_per_s = 0;
  double settling_nm = 0, settling_sd_nm = 0;  ///< how far it still moved on while it was measured
  /// Of the stage into x, y, and its standard deviation; none where these are not measured.
  std::optional<Vec2> tilt_nm_per_um;
  Vec2 tilt_sd_nm_per_um{};
  double check_up_nm = 0, check_down_nm = 0;  ///< read of the steps at the end
  std::vector<std::string> warnings;
};

/// @throws CalibrationError when a lock must not go by it: the fault, and what helps
SweepFindings analyse_sweep(const SweepRecord& record, const SweepContext& context);

}  // namespace driftd::control
