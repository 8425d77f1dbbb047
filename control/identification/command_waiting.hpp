// SPDX-License-Identifier: MIT
// Whether the stage answers each command, or its driver takes the newest one each so often and lets
// the others go: what a record of small moves shows of it. Any thread.
#pragma once

#include "control/identification/response_fit.hpp"

namespace driftd::control {

/// What of the response's width is commands' waiting.
struct SeenWaiting {
  double share = 0, share_sd = 0;  ///< 0: the stage is slow, 1: it is the driver
  /// From one command that is taken to the next, where the share is right.
  double period_s = 0;
};

/// By the scatter that a fit leaves. Where each command waits for a time of its own, of which the
/// response p(t) is the distribution, the place scatters by the variance of the commanded place
/// u(t - t'), t' distributed like p'(t'): (p' * u^2) - (p' * u)^2. A stage that is as slow leaves
/// nothing.
SeenWaiting see_waiting(const FitData& data, const ResponseFit& fit);

}  // namespace driftd::control
