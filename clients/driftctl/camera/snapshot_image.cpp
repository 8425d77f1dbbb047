// SPDX-License-Identifier: MIT
#include "clients/driftctl/camera/snapshot_image.hpp"

#include <png.h>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

namespace driftd::clients {
namespace {

constexpr int kAimedSide_px = 1024;
constexpr int kLargestScale = 4;
constexpr double kBlackQuantile = 0.01;
constexpr double kWhiteQuantile = 0.999;  // markers cover about a hundredth of a frame

// Digits, 5 x 7: one byte a row, the left pixel in bit 4.
constexpr int kGlyphWidth = 5;
constexpr int kGlyphHeight = 7;
constexpr std::array<std::array<std::uint8_t, kGlyphHeight>, 10> kDigits{{
    {0x0E, 0x11, 0x13, 0x15, 0x19, 0x11, 0x0E},
    {0x04, 0x0C, 0x04, 0x04, 0x04, 0x04, 0x0E},
    {0x0E, 0x11, 0x01, 0x02, 0x04, 0x08, 0x1F},
    {0x1F, 0x02, 0x04, 0x02, 0x01, 0x11, 0x0E},
    {0x02, 0x06, 0x0A, 0x12, 0x1F, 0x02, 0x02},
    {0x1F, 0x10, 0x1E, 0x01, 0x01, 0x11, 0x0E},
    {0x06, 0x08, 0x10, 0x1E, 0x11, 0x11, 0x0E},
    {0x1F, 0x01, 0x02, 0x04, 0x08, 0x08, 0x08},
    {0x0E, 0x11, 0x11, 0x0E, 0x11, 0x11, 0x0E},
    {0x0E, 0x11, 0x11, 0x0F, 0x01, 0x02, 0x0C},
}};

std::vector<std::uint16_t> decode(std::string_view bytes) {
  std::vector<std::uint16_t> values(bytes.size() / 2);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto low = static_cast<unsigned char>(bytes[2 * i]);
    const auto high = static_cast<unsigned char>(bytes[2 * i + 1]);
    values[i] = static_cast<std::uint16_t>(low | high << 8);
  }
  return values;
}

std::uint16_t quantile(std::vector<std::uint16_t> values, double share) {
  const auto place = static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + place, values.end());
  return values[static_cast<std::size_t>(place)];
}

/// Draws in the enlarged picture's pixels; what lies outside is not drawn.
class Canvas {
 public:
  explicit Canvas(RgbImage& image) : image_(image) {}

  void fill(int x, int y, int width, int height, Rgb colour) {
    for (int row = std::max(y, 0); row < std::min(y + height, image_.height_px); ++row) {
      for (int column = std::max(x, 0); column < std::min(x + width, image_.width_px); ++column) {
        image_.pixels[static_cast<std::size_t>(row) * static_cast<std::size_t>(image_.width_px) +
                      static_cast<std::size_t>(column)] = colour;
      }
    }
  }

  void outline(int x, int y, int side, int thickness, bool dashed, Rgb colour) {
    const int dash = 4 * thickness;
    for (int along = 0; along < side; ++along) {
      if (dashed && along / dash % 2 == 1) continue;
      fill(x + along, y, 1, thickness, colour);
      fill(x + along, y + side - thickness, 1, thickness, colour);
      fill(x, y + along, thickness, 1, colour);
      fill(x + side - thickness, y + along, thickness, 1, colour);
    }
  }

  /// Digits on black, the upper left corner at (x, y).
  void number(int x, int y, int size, const std::string& digits, Rgb colour) {
    const int advance = (kGlyphWidth + 1) * size;
    fill(x, y, static_cast<int>(digits.size()) * advance + size, (kGlyphHeight + 2) * size, {});
    x += size;
    for (const char digit : digits) {
      const auto& rows = kDigits[static_cast<std::size_t>(digit - '0')];
      for (int row = 0; row < kGlyphHeight; ++row) {
        for (int column = 0; column < kGlyphWidth; ++column) {
          if ((rows[static_cast<std::size_t>(row)] >> (kGlyphWidth - 1 - column) & 1) == 0)
            continue;
          fill(x + column * size, y + (row + 1) * size, size, size, colour);
        }
      }
      x += advance;
    }
  }

