// SPDX-License-Identifier: MIT
#include "tools/driftfit/marker_search.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>

#include "tools/driftfit/cut_rois.hpp"

namespace driftd::tools {
namespace {

constexpr float kHighest = 60000;

/// A frame as 16 bits.
struct SearchImage {
  std::vector<std::uint16_t> pixels;
  float scale = 1;  ///< of them over the frame's, whose zero may be elsewhere
};

SearchImage scaled(std::span<const float> pixels) {
  float low = std::numeric_limits<float>::infinity();
  float high = -low;
  for (const float value : pixels) {
    if (!std::isfinite(value)) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  SearchImage image{std::vector<std::uint16_t>(pixels.size(), 0)};
  if (!(high > low)) return image;
  image.scale = kHighest / (high - low);
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    if (!std::isfinite(pixels[i])) continue;
    const float share = std::clamp((pixels[i] - low) / (high - low), 0.0f, 1.0f);
    image.pixels[i] = static_cast<std::uint16_t>(std::lround(share * kHighest));
  }
  return image;
}

SearchImage as_u16(const camera::StackShape& shape, const std::byte* frame) {
  const std::size_t pixels = shape.pixels();
  switch (shape.type) {
    case camera::PixelType::U8: {
      const auto* bytes = reinterpret_cast<const std::uint8_t*>(frame);
      return {{bytes, bytes + pixels}};
    }
    case camera::PixelType::U16: {
      const auto* words = reinterpret_cast<const std::uint16_t*>(frame);
      return {{words, words + pixels}};
    }
    case camera::PixelType::F32:
      break;
  }
  return scaled({reinterpret_cast<const float*>(frame), pixels});
}

/// A fit of a frame's own pixels as one of the image's, as far as markers are judged by it.
void scale(fitter::Localization& fit, float by, fitter::Estimator estimator) {
  fit.amplitude_adu *= by;
  const bool squares = estimator == fitter::Estimator::ImplicitLeastSquares ||
                       estimator == fitter::Estimator::LeastSquares;
  if (squares) fit.chi_square *= by * by;
}

}  // namespace

control::SpotSize size_of_spots(const camera::StackShape& shape, const std::byte* frame,
                                const control::DetectionSettings& settings,
                                const CameraMaps& maps) {
  std::vector<std::byte> copy;
  return control::choose_spot_size(as_u16(shape, maps.hot().filled(shape, frame, copy)).pixels,
                                   shape.width_px, shape.height_px, settings);
}

MarkerSearchResult find_markers(const camera::StackShape& shape, const std::byte* frame,
                                const control::DetectionSettings& settings, SpotFitter& fitter,
                                const CameraMaps& maps) {
  std::vector<std::byte> copy;
  const SearchImage image = as_u16(shape, maps.hot().filled(shape, frame, copy));
  const auto candidates =
      control::find_candidates(image.pixels, shape.width_px, shape.height_px, settings);
  CutRois rois(shape, settings.roi_px, maps.variances());
  rois.resize(candidates.size());
  for (std::size_t i = 0; i < candidates.size(); ++i)
    rois.cut(i, frame, candidates[i].roi_x_px, candidates[i].roi_y_px);
  std::vector<fitter::Localization> fits(candidates.size());
  fitter.fit(rois.batch(), fits);
  for (fitter::Localization& fit : fits) scale(fit, image.scale, fitter.options().estimator);
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
