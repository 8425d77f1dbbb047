// SPDX-License-Identifier: MIT
#include <bit>
#include <cstring>
#include <fstream>
#include <system_error>

#include "clients/driftfit/errors.hpp"
#include "clients/driftfit/stack_formats.hpp"
#include "clients/driftfit/yaml_files.hpp"

namespace driftd::clients {
namespace {

template <class Word>
void swap_bytes(std::byte* bytes, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    Word word;
    std::memcpy(&word, bytes + i * sizeof(Word), sizeof(Word));
    if constexpr (sizeof(Word) == 2) {
      word = __builtin_bswap16(word);
    } else {
      word = __builtin_bswap32(word);
    }
    std::memcpy(bytes + i * sizeof(Word), &word, sizeof(Word));
  }
}

class PlainStack final : public ImageStack {
 public:
  PlainStack(const PlainPixels& pixels, const StackShape& shape)
      : pixels_(pixels), file_(pixels.path, std::ios::binary) {
    shape_ = shape;
    if (!file_) throw InputError(pixels_.path, "cannot be opened");
  }

  void read(std::int64_t first, std::int64_t count, std::byte* out) override {
    const std::size_t bytes = shape_.frame_bytes() * static_cast<std::size_t>(count);
    const std::uint64_t begin =
        pixels_.offset_bytes + shape_.frame_bytes() * static_cast<std::uint64_t>(first);
    file_.clear();
    file_.seekg(static_cast<std::streamoff>(begin));
    file_.read(reinterpret_cast<char*>(out), static_cast<std::streamsize>(bytes));
    if (!file_) {
      throw InputError(pixels_.path, "frames " + std::to_string(first) + " to " +
                                         std::to_string(first + count - 1) + " cannot be read");
    }
    const bool little = std::endian::native == std::endian::little;
    if ((pixels_.byte_order == ByteOrder::Little) == little) return;
    const std::size_t words = bytes / bytes_of(shape_.type);
    if (shape_.type == fitter::PixelType::U16) swap_bytes<std::uint16_t>(out, words);
    if (shape_.type == fitter::PixelType::F32) swap_bytes<std::uint32_t>(out, words);
  }

 private:
  PlainPixels pixels_;
  std::ifstream file_;
};

/// The description beside the pixels, under what the settings say.
RawDescription description_of(const StackSettings& settings) {
  const std::filesystem::path beside =
      std::filesystem::path(settings.path).replace_extension(".yaml");
  std::error_code error;
  RawDescription description;
  if (std::filesystem::exists(beside, error)) description = read_raw_description(beside);
  if (settings.width_px > 0) description.width_px = settings.width_px;
  if (settings.height_px > 0) description.height_px = settings.height_px;
  if (settings.type) description.type = settings.type;
  if (settings.byte_order) description.byte_order = settings.byte_order;
  std::string missing;
  if (!description.width_px) missing += " --width";
  if (!description.height_px) missing += " --height";
  if (!description.type) missing += " --type";
  if (!missing.empty()) {
    throw InputError(settings.path, "plain pixels need a description, " + beside.string() +
                                        ", or the options" + missing);
  }
  return description;
}

}  // namespace

std::unique_ptr<ImageStack> open_plain_pixels(const PlainPixels& pixels, const StackShape& shape) {
  std::error_code error;
  const std::uintmax_t file_bytes = std::filesystem::file_size(pixels.path, error);
  if (error) throw InputError(pixels.path, error.message());
  const std::uint64_t needed =
      pixels.offset_bytes + shape.frame_bytes() * static_cast<std::uint64_t>(shape.frames);
  if (file_bytes < needed) {
    throw InputError(pixels.path, std::to_string(shape.frames) + " frames need " +
                                      std::to_string(needed) + " bytes, the file has " +
                                      std::to_string(file_bytes) + ": it is truncated");
  }
  return std::make_unique<PlainStack>(pixels, shape);
}

std::unique_ptr<ImageStack> open_raw_stack(const StackSettings& settings) {
  const RawDescription description = description_of(settings);
  check_frame_size(settings.path, *description.width_px, *description.height_px);
  StackShape shape{.width_px = static_cast<int>(*description.width_px),
                   .height_px = static_cast<int>(*description.height_px),
                   .frames = 0,
                   .type = *description.type};
  std::error_code error;
  const std::uintmax_t bytes = std::filesystem::file_size(settings.path, error);
  if (error) throw InputError(settings.path, error.message());
  if (bytes == 0 || bytes % shape.frame_bytes() != 0) {
    throw InputError(settings.path,
                     "its " + std::to_string(bytes) +
                         " bytes are not a whole number of frames of " +
                         std::to_string(shape.width_px) + " x " + std::to_string(shape.height_px) +
                         " " + name_of(shape.type) + " (" + std::to_string(shape.frame_bytes()) +
                         " bytes each): wrong size or type, or truncated");
  }
  shape.frames = static_cast<std::int64_t>(bytes / shape.frame_bytes());
  if (description.frames && *description.frames != shape.frames) {
    throw InputError(settings.path, "has " + std::to_string(shape.frames) +
                                        " frames, its description says " +
                                        std::to_string(*description.frames));
  }
  return open_plain_pixels({.path = settings.path,
                            .offset_bytes = 0,
                            .byte_order = description.byte_order.value_or(ByteOrder::Little)},
                           shape);
}

}  // namespace driftd::clients
