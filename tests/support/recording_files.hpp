// SPDX-License-Identifier: MIT
// Recordings for tests, as files of every format in a folder that goes with the test.
#pragma once

#include <hdf5.h>
#include <tiffio.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "camera/recording/image_stack.hpp"

namespace driftd::test {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "driftd-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp");
    path_ = name;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  std::size_t files() const {
    const std::filesystem::directory_iterator all(path_);
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
  }

 private:
  std::filesystem::path path_;
};

inline void write_file(const std::filesystem::path& path, const std::string& bytes) {
  std::error_code error;
  std::filesystem::remove(path, error);  // ext4 waits for the disk when a file is overwritten
  std::ofstream(path, std::ios::binary) << bytes;
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Frames that count on: pixel i of all has the value i, modulo what the type holds.
template <class Pixel>
std::vector<Pixel> counting(int width, int height, int frames) {
  std::vector<Pixel> pixels(static_cast<std::size_t>(width * height * frames));
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<Pixel>(i % 250);
  return pixels;
}

/// All frames of a stack, read back to front to see that any order works.
template <class Pixel>
std::vector<Pixel> read_all(camera::ImageStack& stack) {
  const camera::StackShape& shape = stack.shape();
  std::vector<Pixel> pixels(shape.pixels() * static_cast<std::size_t>(shape.frames));
  for (std::int64_t frame = shape.frames - 1; frame >= 0; --frame) {
    stack.read(frame, 1,
               reinterpret_cast<std::byte*>(pixels.data()) +
                   static_cast<std::size_t>(frame) * shape.frame_bytes());
  }
  return pixels;
}

struct TiffStyle {
  const char* mode = "w";  ///< libtiff's: "wb" big-endian, "w8" BigTIFF
  int compression = COMPRESSION_NONE;
  bool tiled = false;
  const char* description = nullptr;  ///< of every page
};

template <class Pixel>
void write_tiff(const std::filesystem::path& path, const std::vector<Pixel>& pixels, int width,
                int height, const TiffStyle& style) {
  TIFF* tiff = TIFFOpen(path.c_str(), style.mode);
  const auto frame = static_cast<std::size_t>(width * height);
  for (std::size_t at = 0; at < pixels.size(); at += frame) {
    TIFFSetField(tiff, TIFFTAG_IMAGEWIDTH, width);
    TIFFSetField(tiff, TIFFTAG_IMAGELENGTH, height);
    TIFFSetField(tiff, TIFFTAG_BITSPERSAMPLE, static_cast<int>(8 * sizeof(Pixel)));
    TIFFSetField(tiff, TIFFTAG_SAMPLESPERPIXEL, 1);
    TIFFSetField(tiff, TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISBLACK);
    TIFFSetField(tiff, TIFFTAG_COMPRESSION, style.compression);
    TIFFSetField(tiff, TIFFTAG_SAMPLEFORMAT,
                 std::is_floating_point_v<Pixel> ? SAMPLEFORMAT_IEEEFP : SAMPLEFORMAT_UINT);
    if (style.description != nullptr) {
      TIFFSetField(tiff, TIFFTAG_IMAGEDESCRIPTION, style.description);
    }
    std::vector<Pixel> copy(pixels.begin() + static_cast<std::ptrdiff_t>(at),
                            pixels.begin() + static_cast<std::ptrdiff_t>(at + frame));
    if (style.tiled) {
      TIFFSetField(tiff, TIFFTAG_TILEWIDTH, 16);
      TIFFSetField(tiff, TIFFTAG_TILELENGTH, 16);
      for (int y = 0; y < height; y += 16) {
        for (int x = 0; x < width; x += 16) {
          std::vector<Pixel> tile(256, Pixel{});
          for (int v = 0; v < std::min(16, height - y); ++v) {
            for (int u = 0; u < std::min(16, width - x); ++u) {
              tile[static_cast<std::size_t>(v * 16 + u)] =
                  copy[static_cast<std::size_t>((y + v) * width + x + u)];
            }
          }
          TIFFWriteTile(tiff, tile.data(), static_cast<std::uint32_t>(x),
                        static_cast<std::uint32_t>(y), 0, 0);
        }
      }
    } else {
      TIFFSetField(tiff, TIFFTAG_ROWSPERSTRIP, 5);
      for (int row = 0; row < height; ++row) {
        TIFFWriteScanline(tiff, copy.data() + row * width, static_cast<std::uint32_t>(row), 0);
      }
    }
    TIFFWriteDirectory(tiff);
  }
  TIFFClose(tiff);
}

/// Creates or extends an HDF5 file by a dataset at the root.
template <class Pixel>
void write_hdf5(const std::filesystem::path& path, const std::string& name, hid_t type,
                const std::vector<hsize_t>& size, const std::vector<Pixel>& pixels) {
  const bool there = std::filesystem::exists(path);
  const hid_t file = there ? H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT)
                           : H5Fcreate(path.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t space = H5Screate_simple(static_cast<int>(size.size()), size.data(), nullptr);
  const hid_t links = H5Pcreate(H5P_LINK_CREATE);
  H5Pset_create_intermediate_group(links, 1);
  const hid_t set = H5Dcreate2(file, name.c_str(), type, space, links, H5P_DEFAULT, H5P_DEFAULT);
  hid_t memory = H5T_NATIVE_FLOAT;
  if (sizeof(Pixel) == 1) memory = H5T_NATIVE_UINT8;
  if (sizeof(Pixel) == 2) memory = H5T_NATIVE_UINT16;
  H5Dwrite(set, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, pixels.data());
  H5Dclose(set);
  H5Pclose(links);
  H5Sclose(space);
  H5Fclose(file);
}

}  // namespace driftd::test
