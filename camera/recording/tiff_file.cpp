// SPDX-License-Identifier: MIT
#include "camera/recording/tiff_file.hpp"

#include <tiffio.h>

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <string>
#include <system_error>
#include <vector>

#include "camera/recording/stack_formats.hpp"
#include "camera/recording/tiff_directory.hpp"

namespace driftd::camera {
namespace {

/// Doubles are read as floats.
constexpr std::uint16_t kDoubleBits = 64;

/// Compressions that libtiff often lacks, or never has, by their names.
std::string codec_name(std::uint16_t compression) {
  struct Known {
    std::uint16_t number;
    const char* name;
  };
  constexpr std::array<Known, 17> kKnown{{{7, "JPEG"},
                                          {22610, "JPEG XR"},
                                          {33003, "JPEG 2000"},
                                          {33004, "JPEG 2000"},
                                          {33005, "JPEG 2000"},
                                          {34661, "JBIG"},
                                          {34712, "JPEG 2000"},
                                          {34887, "LERC"},
                                          {34892, "lossy JPEG"},
                                          {34925, "LZMA"},
                                          {34933, "PNG"},
                                          {34934, "JPEG XR"},
                                          {48124, "Jetraw"},
                                          {50000, "Zstandard"},
                                          {50001, "WebP"},
                                          {50002, "JPEG XL"},
                                          {52546, "JPEG XL"}}};
  const auto* const found = std::ranges::find(kKnown, compression, &Known::number);
  const std::string number = std::to_string(compression);
  if (found != kKnown.end()) return std::string(found->name) + " (compression " + number + ")";
  const TIFFCodec* codec = TIFFFindCODEC(compression);
  return codec != nullptr ? std::string(codec->name) + " (compression " + number + ")"
                          : "a compression of number " + number;
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
  complaints_->last.clear();  // a tag of the first page that is wrong breaks no chain
  pages_ = static_cast<std::int64_t>(TIFFNumberOfDirectories(tiff_.get()));
  chain_complaint_ = std::exchange(complaints_->last, {});
  if (chain_complaint_.empty()) chain_complaint_ = loop_in_words();
}

/// Where the last page that libtiff counts names one that was counted: it ends the chain there and
/// tells nobody. "": the chain has its end.
std::string TiffFile::loop_in_words() {
  constexpr std::int64_t kSearched = 100'000;
  const auto go = [&](std::int64_t page) {
    return TIFFSetDirectory(tiff_.get(), static_cast<tdir_t>(page)) != 0;
  };
  std::string words;
  FileBytes bytes(path_);
  const std::uint64_t next = go(pages_ - 1) ? read_directory(bytes, directory_at()).next : 0;
  if (next != 0) {
    std::int64_t page = 0;
    while (page < std::min(pages_, kSearched) && !(go(page) && directory_at() == next)) ++page;
    words = "page " + std::to_string(pages_ - 1) + " says that the next begins at byte " +
            std::to_string(next);
    if (page < std::min(pages_, kSearched)) words += ", where page " + std::to_string(page) + " is";
  }
  turned_ = go(0);
  complaints_->last.clear();
  return words;
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
  if (page >= pages_) return false;
  if (leaves_out()) page = full_[static_cast<std::size_t>(page)];
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
  check_grey();
  const std::uint16_t compression = small_tag(TIFFTAG_COMPRESSION);
  if (TIFFIsCODECConfigured(compression) != 1) {
    fail_here("its pixels are packed by " + codec_name(compression) +
              ", which this libtiff cannot unpack: save the recording uncompressed, or by LZW or "
              "deflate");
  }
  StackShape shape{.width_px = static_cast<int>(width), .height_px = static_cast<int>(height)};
  const std::uint16_t bits = small_tag(TIFFTAG_BITSPERSAMPLE);
  const std::uint16_t format = small_tag(TIFFTAG_SAMPLEFORMAT);
  if (bits == 8 && format == SAMPLEFORMAT_UINT) {
    shape.type = PixelType::U8;
  } else if (bits == 16 && (format == SAMPLEFORMAT_UINT || format == SAMPLEFORMAT_INT)) {
    shape.type = PixelType::U16;
  } else if ((bits == 32 || bits == kDoubleBits) && format == SAMPLEFORMAT_IEEEFP) {
    shape.type = PixelType::F32;
  } else {
    fail_here(std::to_string(bits) + "-bit pixels of sample format " + std::to_string(format) +
              "; allowed are 8 and 16 bits unsigned (format 1), 16 bits signed (2) and 32 and 64 "
              "bits floating point (3): save it as one of these");
  }
  return shape;
}

void TiffFile::check_grey() const {
  const std::uint16_t samples = small_tag(TIFFTAG_SAMPLESPERPIXEL);
  const std::string only = ": only grey images can be used";
  if (samples != 1 && small_tag(TIFFTAG_PLANARCONFIG) == PLANARCONFIG_SEPARATE) {
    fail_here("has " + std::to_string(samples) +
              " planes of one image, as colour images have, and as tifffile writes 3 or 4 frames "
              "unless photometric='minisblack' says that they are grey" +
              only);
  }
  if (samples != 1) {
    fail_here(std::to_string(samples) + " samples a pixel, as colour images have" + only +
              ", such as one of its channels saved alone");
  }
  // Without the tag 0 is black for ImageJ, too.
  std::uint16_t photometric = PHOTOMETRIC_MINISBLACK;
  TIFFGetField(tiff_.get(), TIFFTAG_PHOTOMETRIC, &photometric);
  if (photometric == PHOTOMETRIC_PALETTE) {
    fail_here("its pixels are numbers of colours in a palette (a lookup table)" + only +
              ": give it one of greys, in ImageJ by Image, Lookup Tables, Grays");
  }
  if (photometric == PHOTOMETRIC_MINISWHITE) {
    fail_here(
        "0 is white in it: only images in which 0 is black can be used; save it so, in "
        "ImageJ without an inverting lookup table");
  }
  if (photometric != PHOTOMETRIC_MINISBLACK) {
    fail_here("its pixels are of the photometric interpretation " + std::to_string(photometric) +
              only + " (interpretation 1)");
  }
}

bool TiffFile::is_reduced() const {
  return (large_tag(TIFFTAG_SUBFILETYPE) & (FILETYPE_REDUCEDIMAGE | FILETYPE_MASK)) != 0;
}

void TiffFile::leave_out_reduced() {
  const auto reduced = [&](std::int64_t page) {
    return TIFFSetDirectory(tiff_.get(), static_cast<tdir_t>(page)) != 0 && is_reduced();
  };
  const bool any =
      reduced(0) || reduced(std::min<std::int64_t>(1, pages_ - 1)) || reduced(pages_ - 1);
  turned_ = TIFFSetDirectory(tiff_.get(), 0) != 0;
  page_ = 0;
  if (any) {
    std::vector<std::int64_t> full;
    for (std::int64_t page = 0; page < pages_ && turn_to(page); ++page) {
      if (!is_reduced()) full.push_back(page);
    }
    if (!full.empty()) {
      full_ = std::move(full);
      pages_ = static_cast<std::int64_t>(full_.size());
    }
  }
  turn_to(0);
  complaints_->last.clear();
}

bool TiffFile::is_signed() const {
  return small_tag(TIFFTAG_SAMPLEFORMAT) == SAMPLEFORMAT_INT;
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

bool TiffFile::is_double() const {
  return small_tag(TIFFTAG_BITSPERSAMPLE) == kDoubleBits;
}

void TiffFile::read(const StackShape& shape, std::byte* out) const {
  if (!is_double()) {
    read_parts(shape, bytes_of(shape.type), out);
    return;
  }
  std::vector<double> wide(shape.pixels());
  read_parts(shape, sizeof(double), reinterpret_cast<std::byte*>(wide.data()));
  std::ranges::transform(wide, reinterpret_cast<float*>(out),
                         [](double pixel) { return static_cast<float>(pixel); });
}

void TiffFile::read_parts(const StackShape& shape, std::size_t pixel_bytes, std::byte* out) const {
  if (TIFFIsTiled(tiff_.get()) != 0) {
    read_tiles(shape, pixel_bytes, out);
  } else {
    read_strips(out, shape.pixels() * pixel_bytes);
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

void TiffFile::read_tiles(const StackShape& shape, std::size_t pixel_bytes, std::byte* out) const {
  const std::size_t tile_width = large_tag(TIFFTAG_TILEWIDTH);
  const std::size_t tile_height = large_tag(TIFFTAG_TILELENGTH);
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

std::string TiffFile::text_of(std::uint32_t tag) const {
  const TIFFField* field = TIFFFindField(tiff_.get(), tag, TIFF_ANY);
  if (field == nullptr) return {};
  const char* text = nullptr;
  if (TIFFFieldDataType(field) != TIFF_ASCII && TIFFFieldDataType(field) != TIFF_BYTE) return {};
  if (TIFFFieldPassCount(field) == 0) {
    return TIFFGetField(tiff_.get(), tag, &text) != 0 && text != nullptr ? text : "";
  }
  std::uint32_t long_count = 0;
  std::uint16_t short_count = 0;
  const bool is_long = TIFFFieldReadCount(field) == TIFF_VARIABLE2;
  const int got = is_long ? TIFFGetField(tiff_.get(), tag, &long_count, &text)
                          : TIFFGetField(tiff_.get(), tag, &short_count, &text);
  if (got == 0 || text == nullptr) return {};
  std::string all(text, is_long ? long_count : short_count);
  all.resize(std::min(all.size(), all.find('\0')));
  return all;
}

std::optional<std::uint64_t> TiffFile::plain_pixels_at() const {
  if (is_compressed() || is_double() || TIFFIsTiled(tiff_.get()) != 0 ||
      small_tag(TIFFTAG_FILLORDER) != FILLORDER_MSB2LSB) {
    return std::nullopt;
  }
  const std::uint32_t strips = TIFFNumberOfStrips(tiff_.get());
  for (std::uint32_t i = 1; i < strips; ++i) {
    const std::uint64_t end =
        TIFFGetStrileOffset(tiff_.get(), i - 1) + TIFFGetStrileByteCount(tiff_.get(), i - 1);
    if (TIFFGetStrileOffset(tiff_.get(), i) != end) return std::nullopt;
  }
  return TIFFGetStrileOffset(tiff_.get(), 0);
}

std::uint64_t TiffFile::plain_bytes() const {
  if (TIFFIsTiled(tiff_.get()) == 0)
    return shape().pixels() * (is_double() ? sizeof(double) : bytes_of(shape().type));
  return TIFFTileSize64(tiff_.get()) * TIFFNumberOfTiles(tiff_.get());
}

bool TiffFile::is_compressed() const {
  return small_tag(TIFFTAG_COMPRESSION) != COMPRESSION_NONE;
}

std::vector<std::string> TiffFile::notes_on_pixels() const {
  std::vector<std::string> notes;
  const std::uint16_t compression = small_tag(TIFFTAG_COMPRESSION);
  if (compression == COMPRESSION_OJPEG || compression == COMPRESSION_JPEG)
    notes.push_back(lossy_note(codec_name(compression), "loses"));
  if (compression == COMPRESSION_LERC)
    notes.push_back(lossy_note(codec_name(compression), "may lose"));
  constexpr std::array<const char*, 9> kStored{"",
                                               "",
                                               "from right to left",
                                               "from right to left, the last row first",
                                               "the last row first",
                                               "as columns",
                                               "as columns from right to left",
                                               "as columns from right to left, the last first",
                                               "as columns, the last first"};
  const std::uint16_t orientation = small_tag(TIFFTAG_ORIENTATION);
  if (orientation > ORIENTATION_TOPLEFT && orientation < kStored.size()) {
    notes.push_back(std::string("its pages say that they are stored ") + kStored[orientation] +
                    " (Orientation " + std::to_string(orientation) +
                    "): they are read as they are stored, as ImageJ and tifffile do, and x and y "
                    "are those of such images");
  }
  return notes;
}

std::uint64_t TiffFile::directory_at() const {
  return TIFFCurrentDirOffset(tiff_.get());
}

}  // namespace driftd::camera
