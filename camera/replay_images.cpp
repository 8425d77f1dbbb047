// SPDX-License-Identifier: MIT
#include "camera/replay_images.hpp"

#include <tiffio.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <string_view>

namespace driftd::camera {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& what) {
  throw CameraError(path.string() + ": " + what);
}

/// What the kernel thinks can be had without swapping; nothing where /proc does not say.
std::optional<std::uint64_t> available_memory_bytes() {
  std::ifstream meminfo("/proc/meminfo");
  for (std::string key; meminfo >> key;) {
    if (key == "MemAvailable:") {
      std::uint64_t kibibytes = 0;
      if (meminfo >> kibibytes) return kibibytes * 1024;
    }
    meminfo.ignore(256, '\n');
  }
  return std::nullopt;
}

void check_range(const ReplaySettings& settings, int frames_in_file) {
  const int last = settings.last_frame < 0 ? frames_in_file - 1 : settings.last_frame;
  if (settings.first_frame < frames_in_file && last < frames_in_file) return;
  fail(settings.path, "frames " + std::to_string(settings.first_frame) + " to " +
                          (settings.last_frame < 0 ? "the last" : std::to_string(last)) +
                          " asked for, but it has " + std::to_string(frames_in_file) + " (0 to " +
                          std::to_string(frames_in_file - 1) + ")");
}

/// Sizes `images` for `count` frames once the geometry is known.
void allocate(ReplayImages& images, const ReplaySettings& settings, int frames_in_file) {
  check_range(settings, frames_in_file);
  const int last = settings.last_frame < 0 ? frames_in_file - 1 : settings.last_frame;
  images.first_frame = settings.first_frame;
  images.count = last - settings.first_frame + 1;
  const std::uint64_t needed = static_cast<std::uint64_t>(images.count) *
                               image_bytes(images.format, images.width_px, images.height_px);
  const std::optional<std::uint64_t> available = available_memory_bytes();
  if (available && needed > *available) {
    constexpr std::uint64_t kMebibyte = 1 << 20;
    fail(settings.path, std::to_string(images.count) + " frames need " +
                            std::to_string(needed / kMebibyte) + " MiB of memory, " +
                            std::to_string(*available / kMebibyte) +
                            " MiB are available: choose fewer by first_frame and last_frame");
  }
  images.pixels.resize(needed);
}

// ---- TIFF ----

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
  [[nodiscard]] bool complained() const { return !complaint_.empty(); }

  [[noreturn]] void fail(const std::string& what) const {
    camera::fail(path_, complaint_.empty() ? what : what + " (" + complaint_ + ")");
  }
  [[noreturn]] void fail_at(int page, const std::string& what) const {
    fail("page " + std::to_string(page) + ": " + what);
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

std::uint16_t small_tag(TIFF* tiff, std::uint32_t tag) {
  std::uint16_t value = 0;
  TIFFGetFieldDefaulted(tiff, tag, &value);
  return value;
}

struct PageShape {
  std::uint32_t width_px = 0, height_px = 0;
  PixelFormat format = PixelFormat::Mono8;
  bool operator==(const PageShape&) const = default;
};

PageShape read_shape(const TiffFile& file, int page) {
  TIFF* tiff = file.get();
  PageShape shape;
  TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &shape.width_px);
  TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &shape.height_px);
  constexpr std::uint32_t kLargestSide = 1U << 20;
  if (shape.width_px == 0 || shape.height_px == 0 || shape.width_px > kLargestSide ||
      shape.height_px > kLargestSide) {
    file.fail_at(page, "a size of " + std::to_string(shape.width_px) + " x " +
                           std::to_string(shape.height_px) + " px cannot be used");
  }
  const std::uint16_t samples = small_tag(tiff, TIFFTAG_SAMPLESPERPIXEL);
  if (samples != 1) {
    file.fail_at(page, std::to_string(samples) + " samples a pixel; only grey images can be used");
  }
  const std::uint16_t bits = small_tag(tiff, TIFFTAG_BITSPERSAMPLE);
  const std::uint16_t sample_format = small_tag(tiff, TIFFTAG_SAMPLEFORMAT);
  if ((bits != 8 && bits != 16) || sample_format != SAMPLEFORMAT_UINT) {
    file.fail_at(page, std::to_string(bits) + "-bit pixels of sample format " +
                           std::to_string(sample_format) +
                           "; only unsigned 8 and 16 bits can be used");
  }
  if (small_tag(tiff, TIFFTAG_PHOTOMETRIC) != PHOTOMETRIC_MINISBLACK) {
    file.fail_at(page, "only images in which 0 is black can be used");
  }
  shape.format = bits == 8 ? PixelFormat::Mono8 : PixelFormat::Mono16;
  return shape;
}

