// SPDX-License-Identifier: MIT
// A directory of a TIFF file as its bytes stand there, for what libtiff does not tell: tags of
// programs whose count is not of what they hold, a second description, where the next directory is.
// Owned by one thread. Nothing throws: what is beyond the end of the file reads as 0, or is absent.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

namespace driftd::camera {

/// The file's numbers at any place.
class FileBytes {
 public:
  explicit FileBytes(const std::filesystem::path& path);
  bool big_endian() const noexcept { return big_endian_; }
  bool big_tiff() const noexcept { return big_tiff_; }
  std::uint64_t size() const noexcept { return size_; }
  /// @param bytes  1, 2, 4 or 8
  std::uint64_t number(std::uint64_t at, std::size_t bytes);
  /// As much of it as there is.
  std::string text(std::uint64_t at, std::uint64_t bytes);

 private:
  std::ifstream file_;
  std::uint64_t size_ = 0;
  bool big_endian_ = false, big_tiff_ = false;
};

struct TiffTag {
  std::uint16_t tag = 0, type = 0;
  std::uint64_t count = 0;
  std::uint64_t at = 0;     ///< where the values are
  std::uint64_t bytes = 0;  ///< of the values, by type and count; 0: a type that nobody knows
};

struct TiffDirectory {
  std::vector<TiffTag> tags;
  std::uint64_t next = 0;   ///< 0: the last
  std::uint64_t bytes = 0;  ///< of the directory and the values that are kept outside it

  const TiffTag* find(std::uint16_t tag) const noexcept;
};

/// @param at  where the directory begins
TiffDirectory read_directory(FileBytes& file, std::uint64_t at);
/// The texts of all tags of that number: programs write a second ImageDescription.
std::vector<std::string> texts_of(FileBytes& file, const TiffDirectory& directory,
                                  std::uint16_t tag);

}  // namespace driftd::camera
