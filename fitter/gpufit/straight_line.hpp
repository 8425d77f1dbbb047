// SPDX-License-Identifier: MIT
// Gpufit's LINEAR_1D: a straight line through points, by squares or Poisson likelihood, with
// constraints. It is no spot: no back end knows it, and its two parameters are found in closed
// form. Any thread may call.
#pragma once

#include <cstddef>

#include "fitter/gpufit/call.hpp"

namespace driftd::fitter::drop_in {

/// Fits `count` of a call's fits, beginning with `first`, and writes their results.
/// @pre check() has found nothing, and all arrays are the host's
void fit_straight_lines(const Call& call, std::size_t first, std::size_t count);

}  // namespace driftd::fitter::drop_in
