// SPDX-License-Identifier: MIT
// From beads fitted in a stack of planes to the curve of widths. Pure: no file, no image; any
// thread.
//
// Model: the width of bead b in plane p is C(z_p + h_b), with a height of its own for each bead and
// one curve for all. C is a cubic B-spline with a penalty on its third derivative; heights and
// curve are fitted in turn. docs/internals/axial.md has the equations.
#pragma once

#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "control/axial/width_curve.hpp"
#include "tools/driftfit/zstack_beads.hpp"

namespace driftd::tools {

/// A stack that makes no curve. The text says what was found, what is allowed and what helps.
struct CalibrationError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Which planes the curve is made of; the others are read by it.
enum class PlanesUsed : std::uint8_t { All, Odd, Even };

struct CalibrationSettings {
  control::AxialMethod method = control::AxialMethod::Astigmatic;
  std::vector<double> z_nm;       ///< of each plane, in the order of the beads' planes
  std::vector<std::size_t> step;  ///< the number of the step that a plane belongs to
  PlanesUsed planes = PlanesUsed::All;
  double pixel_nm = 100;
  double step_nm = 0;
};

/// A bead's widths as the curve reads them; z is the curve's own, its zero the crossing or focus.
struct BeadReading {
  std::size_t plane = 0, bead = 0;
  double z_nm = 0;  ///< where the bead is, by its plane and its height
  control::AxialReading reading;
  bool held_out = false;  ///< the curve was made without this plane
};

/// Planes that a curve was made without, in the middle of its range; one at least.
struct HeldOut {
  struct Plane {
    std::size_t plane = 0;
    double off_nm = 0;    ///< the median of its beads
    double noise_nm = 0;  ///< of that median, as the fits tell
  };
  std::vector<Plane> planes;
  [[nodiscard]] double worst_nm() const;
  [[nodiscard]] double rms_nm() const;
};

struct AxialCalibration {
  control::WidthCurve curve;
  double zero_nm = 0;                 ///< of the curve, along the stack
  std::vector<std::size_t> planes;    ///< that the curve is made of
  std::vector<std::size_t> beads;     ///< likewise
  std::vector<double> heights_nm;     ///< of these beads
  std::vector<BeadReading> readings;  ///< of these beads in all planes where they were fitted
  std::size_t beads_left_out = 0;     ///< fitted throughout, but of another curve
  double tilt_nm_per_um = 0;
  double photons = 0, predicted_sd_nm = 0;  ///< of a bead at the crossing, or in the range's middle
  std::optional<HeldOut> held_out;
  std::vector<std::string> warnings;
};

/// @throws CalibrationError
AxialCalibration calibrate_axial(const ZStackBeads& beads, const CalibrationSettings& settings);

}  // namespace driftd::tools