 private:
  RgbImage& image_;
};

RgbImage enlarge(const std::vector<std::uint16_t>& values, int width_px, int height_px, int scale) {
  const double black = quantile(values, kBlackQuantile);
  const double range = std::max(1.0, quantile(values, kWhiteQuantile) - black);
  RgbImage image{width_px * scale, height_px * scale, {}};
  image.pixels.reserve(values.size() * static_cast<std::size_t>(scale) *
                       static_cast<std::size_t>(scale));
  for (int y = 0; y < image.height_px; ++y) {
    const std::uint16_t* row = values.data() + std::ptrdiff_t{y / scale} * width_px;
    for (int x = 0; x < image.width_px; ++x) {
      const std::uint16_t value = row[x / scale];
      const auto grey = static_cast<std::uint8_t>(
          std::lround(255.0 * std::clamp((value - black) / range, 0.0, 1.0)));
      image.pixels.push_back({grey, grey, grey});
    }
  }
  return image;
}

}  // namespace

Rgb colour_of_health(std::string_view health) noexcept {
  if (health == "good") return {60, 220, 90};
  if (health == "unreferenced") return {90, 170, 255};
  if (health == "outlier") return {255, 160, 30};
  if (health == "implausible") return {240, 90, 240};
  if (health == "outside_frame") return {170, 170, 170};
  return {255, 60, 60};  // fit_failed, and what a later version may add
}

RgbImage draw_snapshot(const nlohmann::json& frame, std::string_view pixels) {
  const int width_px = frame.at("width_px").get<int>();
  const int height_px = frame.at("height_px").get<int>();
  const auto expected = static_cast<std::int64_t>(width_px) * height_px * 2;
  if (width_px < 1 || height_px < 1 || static_cast<std::int64_t>(pixels.size()) != expected) {
    throw std::invalid_argument(fmt::format("a frame of {} x {} pixels came with {} bytes",
                                            width_px, height_px, pixels.size()));
  }
  const int scale = std::clamp(kAimedSide_px / std::max(width_px, height_px), 1, kLargestScale);
  RgbImage image = enlarge(decode(pixels), width_px, height_px, scale);

  Canvas canvas(image);
  const int thickness = std::max(1, scale / 2);
  const int text_size = scale >= 2 ? 2 : 1;
  const int text_height = (kGlyphHeight + 2) * text_size;
  for (const nlohmann::json& roi : frame.at("rois")) {
    const int x = roi.at("x_px").get<int>() * scale;
    const int y = roi.at("y_px").get<int>() * scale;
    const int side = roi.at("side_px").get<int>() * scale;
    const Rgb colour = colour_of_health(roi.at("health").get<std::string>());
    canvas.outline(x, y, side, thickness, roi.at("role") == "witness", colour);
    const bool room_above = y >= text_height;
    canvas.number(std::max(x, 0), room_above ? y - text_height : y + side, text_size,
                  std::to_string(roi.at("id").get<std::uint32_t>()), colour);
  }
  return image;
}

void write_png(const RgbImage& image, const std::filesystem::path& file) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  png.width = static_cast<png_uint_32>(image.width_px);
  png.height = static_cast<png_uint_32>(image.height_px);
  png.format = PNG_FORMAT_RGB;
  static_assert(sizeof(Rgb) == 3, "libpng reads the pixels as packed RGB");
  if (png_image_write_to_file(&png, file.c_str(), 0, image.pixels.data(), 0, nullptr) == 0) {
    throw std::runtime_error(fmt::format("cannot write {}: {}", file.string(), png.message));
  }
}

}  // namespace driftd::clients
