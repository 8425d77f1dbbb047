// SPDX-License-Identifier: MIT
// A spot with the rings and the defocus of a diffraction-limited microscope, tabulated once. Owned
// by the Sensor; immutable, so any thread may read it.
#pragma once

#include <vector>

#include "base/vec2.hpp"

namespace driftd::simulator {

/// The image of a point through a circular pupil out of focus (Born and Wolf, Principles of Optics,
/// 7th edition, section 8.8.1): with v the distance from the centre in optical units and W the
/// defocus in waves at the pupil's edge
///
///     h(v) = |2 * integral over rho from 0 to 1 of J0(v rho) exp(2 pi i W rho^2) rho|^2
///
/// which in focus is Airy's (2 J1(v) / v)^2. Its light over the whole plane is 4 pi (Parseval);
/// what falls beyond the reach of 7 sigma is left out: 7 % in focus. The core is as wide as a
/// Gaussian of `sigma_px`: v = 1.32 r / sigma (Zhang, Zerubia and Olivo-Marin 2007, Appl. Opt.
/// 46:1819: sigma = 0.21 wavelength / NA).
class AirySpot {
 public:
  /// @param sigma_px  0.3 to 20
  /// @param defocus_waves  W, -2 to 2; the sign makes no difference
  AirySpot(double sigma_px, double defocus_waves);

  /// Pixels from the centre out to which there is light.
  int reach_px() const noexcept { return reach_px_; }
  /// Adds electrons * share of the light to `count` pixels of a row, of which the first lies at
  /// (first_x_px, y_px) from the spot's centre. All of them lie within the reach and a pixel.
  void add_row(double first_x_px, double y_px, int count, double electrons,
               float* line) const noexcept;

 private:
  int reach_px_ = 0;
  int steps_ = 1;             ///< of the table in a pixel
  int side_ = 0;              ///< of the table
  std::vector<float> table_;  ///< share of the light in a pixel whose centre lies there
};

}  // namespace driftd::simulator
