// SPDX-License-Identifier: MIT
// Writes raw frames as a TIFF file, a page each, in the order of their coming: 8 bits a pixel where
// the camera sent 8, else 16 with the camera's integer levels. Every page has lines `name=value`
// about its frame in its ImageDescription. All pages have one size and lie one behind the other,
// each with its directory behind its pixels, so that a file whose writer was killed has all pages
// but the last, and one that could not go on is closed whole. One thread; may wait for the disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "camera/frame.hpp"

namespace driftd::record {

class FramesTiff {
 public:
  static constexpr std::size_t kDescriptionBytes = 512;  ///< longer ones are cut

  /// Makes the file, which must not be there. @param like  what all frames are like
  /// @param most_frames  that it is to hold: beyond 4 GB it is a BigTIFF
  /// @throws RecordError
  FramesTiff(std::filesystem::path path, const camera::Frame& like, std::uint64_t most_frames);
  /// Closes it.
  ~FramesTiff();
  FramesTiff(const FramesTiff&) = delete;
  FramesTiff& operator=(const FramesTiff&) = delete;

  /// Whether it is of the size and depth that the file's frames have.
  bool takes(const camera::Frame& frame) const noexcept;
  /// @throws RecordError; what was written before stays
  void append(const camera::Frame& frame, std::string_view description);
  /// Makes the last page the last one. Without a page the file is removed. @throws RecordError
  void close();

  const std::filesystem::path& path() const noexcept { return path_; }
  std::uint64_t frames() const noexcept { return frames_; }
  std::int64_t page_bytes() const noexcept { return static_cast<std::int64_t>(page_.size()); }
  std::int64_t bytes() const noexcept;
  /// As lost_file().
  std::string lost() const;

 private:
  class Fields;
  void write(const std::byte* data, std::size_t bytes, std::int64_t at);
  void fill_directory(std::int64_t at, std::string_view description);
  [[noreturn]] void fail(const char* doing) const;

  std::filesystem::path path_;
  camera::Frame like_;
  bool wide_;                 ///< 16 bits a pixel
  bool big_;                  ///< BigTIFF
  std::size_t directory_at_;  ///< in a page
  std::vector<std::byte> page_;
  std::vector<std::uint16_t> pixels_;
  std::uint64_t frames_ = 0;
  int fd_ = -1;
  std::uint64_t device_ = 0, inode_ = 0;
};

}  // namespace driftd::record
