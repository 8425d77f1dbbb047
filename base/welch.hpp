// SPDX-License-Identifier: MIT
// Power spectral density of evenly spaced values: Welch's mean over half-overlapping segments under
// Hann's window (Welch 1967, IEEE Trans. Audio Electroacoust. 15:70). Any thread.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace driftd {

struct WelchSpectrum {
  std::vector<double>
      density;               ///< one-sided, unit^2 per Hz, at k rate / length; k = 0 .. length / 2
  std::size_t segments = 0;  ///< averaged; 0: too few values for one, and no density
};

/// What is taken off each segment first.
enum class Detrend : bool { Mean, Line };

/// @param length  of a segment: even, at least 4
WelchSpectrum welch(std::span<const double> values, double rate_hz, std::size_t length,
                    Detrend detrend);

}  // namespace driftd
