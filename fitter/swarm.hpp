// SPDX-License-Identifier: MIT
// Particle swarm fits (PSFIT): a search over the whole ROI that needs no start value, whose best
// place the Levenberg-Marquardt fit then starts from. A swarm sees the Gaussian at the pixels'
// centres, also where the fit integrates. These run on the CPU; CudaBatchFitter::search() runs them
// on a GPU.
#pragma once

#include <cstdint>
#include <span>

#include "fitter/fitter.hpp"

namespace driftd::fitter {

/// What the swarm does; everything else is the fit's (FitOptions). The pulls and the inertia are
/// those of Clerc & Kennedy 2002, with which a swarm contracts; the paper's 0.9, 2 and 2 need its
/// velocity limit to do so.
struct SwarmOptions {
  int particles = 256;  ///< whole multiples of 16, 16 to 1024
  int iterations = 30;  ///< all are made: 1 to 1000
  float inertia = 0.7298f;
  float own_pull = 1.4962f;    ///< towards the particle's best place
  float swarm_pull = 1.4962f;  ///< towards the swarm's best place
  float max_velocity = 0.5f;   ///< in an iteration, of the domain's extent
  int spread_of_last = 10;     ///< best places that the spread is taken over: 2 to 32
  std::uint64_t seed = 0;      ///< the same seed and ROI number give the same search
  /// Number of the batch's first ROI: blocks that count on give what one batch of all gives.
  std::uint64_t first_roi = 0;
};

/// What the swarm found, before the fit improved it. The spread is the paper's uncertainty: the
/// standard deviation of the last best places, which says how far the swarm has contracted.
struct SwarmReport {
  Start best;
  Start spread;
  float chi_square;  ///< sum of squared residuals there, adu^2; NaN for unusable pixels
};

/// Every check of fit_swarm_cpu() that is not of the fit. @throws FitterError
void check_swarm(const Batch& batch, const SwarmOptions& swarm,
                 std::span<const SwarmReport> reports = {});

/// As fit_batch_cpu(), with each fit starting from its swarm's best place. The domain of the search
/// is the ROI and the widths that a spot may have in it, within the bounds of the options and of
/// the batch. The swarm sees all pixels, whatever a map of variances says of them. A fit that ends
/// as no spot is tried again from the ROI's peak, as any other fit is.
/// @param batch    with no start values
/// @param reports  one for each ROI, or empty
/// @throws FitterError
void fit_swarm_cpu(const Batch& batch, const FitOptions& options, const SwarmOptions& swarm,
                   std::span<Localization> results, std::span<SwarmReport> reports = {},
                   int threads = 1);

}  // namespace driftd::fitter
