// SPDX-License-Identifier: MIT
// The curves of one instrument for markers of unlike brightness, and whether a fit is one of a
// single marker. A likelihood fit weights a pixel by its light: the widths of a spot that is no
// Gaussian depend on how much of the light in it is background. Off the crossing a marker of a
// tenth of the photons reads 40 nm less by the curve of bright ones (docs/measured/benchmarks.md).
// Fits by least squares need one curve. Immutable; reading neither allocates nor throws; any
// thread.
#pragma once

#include <cstddef>
#include <vector>

#include "control/axial/width_curve.hpp"

namespace driftd::control {

/// A marker's fit, in electrons.
struct SpotFit {
  double sigma_x_px = 0, sigma_y_px = 0;
  WidthVariance variance{};
  double amplitude_e = 0, background_e = 0, read_noise_e = 0;
  double chi_square = 0;  ///< a likelihood fit's deviance
  int pixels = 0;         ///< of the ROI; 0: chi_square is none

  double electrons() const noexcept;
  /// Background and variance of the read noise in a pixel, over the electrons of the marker: all
  /// that the fit's weights depend on.
  double dimness() const noexcept;
};

/// What makes electrons of a fit's counts.
struct FitUnits {
  double gain_e_per_adu = 0, offset_adu = 0, read_noise_e = 0;
  int pixels = 0;  ///< of the ROI; 0: not known
};

class BrightnessCurves {
 public:
  /// @param curves  at least one, of one method; where there are several, their knots' dimnesses
  ///   are known and grow from curve to curve
  /// @throws WidthCurveError
  explicit BrightnessCurves(std::vector<WidthCurve> curves);
  const std::vector<WidthCurve>& curves() const noexcept { return curves_; }
  /// Fits of this method are: their chi-square is a deviance.
  bool by_likelihood() const noexcept {
    return curves_.front().method() == AxialMethod::Astigmatic;
  }

  /// By the curves of the next brighter and the next dimmer fits, linear in the dimness' logarithm
  /// between them; beyond the curves by the last one. Widths that lie off the curve by more than
  /// two standard deviations are trusted by so much less: sd_nm is half as many times larger.
  ///
  /// Not measured where one of both curves does not measure, and where pixels are off the fit by
  /// more than 1.7 times what a single marker's are at this height, and five standard deviations of
  /// that: then there is a neighbour, or the spot of another height altogether.
  AxialReading read(const SpotFit& fit) const noexcept;

 private:
  std::size_t brighter_than(double dimness, double z_nm) const noexcept;

  std::vector<WidthCurve> curves_;
};

}  // namespace driftd::control
