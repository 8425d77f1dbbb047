// SPDX-License-Identifier: MIT
#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <system_error>
#include <utility>

#include "base/counted.hpp"

#include "camera/recording/stack_formats.hpp"

namespace driftd::camera {
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

/// One file at a time.
class PixelFile {
 public:
  void open(const std::filesystem::path& path) {
    if (path == path_) return;
    file_ = std::ifstream(path, std::ios::binary);
    if (!file_) throw RecordingError(path, "cannot be opened");
    path_ = path;
  }
  bool read(std::uint64_t begin, std::size_t bytes, char* out) {
    file_.clear();
    file_.seekg(static_cast<std::streamoff>(begin));
    file_.read(out, static_cast<std::streamsize>(bytes));
    return static_cast<bool>(file_);
  }
  void read_frames(std::uint64_t begin, const StackShape& shape, ByteOrder order,
                   std::int64_t first, std::int64_t count, std::byte* out) {
    const std::size_t bytes = shape.frame_bytes() * static_cast<std::size_t>(count);
    if (!read(begin, bytes, reinterpret_cast<char*>(out))) {
      throw RecordingError(path_, "frames " + std::to_string(first) + " to " +
                                      std::to_string(first + count - 1) + " cannot be read");
    }
    const bool little = std::endian::native == std::endian::little;
    if ((order == ByteOrder::Little) == little) return;
    const std::size_t words = bytes / bytes_of(shape.type);
    if (shape.type == PixelType::U16) swap_bytes<std::uint16_t>(out, words);
    if (shape.type == PixelType::F32) swap_bytes<std::uint32_t>(out, words);
  }

 private:
  std::filesystem::path path_;
  std::ifstream file_;
};

class PlainStack final : public ImageStack {
 public:
  PlainStack(const PlainPixels& pixels, const StackShape& shape, StackFacts facts)
      : ImageStack(shape, std::move(facts)), pixels_(pixels) {
    file_.open(pixels_.path);
  }

  void read(std::int64_t first, std::int64_t count, std::byte* out) override {
    const std::int64_t at_once = pixels_.frames_apart == 1 ? count : 1;
    for (std::int64_t done = 0; done < count; done += at_once) {
      const std::int64_t frame = first + done;
      file_.read_frames(
          pixels_.offset_bytes +
              shape().frame_bytes() * static_cast<std::uint64_t>(frame * pixels_.frames_apart),
          shape(), pixels_.byte_order, frame, at_once, out);
      out += shape().frame_bytes() * static_cast<std::size_t>(at_once);
    }
  }

 private:
  PlainPixels pixels_;
  PixelFile file_;
};

class ScatteredStack final : public ImageStack {
 public:
  ScatteredStack(ScatteredPixels pixels, const StackShape& shape, StackFacts facts)
      : ImageStack(shape, std::move(facts)), pixels_(std::move(pixels)) {}

  void read(std::int64_t first, std::int64_t count, std::byte* out) override {
    for (std::int64_t frame = first; frame < first + count; ++frame) {
      const FramePlace& place = pixels_.frames[static_cast<std::size_t>(frame)];
      file_.open(pixels_.files[place.file]);
      file_.read_frames(place.pixels_at, shape(), pixels_.byte_order, frame, 1, out);
      out += shape().frame_bytes();
    }
  }

  std::string metadata(std::int64_t frame) override {
    const FramePlace& place = pixels_.frames[static_cast<std::size_t>(frame)];
    if (place.metadata_at == 0 || place.metadata_bytes > kLongestMetadata) return {};
    std::string text(place.metadata_bytes, '\0');
    file_.open(pixels_.files[place.file]);
    return file_.read(place.metadata_at, text.size(), text.data()) ? text : "";
  }

 private:
  static constexpr std::uint64_t kLongestMetadata = std::uint64_t{1} << 24;
  ScatteredPixels pixels_;
  PixelFile file_;
};

}  // namespace

std::int64_t whole_images(const std::filesystem::path& path, std::uint64_t offset_bytes,
                          const StackShape& shape) {
  std::error_code error;
  const std::uintmax_t bytes = std::filesystem::file_size(path, error);
  if (error) throw RecordingError(path, error.message());
  const std::uint64_t room = bytes - std::min<std::uint64_t>(bytes, offset_bytes);
  return static_cast<std::int64_t>(room / shape.frame_bytes());
}

std::unique_ptr<ImageStack> open_plain_pixels(const PlainPixels& pixels, const StackShape& shape,
                                              StackFacts facts) {
  return std::make_unique<PlainStack>(pixels, shape, std::move(facts));
}

std::unique_ptr<ImageStack> open_scattered_pixels(ScatteredPixels pixels, const StackShape& shape,
                                                  StackFacts facts) {
  return std::make_unique<ScatteredStack>(std::move(pixels), shape, std::move(facts));
}

std::unique_ptr<ImageStack> open_raw_stack(const StackSettings& settings) {
  if (!settings.type) {
    throw RecordingError(settings.path, std::string("plain pixels need the option ") +
                                            settings.names.type + "; allowed are " + kPlainTypes);
  }
  check_frame_size(settings.path, settings.width_px, settings.height_px);
  StackShape shape{.width_px = static_cast<int>(settings.width_px),
                   .height_px = static_cast<int>(settings.height_px),
                   .frames = 0,
                   .type = *settings.type};
  const std::int64_t whole = whole_images(settings.path, 0, shape);
  std::error_code error;
  const std::uintmax_t bytes = std::filesystem::file_size(settings.path, error);
  if (error) throw RecordingError(settings.path, error.message());
  if (settings.frames && whole > *settings.frames) {
    throw RecordingError(settings.path, "has " + counted(whole, "frame") +
                                            ", its description says " +
                                            std::to_string(*settings.frames));
  }
  StackFacts facts;
  const std::uintmax_t rest = bytes % shape.frame_bytes();
  if (bytes == 0 || rest != 0 || (settings.frames && whole < *settings.frames)) {
    const std::string frame = std::to_string(shape.width_px) + " x " +
                              std::to_string(shape.height_px) + " " +
                              (settings.has_sign ? "int16" : name_of(shape.type)) + " (" +
                              std::to_string(shape.frame_bytes()) + " bytes each)";
    const std::string detail = bytes == 0 || rest != 0
                                   ? "its " + std::to_string(bytes) +
                                         " bytes are not a whole number of frames of " + frame +
                                         ", unless that size or type is wrong"
                                   : "its description says more";
    facts.notes.push_back(truncated_note(settings, whole, settings.frames, detail));
  }
  shape.frames = whole;
  auto stack = open_plain_pixels(
      {.path = settings.path, .byte_order = settings.byte_order.value_or(ByteOrder::Little)}, shape,
      std::move(facts));
  return settings.has_sign ? open_signed_words(std::move(stack), 0) : std::move(stack);
}

}  // namespace driftd::camera
