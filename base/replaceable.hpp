// SPDX-License-Identifier: MIT
// What a result may be written in place of. Pure, but for a look at the disk.
#pragma once

#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

namespace driftd {

/// Why a file is not to be put in a path's place, which may hold nothing or a file that is none of
/// the inputs: a clause for people, or "".
inline std::string why_not_replaced(const std::filesystem::path& path,
                                    const std::vector<std::filesystem::path>& inputs = {}) {
  std::error_code error;
  for (const std::filesystem::path& input : inputs) {
    if (std::filesystem::equivalent(path, input, error)) return "is an input";
  }
  const std::filesystem::file_status there = std::filesystem::status(path, error);
  if (!std::filesystem::exists(there) || std::filesystem::is_regular_file(there)) return {};
  if (std::filesystem::is_directory(there)) return "is a folder";
  return "is a device, pipe or socket, whose place a file would take";
}

}  // namespace driftd
