// SPDX-License-Identifier: MIT
#include "daemon/recorder/record_folder.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <regex>

namespace driftd::daemon {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kStillWritten{60};  // perhaps another daemon's

struct Old {
  fs::path path;
  std::int64_t bytes;
  bool may_go;
};

/// The oldest first: names begin with the time.
std::vector<Old> records_in(const fs::path& folder, const fs::path& current) {
  std::vector<Old> records;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (!is_record_name(entry.path().filename().string())) continue;
    std::error_code error;
    if (!fs::is_regular_file(entry.symlink_status(error))) continue;
    const auto bytes = static_cast<std::int64_t>(entry.file_size(error));
    if (error) continue;  // gone meanwhile
    const auto written = entry.last_write_time(error);
    const bool rests = !error && fs::file_time_type::clock::now() - written > kStillWritten;
    records.push_back({entry.path(), bytes, rests && entry.path() != current});
  }
  std::ranges::sort(records, {}, &Old::path);
  return records;
}

}  // namespace

std::string series_name(std::int64_t wall_ns) {
  const auto seconds = static_cast<std::time_t>(wall_ns / 1'000'000'000);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  return fmt::format("driftd_{:04}{:02}{:02}T{:02}{:02}{:02}.{:03}Z", utc.tm_year + 1900,
                     utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
                     wall_ns / 1'000'000 % 1000);
}

fs::path record_file(const fs::path& folder, const std::string& series, int part) {
  return folder / fmt::format("{}_{:03}.h5", series, part);
}

bool is_record_name(const std::string& name) {
  static const std::regex pattern(R"(driftd_\d{8}T\d{6}\.\d{3}Z_\d{3,}\.(h5|tif|csv))");
  return std::regex_match(name, pattern);
}

std::int64_t free_bytes(const fs::path& folder) {
  return static_cast<std::int64_t>(fs::space(folder).available);
}

std::vector<fs::path> remove_old_records(const fs::path& folder, const Retention& retention,
                                         const fs::path& current) {
  std::vector<fs::path> removed;
  const std::vector<Old> records = records_in(folder, current);
  std::int64_t all = 0;
  for (const Old& old : records) all += old.bytes;
  for (const Old& old : records) {
    const bool too_many = retention.keep_bytes > 0 && all > retention.keep_bytes;
    if (!too_many && free_bytes(folder) >= retention.keep_free_bytes) break;
    if (!old.may_go || !fs::remove(old.path)) continue;
    all -= old.bytes;
    removed.push_back(old.path);
  }
  return removed;
}

}  // namespace driftd::daemon
