// SPDX-License-Identifier: MIT
// What rounding to whole levels does to noise. Pixels whose true levels lie anywhere between two
// whole ones (a fixed pattern sees to that) have, on average, the variance
//   g(s) = s^2 + 1/12 - sum_k exp(-4 pi^2 k^2 s^2) / (2 pi^2 k^2)
// where s is the noise before rounding: with d the difference of two frames before rounding and f
// its fraction, that after rounding has the mean square d^2 + f (1 - f). Lengths are in steps of
// the levels. Pure functions; any thread.
#pragma once

namespace driftd::clients {

/// g(s) above: s / sqrt(pi) for small s, s^2 + 1/12 for large.
double rounded_variance(double sd) noexcept;
/// The noise before rounding that leaves this variance; 0 where there is none.
double sd_before_rounding(double variance) noexcept;

/// Pixels whose true levels are themselves normal: `pattern_sd` among them, `noise_sd` each.
struct RoundedPixels {
  double mean = 0, pattern_sd = 0, noise_sd = 0;
};
/// From the mean of all rounded values, their variance, and the mean variance of a pixel. For
/// patterns and noise so small that levels do not lie evenly between whole ones.
RoundedPixels before_rounding(double mean, double variance, double pixel_variance) noexcept;

/// A normal distribution of which what lies below `limit` is only counted.
struct CensoredSample {
  double below = 0, above = 0;           ///< how many
  double mean_above = 0, var_above = 0;  ///< of those above, divisor `above`
};
struct Normal {
  double mean = 0, variance = 0;
};
/// Maximum likelihood by expectation and maximisation (Dempster, Laird and Rubin 1977).
/// @pre above > 1
Normal fit_censored(const CensoredSample& sample, double limit) noexcept;

}  // namespace driftd::clients
