// SPDX-License-Identifier: MIT
// The folder of records: how its files are called, how much room there is, and which old ones make
// room for new ones. Only files by these names are ever removed, the oldest first, and none that
// was written to within the last minute. The recorder's thread; may wait for the disk.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace driftd::daemon {

/// "driftd_20261123T094712.123Z": of all files of one recording that began then.
std::string series_name(std::int64_t wall_ns);
/// "SERIES_001.h5"
std::filesystem::path record_file(const std::filesystem::path& folder, const std::string& series,
                                  int part);
/// A name that series_name() and this program's endings make.
bool is_record_name(const std::string& name);

/// For users without privileges. @throws std::filesystem::filesystem_error
std::int64_t free_bytes(const std::filesystem::path& folder);

struct Retention {
  std::int64_t keep_bytes = 0;       ///< of all records together; 0: no bound
  std::int64_t keep_free_bytes = 0;  ///< of the file system
};
/// Removes old records until the bounds hold or none is left that may go; `current` stays.
/// @returns what was removed @throws std::filesystem::filesystem_error
std::vector<std::filesystem::path> remove_old_records(const std::filesystem::path& folder,
                                                      const Retention& retention,
                                                      const std::filesystem::path& current);

}  // namespace driftd::daemon
