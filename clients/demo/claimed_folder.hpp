// SPDX-License-Identifier: MIT
// A folder that one demo writes into at a time: it is made where it is missing, and claimed for as
// long as this lives, also where the process is killed. Any thread.
#pragma once

#include <filesystem>

namespace driftd::clients {

class ClaimedFolder {
 public:
  /// @throws std::runtime_error where another demo has it
  /// @throws std::filesystem::filesystem_error where it cannot be made
  explicit ClaimedFolder(const std::filesystem::path& folder);
  ~ClaimedFolder();
  ClaimedFolder(const ClaimedFolder&) = delete;
  ClaimedFolder& operator=(const ClaimedFolder&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace driftd::clients
