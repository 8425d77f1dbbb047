// SPDX-License-Identifier: MIT
// Writes or replaces a file as a whole: whoever opens it finds the old text, or none, or the new
// one, also after a power cut. Blocking; any thread.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

namespace driftd::clients {

/// @param model  a file that is there: a new file gets its owner and rights, and may be written by
///   its owner; so does a folder that is made for it. One that is replaced keeps its own
/// @param before  what the file is expected to hold, nothing: that it is not there; anything else
///   means that somebody writes there
/// @returns where the old text is kept: beside the file that a symbolic link leads to, named like
///   it with ".before-YYYY-MM-DDTHH-MM-SS", and "-2" where that exists; empty: there was none
/// @throws std::runtime_error saying why not; all is then as it was, and nothing lies beside it
std::filesystem::path replace_file(const std::filesystem::path& file,
                                   const std::filesystem::path& model,
                                   const std::optional<std::string>& before,
                                   const std::string& after);

/// Whether that may be done as far as can be told before: the file, where it is there, may be
/// written, and there is room for its text once more and for a new one of so many bytes.
/// @throws std::runtime_error saying why not. Nothing is left behind.
void check_replaceable(const std::filesystem::path& file, const std::filesystem::path& model,
                       std::size_t bytes);

}  // namespace driftd::clients
