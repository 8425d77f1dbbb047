// SPDX-License-Identifier: MIT
// TIFF files byte by byte after the TIFF 6.0 specification, without libtiff, which the reader uses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace driftd::test {

/// How a file of 16-bit pages is laid out.
struct TiffLayout {
  bool big_endian = false;
  /// As ImageJ writes: the first directory, all pixels, the other directories. Otherwise each
  /// directory stands behind its page's pixels.
  bool directories_last = false;
};

class TiffBytes {
 public:
  TiffBytes(int width, int height, TiffLayout layout)
      : width_(width), height_(height), layout_(layout) {
    bytes_ = layout.big_endian ? std::string("MM\0*", 4) : std::string("II*\0", 4);
    link_ = bytes_.size();
    put(0, 4);
  }

  /// @param description  of the first page; "": none
  std::string write(const std::vector<std::uint16_t>& pixels, const std::string& description) {
    const auto page = static_cast<std::size_t>(width_ * height_);
    const std::size_t pages = pixels.size() / page;
    if (layout_.directories_last) {
      // The first directory has 10 or 11 entries of 12 bytes, a count and a link.
      const std::size_t directory = 6 + 12 * (description.empty() ? 10U : 11U);
      const std::size_t first = bytes_.size() + directory + description.size() + 1;
      add_directory(first, description);
      bytes_.resize(first, '\0');
      for (const std::uint16_t pixel : pixels) put(pixel, 2);
      for (std::size_t i = 1; i < pages; ++i) add_directory(first + i * page * 2, "");
      return bytes_;
    }
    for (std::size_t i = 0; i < pages; ++i) {
      const std::size_t at = bytes_.size();
      for (std::size_t p = 0; p < page; ++p) put(pixels[i * page + p], 2);
      add_directory(at, i == 0 ? description : "");
    }
    return bytes_;
  }

 private:
  void put(std::uint64_t value, int count) {
    for (int i = 0; i < count; ++i) {
      const int byte = layout_.big_endian ? count - 1 - i : i;
      bytes_ += static_cast<char>(value >> (8 * byte) & 255);
    }
  }
  void patch(std::size_t at, std::uint64_t value) {
    const std::string rest = std::exchange(bytes_, bytes_.substr(0, at));
    put(value, 4);
    bytes_ += rest.substr(at + 4);
  }
  void entry(unsigned tag, unsigned type, std::uint64_t count, std::uint64_t value) {
    put(tag, 2);
    put(type, 2);
    put(count, 4);
    const int size = type == 3 ? 2 : 4;
    put(value, size);
    put(0, 4 - size);
  }
  void add_directory(std::size_t pixels_at, const std::string& description) {
    constexpr unsigned kShort = 3, kLong = 4, kAscii = 2;
    patch(link_, bytes_.size());
    const unsigned entries = description.empty() ? 10 : 11;
    const std::size_t text_at = bytes_.size() + 6 + 12 * entries;
    put(entries, 2);
    entry(256, kLong, 1, static_cast<std::uint64_t>(width_));
    entry(257, kLong, 1, static_cast<std::uint64_t>(height_));
    entry(258, kShort, 1, 16);
    entry(259, kShort, 1, 1);
    entry(262, kShort, 1, 1);
    if (!description.empty()) entry(270, kAscii, description.size() + 1, text_at);
    entry(273, kLong, 1, pixels_at);
    entry(277, kShort, 1, 1);
    entry(278, kLong, 1, static_cast<std::uint64_t>(height_));
    entry(279, kLong, 1, static_cast<std::uint64_t>(width_ * height_ * 2));
    entry(339, kShort, 1, 1);
    link_ = bytes_.size();
    put(0, 4);
    if (!description.empty()) bytes_ += description + '\0';
  }

  int width_, height_;
  TiffLayout layout_;
  std::string bytes_;
  std::size_t link_ = 0;
};

inline std::string tiff_bytes(const std::vector<std::uint16_t>& pixels, int width, int height,
                              const std::string& description, TiffLayout layout = {}) {
  return TiffBytes(width, height, layout).write(pixels, description);
}

}  // namespace driftd::test
