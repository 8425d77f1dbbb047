// SPDX-License-Identifier: MIT
// The files of one recording, read in their order and a block at a time. One thread.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "record/file_reader.hpp"

namespace driftd::clients {

class RecordFiles {
 public:
  /// @throws record::RecordError for a file that cannot be read, std::runtime_error for files of
  /// different runs of the daemon, or one that comes twice
  explicit RecordFiles(const std::vector<std::filesystem::path>& paths);

  const std::vector<record::FileReader>& files() const noexcept { return files_; }
  const record::Header& header() const noexcept { return files_.front().header(); }
  void each_frames(const std::function<void(std::span<const record::FrameRow>)>& take) const;
  void each_localizations(
      const std::function<void(std::span<const record::LocalizationRow>)>& take) const;
  std::vector<record::StageRow> stage() const { return all(&record::FileReader::stage); }
  std::vector<record::ClockRow> clock() const { return all(&record::FileReader::clock); }
  std::vector<record::CounterRow> counters() const { return all(&record::FileReader::counters); }
  std::vector<record::Event> events() const { return all(&record::FileReader::events); }
  std::vector<record::PatternRow> pattern() const { return all(&record::FileReader::pattern); }
  /// Why the last of them ended; "" when it did not.
  const std::string& end() const noexcept { return files_.back().end(); }

 private:
  template <typename Row>
  std::vector<Row> all(std::vector<Row> (record::FileReader::*read)() const) const {
    std::vector<Row> rows;
    for (const record::FileReader& file : files_) {
      const std::vector<Row> some = (file.*read)();
      rows.insert(rows.end(), some.begin(), some.end());
    }
    return rows;
  }
  std::vector<record::FileReader> files_;
};

}  // namespace driftd::clients
