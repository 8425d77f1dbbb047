// SPDX-License-Identifier: MIT
#include "clients/web/watched_files.hpp"

#include <sys/stat.h>

#include <utility>

namespace driftd::web {

WatchedFiles::WatchedFiles(std::vector<std::filesystem::path> files)
    : files_(std::move(files)), taken_(marks()), seen_(taken_) {}

std::vector<WatchedFiles::Mark> WatchedFiles::marks() const {
  constexpr std::int64_t kSecond = 1'000'000'000;
  std::vector<Mark> all;
  for (const auto& file : files_) {
    struct stat about {};
    Mark& mark = all.emplace_back();
    if (stat(file.c_str(), &about) != 0) continue;  // another mark, too
    mark = {about.st_dev, about.st_ino, about.st_size,
            about.st_mtim.tv_sec * kSecond + about.st_mtim.tv_nsec,
            about.st_ctim.tv_sec * kSecond + about.st_ctim.tv_nsec};
  }
  return all;
}

bool WatchedFiles::changed() {
  std::vector<Mark> now = marks();
  const bool rested = now == seen_;
  seen_ = std::move(now);
  if (!rested || seen_ == taken_) return false;
  taken_ = seen_;
  return true;
}

}  // namespace driftd::web
