// SPDX-License-Identifier: MIT
#include "camera/recording/replay_images.hpp"

#include <cmath>
#include <cstdint>
#include <fstream>
#include <limits>
#include <memory>
#include <string>

#include "base/counted.hpp"
#include "camera/recording/image_stack.hpp"

namespace driftd::camera {
namespace {

constexpr StackOptionNames kOptionNames{.width = "replay.width_px",
                                        .height = "replay.height_px",
                                        .type = "replay.format",
                                        .byte_order = "replay.format",
                                        .dataset = "replay.dataset",
                                        .series = "replay.series",
                                        .channel = "replay.channel",
                                        .slice = "replay.slice",
                                        .every_page = "replay.every_page",
                                        .allow_truncated = "replay.allow_truncated"};

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& what) {
  throw RecordingError(path, what);
}

/// Memory that the kernel can give without swapping; nothing where /proc does not say.
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
                          " are asked for by replay.first_frame and replay.last_frame; it has " +
                          std::to_string(frames_in_file) + " (0 to " +
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
    fail(settings.path, counted(images.count, "frame needs ", "frames need ") +
                            std::to_string(needed / kMebibyte) + " MiB of memory, " +
                            std::to_string(*available / kMebibyte) +
                            " MiB are available: choose fewer by replay.first_frame and "
                            "replay.last_frame");
  }
  images.pixels.resize(needed);
}

StackSettings stack_settings(const ReplaySettings& settings) {
  StackSettings stack{.path = settings.path,
                      .format = StackFormat::PlainPixels,
                      .width_px = settings.width_px,
                      .height_px = settings.height_px,
                      .dataset = settings.dataset,
                      .series = settings.series,
                      .channel = settings.channel,
                      .slice = settings.slice,
                      .every_page = settings.every_page,
                      .allow_truncated = settings.allow_truncated,
                      .last_frame = settings.last_frame,
                      .names = kOptionNames};
  switch (settings.format) {
    case ReplayFormat::Tiff:
      stack.format = StackFormat::Tiff;
      break;
    case ReplayFormat::Hdf5:
      stack.format = StackFormat::Hdf5;
      break;
    case ReplayFormat::RawU8:
      stack.type = PixelType::U8;
      break;
    case ReplayFormat::RawU16:
      stack.type = PixelType::U16;
      break;
  }
  return stack;
}

/// The camera's counterpart of a stack's pixel type.
PixelFormat format_of(const ReplaySettings& settings, const ImageStack& stack) {
  const PixelType type = stack.shape().type;
  if (type == PixelType::F32 && !stack.facts().from_int16) {
    fail(settings.path, std::string("pixels are ") + name_of(type) +
                            "; a camera's, and those of a replay, are uint8 or uint16");
  }
  return type == PixelType::U8 ? PixelFormat::Mono8 : PixelFormat::Mono16;
}

/// Words with a sign, which were none below 0 to be a camera's.
void read_signed(const ReplaySettings& settings, ImageStack& stack, ReplayImages& images) {
  std::vector<float> frame(stack.shape().pixels());
  auto* word = reinterpret_cast<std::uint16_t*>(images.pixels.data());
  for (int i = 0; i < images.count; ++i) {
    stack.read(images.first_frame + i, 1, reinterpret_cast<std::byte*>(frame.data()));
    for (const float pixel : frame) {
      if (pixel < 0) {
        fail(settings.path, "frame " + std::to_string(images.first_frame + i) + " has a pixel of " +
                                std::to_string(std::lround(pixel)) +
                                "; a camera's, and those of a replay, are 0 to 65535: save the "
                                "recording with so much added that none is below 0");
      }
      *word++ = static_cast<std::uint16_t>(pixel);
    }
  }
}

}  // namespace

ReplayImages read_recording(const ReplaySettings& settings) {
  if (settings.first_frame < 0 ||
      (settings.last_frame >= 0 && settings.last_frame < settings.first_frame)) {
    fail(settings.path, "the range of frames is empty: replay.first_frame " +
                            std::to_string(settings.first_frame) + ", replay.last_frame " +
                            std::to_string(settings.last_frame));
  }
  const std::unique_ptr<ImageStack> stack = open_stack(stack_settings(settings));
  const StackShape& shape = stack->shape();
  if (shape.frames > std::numeric_limits<int>::max()) {
    fail(settings.path, std::to_string(shape.frames) + " frames are more than can be counted");
  }
  ReplayImages images;
  images.format = format_of(settings, *stack);
  images.width_px = shape.width_px;
  images.height_px = shape.height_px;
  images.recorded_rate_hz = stack->recorded_rate_hz();
  images.notes = stack->notes();
  allocate(images, settings, static_cast<int>(shape.frames));
  images.left_out.resize(static_cast<std::size_t>(images.count));
  for (int i = 1; i < images.count; ++i) {
    images.left_out[static_cast<std::size_t>(i)] = stack->is_repeat(images.first_frame + i);
  }
  if (stack->facts().from_int16) {
    read_signed(settings, *stack, images);
  } else {
    stack->read(images.first_frame, images.count, images.pixels.data());
  }
  return images;
}

}  // namespace driftd::camera
