// SPDX-License-Identifier: MIT
#include "tools/driftfit/camera_maps.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include "base/counted.hpp"
#include "tools/driftfit/errors.hpp"

namespace driftd::tools {
namespace {

/// What a map is of.
struct Kind {
  const char* name;
  bool (*allowed)(float);
  const char* what_is_allowed;
};
constexpr Kind kGain{"gain", [](float v) { return v >= 1e-12f && v <= 1e12f; },
                     "1e-12 to 1e12 (a dead pixel: any of these, and an infinite variance)"};
constexpr Kind kOffset{"offset", [](float v) { return std::isfinite(v); }, "finite numbers"};
constexpr Kind kVariance{"variance", [](float v) { return v >= 0; },
                         "0, numbers above it, and infinity for a pixel that is gone"};

struct Origin {
  int x_px = 0, y_px = 0;
};

/// @throws InputError where the frames do not lie in the map
Origin origin_in(const std::filesystem::path& path, const Kind& kind, const CameraMapFiles& files,
                 const camera::StackShape& map, const camera::StackShape& frames) {
  const auto size = [](const camera::StackShape& s) {
    return fmt::format("{} x {} px", s.width_px, s.height_px);
  };
  if (files.origin_px.empty()) {
    if (map.width_px == frames.width_px && map.height_px == frames.height_px) return {};
    throw InputError(path, fmt::format("the map of {}s has {}, the frames have {}: allowed is "
                                       "their size, or a larger map with --map-origin",
                                       kind.name, size(map), size(frames)));
  }
  const Origin origin{files.origin_px[0], files.origin_px[1]};
  if (origin.x_px <= map.width_px - frames.width_px &&
      origin.y_px <= map.height_px - frames.height_px)
    return origin;
  throw InputError(path, fmt::format("the map of {}s has {}; frames of {} with --map-origin {},{} "
                                     "need one of {} x {} px or more",
                                     kind.name, size(map), size(frames), origin.x_px, origin.y_px,
                                     std::int64_t{origin.x_px} + frames.width_px,
                                     std::int64_t{origin.y_px} + frames.height_px));
}

template <class Pixel>
std::vector<float> cut(const Pixel* map, int map_width_px, Origin origin,
                       const camera::StackShape& frames) {
  std::vector<float> values;
  values.reserve(frames.pixels());
  for (int y = 0; y < frames.height_px; ++y) {
    const Pixel* const row =
        map + static_cast<std::ptrdiff_t>(origin.y_px + y) * map_width_px + origin.x_px;
    for (int x = 0; x < frames.width_px; ++x) values.push_back(static_cast<float>(row[x]));
  }
  return values;
}

void check_values(const std::filesystem::path& path, const Kind& kind, Origin origin, int width_px,
                  const std::vector<float>& values) {
  const auto bad = [&kind](float value) { return !kind.allowed(value); };
  const auto first = std::find_if(values.begin(), values.end(), bad);
  if (first == values.end()) return;
  const auto others = std::count_if(first + 1, values.end(), bad);
  const auto at = first - values.begin();
  throw InputError(
      path,
      fmt::format("the {} of the pixel in column {}, row {} (from 0) is {}{}; allowed are {}",
                  kind.name, origin.x_px + at % width_px, origin.y_px + at / width_px, *first,
                  others > 0 ? fmt::format(" (and {} more)", others) : "", kind.what_is_allowed));
}

/// A file of one image, by what its metadata say. @throws InputError
std::unique_ptr<camera::ImageStack> open_map(const std::filesystem::path& path, const Kind& kind) {
  camera::StackSettings settings;
  settings.path = path;
  settings.format = camera::StackFormat::Tiff;
  const auto refuse = [&](const std::string& what) {
    throw InputError(path, fmt::format("{}; a map of {}s has one image, alone in its file, not "
                                       "packed by what loses, with its first row on top",
                                       what, kind.name));
  };
  std::unique_ptr<camera::ImageStack> file;
  try {
    file = camera::open_stack(settings);
  } catch (const camera::RecordingError& error) {
    // Recordings have options for what is to be taken; a map has none.
    if (error.problem.find("option ") != std::string::npos)
      refuse(error.problem.substr(0, error.problem.find("; ")));
    throw InputError(path, fmt::format("cannot be a map of {}s: {}", kind.name, error.problem));
  }
  if (file->shape().frames != 1) refuse(counted(file->shape().frames, "image"));
  if (!file->notes().empty()) refuse(file->notes().front());
  return file;
}

std::vector<float> read_map(const std::filesystem::path& path, const Kind& kind,
                            const CameraMapFiles& files, const camera::StackShape& frames) {
  if (path.empty()) return {};
  const auto file = open_map(path, kind);
  const camera::StackShape& map = file->shape();
  const Origin origin = origin_in(path, kind, files, map, frames);
  std::vector<std::byte> bytes(map.frame_bytes());
  file->read(0, 1, bytes.data());
  std::vector<float> values;
  switch (map.type) {
    case camera::PixelType::U8:
      values =
          cut(reinterpret_cast<const std::uint8_t*>(bytes.data()), map.width_px, origin, frames);
      break;
    case camera::PixelType::U16:
      values =
          cut(reinterpret_cast<const std::uint16_t*>(bytes.data()), map.width_px, origin, frames);
      break;
    case camera::PixelType::F32:
      values = cut(reinterpret_cast<const float*>(bytes.data()), map.width_px, origin, frames);
      break;
  }
  check_values(path, kind, origin, frames.width_px, values);
  return values;
}

struct Conversion {
  std::vector<float> gains, offsets;  ///< of each pixel, or none: then all have
  float gain = 1, offset = 0;
  std::vector<std::size_t> gone;  ///< read as 0, whatever they show
  float saturation_adu = 0;
};

/// Frames of another stack as floats, (pixel - offset) gain.
class ConvertedStack final : public camera::ImageStack {
 public:
  ConvertedStack(std::unique_ptr<camera::ImageStack> stack, Conversion conversion)
      : ImageStack(float_shape(stack->shape()), stack->facts()),
        stack_(std::move(stack)),
        by_(std::move(conversion)) {}

