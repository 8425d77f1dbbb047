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

StackFormat format_of(const StackSettings& settings) {
  if (settings.format) return *settings.format;
  if (has_raw_name(settings.path)) return StackFormat::PlainPixels;
  std::array<char, 8> bytes{};
  std::ifstream file(settings.path, std::ios::binary);
  if (!file) throw RecordingError(settings.path, "cannot be opened");
  file.read(bytes.data(), bytes.size());
  const std::string_view begin(bytes.data(), static_cast<std::size_t>(file.gcount()));
  for (const std::string_view magic : {"II*\0"sv, "MM\0*"sv, "II+\0"sv, "MM\0+"sv}) {
    if (begin.starts_with(magic)) return StackFormat::Tiff;
  }
  if (is_hdf5(settings.path)) return StackFormat::Hdf5;
  if (settings.width_px > 0) return StackFormat::PlainPixels;
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
