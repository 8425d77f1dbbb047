// SPDX-License-Identifier: MIT
// From beads fitted in a stack of planes to the curve of widths. Pure: no file, no image; any
// thread.
//
// Model: the width of bead b in plane p is C(z_p + h_b), with a height of its own for each bead and
// one curve for all. C is a cubic B-spline with a penalty on its third derivative; heights and
// curve are fitted in turn. docs/internals/axial.md has the equations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "control/axial/calibration/bead_fits.hpp"
#include "control/axial/width_curve.hpp"

namespace driftd::control {

/// What is wrong with fits that make no curve.
enum class CalibrationFault : std::uint8_t {
  FewPlanes,  ///< in which beads are fitted
  FewBeads,   ///< that are fitted throughout
  NoCurve,    ///< the widths cross nowhere, or do not change
  BothSides,  ///< of the focus, without a lens
  Strangers,  ///< beads of unlike curves
  Range,      ///< the crossing is too near to its end
  Tilted,     ///< the beads' heights
  NoZ,        ///< widths inside the range that two heights explain
  Uneven,     ///< planes do not lie where they are said to
  // Of a sweep alone.
  Still,       ///< the widths did not change
  Stuck,       ///< the stage, on a part of its way
  Jump,        ///< of the sample
  Stopped,     ///< too little was recorded
  Light,       ///< it changed in the meantime
  Moving,      ///< the stage, when it should have been at rest
  Drift,       ///< of the sample
  Hysteresis,  ///< of the stage
  StageTilt,   ///< it moves the sample sideways, too
  Wobble,      ///< single markers moved sideways
  LockPoint,   ///< the sample's place is too near to an end of the range
  Dim,         ///< the lock would be too noisy
  Check,       ///< steps were not read as they were told
};

/// Fits that make no curve. The text says what was found, what is allowed and what helps.
struct CalibrationError : std::runtime_error {
  CalibrationError(CalibrationFault what, const std::string& text)
      : std::runtime_error(text), fault(what) {}
  CalibrationFault fault;
};

/// Which planes the curve is made of; the others are read by it.
enum class PlanesUsed : std::uint8_t { All, Odd, Even };

struct CalibrationSettings {
  AxialMethod method = AxialMethod::Astigmatic;
  std::vector<double> z_nm;       ///< of each plane, in the order of the beads' planes
  std::vector<std::size_t> step;  ///< the number of the step that a plane belongs to
  PlanesUsed planes = PlanesUsed::All;
  double pixel_nm = 100;
  double step_nm = 0;
  bool is_sweep = false;       ///< of the lock's own stage: the texts name driftd's options then
  double frames_averaged = 1;  ///< in each fit of a bead in a plane
};

/// A bead's widths as the curve reads them; z is the curve's own, its zero the crossing or focus.
struct BeadReading {
  std::size_t plane = 0, bead = 0;
  double z_nm = 0;  ///< where the bead is, by its plane and its height
  AxialReading reading;
  bool held_out = false;  ///< the curve was made without this plane
};

/// Planes that a curve was made without, as far out as a lock moves the sample; one at least, in
/// the middle of its range.
struct HeldOut {
  struct Plane {
    std::size_t plane = 0;
    bool is_central = false;  ///< in the middle half of the range
    double off_nm = 0;        ///< the median of its beads
    double noise_nm = 0;      ///< of that median, as the fits tell
  };
  std::vector<Plane> planes;
  [[nodiscard]] std::vector<Plane> central() const;
  [[nodiscard]] double typical_noise_nm() const;
  [[nodiscard]] double worst_nm() const;
  [[nodiscard]] double rms_nm() const;
};

struct AxialCalibration {
  WidthCurve curve;
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

}  // namespace driftd::control
