// SPDX-License-Identifier: MIT
#include "tools/driftfit/negative_light.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "fitter/pixel_type.hpp"
#include "tools/driftfit/spot.hpp"

namespace driftd::tools {

std::string negative_light(const camera::StackShape& shape, const std::byte* frame,
                           std::int64_t frame_number, float offset, bool is_map) {
  constexpr double kShare = 0.9;
  std::ptrdiff_t below = 0;
  fitter::with_pixels(fitter_type(shape.type), frame, [&](const auto* pixels) {
    below = std::count_if(pixels, pixels + shape.pixels(),
                          [&](auto pixel) { return static_cast<float>(pixel) < offset; });
  });
  const double share = static_cast<double>(below) / static_cast<double>(shape.pixels());
  if (share < kShare) return {};
  return fmt::format(
      "{:.0f} % of the pixels in frame {} are below {}: there is no negative light, so the dark "
      "level of this recording is lower. Photons, backgrounds and uncertainties are wrong",
      100 * share, frame_number, is_map ? "--offset-map" : fmt::format("--offset, {:g}", offset));
}

}  // namespace driftd::tools
