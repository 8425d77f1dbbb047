// SPDX-License-Identifier: MIT
// What holds for every recording that is opened, and a place for its file.
#pragma once

#include <filesystem>

#include "camera/recording/image_stack.hpp"
#include "fuzz/fuzz.hpp"

namespace driftd::fuzz {

/// A file in a folder of its own, which goes with the process.
class FolderFile {
 public:
  explicit FolderFile(const std::string& name);
  ~FolderFile();
  FolderFile(const FolderFile&) = delete;
  FolderFile& operator=(const FolderFile&) = delete;
  void hold(Bytes bytes) const;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path folder_, path_;
};

/// Opens a recording by each way of choosing its frames; those that open are read.
void check_recording(const std::filesystem::path& path, camera::StackFormat format);

}  // namespace driftd::fuzz
