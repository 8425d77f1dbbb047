// SPDX-License-Identifier: MIT
// A result under a temporary name in its own folder until all results are complete: whatever goes
// wrong before, no part of it is left and an older file stays as it was. One thread.
#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string_view>

namespace driftd::clients {

class OutputFile {
 public:
  /// @throws OutputError without such a folder
  explicit OutputFile(std::filesystem::path path);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  /// Removes what was not kept.
  ~OutputFile();

  const std::filesystem::path& path() const noexcept { return path_; }
  const std::filesystem::path& temporary() const noexcept { return temporary_; }
  /// Gives the temporary file its name. @throws OutputError
  void keep();

 private:
  std::filesystem::path path_, temporary_;
  bool kept_ = false;
};

/// Text written into the temporary file of an OutputFile, which must outlive it.
class TextFile {
 public:
  /// @throws OutputError when it cannot be made
  explicit TextFile(const OutputFile& output);
  /// @throws OutputError, for example when the disk is full
  void write(std::string_view text);
  /// Sees that everything has arrived. @throws OutputError
  void finish();

 private:
  struct Closer {
    void operator()(std::FILE* file) const noexcept { static_cast<void>(std::fclose(file)); }
  };
  [[noreturn]] void fail() const;

  const OutputFile* output_;
  std::unique_ptr<std::FILE, Closer> file_;
};

}  // namespace driftd::clients