  void read(std::int64_t first, std::int64_t count, std::byte* out) override {
    const camera::StackShape& recorded = stack_->shape();
    raw_.resize(static_cast<std::size_t>(count) * recorded.frame_bytes());
    stack_->read(first, count, raw_.data());
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      const std::byte* const from = raw_.data() + i * recorded.frame_bytes();
      auto* const to = reinterpret_cast<float*>(out + i * shape().frame_bytes());
      switch (recorded.type) {
        case camera::PixelType::U8:
          convert(reinterpret_cast<const std::uint8_t*>(from), to);
          break;
        case camera::PixelType::U16:
          convert(reinterpret_cast<const std::uint16_t*>(from), to);
          break;
        case camera::PixelType::F32:
          convert(reinterpret_cast<const float*>(from), to);
          break;
      }
    }
  }
  bool reads_beside_others() const noexcept override { return stack_->reads_beside_others(); }
  std::string metadata(std::int64_t frame) override { return stack_->metadata(frame); }

 private:
  static camera::StackShape float_shape(camera::StackShape shape) {
    shape.type = camera::PixelType::F32;
    return shape;
  }

  template <class Pixel>
  void convert(const Pixel* from, float* to) const noexcept {
    constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
    const float* const gains = by_.gains.empty() ? nullptr : by_.gains.data();
    const float* const offsets = by_.offsets.empty() ? nullptr : by_.offsets.data();
    for (std::size_t i = 0; i < shape().pixels(); ++i) {
      const auto value = static_cast<float>(from[i]);
      const float light = (value - (offsets != nullptr ? offsets[i] : by_.offset)) *
                          (gains != nullptr ? gains[i] : by_.gain);
      to[i] = value < by_.saturation_adu ? light : kNone;
    }
    for (const std::size_t i : by_.gone) to[i] = 0;
  }

  std::unique_ptr<camera::ImageStack> stack_;
  Conversion by_;
  std::vector<std::byte> raw_;
};

}  // namespace

CameraMaps::CameraMaps(const CameraMapFiles& files, const camera::StackShape& frames)
    : gains_(read_map(files.gain, kGain, files, frames)),
      offsets_(read_map(files.offset, kOffset, files, frames)),
      variances_(read_map(files.variance, kVariance, files, frames)) {
  if (variances_.empty()) return;
  for (std::size_t i = 0; i < gains_.size(); ++i) variances_[i] *= gains_[i] * gains_[i];
  const float gain = gains_.empty() ? 1 : median_of(gains_);
  hot_ = HotPixels(frames.width_px, variances_, gain * gain * kRoundingVariance);
  if (!std::isfinite(hot_.median_variance()))
    throw InputError(files.variance, "half of the pixels or more are gone (infinite variances)");
}

std::unique_ptr<camera::ImageStack> CameraMaps::applied_to(
    std::unique_ptr<camera::ImageStack> stack, fitter::NoiseModel& noise, float& saturation_adu) {
  saturation_adu_ = saturation_adu;
  std::vector<std::size_t> gone;
  for (std::size_t i = 0; i < variances_.size(); ++i)
    if (std::isinf(variances_[i])) gone.push_back(i);
  converted_ = !gains_.empty() || !offsets_.empty() || !gone.empty();
  if (converted_) {
    whole_counts_ = stack->shape().type != camera::PixelType::F32 || stack->facts().from_int16;
    offset_adu_ = noise.offset_adu;
    if (stack->shape().type != camera::PixelType::F32)
      rounding_noise_ = std::sqrt(kRoundingVariance) * (gains_.empty() ? 1 : median_of(gains_));
    if (!gains_.empty()) noise.gain_e_per_adu = 1;
    stack = std::make_unique<ConvertedStack>(std::move(stack),
                                             Conversion{.gains = gains_,
                                                        .offsets = offsets_,
                                                        .offset = noise.offset_adu,
                                                        .gone = std::move(gone),
                                                        .saturation_adu = saturation_adu});
    noise.offset_adu = 0;
    saturation_adu = std::numeric_limits<float>::infinity();
  }
  if (!variances_.empty() && noise.gain_e_per_adu > 0)
    noise.read_noise_e = std::sqrt(hot_.median_variance()) * noise.gain_e_per_adu;
  return stack;
}

float CameraMaps::as_recorded(std::size_t pixel, float light) const noexcept {
  const float counts = light / (gains_.empty() ? 1 : gains_[pixel]) +
                       (offsets_.empty() ? offset_adu_ : offsets_[pixel]);
  if (whole_counts_) return std::nearbyint(counts);
  // There and back leaves pixels that were equal some 1e-7 apart.
  constexpr int kBits = 16;
  constexpr float kRounding = 1 + 5e-7f;
  int exponent = 0;
  const float fraction = std::frexp(counts * kRounding, &exponent);
  return std::ldexp(std::floor(std::ldexp(fraction, kBits)), exponent - kBits);
}

}  // namespace driftd::tools
