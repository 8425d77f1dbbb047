// SPDX-License-Identifier: MIT
// The whole of a run of driftfit: from the stack to the files, a block of frames at a time.
#pragma once

#include <functional>
#include <string>

#include "clients/driftfit/options.hpp"

namespace driftd::clients {

/// Runs what the options ask for; all results or none.
/// @param stop  asked between frames, true ends the run
/// @return a line or more of what was done
/// @throws InputError, OutputError, UsageError, Interrupted, fitter::FitterError
std::string analyse(const Options& options, const std::function<bool()>& stop);

}  // namespace driftd::clients
