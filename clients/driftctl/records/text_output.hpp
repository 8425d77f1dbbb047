// SPDX-License-Identifier: MIT
// A text file that is complete or not there: written beside its name and given it at the end. One
// thread.
#pragma once

#include <cstdio>
#include <filesystem>
#include <string_view>
#include <vector>

namespace driftd::clients {

class TextOutput {
 public:
  /// @param inputs  whose place it never takes
  /// @throws std::runtime_error
  explicit TextOutput(std::filesystem::path path,
                      const std::vector<std::filesystem::path>& inputs = {});
  ~TextOutput();
  TextOutput(const TextOutput&) = delete;
  TextOutput& operator=(const TextOutput&) = delete;
  /// @throws std::runtime_error, for example when the disk is full
  void write(std::string_view text);
  /// @throws std::runtime_error
  void keep();

 private:
  [[noreturn]] void fail() const;

  std::filesystem::path path_, temporary_;
  std::FILE* file_ = nullptr;
};

}  // namespace driftd::clients
