// SPDX-License-Identifier: MIT
// Small recordings of known pixels, and settings that replay them.
#pragma once

#include <tiffio.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "camera/sources.hpp"
#include "support/catch.hpp"
#include "support/default_settings.hpp"

namespace driftd::camera::test {

inline constexpr int kWidth = 20;
inline constexpr int kHeight = 12;

class TempFile {
 public:
  explicit TempFile(const std::string& name)
      : path_(std::filesystem::temp_directory_path() /
              ("driftd_replay_" + std::to_string(getpid()) + "_" + name)) {}
  ~TempFile() { std::filesystem::remove(path_); }
  TempFile(const TempFile&) = delete;
  TempFile& operator=(const TempFile&) = delete;
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline std::uint16_t level(int frame, int x, int y, int bits) {
  return static_cast<std::uint16_t>((frame * 1000 + y * 37 + x * 5) & ((1 << bits) - 1));
}

struct TiffOptions {
  const char* mode = "w";  ///< "wb" big-endian, "wl" little-endian
  int bits = 16;
  int frames = 5;
  std::uint16_t compression = COMPRESSION_NONE;
  std::uint32_t rows_per_strip = 5;  ///< does not divide the height
  bool tiled = false;
  std::string description = {};
  int differing_page = -1;
};

inline void set_page_tags(TIFF* tiff, const TiffOptions& options, int frame) {
  const bool differs = frame == options.differing_page;
  TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, kWidth + (differs ? 1 : 0));
  TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, kHeight);
  TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, options.bits);
  TIFFSetField(tiff, TIFFTAG_SAMPLESPERPIXEL, 1);
  TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISBLACK);
  TIFFSetField(tiff, TIFFTAG_COMPRESSION, options.compression);
  if (!options.description.empty()) {
    TIFFSetField(tiff, TIFFTAG_IMAGEDESCRIPTION, options.description.c_str());
  }
  if (options.tiled) {
    TIFFSetField(tiff, TIFFTAG_TILEWIDTH, 16);
    TIFFSetField(tiff, TIFFTAG_TILELENGTH, 16);
  } else {
    TIFFSetField(tiff, TIFFTAG_ROWSPERSTRIP, options.rows_per_strip);
  }
}

inline void put(std::vector<unsigned char>& row, int x, int bits, std::uint16_t value) {
  const auto i = static_cast<std::size_t>(x);
  if (bits == 8) {
    row[i] = static_cast<unsigned char>(value);
  } else {
    row[2 * i] = static_cast<unsigned char>(value & 0xFF);
    row[2 * i + 1] = static_cast<unsigned char>(value >> 8);
  }
}

inline void write_tiff(const std::filesystem::path& path, const TiffOptions& options) {
  TIFF* tiff = TIFFOpen(path.c_str(), options.mode);
  REQUIRE(tiff != nullptr);
  for (int frame = 0; frame < options.frames; ++frame) {
    set_page_tags(tiff, options, frame);
    if (options.tiled) {
      for (int x0 = 0; x0 < kWidth; x0 += 16) {
        std::vector<unsigned char> tile(16 * 16 * 2);
        for (int y = 0; y < kHeight; ++y) {
          for (int x = x0; x < std::min(x0 + 16, kWidth); ++x) {
            put(tile, y * 16 + x - x0, options.bits, level(frame, x, y, options.bits));
          }
        }
        TIFFWriteTile(tiff, tile.data(), static_cast<std::uint32_t>(x0), 0, 0, 0);
      }
    } else {
      for (int y = 0; y < kHeight; ++y) {
        std::vector<unsigned char> row((kWidth + 1) * 2);
        for (int x = 0; x < kWidth; ++x)
          put(row, x, options.bits, level(frame, x, y, options.bits));
        TIFFWriteScanline(tiff, row.data(), static_cast<std::uint32_t>(y), 0);
      }
    }
    TIFFWriteDirectory(tiff);
  }
  TIFFClose(tiff);
}

inline bool holds_frame(const Frame& frame, int number, int bits) {
  if (frame.width_px != kWidth || frame.height_px != kHeight) return false;
  if (frame.format != (bits == 8 ? PixelFormat::Mono8 : PixelFormat::Mono16)) return false;
  std::vector<std::uint16_t> pixels(kWidth * kHeight);
  unpack(frame, pixels.data());
  for (int y = 0; y < kHeight; ++y) {
    for (int x = 0; x < kWidth; ++x) {
      if (pixels[static_cast<std::size_t>(y * kWidth + x)] != level(number, x, y, bits)) {
        return false;
      }
    }
  }
  return true;
}

inline ReplaySettings fast(const std::filesystem::path& path) {
  ReplaySettings settings = driftd::test::default_replay_settings();
  settings.path = path;
  settings.pace = ReplayPace::Fast;
  return settings;
}

inline ReplaySettings fast_raw(const std::filesystem::path& path, ReplayFormat format) {
  ReplaySettings settings = fast(path);
  settings.format = format;
  settings.width_px = kWidth;
  settings.height_px = kHeight;
  return settings;
}

inline void write_raw(const std::filesystem::path& path, int bits, int frames,
                      std::size_t cut_bytes = 0) {
  std::vector<unsigned char> bytes;
  for (int frame = 0; frame < frames; ++frame) {
    std::vector<unsigned char> pixels(static_cast<std::size_t>(kWidth * kHeight * bits / 8));
    for (int i = 0; i < kWidth * kHeight; ++i) {
      put(pixels, i, bits, level(frame, i % kWidth, i / kWidth, bits));
    }
    bytes.insert(bytes.end(), pixels.begin(), pixels.end());
  }
  bytes.resize(bytes.size() - cut_bytes);
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

inline std::string error_of(const ReplaySettings& settings) {
  try {
    make_replay_source(settings);
  } catch (const CameraError& error) {
    return error.what();
  }
  return "no error";
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace driftd::camera::test
