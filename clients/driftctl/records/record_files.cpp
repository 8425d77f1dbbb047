// SPDX-License-Identifier: MIT
#include "clients/driftctl/records/record_files.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <utility>

namespace driftd::clients {
namespace {

constexpr std::uint64_t kBlock = 65'536;

}  // namespace

RecordFiles::RecordFiles(const std::vector<std::filesystem::path>& paths) {
  // Files are sorted by what they say of themselves: they may be renamed and lie in different
  // folders.
  std::map<std::pair<std::string, int>, record::FileReader> sorted;
  for (const auto& path : paths) {
    record::FileReader file(path);
    const std::pair key{file.header().series, file.header().part};
    const auto [place, is_new] = sorted.emplace(key, std::move(file));
    if (!is_new) {
      throw std::runtime_error(path.string() + " and " + place->second.path().string() +
                               " are the same part of a record: give one of them");
    }
  }
  for (auto& [key, file] : sorted) files_.push_back(std::move(file));
  for (const record::FileReader& file : files_) {
    if (file.header().session != header().session) {
      throw std::runtime_error(file.path().string() + " and " + files_.front().path().string() +
                               " are of different runs of driftd: export them one by one");
    }
  }
}

void RecordFiles::each_frames(
    const std::function<void(std::span<const record::FrameRow>)>& take) const {
  for (const record::FileReader& file : files_) {
    const std::uint64_t rows = file.frame_count();
    for (std::uint64_t first = 0; first < rows; first += kBlock)
      take(file.frames(first, std::min(kBlock, rows - first)));
  }
}

void RecordFiles::each_localizations(
    const std::function<void(std::span<const record::LocalizationRow>)>& take) const {
  for (const record::FileReader& file : files_) {
    const std::uint64_t rows = file.localization_count();
    for (std::uint64_t first = 0; first < rows; first += kBlock)
      take(file.localizations(first, std::min(kBlock, rows - first)));
  }
}

}  // namespace driftd::clients
