// SPDX-License-Identifier: MIT
// The particle swarm's arithmetic, for one particle or a vector of them: Real as in real.hpp. Host
// and device.
#pragma once

#include "fitter/pixel_sums.hpp"
#include "fitter/swarm.hpp"

namespace driftd::fitter {

/// Velocity of the next step in one dimension: canonical, limited. Clerc & Kennedy 2002.
/// @param to_own, to_swarm  where the best places are from here
template <class Real>
DRIFTD_HD Real next_velocity(const SwarmOptions& o, const Real& velocity, const Real& to_own,
                             const Real& to_swarm, const Real& own_random, const Real& swarm_random,
                             const Real& fastest) {
  const Real v = o.inertia * velocity + o.own_pull * own_random * to_own +
                 o.swarm_pull * swarm_random * to_swarm;
  return smaller(larger(v, -fastest), fastest);
}

/// Chi-square of a shape with its best amplitude and background (implicit_least_squares.hpp); that
/// of a constant where the amplitude would be negative.
/// @param f, ff, fg  sums over the pixels of the profile, its square, its product with the pixels
template <class Real>
DRIFTD_HD Real swarm_chi_square(const PixelSummary& summary, float count, const Real& f,
                                const Real& ff, const Real& fg) {
  const float mean = summary.sum / count;
  const Real c_ff = ff - f * f * (1.0f / count);
  const Real c_fg = fg - f * mean;
  const float constant = summary.sum_squares - summary.sum * summary.sum / count;
  return where(c_fg > 0.0f, constant - c_fg * (c_fg / c_ff), Real(constant));
}

}  // namespace driftd::fitter
