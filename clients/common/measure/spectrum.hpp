// SPDX-License-Identifier: MIT
// The power spectrum of a place, its white noise and its vibrations.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace driftd::clients {

/// A vibration: amplitude A of A sin(2 pi f t).
struct VibrationLine {
  double frequency_hz, amplitude_nm;
};

/// One-sided: the sum of density times spacing is the mean square.
struct Spectrum {
  double spacing_hz = 0;
  std::size_t segments = 0;                ///< averaged
  std::vector<double> density_nm2_per_hz;  ///< at 0, spacing, 2 spacings, ..
};

/// Welch (1967): the mean over segments that overlap by half, under Hann's window. Segments are a
/// quarter of the places at most, and 16 s, but at least 16 places.
/// @pre places_nm.size() >= 64, rate_hz > 0
Spectrum power_spectrum(const std::vector<double>& places_nm, double rate_hz);

/// Standard deviation of a single place, nm, were its noise that of the spectrum's upper half
/// everywhere: the median there, which vibrations do not move.
double white_noise(const Spectrum& spectrum);

/// The frequencies that frames of this rate show at the same place, for the end of a sentence:
/// ", or 27, 33, 57, 63 Hz"; "" where there is none (base/aliases.hpp).
std::string look_alikes_text(double frequency_hz, double rate_hz);

/// The vibrations that stand out of what is around them, the strongest first.
std::vector<VibrationLine> vibration_lines(const Spectrum& spectrum, std::size_t most);

}  // namespace driftd::clients
