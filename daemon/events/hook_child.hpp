// SPDX-License-Identifier: MIT
// One run of the hook's program (hook.on_event): a child in a session of its own that inherits
// nothing of the daemon but its user, its umask and its limits: no descriptor, no environment, no
// priority, no signal mask; locked memory ends with an exec. Called by the hook's worker, which
// waits for the end.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

namespace driftd::daemon {

struct ChildRun {
  std::filesystem::path program;
  std::vector<std::string> environment;  ///< "NAME=value", and nothing else
  std::chrono::milliseconds time_limit{};
  std::function<void(const std::string&)> line;  ///< given what it prints, a line at a time
};

/// Runs the program and waits for its end. Beyond the time limit, or a second after `stop`, it is
/// asked to end (SIGTERM), and a second later it is killed; so is what it leaves running in its
/// session's process group. The first 50 lines of its output are told, 400 bytes of each.
/// @returns what went wrong, as the end of a sentence ("ended with exit status 3"); nothing where
/// it ended with 0
std::optional<std::string> run_child(const ChildRun& run, const std::stop_token& stop);

}  // namespace driftd::daemon
