// SPDX-License-Identifier: MIT
// Writes one file of a record: HDF5, a table for each kind of row, units as attributes. What has
// been flushed survives the end of the process by any signal. Room is asked of the file system
// before anything is written, so that a full disk ends a record with a whole file. One thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "record/rows.hpp"

namespace driftd::record {

/// Why a record cannot be written or read: a sentence that names the file.
struct RecordError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// What a file says of itself.
struct Header {
  std::string driftd_version, session, camera, configuration;
  double pixel_size_nm = 0;
  std::string series;  ///< of all files of one recording
  int part = 1;        ///< of the series
  std::string why;     ///< it was begun: `command`, `lock`
};

/// Rows that come at once, about one append's worth: the size of a chunk.
struct ChunkRows {
  std::size_t frames = 250, localizations = 250;
};

/// Whether a FileWriter of any process holds it, or a reader locks it; false where the file system
/// has no locks. May wait for the disk.
bool is_in_use(const std::filesystem::path& file) noexcept;

/// Why what is written to a file does not reach the name it should have any more (removed,
/// replaced, unmounted); "" while it does.
std::string lost_file(const std::filesystem::path& path, std::uint64_t device, std::uint64_t inode);

class FileWriter {
 public:
  /// Makes the file, which must not be there. @throws RecordError
  FileWriter(std::filesystem::path path, const Header& header, ChunkRows chunk);
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  // @throws RecordError; then the file is as of the last flush, and of no further use.
  void append(std::span<const FrameRow> rows);
  void append(std::span<const LocalizationRow> rows);
  void append(std::span<const StageRow> rows);
  void append(std::span<const ClockRow> rows);
  void append(std::span<const CounterRow> rows);
  void append(std::span<const Event> rows);
  void append(std::span<const PatternRow> rows);
  void flush();
  /// Writes how it ended. Afterwards the file is of no further use. @throws RecordError
  void close(const std::string& end);

  const std::filesystem::path& path() const noexcept { return path_; }
  std::int64_t bytes() const;
  /// As lost_file().
  std::string lost() const;

 private:
  struct Tables;
  void write(std::size_t table, const void* rows, std::size_t count);
  void make_room(std::size_t bytes);
  [[noreturn]] void fail(const char* doing);
  void abandon() noexcept;

  std::filesystem::path path_;
  std::unique_ptr<Tables> tables_;
  int fd_ = -1;  ///< HDF5's; -1: closed or given up
  std::uint64_t device_ = 0, inode_ = 0;
};

}  // namespace driftd::record
