// SPDX-License-Identifier: MIT
// Power spectral density of evenly spaced values: Welch's mean over half-overlapping Hann windows
// (Welch 1967, IEEE Trans. Audio Electroacoust. 15:70). Used by identify_stage(); any thread.
#pragma once

#include <cstddef>
#include <vector>

namespace driftd::control {

/// One-sided, unit^2 per Hz, at multiples of 1 / (window * period_s) from the first to half the
/// rate. `window` is even; each window's mean and slope are taken off first. Empty when there are
/// too few values for one window.
std::vector<double> spectrum_of(const std::vector<double>& values, double period_s,
                                std::size_t window);

}  // namespace driftd::control
