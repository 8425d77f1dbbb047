// SPDX-License-Identifier: MIT
// Value types of the control library. Nanometres are in the sample plane; image axes: x right,
// y down; pixels are full-sensor pixels with the first pixel's centre at (0, 0).
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/vec2.hpp"

namespace driftd::control {

constexpr std::size_t kMaxMarkers = 256;
/// Side of a ROI where neither the user nor the image tells one.
constexpr int kAssumedRoiPx = 13;

using driftd::Vec2;

/// Symmetric 2x2 covariance matrix.
struct Covariance2 {
  double xx = 0;
  double xy = 0;
  double yy = 0;
};

/// What decides where the stage has to go; law_choice.hpp.
enum class ControlLaw : std::uint8_t { Auto, Observer, Pi };

enum class MarkerRole : std::uint8_t { Tracking, Witness };

enum class MarkerHealth : std::uint8_t {
  Good,
  OutsideFrame,  ///< its ROI no longer lies inside the frame
  FitFailed,     ///< no converged fit (hidden, blinking, saturated)
  Implausible,   ///< the fit converged on something that is not this marker: width or brightness
                 ///< changed
  Outlier,       ///< moved away from the others (detached, joined by an intruder)
  Unreferenced,  ///< has no reference position yet
};
const char* name_of(MarkerHealth health) noexcept;

struct Marker {
  std::uint32_t id = 0;
  MarkerRole role = MarkerRole::Tracking;
  double x_px = 0;  ///< where it was found or listed; the reference replaces it
  double y_px = 0;
};

/// What a marker is known by: its reference position, and how it looks there.
struct MarkerReference {
  Vec2 place_px;
  double sigma_px = 0;       ///< 0: never measured
  double amplitude_adu = 0;  ///< 0: never measured
  double variance_nm2 = 0;   ///< of the place, per axis
  bool trusted = true;       ///< false: it has none yet, or was seen to come off
  double z_nm = std::numeric_limits<double>::quiet_NaN();  ///< on the curve; NaN: none
  double z_variance_nm2 = 0;
};

/// A spot somewhere in a frame, fitted; whose it is, is not known.
struct FittedSpot {
  Vec2 place_px;  ///< sensor pixels
  double sigma_px = 0;
  double amplitude_adu = 0;
};

/// One marker in one frame, as measured. `fitted` false: the rest is meaningless.
struct MarkerObservation {
  bool fitted = false;
  bool inside_frame = true;
  double x_px = 0, y_px = 0;
  float x_sd_px = 0, y_sd_px = 0;
  float sigma_px = 0;  ///< of both widths: mean_width()
  float amplitude_adu = 0;
  float background_adu = 0;
  float sigma_x_px = 0, sigma_y_px = 0;  ///< the same, where the fit is circular
  float sigma_x_sd_px = 0, sigma_y_sd_px = 0;
  float chi_square = 0;    ///< Localization::chi_square
  bool saturated = false;  ///< not fitted, because pixels are
  /// What pixels around its ROI have; NaN: not looked at.
  float surroundings_adu = std::numeric_limits<float>::quiet_NaN();
};

/// One width of a spot that has two: what defocus changes least. The same bits where they are
/// equal.
inline float mean_width(float x_px, float y_px) noexcept {
  return x_px == y_px ? x_px : std::sqrt(x_px * y_px);
}

/// A marker's part in one frame's estimate.
struct MarkerResult {
  MarkerHealth health = MarkerHealth::Unreferenced;
  Vec2 displacement_nm;  ///< from its reference position
  Vec2 residual_nm;      ///< displacement minus the estimated drift
};

struct DriftEstimate {
  bool valid = false;                ///< false: too few markers; the rest is then not to be used
  Vec2 drift_nm;                     ///< averaged over markers and `average_frames`
  Vec2 frame_drift_nm;               ///< this frame alone
  Covariance2 covariance_nm2;        ///< of drift_nm
  Covariance2 frame_covariance_nm2;  ///< of frame_drift_nm
  int markers_used = 0;
  int markers_total = 0;  ///< tracking markers there are
  int frames_averaged = 0;
  bool witness_valid = false;
  Vec2 witness_nm;  ///< the witness markers' mean displacement: the out-of-loop check
  int witnesses_used = 0;
  Vec2 frame_witness_nm;     ///< of this frame alone; only with witnesses_used > 0
  Vec2 frame_noise_nm2;      ///< of frame_drift_nm: what differs from frame to frame, as promised
  Vec2 frame_fit_noise_nm2;  ///< the same by the fits alone: Consensus::fit_noise_nm2
  Vec2 frame_witness_noise_nm2;  ///< of frame_witness_nm likewise
};

// NOLINTBEGIN(readability-identifier-naming): bits to be combined, used as constants
enum LimitFlag : std::uint8_t {
  kLimitNone = 0,
  kLimitStep = 1,   ///< per-correction step
  kLimitRate = 2,   ///< nm/s
  kLimitRange = 4,  ///< absolute, from the place at lock
};
// NOLINTEND(readability-identifier-naming)

struct Correction {
  Vec2 total_nm;                      ///< stage displacement from its place at lock, stage axes
  Vec2 delta_nm;                      ///< change against the correction before
  std::uint8_t limited = kLimitNone;  ///< LimitFlags that held this correction back
  Vec2 move_nm = {};                  ///< the part of total_nm that moves asked for
};

}  // namespace driftd::control
