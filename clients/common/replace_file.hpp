// SPDX-License-Identifier: MIT
// Replaces a file as a whole: whoever opens it finds the old text or the new one, also after a
// power cut. Blocking; any thread.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace driftd::clients {

/// @param before  what the file is expected to hold; anything else means that somebody writes there
/// @returns where the old text is kept: beside the file that a symbolic link leads to, named like
///   it with ".before-YYYY-MM-DDTHH-MM-SS", and "-2" where that exists
/// @throws std::runtime_error saying why not; the file is then as it was, and nothing lies beside
/// it
std::filesystem::path replace_file(const std::filesystem::path& file, const std::string& before,
                                   const std::string& after);

/// Whether that may be done as far as can be told before: the file is there and may be written, and
/// there is room beside it for two more of its size, one of them larger by `more` bytes.
/// @throws std::runtime_error saying why not. Nothing is left beside the file.
void check_replaceable(const std::filesystem::path& file, std::size_t more);

}  // namespace driftd::clients
