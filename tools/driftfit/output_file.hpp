// SPDX-License-Identifier: MIT
// A result file. It has a temporary name in its folder, .NAME.driftfit-XXXXXXXX, until all results
// of the run are complete. If the run fails before that, the temporary file is removed and an older
// result stays. What a killed run left under such a name is removed by the next one that writes
// NAME: it knows by a lock (of the open file, also over NFS) whether a process still writes it; on
// a file system without locks it stays. One thread.
#pragma once

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

namespace driftd::tools {

class OutputFile {
 public:
  /// Removes what killed runs left, and makes the temporary file, empty.
  /// @throws OutputError, for example without such a folder
  explicit OutputFile(std::filesystem::path path);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  /// Removes the temporary file unless keep() was called.
  ~OutputFile();

  const std::filesystem::path& path() const noexcept { return path_; }
  const std::filesystem::path& temporary() const noexcept { return temporary_; }
  /// Stores what was written and gives the temporary file its name. @throws OutputError
  void keep();

 private:
  void make_temporary(const std::filesystem::path& folder);

  std::filesystem::path path_, temporary_;
  int descriptor_ = -1;  ///< holds the lock
  bool kept_ = false;
};

/// Whether results of these paths replace each other. The files need not exist.
bool is_same_place(const std::filesystem::path& one, const std::filesystem::path& other);

/// Gives all files their names, that of the description last: where it is there, the others belong
/// to it and are whole. An older description goes first.
/// @param description  one of the files, or null
/// @throws OutputError
void keep_all(const std::vector<std::unique_ptr<OutputFile>>& files, OutputFile* description);

/// The temporary files in a folder that a process still writes, of results whose names begin so.
/// Those that a killed one left are removed.
std::vector<std::filesystem::path> still_written(const std::filesystem::path& begin_of_results);

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
