// SPDX-License-Identifier: MIT
// A live fitter that goes on with another back end when its own fails.
#pragma once

#include <memory>

#include "fitter/fitter.hpp"

namespace driftd::fitter {

/// Fits by `primary` until that fails, then, from the very call that failed on, by `twin`: no frame
/// is lost. error() then says why, and description() is the twin's. Staging is the primary's
/// always.
/// @throws FitterError where the two differ in ROI side or capacity
std::unique_ptr<LiveFitter> make_failover_live_fitter(std::unique_ptr<LiveFitter> primary,
                                                      std::unique_ptr<LiveFitter> twin);

}  // namespace driftd::fitter
