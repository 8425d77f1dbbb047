// SPDX-License-Identifier: MIT
#include "camera/simulator/sensor.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace driftd::simulator {
namespace {

/// Pixels past which a spot's light is neglected: 6e-7 of it per side.
constexpr double kReachSigma = 5;
constexpr int kLargestPatch = 512;

/// Integrals of a unit Gaussian over the pixels first .. first + count - 1 of one axis.
void integrate_axis(double center_px, double sigma_px, int first, int count, double* out) {
  const double scale = 1 / (std::numbers::sqrt2 * sigma_px);
  double before = std::erf((first - 0.5 - center_px) * scale);
  for (int i = 0; i < count; ++i) {
    const double after = std::erf((first + i + 0.5 - center_px) * scale);
    out[i] = 0.5 * (after - before);
    before = after;
  }
}

struct Range {
  int begin = 0;
  int end = 0;
};

Range reach_of(double center_px, double sigma_px, int size_px) {
  const double reach = kReachSigma * sigma_px + 0.5;
  const double low = std::clamp(std::floor(center_px - reach), 0.0, static_cast<double>(size_px));
  const double high =
      std::clamp(std::ceil(center_px + reach) + 1, low, static_cast<double>(size_px));
  const int begin = static_cast<int>(low);
  return {begin, std::min(static_cast<int>(high), begin + kLargestPatch)};
}

}  // namespace

SpotPatch add_spot(const Spot& spot, Vec2 sigma_px, double electrons,
                   const SensorSettings& settings, float* signal_e) {
  const double x = spot.x_px - settings.offset_x_px;
  const double y = spot.y_px - settings.offset_y_px;
  const Range columns = reach_of(x, sigma_px.x, settings.width_px);
  const Range rows = reach_of(y, sigma_px.y, settings.height_px);
  std::array<double, kLargestPatch> across{};
  std::array<double, kLargestPatch> down{};
  integrate_axis(x, sigma_px.x, columns.begin, columns.end - columns.begin, across.data());
  integrate_axis(y, sigma_px.y, rows.begin, rows.end - rows.begin, down.data());
  for (int row = rows.begin; row < rows.end; ++row) {
    const double share = electrons * down[static_cast<std::size_t>(row - rows.begin)];
    float* line = signal_e + static_cast<std::ptrdiff_t>(row) * settings.width_px;
    for (int column = columns.begin; column < columns.end; ++column) {
      line[column] +=
          static_cast<float>(share * across[static_cast<std::size_t>(column - columns.begin)]);
    }
  }
  return {columns.begin, columns.end, rows.begin, rows.end};
}

Sensor::Sensor(const CameraModel& camera, const OpticsModel& optics, std::uint64_t seed)
    : camera_(camera),
      sigma_x_px_(optics.sigma_px),
      sigma_y_px_(optics.sigma_y_px > 0 ? optics.sigma_y_px : optics.sigma_px),
      random_(seed, 40),
      bulk_(seed, 41),
      read_noise_(PoissonGaussCdf(0, camera.read_noise_e), -8 * camera.read_noise_e,
                  8 * camera.read_noise_e) {
  const auto pixels =
      static_cast<std::size_t>(camera.width_px) * static_cast<std::size_t>(camera.height_px);
  Random pattern(seed, 42);
  for (std::size_t i = 0; i < pixels; ++i) {
    offset_adu_.push_back(
        static_cast<float>(camera.offset_adu + camera.offset_pattern_adu * pattern.normal() + 0.5));
    adu_per_e_.push_back(
        static_cast<float>((1 + camera.gain_pattern * pattern.normal()) / camera.gain_e_per_adu));
  }
  signal_e_.assign(pixels, 0.0F);
  const auto width = static_cast<std::size_t>(camera.width_px);
  row_bits_.resize((width + BulkRandom::kLanes - 1) / BulkRandom::kLanes * BulkRandom::kLanes);
}

std::uint16_t Sensor::level(std::size_t sensor_pixel, float electrons) const noexcept {
  const float value =
      offset_adu_[sensor_pixel] + adu_per_e_[sensor_pixel] * gain_factor_ * electrons;
  const auto top = static_cast<float>((1 << camera_.bit_depth) - 1);
  return static_cast<std::uint16_t>(std::clamp(value, 0.0F, top));
}

void Sensor::image_background(const SensorSettings& settings, std::uint16_t* levels) {
  const double electrons = camera_.background_e * settings.exposure_us / camera_.exposure_us;
  if (electrons != background_e_) {
    const PoissonGaussCdf cdf(electrons, camera_.read_noise_e);
    background_ = QuantileTable(cdf, cdf.low(), cdf.high());
    background_e_ = electrons;
  }
  const auto width = static_cast<std::size_t>(settings.width_px);
  const auto full_well = static_cast<float>(camera_.full_well_e);
  for (int row = 0; row < settings.height_px; ++row) {
    bulk_.fill(row_bits_.data(), width);
    const std::size_t sensor_pixel = static_cast<std::size_t>(row + settings.offset_y_px) *
                                         static_cast<std::size_t>(camera_.width_px) +
                                     static_cast<std::size_t>(settings.offset_x_px);
    std::uint16_t* line = levels + static_cast<std::size_t>(row) * width;
    for (std::size_t column = 0; column < width; ++column) {
      const float value = std::min(background_.value(row_bits_[column]), full_well);
      line[column] = level(sensor_pixel + column, value);
    }
  }
}

