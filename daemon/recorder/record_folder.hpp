// SPDX-License-Identifier: MIT
// The folder of records: how its files are called, how much room there is, and which old ones make
// room for new ones. Only files by these names are ever removed, the oldest first, and none that is
// in use or was written to within the last minute. Which is older the folder itself keeps, in a
// file: names and times of files are of a clock that may have been wrong. The threads that write;
// may wait for the disk.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace driftd::daemon {

/// "driftd_20261123T094712.123Z": of all files of one recording that began then.
std::string series_name(std::int64_t wall_ns);
/// Endings of files: of results frame by frame, and of raw frames.
inline constexpr const char* kRecord = ".h5";
inline constexpr const char* kRawFrames = ".tif";

/// "SERIES_001.h5"
std::filesystem::path record_file(const std::filesystem::path& folder, const std::string& series,
                                  int part, const char* kind = kRecord);
/// A name that record_file() makes.
bool is_record_name(const std::string& name, const char* kind = kRecord);

/// In a folder: the names of its records, the oldest first. What it does not name is older than all
/// that it names, and goes by the time in its name.
inline constexpr const char* kRecordOrder = ".order";
/// Notes that this file, which is there now, is the newest of its folder. Where that cannot be kept
/// it is logged, and the times in names count.
void record_begun(const std::filesystem::path& file) noexcept;

/// For users without privileges. @throws std::filesystem::filesystem_error
std::int64_t free_bytes(const std::filesystem::path& folder);

struct Retention {
  std::int64_t keep_bytes = 0;       ///< of all records together; 0: no bound
  std::int64_t keep_free_bytes = 0;  ///< of the file system
};
/// Removes old records until the bounds hold or none is left that may and can go; `current` stays.
/// Where all that may go do not make enough room on the disk, none goes for that.
/// @returns what was removed @throws std::filesystem::filesystem_error
std::vector<std::filesystem::path> remove_old_records(const std::filesystem::path& folder,
                                                      const Retention& retention,
                                                      const std::filesystem::path& current,
                                                      const char* kind = kRecord);

/// What the folder lacks for so many bytes more, as a sentence that names record.keep_free_mb; ""
/// where there is room. @throws std::filesystem::filesystem_error
std::string lacking_room(const std::filesystem::path& folder, const Retention& retention,
                         std::int64_t bytes);

}  // namespace driftd::daemon
