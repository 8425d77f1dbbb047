// SPDX-License-Identifier: MIT
// Reads what the reference tests need: pages of a TIFF stack as 16 bit pixels, and a CSV with a
// header. Single threaded; throws on anything unexpected, which fails the test.
#pragma once

#include <tiffio.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace driftd::test {

struct Image {
  int width = 0, height = 0;
  std::vector<std::uint16_t> pixels;
};

inline std::vector<Image> read_tiff(const std::filesystem::path& path) {
  const std::unique_ptr<TIFF, decltype(&TIFFClose)> tiff(TIFFOpen(path.c_str(), "r"), &TIFFClose);
  if (!tiff) throw std::runtime_error("cannot open " + path.string());
  std::vector<Image> pages;
  do {
    std::uint32_t width = 0, height = 0;
    std::uint16_t bits = 0;
    TIFFGetField(tiff.get(), TIFFTAG_IMAGEWIDTH, &width);
    TIFFGetField(tiff.get(), TIFFTAG_IMAGELENGTH, &height);
    TIFFGetField(tiff.get(), TIFFTAG_BITSPERSAMPLE, &bits);
    if (bits != 8 && bits != 16) throw std::runtime_error("neither 8 nor 16 bits a pixel");
    Image image = {static_cast<int>(width), static_cast<int>(height), {}};
    std::vector<std::uint16_t> line(width);
    for (std::uint32_t row = 0; row < height; ++row) {
      if (TIFFReadScanline(tiff.get(), line.data(), row) != 1) throw std::runtime_error("no line");
      const auto* bytes = reinterpret_cast<const std::uint8_t*>(line.data());
      for (std::uint32_t x = 0; x < width; ++x)
        image.pixels.push_back(bits == 8 ? std::uint16_t{bytes[x]} : line[x]);
    }
    pages.push_back(std::move(image));
  } while (TIFFReadDirectory(tiff.get()) != 0);
  return pages;
}

/// Little-endian u16 frames one after another.
inline std::vector<Image> read_raw(const std::filesystem::path& path, int width, int height) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot open " + path.string());
  std::vector<Image> frames;
  const std::size_t count = static_cast<std::size_t>(width * height);
  std::vector<unsigned char> bytes(2 * count);
  while (
      file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(2 * count))) {
    Image image = {width, height, {}};
    for (std::size_t i = 0; i < count; ++i)
      image.pixels.push_back(static_cast<std::uint16_t>(bytes[2 * i] | bytes[2 * i + 1] << 8));
    frames.push_back(std::move(image));
  }
  return frames;
}

inline std::vector<std::uint16_t> cut(const Image& image, int x, int y, int side) {
  std::vector<std::uint16_t> roi;
  for (int row = y; row < y + side; ++row)
    for (int column = x; column < x + side; ++column)
      roi.push_back(image.pixels.at(static_cast<std::size_t>(row * image.width + column)));
  return roi;
}

using Row = std::map<std::string, std::string>;

inline std::vector<Row> read_csv(const std::filesystem::path& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("cannot open " + path.string());
  std::vector<std::string> names;
  std::vector<Row> rows;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream fields(line);
    Row row;
    std::size_t column = 0;
    for (std::string field; std::getline(fields, field, ','); ++column) {
      if (rows.empty() && row.empty() && names.size() == column)
        names.push_back(field);
      else
        row[names.at(column)] = field;
    }
    if (!row.empty()) rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace driftd::test