void Sensor::image_spot(const Spot& spot, const SensorSettings& settings, std::uint16_t* levels) {
  // The signal of all spots is already summed. A pixel is drawn with the first patch it lies in;
  // its signal is then taken away, so that an overlapping patch skips it.
  const SpotPatch patch = add_spot(spot, {sigma_x_px_, sigma_y_px_}, 0, settings, signal_e_.data());
  for (int row = patch.y_begin; row < patch.y_end; ++row) {
    for (int column = patch.x_begin; column < patch.x_end; ++column) {
      const std::size_t pixel =
          static_cast<std::size_t>(row) * static_cast<std::size_t>(settings.width_px) +
          static_cast<std::size_t>(column);
      if (signal_e_[pixel] <= 0) continue;
      const double expected = background_e_ + static_cast<double>(signal_e_[pixel]);
      signal_e_[pixel] = 0;
      const double collected =
          std::min(static_cast<double>(random_.poisson(expected)), camera_.full_well_e);
      const auto noise = read_noise_.value(static_cast<std::uint32_t>(random_.next() >> 32));
      const std::size_t sensor_pixel = static_cast<std::size_t>(row + settings.offset_y_px) *
                                           static_cast<std::size_t>(camera_.width_px) +
                                       static_cast<std::size_t>(column + settings.offset_x_px);
      levels[pixel] = level(sensor_pixel, static_cast<float>(collected) + noise);
    }
  }
}

void Sensor::image(std::span<const Spot> spots, const SensorSettings& settings,
                   std::uint16_t* levels) {
  gain_factor_ = static_cast<float>(std::pow(10.0, settings.gain_db / 20));
  image_background(settings, levels);
  const double exposure = settings.exposure_us / camera_.exposure_us;
  for (const Spot& spot : spots) {
    add_spot(spot, {sigma_x_px_, sigma_y_px_}, spot.electrons * exposure, settings,
             signal_e_.data());
  }
  for (const Spot& spot : spots) image_spot(spot, settings, levels);
}

std::size_t packed_bytes(camera::PixelFormat format, std::size_t pixels) noexcept {
  using camera::PixelFormat;
  switch (format) {
    case PixelFormat::Mono8:
      return pixels;
    case PixelFormat::Mono10Packed:
    case PixelFormat::Mono12Packed:
    case PixelFormat::Mono12p:
      return (pixels * 3 + 1) / 2;
    case PixelFormat::Mono10p:
      return (pixels * 5 + 3) / 4;
    case PixelFormat::Mono10:
    case PixelFormat::Mono12:
    case PixelFormat::Mono16:
      break;
  }
  return pixels * 2;
}

namespace {

int bits_of(camera::PixelFormat format) {
  using camera::PixelFormat;
  switch (format) {
    case PixelFormat::Mono8:
      return 8;
    case PixelFormat::Mono10:
    case PixelFormat::Mono10Packed:
    case PixelFormat::Mono10p:
      return 10;
    case PixelFormat::Mono12:
    case PixelFormat::Mono12Packed:
    case PixelFormat::Mono12p:
      return 12;
    case PixelFormat::Mono16:
      break;
  }
  return 16;
}

/// GigE Vision packing: the high bytes of two pixels around one byte with both remainders.
void pack_gige(std::span<const std::uint16_t> levels, int shift, int bits, std::byte* out) {
  const int low_bits = bits - 8;
  const unsigned mask = (1U << low_bits) - 1;
  for (std::size_t i = 0; i < levels.size(); i += 2) {
    const unsigned a = levels[i] >> shift;
    *out++ = static_cast<std::byte>(a >> low_bits);
    if (i + 1 == levels.size()) {
      *out++ = static_cast<std::byte>(a & mask);
      break;
    }
    const unsigned b = levels[i + 1] >> shift;
    *out++ = static_cast<std::byte>((a & mask) | ((b & mask) << 4));
    *out++ = static_cast<std::byte>(b >> low_bits);
  }
}

/// PFNC packing: one stream of bits, the lowest first.
void pack_contiguous(std::span<const std::uint16_t> levels, int shift, int bits, std::byte* out) {
  unsigned pending = 0;
  int pending_bits = 0;
  for (const std::uint16_t value : levels) {
    pending |= (static_cast<unsigned>(value) >> shift) << pending_bits;
    pending_bits += bits;
    for (; pending_bits >= 8; pending_bits -= 8, pending >>= 8) {
      *out++ = static_cast<std::byte>(pending & 0xff);
    }
  }
  if (pending_bits > 0) *out = static_cast<std::byte>(pending & 0xff);
}

}  // namespace

void pack_levels(std::span<const std::uint16_t> levels, camera::PixelFormat format, int bit_depth,
                 std::byte* out) {
  using camera::PixelFormat;
  const int bits = bits_of(format);
  const int shift = std::max(0, bit_depth - bits);
  switch (format) {
    case PixelFormat::Mono8:
      for (std::size_t i = 0; i < levels.size(); ++i) {
        out[i] = static_cast<std::byte>(levels[i] >> shift);
      }
      return;
    case PixelFormat::Mono10Packed:
    case PixelFormat::Mono12Packed:
      pack_gige(levels, shift, bits, out);
      return;
    case PixelFormat::Mono10p:
    case PixelFormat::Mono12p:
      pack_contiguous(levels, shift, bits, out);
      return;
    case PixelFormat::Mono10:
    case PixelFormat::Mono12:
    case PixelFormat::Mono16:
      break;
  }
  for (std::size_t i = 0; i < levels.size(); ++i) {
    const unsigned value = levels[i] >> shift;
    out[2 * i] = static_cast<std::byte>(value & 0xff);
    out[2 * i + 1] = static_cast<std::byte>(value >> 8);
  }
}

}  // namespace driftd::simulator
