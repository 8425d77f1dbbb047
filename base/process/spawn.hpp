// SPDX-License-Identifier: MIT
// A child process that inherits nothing of ours but the user, the umask, the limits and the CPUs:
// no descriptor, no priority, no signal mask; locked memory ends with an exec. It leads a session
// and a process group of its own, so that kill(-pid) ends what it starts, too. Any thread.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace driftd {

struct Spawn {
  std::vector<std::string> arguments;  ///< the program first: found in PATH unless it has a '/'
  /// "NAME=value", and nothing else; none: ours.
  std::optional<std::vector<std::string>> environment = {};
  std::string folder = {};  ///< to run in; empty: ours
  int input = -1;           ///< -1: /dev/null
  int output = -1;          ///< -1: ours
  int errors = -1;          ///< -1: ours
};

/// @returns 0, or the error number that says why it could not be started
int spawn(const Spawn& child, pid_t& pid);

/// Whether it has ended; it stays to be reaped, so that its number is not another's yet.
bool has_ended(pid_t pid);

/// Reaps a child that has ended. @returns "was ended by signal 9", "ended with exit status 3";
/// nothing where that is 0
std::optional<std::string> reap(pid_t pid);

}  // namespace driftd
