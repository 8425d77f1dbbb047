// SPDX-License-Identifier: MIT
// A small file that is either its old or its new self, whatever happens meanwhile: the new one is
// written beside it, flushed, and renamed, and then the folder is flushed. It also says which
// daemon it belongs to. Each call may wait for the disk: never on the loop.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace driftd {

/// Replaces the file, whose folder is made where it is missing.
/// @throws std::exception with path and reason; the old file is then as it was
void write_state(const std::filesystem::path& file, const std::string& text);
/// Removes the file; nothing is wrong where there is none. @throws std::exception with path and
/// reason
void remove_state(const std::filesystem::path& file);
/// Reads the file; nothing where there is none. @throws std::exception with path and reason: it
/// cannot be read, or is larger than any that is written
std::optional<std::string> read_state(const std::filesystem::path& file);

/// Owns a file while it lives, as the only StateOwner of it among all processes of this computer. A
/// process that ends, however it does, gives the file back. Where no lock can be had (no such
/// folder, a file system without locks) the file is ours: what is wrong then shows when it is
/// written.
class StateOwner {
 public:
  /// Makes the folder and, beside the file, a file that names the owner's process; waits for the
  /// disk.
  explicit StateOwner(const std::filesystem::path& file);
  ~StateOwner();
  StateOwner(const StateOwner&) = delete;
  StateOwner& operator=(const StateOwner&) = delete;

  bool is_ours() const noexcept { return other_.empty(); }
  /// The other owner, "process 1234"; empty where it is ours.
  const std::string& other() const noexcept { return other_; }

 private:
  int descriptor_ = -1;
  std::string other_;
};

}  // namespace driftd
