// SPDX-License-Identifier: MIT
#include "tools/driftfit/marker_search.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

namespace driftd::tools {
namespace {

constexpr float kHighest = 60000;

std::vector<std::uint16_t> scaled(std::span<const float> pixels) {
  float low = std::numeric_limits<float>::infinity();
  float high = -low;
  for (const float value : pixels) {
    if (!std::isfinite(value)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  std::vector<std::uint16_t> result(pixels.size(), 0);
  if (!(high > low)) return result;
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    if (!std::isfinite(pixels[i])) continue;
    const float share = std::clamp((pixels[i] - low) / (high - low), 0.0f, 1.0f);
    result[i] = static_cast<std::uint16_t>(std::lround(share * kHighest));
  }
  return result;
}

std::vector<std::uint16_t> as_u16(const camera::StackShape& shape, const std::byte* frame) {
  const std::size_t pixels = shape.pixels();
  switch (shape.type) {
    case camera::PixelType::U8: {
      const auto* bytes = reinterpret_cast<const std::uint8_t*>(frame);
      return {bytes, bytes + pixels};
    }
    case camera::PixelType::U16: {
      const auto* words = reinterpret_cast<const std::uint16_t*>(frame);
      return {words, words + pixels};
    }
    case camera::PixelType::F32:
      break;
  }
  return scaled({reinterpret_cast<const float*>(frame), pixels});
}

}  // namespace

control::SpotSize size_of_spots(const camera::StackShape& shape, const std::byte* frame,
                                const control::DetectionSettings& settings) {
  return control::choose_spot_size(as_u16(shape, frame), shape.width_px, shape.height_px, settings);
}

MarkerSearchResult find_markers(const camera::StackShape& shape, const std::byte* frame,
                                const control::DetectionSettings& settings, SpotFitter& fitter) {
  const std::vector<std::uint16_t> image = as_u16(shape, frame);
  const auto candidates =
      control::find_candidates(image, shape.width_px, shape.height_px, settings);
  camera::StackShape counts = shape;
  counts.type = camera::PixelType::U16;
  const std::size_t roi_bytes = static_cast<std::size_t>(settings.roi_px) *
                                static_cast<std::size_t>(settings.roi_px) * sizeof(std::uint16_t);
  std::vector<std::byte> rois(candidates.size() * roi_bytes);
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    cut_roi(counts, reinterpret_cast<const std::byte*>(image.data()), candidates[i].roi_x_px,
            candidates[i].roi_y_px, settings.roi_px, rois.data() + i * roi_bytes);
  }
  std::vector<fitter::Localization> fits(candidates.size());
  fitter.fit({.pixels = rois.data(),
              .type = fitter_type(counts.type),
              .roi_px = settings.roi_px,
              .count = candidates.size()},
             fits);
  const auto judged =
      control::judge_candidates(candidates, fits, shape.width_px, shape.height_px, 0, 0, settings);
  MarkerSearchResult result;
  for (const control::Marker& m : judged.markers) result.markers.push_back({m.x_px, m.y_px});
  for (const control::Rejection& r : judged.rejected) {
    result.rejected.push_back(fmt::format("at {:.1f}, {:.1f}: {}", r.x_px, r.y_px, r.reason));
  }
  return result;
}

}  // namespace driftd::tools
