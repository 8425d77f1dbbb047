// SPDX-License-Identifier: MIT
// A spot as a microscope of high numerical aperture images a point, at any height: planes that are
// calculated once, and interpolated. Immutable, so any thread may read it. Owned by the Sensor.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "base/vec2.hpp"
#include "simulator/scenario.hpp"

namespace driftd::simulator {

/// Scalar diffraction at a circular pupil (Hanser, Gustafsson, Agard and Sedat 2004, J. Microsc.
/// 216:32, without the vectors): with rho the place in the pupil, sin t = |rho| NA / n and
/// k = 2 pi / wavelength
///
///     h(x, y, z) = |FT{ cos(t)^-1/2 exp(i k n z cos t + 2 pi i sum a_j Z_j(rho)) }|^2
///
/// where the Z_j are Zernike polynomials of unit rms (Noll 1976, J. Opt. Soc. Am. 66:207) and a_j
/// waves. h is integrated over the pixels' area (Boole's rule), tabulated at four points a pixel
/// and planes of 50 nm, and interpolated by cubic polynomials (Lagrange's) in x, y and z. All the
/// light of the whole plane is 1 (Parseval); what falls beyond the reach is left out, and beyond
/// range_nm the spot stays as it is there.
class PupilSpot {
 public:
  static constexpr double kPlaneNm = 50;

  /// @param pupil  as load_scenario() takes it
  PupilSpot(const PupilModel& pupil, double pixel_size_nm);

  /// Pixels from the centre out to which there is light; more off focus.
  int reach_px(double z_nm) const noexcept;
  /// Adds electrons * share of the light to rows of `columns` pixels, `stride` apart, of which the
  /// first lies at `first_px` from the spot's centre. All of them lie within the reach and a pixel.
  void add(Vec2 first_px, double z_nm, int columns, int rows, double electrons, float* out,
           std::ptrdiff_t stride) const noexcept;

 private:
  static constexpr int kSteps = 4;  ///< points of the table in a pixel
  static constexpr int kBlock = 8;  ///< pixels that are calculated at a time
  /// Four neighbours along an axis of the table, and what each of them counts.
  struct Taps {
    int first = 0;
    std::array<double, 4> weight{};
  };
  static Taps taps_at(double place) noexcept;
  void tabulate(const PupilModel& pupil, double pixel_size_nm);
  std::size_t index(int plane, int phase, int row) const noexcept {
    return ((static_cast<std::size_t>(plane) * kSteps * kSteps + static_cast<std::size_t>(phase)) *
                static_cast<std::size_t>(side_) +
            static_cast<std::size_t>(row)) *
           static_cast<std::size_t>(stride_);
  }

  double focus_nm_;
  double last_plane_;
  int planes_;
  double focus_reach_px_, reach_px_per_nm_;
  int reach_px_;  ///< the largest
  int side_, stride_;
  /// Share of the light in a pixel: by plane, by where in a pixel (rows of it first), by pixel.
  std::vector<float> table_;
};

}  // namespace driftd::simulator
