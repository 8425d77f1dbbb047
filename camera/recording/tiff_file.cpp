// SPDX-License-Identifier: MIT
#include "camera/recording/tiff_file.hpp"

#include <tiffio.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "camera/recording/stack_formats.hpp"

namespace driftd::camera {
namespace {

std::uint64_t number_of(std::span<const unsigned char> bytes, bool big_endian) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    value = value << 8 | bytes[big_endian ? i : bytes.size() - 1 - i];
  }
  return value;
}

}  // namespace

struct TiffFile::Complaints {
  std::string file;
  std::string last;  ///< without the file's name, which RecordingError tells

  [[gnu::format(printf, 4, 0)]] static int remember(TIFF*, void* self, const char*,
                                                    const char* format, va_list arguments) {
    auto* complaints = static_cast<Complaints*>(self);
    const std::string name = complaints->file + ": ";
    std::string text(name.size() + 256, '\0');
    const int length = vsnprintf(text.data(), text.size(), format, arguments);
    text.resize(std::min(static_cast<std::size_t>(std::max(length, 0)), text.size() - 1));
    complaints->last = text;
    // Mostly it begins with the name; libtiff 4.7 says before it where in its own source it is.
    if (const auto at = complaints->last.find(name); at != std::string::npos) {
      complaints->last.erase(0, at + name.size());
    }
    return 1;
  }
  static int ignore(TIFF*, void*, const char*, const char*, va_list) { return 1; }
};

void TiffFile::Closer::operator()(tiff* file) const {
  TIFFClose(file);
}

TiffFile::TiffFile(const std::filesystem::path& path)
    : path_(path), complaints_(std::make_unique<Complaints>(Complaints{path.string(), {}})) {
  const std::unique_ptr<TIFFOpenOptions, decltype(&TIFFOpenOptionsFree)> options(
      TIFFOpenOptionsAlloc(), TIFFOpenOptionsFree);
  TIFFOpenOptionsSetErrorHandlerExtR(options.get(), &Complaints::remember, complaints_.get());
  TIFFOpenOptionsSetWarningHandlerExtR(options.get(), &Complaints::ignore, nullptr);
  // m: not mapped into memory, where reading a file that has shrunk would be a SIGBUS.
  tiff_.reset(TIFFOpenExt(path.c_str(), "rm", options.get()));
  if (!tiff_) fail("cannot be read as TIFF: it is none, truncated or damaged");
  pages_ = static_cast<std::int64_t>(TIFFNumberOfDirectories(tiff_.get()));
  chain_complaint_ = std::exchange(complaints_->last, {});
}

TiffFile::~TiffFile() = default;

void TiffFile::fail(const std::string& what) const {
  throw RecordingError(path_,
                       complaints_->last.empty() ? what : what + " (" + complaints_->last + ")");
}

void TiffFile::fail_here(const std::string& what) const {
  fail("page " + std::to_string(page_) + ": " + what);
}

std::uint16_t TiffFile::small_tag(std::uint32_t tag) const {
  std::uint16_t value = 0;
  TIFFGetFieldDefaulted(tiff_.get(), tag, &value);
  return value;
}

std::uint32_t TiffFile::large_tag(std::uint32_t tag) const {
  std::uint32_t value = 0;
  TIFFGetField(tiff_.get(), tag, &value);
  return value;
}

bool TiffFile::big_endian() const noexcept {
  return TIFFIsBigEndian(tiff_.get()) != 0;
}

bool TiffFile::turn_to(std::int64_t page) {
  if (page < page_ || !turned_) {
    turned_ = TIFFSetDirectory(tiff_.get(), 0) != 0;
    page_ = 0;
  }
  for (; turned_ && page_ < page; ++page_) turned_ = TIFFReadDirectory(tiff_.get()) != 0;
  return turned_;
}

StackShape TiffFile::shape() const {
  const std::int64_t width = large_tag(TIFFTAG_IMAGEWIDTH);
  const std::int64_t height = large_tag(TIFFTAG_IMAGELENGTH);
  check_frame_size(path_, width, height);
  const std::uint16_t samples = small_tag(TIFFTAG_SAMPLESPERPIXEL);
  if (samples != 1) {
    fail_here(std::to_string(samples) + " samples a pixel; only grey images can be used");
  }
  if (small_tag(TIFFTAG_PHOTOMETRIC) != PHOTOMETRIC_MINISBLACK) {
    fail_here("only images in which 0 is black can be used");
  }
  StackShape shape{.width_px = static_cast<int>(width), .height_px = static_cast<int>(height)};
  const std::uint16_t bits = small_tag(TIFFTAG_BITSPERSAMPLE);
  const std::uint16_t format = small_tag(TIFFTAG_SAMPLEFORMAT);
  if (bits == 8 && format == SAMPLEFORMAT_UINT) {
    shape.type = PixelType::U8;
  } else if (bits == 16 && format == SAMPLEFORMAT_UINT) {
    shape.type = PixelType::U16;
  } else if (bits == 32 && format == SAMPLEFORMAT_IEEEFP) {
    shape.type = PixelType::F32;
  } else {
    fail_here(std::to_string(bits) + "-bit pixels of sample format " + std::to_string(format) +
              "; allowed are 8 and 16 bits unsigned (format 1) and 32 bits floating point (format "
              "3)");
  }
  return shape;
}

