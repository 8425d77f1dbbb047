// SPDX-License-Identifier: MIT
// A snapshot reply (docs/reference/protocol.md) as a picture: the frame stretched to 8-bit grey and
// enlarged, each ROI outlined in the colour of its marker's health with its id beside it. One
// thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace driftd::clients {

struct Rgb {
  std::uint8_t red = 0, green = 0, blue = 0;
  bool operator==(const Rgb&) const = default;
};

struct RgbImage {
  int width_px = 0, height_px = 0;
  std::vector<Rgb> pixels;  ///< row-major
  const Rgb& at(int x, int y) const {
    return pixels[static_cast<std::size_t>(y) * static_cast<std::size_t>(width_px) +
                  static_cast<std::size_t>(x)];
  }
};

/// The colour of an outline by health as named in the protocol.
Rgb colour_of_health(std::string_view health) noexcept;

/// @param frame   the reply's `frame`
/// @param pixels  the reply's second part: u16 little-endian, row-major
/// Black and white are the 1 % and 99.9 % quantiles of the frame. The picture is enlarged by the
/// whole number, 1 to 4, that brings its longer side closest to 1024 from below. A ROI of a witness
/// is dashed.
/// @throws std::invalid_argument when the parts do not fit one another
RgbImage draw_snapshot(const nlohmann::json& frame, std::string_view pixels);

/// @throws std::runtime_error naming the file when it cannot be written
void write_png(const RgbImage& image, const std::filesystem::path& file);

}  // namespace driftd::clients
