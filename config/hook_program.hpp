// SPDX-License-Identifier: MIT
// Whether the program of `hook.on_event` may be run, by one rule for the daemon and the doctor.
// Reads the file system; any thread.
#pragma once

#include <filesystem>
#include <string>

namespace driftd::config {

/// Why it would not be run, as a sentence; "" where nothing speaks against it, or there is none.
/// What the daemon's user may not reach or run shows only when it is.
std::string hook_problem(const std::filesystem::path& program);

}  // namespace driftd::config