bool TiffFile::page_is_whole() const {
  std::error_code error;
  const std::uintmax_t file_bytes = std::filesystem::file_size(path_, error);
  if (error) return false;
  const bool tiled = TIFFIsTiled(tiff_.get()) != 0;
  const std::uint32_t parts =
      tiled ? TIFFNumberOfTiles(tiff_.get()) : TIFFNumberOfStrips(tiff_.get());
  for (std::uint32_t part = 0; part < parts; ++part) {
    const std::uint64_t begin = TIFFGetStrileOffset(tiff_.get(), part);
    const std::uint64_t bytes = TIFFGetStrileByteCount(tiff_.get(), part);
    if (begin == 0 || begin > file_bytes || bytes > file_bytes - begin) return false;
  }
  return parts > 0;
}

void TiffFile::read(const StackShape& shape, std::byte* out) const {
  if (TIFFIsTiled(tiff_.get()) != 0) {
    read_tiles(shape, out);
  } else {
    read_strips(out, shape.frame_bytes());
  }
}

void TiffFile::read_strips(std::byte* out, std::size_t bytes) const {
  const std::uint32_t strips = TIFFNumberOfStrips(tiff_.get());
  std::size_t done = 0;
  for (std::uint32_t strip = 0; strip < strips && done < bytes; ++strip) {
    const tmsize_t got =
        TIFFReadEncodedStrip(tiff_.get(), strip, out + done, static_cast<tmsize_t>(bytes - done));
    if (got <= 0) fail_here("the pixels cannot be read: the file is truncated or damaged");
    done += static_cast<std::size_t>(got);
  }
  if (done != bytes) fail_here("has fewer pixels than its size says");
}

void TiffFile::read_tiles(const StackShape& shape, std::byte* out) const {
  const std::size_t tile_width = large_tag(TIFFTAG_TILEWIDTH);
  const std::size_t tile_height = large_tag(TIFFTAG_TILELENGTH);
  const std::size_t pixel_bytes = bytes_of(shape.type);
  const auto width = static_cast<std::size_t>(shape.width_px);
  const auto height = static_cast<std::size_t>(shape.height_px);
  if (tile_width == 0 || tile_height == 0 || tile_width > kMaxFramePixels / tile_height) {
    fail_here("has tiles of " + std::to_string(tile_width) + " x " + std::to_string(tile_height) +
              " px; allowed are 1 to " + std::to_string(kMaxFramePixels) + " pixels");
  }
  std::vector<std::byte> tile(static_cast<std::size_t>(TIFFTileSize(tiff_.get())));
  if (tile.size() < pixel_bytes * tile_width * tile_height) {
    fail_here("has tiles smaller than their size says");
  }
  for (std::size_t y = 0; y < height; y += tile_height) {
    for (std::size_t x = 0; x < width; x += tile_width) {
      if (TIFFReadTile(tiff_.get(), tile.data(), static_cast<std::uint32_t>(x),
                       static_cast<std::uint32_t>(y), 0, 0) <= 0) {
        fail_here("the pixels cannot be read: the file is truncated or damaged");
      }
      const std::size_t columns = std::min(tile_width, width - x);
      const std::size_t rows = std::min(tile_height, height - y);
      for (std::size_t row = 0; row < rows; ++row) {
        std::memcpy(out + ((y + row) * width + x) * pixel_bytes,
                    tile.data() + row * tile_width * pixel_bytes, columns * pixel_bytes);
      }
    }
  }
}

std::string_view TiffFile::description() const {
  const char* text = nullptr;
  TIFFGetField(tiff_.get(), TIFFTAG_IMAGEDESCRIPTION, &text);
  return text != nullptr ? text : std::string_view();
}

std::optional<std::uint64_t> TiffFile::plain_pixels_at() const {
  if (small_tag(TIFFTAG_COMPRESSION) != COMPRESSION_NONE || TIFFIsTiled(tiff_.get()) != 0) {
    return std::nullopt;
  }
  return TIFFGetStrileOffset(tiff_.get(), 0);
}

std::uint64_t TiffFile::next_directory_at() const {
  // libtiff does not tell. A directory is a number of entries, the entries, and where the next is.
  std::ifstream file(path_, std::ios::binary);
  std::array<unsigned char, 8> bytes{};
  const auto read = [&](std::uint64_t at, std::size_t count) -> std::uint64_t {
    file.seekg(static_cast<std::streamoff>(at));
    file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(count));
    return file ? number_of({bytes.data(), count}, big_endian()) : 0;
  };
  const bool big_tiff = TIFFIsBigTIFF(tiff_.get()) != 0;
  const std::uint64_t here = TIFFCurrentDirOffset(tiff_.get());
  constexpr std::uint64_t kMostEntries = 65535;
  if (big_tiff) return read(here + 8 + 20 * std::min(read(here, 8), kMostEntries), 8);
  return read(here + 2 + 12 * read(here, 2), 4);
}

}  // namespace driftd::camera
