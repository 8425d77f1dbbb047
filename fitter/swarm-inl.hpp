// SPDX-License-Identifier: MIT
// The particle swarm's arithmetic, for one particle or a vector of them. Included as the estimators
// of pixel_terms.hpp are, with the same `Math`.

/// Velocity of the next step in one dimension: canonical, limited. Clerc & Kennedy 2002.
/// @param to_own, to_swarm  where the best places are from here
template <class Math, class Real>
DRIFTD_HD Real next_velocity(const SwarmOptions& o, Real velocity, Real to_own, Real to_swarm,
                             Real own_random, Real swarm_random, Real fastest) {
  const Real v = Math::set(o.inertia) * velocity + Math::set(o.own_pull) * own_random * to_own +
                 Math::set(o.swarm_pull) * swarm_random * to_swarm;
  return Math::smallest(Math::largest(v, Math::set(0.0f) - fastest), fastest);
}

/// Chi-square of a shape with its best amplitude and background (implicit_least_squares.hpp); that
/// of a constant where the amplitude would be negative.
/// @param f, ff, fg  sums over the pixels of the profile, its square, its product with the pixels
template <class Math, class Real>
DRIFTD_HD Real swarm_chi_square(const PixelSummary& summary, float count, Real f, Real ff,
                                Real fg) {
  const Real mean = Math::set(summary.sum / count);
  const Real c_ff = ff - f * f * Math::set(1.0f / count);
  const Real c_fg = fg - f * mean;
  const Real constant = Math::set(summary.sum_squares - summary.sum * summary.sum / count);
  return Math::where_below(Math::set(0.0f), c_fg, constant - c_fg * c_fg / c_ff, constant);
}
