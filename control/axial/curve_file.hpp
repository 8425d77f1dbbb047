// SPDX-License-Identifier: MIT
// A curve of widths as a file: driftd's own YAML, which driftfit calibrate-z writes, and Picasso's
// calibration. A file that is not understood is refused, never read as something simpler. Each call
// may wait for the disk; any thread.
#pragma once

#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "control/axial/brightness_curves.hpp"
#include "fitter/fitter.hpp"

namespace driftd::control {

/// The text names the file, the places in it, what was found and what is allowed.
struct CurveFileError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// What the widths of a curve were fitted by: others are those of another curve.
struct CurveFits {
  fitter::Model model = fitter::Model::EllipticalGaussian;
  fitter::Estimator estimator = fitter::Estimator::PoissonLikelihood;
  bool integrated = false;    ///< FitOptions::integrated
  int roi_px = 0;             ///< side
  double pixel_size_nm = 0;   ///< in the sample
  double gain_e_per_adu = 0;  ///< 0: not known
};

/// For people alone.
struct CurveNotes {
  std::string source = {};     ///< what it was measured from, on one line
  double photons = 0;          ///< of a marker at the crossing; 0: not known
  double predicted_sd_nm = 0;  ///< of one such marker in one frame; 0: not known
};

struct CurveFile {
  WidthCurve curve;
  std::optional<CurveFits> fits;  ///< nothing: Picasso's, which does not say
  CurveNotes notes = {};
  std::vector<WidthCurve> dimmer = {};  ///< those of dimmer markers, ascending
};
/// All curves of a file. @throws WidthCurveError
BrightnessCurves curves_of(const CurveFile& file);

/// driftd's or Picasso's, told by its keys. @throws CurveFileError
CurveFile read_curve_file(const std::filesystem::path& path);

/// What read_curve_file() reads as the same curve, to 1e-6 px.
/// @param file  with fits
std::string curve_text(const CurveFile& file);

/// Why a curve does not do for these fits, as "its ROI has 13 px, the fits' 15; ..."; "" where it
/// does. Gains are not compared.
std::string why_not_for(const CurveFits& curve, const CurveFits& fits);

}  // namespace driftd::control