void read_strips(const TiffFile& file, int page, std::byte* out, std::size_t bytes) {
  TIFF* tiff = file.get();
  const std::uint32_t strips = TIFFNumberOfStrips(tiff);
  std::size_t done = 0;
  for (std::uint32_t strip = 0; strip < strips && done < bytes; ++strip) {
    const tmsize_t got =
        TIFFReadEncodedStrip(tiff, strip, out + done, static_cast<tmsize_t>(bytes - done));
    if (got <= 0) file.fail_at(page, "the pixels cannot be read: the file is truncated or damaged");
    done += static_cast<std::size_t>(got);
  }
  if (done != bytes) file.fail_at(page, "has fewer pixels than its size says");
}

void read_tiles(const TiffFile& file, int page, const PageShape& shape, std::byte* out) {
  TIFF* tiff = file.get();
  std::uint32_t tile_width = 0;
  std::uint32_t tile_height = 0;
  TIFFGetField(tiff, TIFFTAG_TILEWIDTH, &tile_width);
  TIFFGetField(tiff, TIFFTAG_TILELENGTH, &tile_height);
  const std::size_t pixel_bytes = image_bytes(shape.format, 1, 1);
  std::vector<std::byte> tile(static_cast<std::size_t>(TIFFTileSize(tiff)));
  if (tile_width == 0 || tile_height == 0 || tile.size() < pixel_bytes * tile_width * tile_height) {
    file.fail_at(page, "has tiles of no size");
  }
  for (std::uint32_t y = 0; y < shape.height_px; y += tile_height) {
    for (std::uint32_t x = 0; x < shape.width_px; x += tile_width) {
      if (TIFFReadTile(tiff, tile.data(), x, y, 0, 0) <= 0) {
        file.fail_at(page, "the pixels cannot be read: the file is truncated or damaged");
      }
      const std::size_t columns = std::min(tile_width, shape.width_px - x);
      const std::size_t rows = std::min(tile_height, shape.height_px - y);
      for (std::size_t row = 0; row < rows; ++row) {
        std::memcpy(out + ((y + row) * shape.width_px + x) * pixel_bytes,
                    tile.data() + row * tile_width * pixel_bytes, columns * pixel_bytes);
      }
    }
  }
}

/// The value of `key=NUMBER` on a line of its own in an ImageJ description.
std::optional<double> imagej_value(std::string_view description, std::string_view key) {
  for (std::size_t begin = 0; begin < description.size();) {
    const std::size_t end = std::min(description.find('\n', begin), description.size());
    const std::string_view line = description.substr(begin, end - begin);
    if (line.starts_with(key) && line.substr(key.size()).starts_with('=')) {
      const std::string_view text = line.substr(key.size() + 1);
      double value = 0;
      const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
      if (result.ec == std::errc() && std::isfinite(value) && value > 0) return value;
    }
    begin = end + 1;
  }
  return std::nullopt;
}

std::string_view description_of(const TiffFile& file) {
  const char* text = nullptr;
  TIFFGetField(file.get(), TIFFTAG_IMAGEDESCRIPTION, &text);
  return text != nullptr ? text : std::string_view();
}

std::optional<double> recorded_rate_hz(std::string_view description) {
  if (const auto interval_s = imagej_value(description, "finterval")) return 1 / *interval_s;
  return imagej_value(description, "fps");
}

/// Goes through all directories; a file that breaks off among them is an error.
int count_pages(const TiffFile& file) {
  int pages = 1;
  while (TIFFReadDirectory(file.get()) != 0) ++pages;
  if (file.complained()) file.fail("the list of pages breaks off after " + std::to_string(pages));
  return pages;
}

