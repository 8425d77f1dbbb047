// SPDX-License-Identifier: MIT
#include "daemon/recorder/record_folder.hpp"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "base/state_file.hpp"
#include "record/file_writer.hpp"

namespace driftd::daemon {
namespace {

namespace fs = std::filesystem;

/// Perhaps another computer's, whose lock does not show here.
constexpr std::chrono::seconds kStillWritten{60};

struct Old {
  fs::path path;
  std::int64_t bytes;
  bool may_go;
  std::size_t place = 0;  ///< in the folder's order; 0: it is not named there
};

/// Orders by the folder's order, then by time and part: `_1000` comes after `_999`.
bool is_older(const Old& a, const Old& b) {
  const auto key = [](const Old& old) {
    const std::string name = old.path.filename().string();
    const std::size_t bar = name.rfind('_');
    return std::tuple{old.place, name.substr(0, bar), std::stoi(name.substr(bar + 1))};
  };
  return key(a) < key(b);
}

/// Empty where none is kept, or it cannot be read.
std::vector<std::string> names_in_order(const fs::path& folder) {
  std::vector<std::string> names;
  try {
    std::istringstream in(read_state(folder / kRecordOrder).value_or(""));
    for (std::string name; std::getline(in, name);) names.push_back(name);
  } catch (const fs::filesystem_error&) {  // a folder, one of another user, far too long
  }
  return names;
}

/// Against other daemons with the same folder, where its file system can lock one. Whoever may read
/// the folder can hold its lock: it is waited for for half a second.
class FolderLock {
 public:
  explicit FolderLock(const fs::path& folder)
      : descriptor_(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    constexpr int kTries = 50;
    for (int i = 0; descriptor_ >= 0 && i < kTries; ++i) {
      if (flock(descriptor_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  ~FolderLock() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_;
};

/// Whoever may write there may have put a link, or what an ended daemon left, in place of the new
/// one. @throws fs::filesystem_error
void replace_file(const fs::path& file, const std::string& text) {
  const fs::path fresh = file.string() + ".new";
  unlink(fresh.c_str());
  std::FILE* const out = std::fopen(fresh.c_str(), "wxe");  // x: never through a link
  const bool written = out != nullptr && std::fputs(text.c_str(), out) >= 0;
  const bool closed = out == nullptr || std::fclose(out) == 0;
  if (written && closed && std::rename(fresh.c_str(), file.c_str()) == 0) return;
  const std::error_code error(errno, std::generic_category());
  if (out != nullptr) unlink(fresh.c_str());
  throw fs::filesystem_error("cannot write", file, error);
}

/// The oldest first.
std::vector<Old> records_in(const fs::path& folder, const fs::path& current, const char* kind) {
  std::map<std::string, std::size_t> places;
  for (const std::string& name : names_in_order(folder)) places.emplace(name, places.size() + 1);
  std::vector<Old> records;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!is_record_name(name, kind)) continue;
    std::error_code error;
    if (!fs::is_regular_file(entry.symlink_status(error))) continue;
    const auto bytes = static_cast<std::int64_t>(entry.file_size(error));
    if (error) continue;  // gone meanwhile
    const auto written = entry.last_write_time(error);
    // Later than now: the clock was ahead when it was written, or was set back since.
    const bool rests =
        !error && std::chrono::abs(fs::file_time_type::clock::now() - written) > kStillWritten;
    const auto place = places.find(name);
    records.push_back({.path = entry.path(),
                       .bytes = bytes,
                       .may_go = rests && entry.path() != current,
                       .place = place == places.end() ? 0 : place->second});
  }
  std::ranges::sort(records, is_older);
  return records;
}

/// Whether they make so much room when all go that may.
bool suffice(const std::vector<Old>& records, std::int64_t bytes) {
  for (const Old& old : records) {
    if (bytes <= 0) break;
    if (old.may_go && !record::is_in_use(old.path)) bytes -= old.bytes;
  }
  return bytes <= 0;
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

fs::path record_file(const fs::path& folder, const std::string& series, int part,
                     const char* kind) {
  return folder / fmt::format("{}_{:03}{}", series, part, kind);
}

bool is_record_name(const std::string& name, const char* kind) {
  static const std::regex pattern(R"(driftd_\d{8}T\d{6}\.\d{3}Z_\d{3,9}(\.h5|\.tif))");
  return std::regex_match(name, pattern) && name.ends_with(kind);
}

void record_begun(const fs::path& file) noexcept try {
  const fs::path folder = file.parent_path(), order = folder / kRecordOrder;
  try {
    const FolderLock lock(folder);
    std::set<std::string> there;  // asked at once: a folder far away may hold thousands
    for (const fs::directory_entry& entry : fs::directory_iterator(folder))
      there.insert(entry.path().filename().string());
    const std::string own = file.filename().string();
    std::string text;
    for (const std::string& name : names_in_order(folder))
      if (name != own && is_record_name(name, "") && there.contains(name)) text += name + "\n";
    replace_file(order, text + own + "\n");
  } catch (const std::exception& error) {
    unlink(order.c_str());  // it does not name the newest: then the times in names count
    spdlog::warn("the order of records is not kept: {}", error.what());
  }
} catch (...) {  // no memory: the record goes on
}

std::int64_t free_bytes(const fs::path& folder) {
  return static_cast<std::int64_t>(fs::space(folder).available);
}

std::vector<fs::path> remove_old_records(const fs::path& folder, const Retention& retention,
                                         const fs::path& current, const char* kind) {
  std::vector<fs::path> removed;
  const std::vector<Old> records = records_in(folder, current, kind);
  std::int64_t all = 0;
  for (const Old& old : records) all += old.bytes;
  const bool helps = suffice(records, retention.keep_free_bytes - free_bytes(folder));
  for (const Old& old : records) {
    const bool too_many = retention.keep_bytes > 0 && all > retention.keep_bytes;
    if (!too_many && (!helps || free_bytes(folder) >= retention.keep_free_bytes)) break;
    if (!old.may_go || record::is_in_use(old.path)) continue;
    std::error_code error;  // one that cannot be removed stays, and the next one goes
    if (!fs::remove(old.path, error)) continue;
    all -= old.bytes;
    removed.push_back(old.path);
  }
  return removed;
}

std::string lacking_room(const fs::path& folder, const Retention& retention, std::int64_t bytes) {
  const auto megabytes = [](std::int64_t count) {
    return fmt::format("{:.0f} MB", static_cast<double>(count) * 1e-6);
  };
  const std::int64_t room = free_bytes(folder);
  if (room - bytes >= retention.keep_free_bytes) return {};
  return fmt::format("{} has {} left, {}and record.keep_free_mb keeps {}", folder.string(),
                     megabytes(room), bytes > 0 ? megabytes(bytes) + " are needed " : "",
                     megabytes(retention.keep_free_bytes));
}

}  // namespace driftd::daemon
