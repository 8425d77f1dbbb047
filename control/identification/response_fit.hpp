// SPDX-License-Identifier: MIT
// The stage's response and its matrix from what the frames saw, by weighted nonlinear least squares
// (Levenberg and Marquardt): dead time and shape are common to both axes; each image axis has a
// gain for each channel of the staircase, an offset and a slope, and noise of its own that
// noise_whitening.hpp makes white. Used by identify_stage(); any thread.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "control/identification/noise_whitening.hpp"
#include "control/identification/stage_record.hpp"
#include "control/identification/stage_response.hpp"

namespace driftd::control {

/// A record on a grid of slots; times in seconds from the first frame.
struct FitData {
  std::size_t axes = 2;  ///< of stage and image: of one, only the first of each pair is filled
  Staircase staircase;   ///< a channel an axis: commands; further ones: of hysteresis
  Exposures exposures;   ///< a frame each
  FrameSlots slots;
  std::array<std::vector<double>, 2> moved_nm;  ///< [image axis][slot]
  std::array<Whitening, 2> noise;               ///< [image axis]
  double begin_s = 0, end_s = 0;                ///< of the motion
  std::size_t begin = 0, end = 0;               ///< the same, slots

  double time_of(std::size_t slot) const noexcept { return exposures.middle_s[slots.frame[slot]]; }
};

/// A response and the gains of each image axis that there is: those of the channels, then offset,
/// then slope.
struct ResponseFit {
  bool converged = false;
  ResponseShape shape;
  std::array<std::vector<double>, 2> linear;
  double chi_square = 0;
  std::size_t equations = 0;
  /// Rows: delay (s), ln(frequency or time constant), ln(damping); then linear[0], linear[1].
  std::vector<double> covariance;
  std::size_t unknowns = 0;

  double covariance_of(std::size_t a, std::size_t b) const noexcept {
    return covariance[a * unknowns + b];
  }
  std::size_t shape_unknowns() const noexcept { return shape.order == 1 ? 2 : 3; }
  /// Where a linear unknown stands in the covariance.
  std::size_t index_of(std::size_t image_axis, std::size_t which) const noexcept {
    return shape_unknowns() + image_axis * linear[0].size() + which;
  }
};

/// Improves a shape until nothing changes. `rounds`: at most so many steps.
ResponseFit fit_response(const FitData& data, const ResponseShape& start, int rounds);
/// Gains alone, at a given shape.
ResponseFit fit_gains(const FitData& data, const ResponseShape& shape);
/// Each channel's response in each slot; 0 in missing ones.
std::vector<std::vector<double>> respond_in_slots(const FitData& data, const ResponseShape& shape);
/// What a fit leaves of the motion, [image axis][slot]; offset and slope are left in where asked.
std::array<std::vector<double>, 2> unexplained(const FitData& data, const ResponseFit& fit,
                                               bool keep_drift);

}  // namespace driftd::control