ReplayImages read_tiff(const ReplaySettings& settings) {
  const TiffFile file(settings.path);
  ReplayImages images;
  const PageShape shape = read_shape(file, 0);
  images.format = shape.format;
  images.width_px = static_cast<int>(shape.width_px);
  images.height_px = static_cast<int>(shape.height_px);
  images.recorded_rate_hz = recorded_rate_hz(description_of(file));
  const double images_said = imagej_value(description_of(file), "images").value_or(1);
  const int pages = count_pages(file);
  if (pages == 1 && images_said > 1) {
    file.fail(
        "ImageJ wrote it without a directory for every image (a stack above 4 GB): "
        "save it as BigTIFF or as raw pixels");
  }
  allocate(images, settings, pages);

  const std::size_t frame_bytes = image_bytes(images.format, images.width_px, images.height_px);
  TIFFSetDirectory(file.get(), 0);
  std::byte* out = images.pixels.data();
  for (int page = 0; page < images.first_frame + images.count; ++page) {
    if (page > 0 && TIFFReadDirectory(file.get()) == 0) file.fail_at(page, "cannot be read");
    if (page < images.first_frame) continue;
    if (read_shape(file, page) != shape) {
      file.fail_at(page, "differs in size or pixel type from page 0");
    }
    if (TIFFIsTiled(file.get()) != 0) {
      read_tiles(file, page, shape, out);
    } else {
      read_strips(file, page, out, frame_bytes);
    }
    out += frame_bytes;
  }
  return images;
}

// ---- plain pixels ----

ReplayImages read_raw(const ReplaySettings& settings, PixelFormat format) {
  if (settings.width_px <= 0 || settings.height_px <= 0) {
    fail(settings.path, "raw pixels need width_px and height_px");
  }
  std::error_code error;
  const std::uintmax_t file_bytes = std::filesystem::file_size(settings.path, error);
  if (error) fail(settings.path, error.message());
  ReplayImages images;
  images.format = format;
  images.width_px = settings.width_px;
  images.height_px = settings.height_px;
  const std::size_t frame_bytes = image_bytes(format, settings.width_px, settings.height_px);
  if (file_bytes == 0 || file_bytes % frame_bytes != 0) {
    fail(settings.path, "its " + std::to_string(file_bytes) +
                            " bytes are not a whole number of frames of " +
                            std::to_string(settings.width_px) + " x " +
                            std::to_string(settings.height_px) + " " + name_of(format) + " (" +
                            std::to_string(frame_bytes) + " bytes each): wrong size, or truncated");
  }
  const std::uintmax_t frames = file_bytes / frame_bytes;
  if (frames > std::numeric_limits<int>::max()) {
    fail(settings.path, std::to_string(frames) + " frames are more than can be counted");
  }
  allocate(images, settings, static_cast<int>(frames));

  std::ifstream file(settings.path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(frame_bytes) * images.first_frame);
  file.read(reinterpret_cast<char*>(images.pixels.data()),
            static_cast<std::streamsize>(images.pixels.size()));
  if (!file) fail(settings.path, "cannot be read");
  return images;
}

}  // namespace

ReplayImages read_recording(const ReplaySettings& settings) {
  if (settings.first_frame < 0 ||
      (settings.last_frame >= 0 && settings.last_frame < settings.first_frame)) {
    fail(settings.path, "the range of frames is empty: first_frame " +
                            std::to_string(settings.first_frame) + ", last_frame " +
                            std::to_string(settings.last_frame));
  }
  std::error_code error;
  if (!std::filesystem::exists(settings.path, error)) fail(settings.path, "no such file");
  if (!std::filesystem::is_regular_file(settings.path, error)) fail(settings.path, "is no file");
  switch (settings.format) {
    case ReplayFormat::Tiff:
      return read_tiff(settings);
    case ReplayFormat::RawU8:
      return read_raw(settings, PixelFormat::Mono8);
    case ReplayFormat::RawU16:
      return read_raw(settings, PixelFormat::Mono16);
  }
  fail(settings.path, "is of an unknown format");
}

}  // namespace driftd::camera
