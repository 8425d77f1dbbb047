// SPDX-License-Identifier: MIT
// What can go wrong in driftfit, by exit code (docs/use/driftfit.md). Texts name the file, the
// place in it, what was found and what is allowed.
#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>

namespace driftd::tools {

/// Picks, a camera's map, or the description of a stack, that cannot be used; a stack is
/// camera::RecordingError.
struct InputError : std::runtime_error {
  using std::runtime_error::runtime_error;
  InputError(const std::filesystem::path& path, const std::string& what)
      : std::runtime_error(path.string() + ": " + what) {}
};

/// A result that cannot be written.
struct OutputError : std::runtime_error {
  using std::runtime_error::runtime_error;
  OutputError(const std::filesystem::path& path, const std::string& what)
      : std::runtime_error(path.string() + ": " + what) {}
};

/// Options that contradict one another or the stack.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Too few frames have a drift.
struct CoverageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// SIGINT or SIGTERM came.
struct Interrupted : std::runtime_error {
  Interrupted() : std::runtime_error("interrupted, nothing was written") {}
};

}  // namespace driftd::tools
