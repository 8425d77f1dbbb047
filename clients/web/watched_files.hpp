// SPDX-License-Identifier: MIT
// Files that are taken anew when they were replaced or written: told once they have rested. One
// thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <vector>

namespace driftd::web {

class WatchedFiles {
 public:
  explicit WatchedFiles(std::vector<std::filesystem::path> files);

  /// Since the last time that this was true, and not since the last look: somebody may be writing
  /// them. About once a second.
  bool changed();

 private:
  struct Mark {
    dev_t device = 0;
    ino_t file = 0;
    off_t size = 0;
    std::int64_t written_ns = 0, changed_ns = 0;
    bool operator==(const Mark&) const = default;
  };
  std::vector<Mark> marks() const;

  std::vector<std::filesystem::path> files_;
  std::vector<Mark> taken_, seen_;
};

}  // namespace driftd::web
