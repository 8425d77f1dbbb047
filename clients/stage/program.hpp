// SPDX-License-Identifier: MIT
// driftd-stage from its configuration to its end: the threads that move the stages, and on the main
// thread reports to the daemon, signals, systemd and the log.
#pragma once

#include <memory>
#include <vector>

#include "clients/stage/config.hpp"
#include "clients/stage/interface/stage.hpp"

namespace driftd::stage {

enum ExitCode : int {
  Clean = 0,
  Internal = 1,
  Configuration = 2,
  NoController = 3,
  RealTime = 4,
};

/// The controllers of the axes in use, as one stage.
/// @throws std::invalid_argument what the driver cannot use
std::unique_ptr<Stage> make_stage(const Config& config);

/// What is driven by itself.
struct PartOfStage {
  Config config;
  std::unique_ptr<Stage> stage;
};
/// @throws as make_stage()
std::vector<PartOfStage> make_parts(const Config& config);

/// Runs until SIGTERM or SIGINT, which must be blocked, and SIGUSR1 with them.
ExitCode run(const Config& config, std::vector<PartOfStage> parts);

}  // namespace driftd::stage
