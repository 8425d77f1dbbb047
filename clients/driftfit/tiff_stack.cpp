// SPDX-License-Identifier: MIT
#include <tiffio.h>

#include <algorithm>
#include <charconv>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <vector>

#include "clients/driftfit/errors.hpp"
#include "clients/driftfit/stack_formats.hpp"

namespace driftd::clients {
namespace {

struct TiffCloser {
  void operator()(TIFF* tiff) const { TIFFClose(tiff); }
};

/// A TIFF file with the last thing libtiff complained about.
class TiffFile {
 public:
  explicit TiffFile(const std::filesystem::path& path) : path_(path) {
    const std::unique_ptr<TIFFOpenOptions, decltype(&TIFFOpenOptionsFree)> options(
        TIFFOpenOptionsAlloc(), TIFFOpenOptionsFree);
    TIFFOpenOptionsSetErrorHandlerExtR(options.get(), &TiffFile::remember, this);
    TIFFOpenOptionsSetWarningHandlerExtR(options.get(), &TiffFile::ignore, nullptr);
    tiff_.reset(TIFFOpenExt(path.c_str(), "r", options.get()));
    if (!tiff_) fail("cannot be read as TIFF");
  }
  TiffFile(const TiffFile&) = delete;
  TiffFile& operator=(const TiffFile&) = delete;
  ~TiffFile() = default;

  [[nodiscard]] TIFF* get() const { return tiff_.get(); }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] bool complained() const { return !complaint_.empty(); }

  [[noreturn]] void fail(const std::string& what) const {
    throw InputError(path_, complaint_.empty() ? what : what + " (" + complaint_ + ")");
  }
  [[noreturn]] void fail_at(std::int64_t page, const std::string& what) const {
    fail("page " + std::to_string(page) + ": " + what);
  }

  [[nodiscard]] std::uint16_t small_tag(std::uint32_t tag) const {
    std::uint16_t value = 0;
    TIFFGetFieldDefaulted(get(), tag, &value);
    return value;
  }
  [[nodiscard]] std::uint32_t large_tag(std::uint32_t tag) const {
    std::uint32_t value = 0;
    TIFFGetField(get(), tag, &value);
    return value;
  }

 private:
  [[gnu::format(printf, 4, 0)]] static int remember(TIFF*, void* self, const char*,
                                                    const char* format, va_list arguments) {
    char text[256];
    vsnprintf(text, sizeof(text), format, arguments);
    static_cast<TiffFile*>(self)->complaint_ = text;
    return 1;
  }
  static int ignore(TIFF*, void*, const char*, const char*, va_list) { return 1; }

