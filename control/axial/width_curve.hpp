// SPDX-License-Identifier: MIT
// How wide a marker is at which height: the widths of its fit along x and y against z as cubic
// splines, and z read from a fit's widths. One curve per instrument: what differs from marker to
// marker is taken out by each one's own reference. docs/internals/axial.md has equations and
// sources. Immutable; reading neither allocates nor throws; any thread.
//
// z goes up where the sample goes up. Astigmatic curves have z = 0 where both widths are equal (the
// crossing), those of defocus where the width is least, as far as the files that driftd writes go.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

#include "control/axial/axial_method.hpp"
#include "control/axial/cubic_spline.hpp"

namespace driftd::control {

/// Where the widths point to. Unknown: they are no widths, or belong nowhere on the curve, or to
/// two places of it.
enum class AxialSide : std::uint8_t { Inside, Below, Above, Unknown };

/// `measured` false: the widths lie outside the curve's range (`side` says where) or are none, and
/// z_nm and sd_nm mean nothing.
struct AxialReading {
  bool measured = false;
  double z_nm = 0, sd_nm = 0;
  AxialSide side = AxialSide::Unknown;
  double off_x = 0, off_y = 0;  ///< of the widths from the curve there, as shares of it
};

/// The fit's own covariance of the two widths.
struct WidthVariance {
  double x_px2, y_px2, xy_px2;
};

/// A curve that z cannot be read from. The text says why, and what is allowed.
struct WidthCurveError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class WidthCurve {
 public:
  struct Knot {
    double z_nm, sigma_x_px, sigma_y_px;
    /// What z scatters here over what it would tell by the fits alone (standard deviations), which
    /// is not the same along the curve; 0: the curve's scatter_factor.
    double scatter = 0;
    double dimness = 0;  ///< of the fits that gave the widths (brightness_curves.hpp); 0: not known
    /// What chi-square of a pixel has over 1, for each electron of the marker; NaN: not known.
    double excess = std::numeric_limits<double>::quiet_NaN();
  };
  struct Range {
    double lower_nm = -std::numeric_limits<double>::infinity();
    double upper_nm = std::numeric_limits<double>::infinity();
  };
  static constexpr std::size_t kFewestKnots = 4, kMostKnots = 1000;

  /// The range that z is read in: astigmatic, the stretch around the crossing on which sigma_x -
  /// sigma_y goes one way; defocus, that on which the width goes one way, of several the one where
  /// it changes most, less what is flat at its ends: a width does not tell the side of the focus.
  /// Knots beyond it say what a marker looks like there.
  /// @param knots  ascending in z; of Defocus sigma_y_px is not used
  /// @param scatter_factor  what widths scatter over what their fits tell (standard deviations)
  /// @param method  Astigmatic or Defocus
  /// @param within  narrows the range
  /// @throws WidthCurveError
  WidthCurve(std::vector<Knot> knots, double scatter_factor, AxialMethod method, Range within);
  WidthCurve(std::vector<Knot> knots, double scatter_factor, AxialMethod method)
      : WidthCurve(std::move(knots), scatter_factor, method, Range()) {}

  /// Beyond the outermost knots: the value, or the slope, there.
  double sigma_x_px(double z_nm) const noexcept;
  double sigma_y_px(double z_nm) const noexcept;
  double sigma_x_px_per_nm(double z_nm) const noexcept;
  double sigma_y_px_per_nm(double z_nm) const noexcept;

  double lower_nm() const noexcept { return range_.lower_nm; }
  double upper_nm() const noexcept { return range_.upper_nm; }
  /// Where a lock stands best: astigmatic, where both widths are equal; defocus, the middle of the
  /// range.
  double crossing_nm() const noexcept { return crossing_nm_; }
  double scatter_factor() const noexcept { return scatter_factor_; }
  /// The knots', linear between them.
  double scatter(double z_nm) const noexcept;
  double dimness(double z_nm) const noexcept;
  double excess(double z_nm) const noexcept;
  AxialMethod method() const noexcept { return method_; }
  const std::vector<Knot>& knots() const noexcept { return knots_; }

  /// z where (s - s(z))' C^-1 (s - s(z)) is least, and 1 / sqrt(s'(z)' C^-1 s'(z)) times the
  /// scatter there. Defocus: of sigma_x alone.
  ///
  /// Not measured where that is outside the range; where the widths are further from the curve than
  /// a tenth of themselves and five standard deviations; and where two places of the curve explain
  /// them about as well.
  AxialReading read(double sigma_x_px, double sigma_y_px, const WidthVariance& v) const noexcept;
  /// The standard deviation that read() tells at z for widths of this covariance; infinite where
  /// the curve is flat or the covariance is none.
  double sd_nm(double z_nm, const WidthVariance& v) const noexcept;

 private:
  struct Weights;
  struct Match;
  std::size_t piece_at(double z_nm) const noexcept;
  double between_knots(double Knot::*value, double z_nm) const noexcept;
  Match match_near(std::size_t knot, double sigma_x_px, double sigma_y_px,
                   const Weights& weights) const noexcept;
  double misfit(double z_nm, double sigma_x_px, double sigma_y_px,
                const Weights& weights) const noexcept;
  bool belongs(const Match& match, double sigma_x_px, double sigma_y_px) const noexcept;
  bool is_other_side(double z_nm) const noexcept;
  void find_range(Range within);

  std::vector<Knot> knots_;
  std::vector<CubicPiece> x_, y_;
  double pieces_per_nm_ = 0;  ///< in the mean
  double scatter_factor_;
  AxialMethod method_;
  Range range_;
  Range stretch_;  ///< the range before what is flat was taken off, and before it was narrowed
  double crossing_nm_ = 0;
};

}  // namespace driftd::control
