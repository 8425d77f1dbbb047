// SPDX-License-Identifier: MIT
#include "camera/recording/image_stack.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <system_error>
#include <utility>

#include "base/counted.hpp"
#include "camera/recording/stack_formats.hpp"

namespace driftd::camera {
namespace {

using namespace std::string_view_literals;

struct TypeName {
  std::string_view name, short_name;
  PixelType type;
};
constexpr std::array kTypeNames{TypeName{"uint8", "u8", PixelType::U8},
                                TypeName{"uint16", "u16", PixelType::U16},
                                TypeName{"float32", "f32", PixelType::F32}};

bool has_raw_name(const std::filesystem::path& path) {
  std::string end = path.extension().string();
  std::transform(end.begin(), end.end(), end.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return end == ".raw" || end == ".bin";
}

const char* name_of(StackFormat format) noexcept {
  switch (format) {
    case StackFormat::Tiff:
      return "TIFF";
    case StackFormat::Hdf5:
      return "HDF5";
    case StackFormat::PlainPixels:
      break;
  }
  return "plain pixels";
}

/// What some files that hold images begin with, and what they are.
struct KnownFile {
  std::string_view begin, name, instead;
};
constexpr std::string_view kAsOmeTiff = "save it as OME-TIFF, for example by Bio-Formats in ImageJ";
constexpr std::array kKnownFiles{
    KnownFile{"\x93NUMPY"sv, "an array of numpy (.npy)",
              "save it by tifffile.imwrite(\"x.tif\", numpy.load(\"x.npy\"), "
              "photometric=\"minisblack\")"},
    KnownFile{"MATLAB 5.0 MAT-file"sv, "a MAT-file of MATLAB before 7.3",
              "save it in MATLAB with \"-v7.3\""},
    KnownFile{"<?xml"sv, "XML", "of OME's companion files name one of the TIFFs beside it"},
    KnownFile{"<OME"sv, "OME-XML", "name one of the TIFFs that it describes"},
    KnownFile{"PK\x03\x04"sv, "a ZIP archive", "unpack it; arrays of numpy (.npz) as TIFF"},
    KnownFile{"\x1f\x8b"sv, "packed by gzip", "unpack it"},
    KnownFile{"ZISRAWFILE"sv, "Zeiss CZI", kAsOmeTiff},
    KnownFile{"\xda\xce\xbe\x0a"sv, "Nikon ND2", kAsOmeTiff},
    KnownFile{"\x70\0\0\0"sv, "Leica LIF", kAsOmeTiff},
    KnownFile{"DCIMG"sv, "Hamamatsu DCIMG", kAsOmeTiff},
    KnownFile{"Andor Technology Multi-Channel File"sv, "Andor SIF", kAsOmeTiff},
    KnownFile{"SIMPLE  ="sv, "FITS", "save it as TIFF, for example by ImageJ"},
    KnownFile{"\x89PNG"sv, "PNG", "save it as TIFF"},
    KnownFile{"\xff\xd8\xff"sv, "JPEG", "save it as TIFF, which loses nothing"}};

/// @throws RecordingError for a file that is known, and not read here
void refuse_known(const std::filesystem::path& path, std::string_view begin) {
  for (const KnownFile& known : kKnownFiles) {
    if (begin.starts_with(known.begin)) {
      throw RecordingError(path, "is " + std::string(known.name) +
                                     ", which is not read here: " + std::string(known.instead));
    }
  }
}

/// The first bytes of a file.
std::string begin_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw RecordingError(path, "cannot be opened");
  std::string begin(40, '\0');
  file.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  begin.resize(static_cast<std::size_t>(file.gcount()));
  return begin;
}

/// @throws RecordingError for a setting that has no meaning for the file
void check_meaning(const StackSettings& settings, StackFormat format) {
  struct Option {
    const char* name;
    bool given;
    StackFormat of;
    bool chooses = false;  ///< from the metadata
  };
  const StackOptionNames& names = settings.names;
  using enum StackFormat;
  for (const Option& option :
       {Option{names.width, settings.width_px > 0, PlainPixels},
        Option{names.height, settings.height_px > 0, PlainPixels},
        Option{names.type, settings.type.has_value(), PlainPixels},
        Option{names.byte_order, settings.byte_order.has_value(), PlainPixels},
        Option{names.dataset, !settings.dataset.empty(), Hdf5},
        Option{names.every_page, settings.every_page, Tiff},
        Option{names.series, settings.series >= 0, Tiff, true},
        Option{names.channel, settings.channel >= 0, Tiff, true},
        Option{names.slice, settings.slice >= 0, Tiff, true}}) {
    if (!option.given) continue;
    const std::string what = std::string("the option ") + option.name + " is for ";
    if (option.of != format) {
      throw RecordingError(settings.path,
                           what + name_of(option.of) + "; this is " + name_of(format));
    }
    if (option.chooses && settings.every_page) {
      throw RecordingError(
          settings.path, what + "metadata, which the option " + names.every_page + " leaves aside");
    }
  }
}

}  // namespace

std::size_t bytes_of(PixelType type) noexcept {
  switch (type) {
    case PixelType::U8:
      return 1;
    case PixelType::U16:
      return 2;
    case PixelType::F32:
      break;
  }
  return 4;
}

const char* name_of(PixelType type) noexcept {
  for (const TypeName& known : kTypeNames) {
    if (known.type == type) return known.name.data();
  }
  return "?";
}

std::optional<PlainType> plain_type_named(std::string_view name) noexcept {
  if (name == "int16" || name == "i16") return PlainType{PixelType::U16, true};
  for (const TypeName& known : kTypeNames) {
    if (known.name == name || known.short_name == name) return PlainType{known.type, false};
  }
  return std::nullopt;
}

std::size_t StackShape::frame_bytes() const noexcept {
  return pixels() * bytes_of(type);
}

bool ImageStack::is_repeat(std::int64_t frame) const noexcept {
  return std::binary_search(facts_.repeats.begin(), facts_.repeats.end(), frame);
}

void check_frame_size(const std::filesystem::path& path, std::int64_t width_px,
                      std::int64_t height_px) {
  if (width_px >= 1 && height_px >= 1 && width_px <= kMaxFramePixels &&
      height_px <= kMaxFramePixels / width_px) {
    return;
  }
  throw RecordingError(path, "frames of " + std::to_string(width_px) + " x " +
                                 std::to_string(height_px) + " px; allowed are 1 to " +
                                 std::to_string(kMaxFramePixels) + " pixels");
}

std::string truncated_note(const StackSettings& settings, std::int64_t whole,
                           std::optional<std::int64_t> said, const std::string& detail) {
  const bool one = whole == 1 || said == std::optional<std::int64_t>(1);
  std::string text = said ? "is truncated: " + std::to_string(whole) + " of " +
                                counted(*said, "frame") + (one ? " is whole" : " are whole")
                          : "is truncated: " + counted(whole, "whole frame");
  if (!detail.empty()) text += " (" + detail + ")";
  if (settings.allow_truncated && whole > 0) return text;
  if (whole > 0)
    text += std::string("; the option ") + settings.names.allow_truncated + " takes what is there";
  throw RecordingError(settings.path, text);
}

std::string lossy_note(const std::string& by, const std::string& loses) {
  return "its pixels are packed by " + by + ", which " + loses +
         ": what is left of the noise is not the camera's, and dim spots are off by more than is "
         "told, and too bright; record uncompressed, or packed by LZW or deflate (gzip)";
}

StackFormat format_of(const StackSettings& settings) {
  if (settings.format) return *settings.format;
  if (has_raw_name(settings.path)) return StackFormat::PlainPixels;
  const std::string begin = begin_of(settings.path);
  for (const std::string_view magic : {"II*\0"sv, "MM\0*"sv, "II+\0"sv, "MM\0+"sv}) {
    if (begin.starts_with(magic)) return StackFormat::Tiff;
  }
  if (is_hdf5(settings.path)) return StackFormat::Hdf5;
  if (settings.width_px > 0 && !begin.starts_with(kKnownFiles.front().begin))
    return StackFormat::PlainPixels;
  refuse_known(settings.path, begin);
  throw RecordingError(settings.path,
                       "is neither TIFF nor HDF5; plain pixels need a name that ends in .raw or "
                       ".bin, or the options " +
                           std::string(settings.names.width) + ", " + settings.names.height +
                           " and " + settings.names.type);
}

std::unique_ptr<ImageStack> open_stack(const StackSettings& settings) {
  std::error_code error;
  if (!std::filesystem::exists(settings.path, error)) {
    throw RecordingError(settings.path, "no such file");
  }
  if (!settings.more.empty() || std::filesystem::is_directory(settings.path, error)) {
    return open_joined_stack(settings);
  }
  if (!std::filesystem::is_regular_file(settings.path, error)) {
    throw RecordingError(settings.path, "is no file");
  }
  const StackFormat format = format_of(settings);
  if (settings.format == StackFormat::Tiff) refuse_known(settings.path, begin_of(settings.path));
  check_meaning(settings, format);
  switch (format) {
    case StackFormat::Tiff:
      return open_tiff_stack(settings);
    case StackFormat::Hdf5:
      return open_hdf5_stack(settings);
    case StackFormat::PlainPixels:
      break;
  }
  return open_raw_stack(settings);
}

}  // namespace driftd::camera