  std::filesystem::path path_;
  std::string complaint_;
  std::unique_ptr<TIFF, TiffCloser> tiff_;
};

fitter::PixelType type_of(const TiffFile& file, std::int64_t page) {
  const std::uint16_t bits = file.small_tag(TIFFTAG_BITSPERSAMPLE);
  const std::uint16_t format = file.small_tag(TIFFTAG_SAMPLEFORMAT);
  if (bits == 8 && format == SAMPLEFORMAT_UINT) return fitter::PixelType::U8;
  if (bits == 16 && format == SAMPLEFORMAT_UINT) return fitter::PixelType::U16;
  if (bits == 32 && format == SAMPLEFORMAT_IEEEFP) return fitter::PixelType::F32;
  file.fail_at(page, std::to_string(bits) + "-bit pixels of sample format " +
                         std::to_string(format) +
                         "; allowed are 8 and 16 bits unsigned (format 1) and 32 bits floating "
                         "point (format 3)");
}

/// Of the current page, apart from the number of frames.
StackShape shape_of(const TiffFile& file, std::int64_t page) {
  const std::int64_t width = file.large_tag(TIFFTAG_IMAGEWIDTH);
  const std::int64_t height = file.large_tag(TIFFTAG_IMAGELENGTH);
  check_frame_size(file.path(), width, height);
  const std::uint16_t samples = file.small_tag(TIFFTAG_SAMPLESPERPIXEL);
  if (samples != 1) {
    file.fail_at(page, std::to_string(samples) + " samples a pixel; only grey images can be used");
  }
  if (file.small_tag(TIFFTAG_PHOTOMETRIC) != PHOTOMETRIC_MINISBLACK) {
    file.fail_at(page, "only images in which 0 is black can be used");
  }
  return {.width_px = static_cast<int>(width),
          .height_px = static_cast<int>(height),
          .frames = 0,
          .type = type_of(file, page)};
}

void read_strips(const TiffFile& file, std::int64_t page, std::byte* out, std::size_t bytes) {
  const std::uint32_t strips = TIFFNumberOfStrips(file.get());
  std::size_t done = 0;
  for (std::uint32_t strip = 0; strip < strips && done < bytes; ++strip) {
    const tmsize_t got =
        TIFFReadEncodedStrip(file.get(), strip, out + done, static_cast<tmsize_t>(bytes - done));
    if (got <= 0) file.fail_at(page, "the pixels cannot be read: the file is truncated or damaged");
    done += static_cast<std::size_t>(got);
  }
  if (done != bytes) file.fail_at(page, "has fewer pixels than its size says");
}

void read_tiles(const TiffFile& file, std::int64_t page, const StackShape& shape, std::byte* out) {
  const std::size_t tile_width = file.large_tag(TIFFTAG_TILEWIDTH);
  const std::size_t tile_height = file.large_tag(TIFFTAG_TILELENGTH);
  const std::size_t pixel_bytes = bytes_of(shape.type);
  const auto width = static_cast<std::size_t>(shape.width_px);
  const auto height = static_cast<std::size_t>(shape.height_px);
  std::vector<std::byte> tile(static_cast<std::size_t>(TIFFTileSize(file.get())));
  if (tile_width == 0 || tile_height == 0 || tile.size() < pixel_bytes * tile_width * tile_height) {
    file.fail_at(page, "has tiles of no size");
  }
  for (std::size_t y = 0; y < height; y += tile_height) {
    for (std::size_t x = 0; x < width; x += tile_width) {
      if (TIFFReadTile(file.get(), tile.data(), static_cast<std::uint32_t>(x),
                       static_cast<std::uint32_t>(y), 0, 0) <= 0) {
        file.fail_at(page, "the pixels cannot be read: the file is truncated or damaged");
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

/// The number in a line `images=NUMBER` of an ImageJ description; 1 when there is none.
std::int64_t images_said(const TiffFile& file) {
  const char* text = nullptr;
  TIFFGetField(file.get(), TIFFTAG_IMAGEDESCRIPTION, &text);
  const std::string_view description = text != nullptr ? text : "";
  constexpr std::string_view kKey = "\nimages=";
  const std::size_t at = description.find(kKey);
  if (!description.starts_with("ImageJ=") || at == std::string_view::npos) return 1;
  const std::string_view digits = description.substr(at + kKey.size());
  std::int64_t value = 1;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

class TiffStack final : public ImageStack {
 public:
  TiffStack(std::unique_ptr<TiffFile> file, const StackShape& shape) : file_(std::move(file)) {
    shape_ = shape;
  }

  void read(std::int64_t first, std::int64_t count, std::byte* out) override {
    for (std::int64_t page = first; page < first + count; ++page) {
      turn_to(page);
      StackShape found = shape_of(*file_, page);
      if (found.width_px != shape_.width_px || found.height_px != shape_.height_px ||
          found.type != shape_.type) {
        file_->fail_at(page, "is " + std::to_string(found.width_px) + " x " +
                                 std::to_string(found.height_px) + " " + name_of(found.type) +
                                 ", page 0 is " + std::to_string(shape_.width_px) + " x " +
                                 std::to_string(shape_.height_px) + " " + name_of(shape_.type));
      }
      if (TIFFIsTiled(file_->get()) != 0) {
        read_tiles(*file_, page, shape_, out);
      } else {
        read_strips(*file_, page, out, shape_.frame_bytes());
      }
      out += shape_.frame_bytes();
    }
  }

 private:
  void turn_to(std::int64_t page) {
    if (page < page_) {
      if (TIFFSetDirectory(file_->get(), 0) == 0) file_->fail_at(0, "cannot be read");
      page_ = 0;
    }
    for (; page_ < page; ++page_) {
      if (TIFFReadDirectory(file_->get()) == 0) file_->fail_at(page_ + 1, "cannot be read");
    }
  }

  std::unique_ptr<TiffFile> file_;
  std::int64_t page_ = 0;
};

/// ImageJ writes stacks above 4 GB as one page with all images' pixels behind its first strip.
std::unique_ptr<ImageStack> open_imagej_stack(const TiffFile& file, StackShape shape,
                                              std::int64_t images) {
  if (file.small_tag(TIFFTAG_COMPRESSION) != COMPRESSION_NONE || TIFFIsTiled(file.get()) != 0) {
    file.fail("says that it has " + std::to_string(images) +
              " images, but only one page: save it as BigTIFF or as plain pixels");
  }
  shape.frames = images;
  return open_plain_pixels(
      {.path = file.path(),
       .offset_bytes = TIFFGetStrileOffset(file.get(), 0),
       .byte_order = TIFFIsBigEndian(file.get()) != 0 ? ByteOrder::Big : ByteOrder::Little},
      shape);
}

}  // namespace

std::unique_ptr<ImageStack> open_tiff_stack(const StackSettings& settings) {
  auto file = std::make_unique<TiffFile>(settings.path);
  StackShape shape = shape_of(*file, 0);
  const std::int64_t images = images_said(*file);
  const auto pages = static_cast<std::int64_t>(TIFFNumberOfDirectories(file->get()));
  if (file->complained()) {
    file->fail("the list of pages breaks off after " + std::to_string(pages));
  }
  if (pages == 1 && images > 1) return open_imagej_stack(*file, shape, images);
  shape.frames = pages;
  return std::make_unique<TiffStack>(std::move(file), shape);
}

}  // namespace driftd::clients
