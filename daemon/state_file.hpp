// SPDX-License-Identifier: MIT
// A small file that is either its old or its new self, whatever happens meanwhile: written beside,
// flushed, renamed, and the folder flushed. Each call may wait for the disk: never on the loop.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace driftd::daemon {

/// Replaces the file, whose folder is made where it is missing.
/// @throws std::exception with path and reason; the old file is then as it was
void write_state(const std::filesystem::path& file, const std::string& text);
/// One that is not there is fine. @throws std::exception with path and reason
void remove_state(const std::filesystem::path& file);
/// Nothing where there is none. @throws std::exception with path and reason: it cannot be read, or
/// is larger than any that is written
std::optional<std::string> read_state(const std::filesystem::path& file);

}  // namespace driftd::daemon
