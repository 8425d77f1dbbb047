// SPDX-License-Identifier: MIT
// The whole of a run of driftfit: from the stack to the files, a block of frames at a time.
#pragma once

#include <functional>
#include <string>

#include "tools/driftfit/options.hpp"

namespace driftd::tools {

/// What is told of a run, in lines.
struct Outcome {
  std::string summary;       ///< what was done
  std::string warning;       ///< what the results lack; "": nothing
  bool done_before = false;  ///< the shard was there
};

/// Runs what the options ask for; all results or none.
/// @param stop  asked between frames, true ends the run
/// @throws InputError, camera::RecordingError, OutputError, UsageError, CoverageError, Interrupted,
/// fitter::FitterError
Outcome analyse(const Options& options, const std::function<bool()>& stop);

}  // namespace driftd::tools
