// SPDX-License-Identifier: MIT
// A result file. It has a temporary name in its folder until all results of the run are complete.
// If the run fails before that, the temporary file is removed and an older result stays. One
// thread.
#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string_view>

namespace driftd::tools {

class OutputFile {
 public:
  /// @throws OutputError without such a folder
  explicit OutputFile(std::filesystem::path path);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  /// Removes the temporary file unless keep() was called.
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
  /// Writes what is buffered and checks that it was written. @throws OutputError
  void finish();

 private:
  struct Closer {
    void operator()(std::FILE* file) const noexcept { static_cast<void>(std::fclose(file)); }
  };
  [[noreturn]] void fail() const;

  const OutputFile* output_;
  std::unique_ptr<std::FILE, Closer> file_;
};

}  // namespace driftd::tools
