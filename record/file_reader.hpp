// SPDX-License-Identifier: MIT
// Reads one file of a record, also one that is being written or whose writer was killed: as of its
// last flush, or of one while it is read. Columns that a file of an older version does not have
// keep the rows' defaults. One thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "record/file_writer.hpp"
#include "record/rows.hpp"

namespace driftd::record {

class FileReader {
 public:
  /// @throws RecordError
  explicit FileReader(std::filesystem::path path);
  ~FileReader();
  FileReader(FileReader&&) noexcept;
  FileReader& operator=(FileReader&&) = delete;

  const std::filesystem::path& path() const noexcept { return path_; }
  const Header& header() const noexcept { return header_; }
  /// How it ended; "" when it did not: it is being written, or its writer was killed.
  const std::string& end() const noexcept { return end_; }

  std::uint64_t frame_count() const;
  std::uint64_t localization_count() const;
  // @throws RecordError
  std::vector<FrameRow> frames(std::uint64_t first, std::uint64_t count) const;
  std::vector<LocalizationRow> localizations(std::uint64_t first, std::uint64_t count) const;
  std::vector<StageRow> stage() const;
  std::vector<ClockRow> clock() const;
  std::vector<CounterRow> counters() const;
  std::vector<Event> events() const;
  /// None in a file from before there was this table.
  std::vector<PatternRow> pattern() const;

 private:
  struct Handles;
  template <typename Read>
  auto steadily(Read read) const;
  void open() const;
  void read_header();
  std::uint64_t rows_of(const TableLayout& layout) const;
  void read(const TableLayout& layout, std::uint64_t first, std::uint64_t count, void* out) const;
  template <typename Row>
  std::vector<Row> read_all(const TableLayout& layout) const;

  std::filesystem::path path_;
  std::unique_ptr<Handles> handles_;
  Header header_;
  std::string end_;
};

}  // namespace driftd::record
