// SPDX-License-Identifier: MIT
#include "tools/driftfit/marker_search.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include "tools/driftfit/cut_rois.hpp"

namespace driftd::tools {
namespace {

constexpr float kHighest = 60000;
/// In the place of pixels that maps have made NaN because they reached --saturation.
constexpr std::uint16_t kSaturated = 60001;

/// A frame as 16 bits.
struct SearchImage {
  std::vector<std::uint16_t> pixels;
  float scale = 1;  ///< of its values over the frame's
  float zero = 0;   ///< where the frame has this value
};

/// Pixels from the lowest to the highest.
struct Range {
  float low = std::numeric_limits<float>::infinity();
  float high = -std::numeric_limits<float>::infinity();

  void take(float value) noexcept {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  [[nodiscard]] bool holds(float value) const noexcept { return value >= low && value <= high; }
};

Range range_of(std::span<const float> pixels) {
  Range range;
  for (const float value : pixels)
    if (std::isfinite(value)) range.take(value);
  return range;
}

/// No pixel that was measured is so large: what stands for none is, such as the lowest float.
constexpr float kLargest = 1e30f;
/// Extremes are so many powers of two from all other pixels, on their side of the middle one, and
/// these are so many at least.
constexpr int kGap = 7;
constexpr std::size_t kFewest = 10;

/// How many pixels are how far from the middle one, in powers of two, on one side of it.
class Distances {
 public:
  void add(double distance) noexcept {
    if (distance > 0) ++count_[bin(distance)];
  }
  /// From where on there are none but extremes, which are fewer than a quarter of all.
  [[nodiscard]] double end_of_others(std::size_t all) const noexcept {
    std::size_t above = 0;
    std::size_t lowest = count_.size();  // occupied bin of those above
    for (std::size_t i = count_.size(); i-- > 0;) {
      if (count_[i] == 0) continue;
      const bool gap = lowest < count_.size() && lowest - i > kGap;
      if (gap && 4 * above < all && below(i) >= kFewest)
        return std::ldexp(1.0, static_cast<int>(lowest) - kZero);
      above += count_[i];
      lowest = i;
    }
    return std::numeric_limits<double>::infinity();
  }

 private:
  static constexpr int kZero = 160, kBins = 2 * kZero;
  static std::size_t bin(double distance) noexcept {
    return static_cast<std::size_t>(std::clamp(std::ilogb(distance) + kZero, 0, kBins - 1));
  }
  [[nodiscard]] std::size_t below(std::size_t bin) const noexcept {
    return std::accumulate(count_.begin(), count_.begin() + static_cast<std::ptrdiff_t>(bin) + 1,
                           std::size_t{0});
  }

  std::array<std::size_t, kBins> count_{};
};

Range range_without_extremes(std::span<const float> pixels) {
  std::vector<float> usable;
  usable.reserve(pixels.size());
  for (const float value : pixels)
    if (std::abs(value) < kLargest) usable.push_back(value);
  if (usable.empty()) return {};
  const auto middle = static_cast<double>(median_of(usable));
  Distances above, below;
  for (const float value : usable) {
    above.add(static_cast<double>(value) - middle);
    below.add(middle - static_cast<double>(value));
  }
  const double highest = middle + above.end_of_others(usable.size());
  const double lowest = middle - below.end_of_others(usable.size());
  Range range;
  for (const float value : usable)
    if (static_cast<double>(value) > lowest && static_cast<double>(value) < highest)
      range.take(value);
  return range;
}

/// @param range  others are shown as the lowest
/// @param for_nan  what pixels are shown as that are no numbers
SearchImage scaled(std::span<const float> pixels, const Range& range, std::uint16_t for_nan) {
  SearchImage image{std::vector<std::uint16_t>(pixels.size(), 0)};
  if (!(range.high > range.low)) return image;
  const double width = static_cast<double>(range.high) - static_cast<double>(range.low);
  const double scale = static_cast<double>(kHighest) / width;
  image.scale = static_cast<float>(scale);
  image.zero = range.low;
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    if (std::isnan(pixels[i])) image.pixels[i] = for_nan;
    if (!range.holds(pixels[i])) continue;
    const double above = static_cast<double>(pixels[i]) - static_cast<double>(range.low);
    image.pixels[i] = static_cast<std::uint16_t>(std::lround(above * scale));
  }
  return image;
}

SearchImage as_u16(const camera::StackShape& shape, const std::byte* frame, const Range& range,
                   const CameraMaps& maps) {
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
  const bool nan_is_saturated = maps.convert() && std::isfinite(maps.saturation_adu());
  return scaled({reinterpret_cast<const float*>(frame), pixels}, range,
                nan_is_saturated ? kSaturated : 0);
}

/// What to search a frame in: between all its pixels and, of floating-point pixels with extremes,
/// also without these.
std::vector<Range> ranges_of(const camera::StackShape& shape, const std::byte* frame) {
  if (shape.type != camera::PixelType::F32) return {Range()};
  const std::span pixels(reinterpret_cast<const float*>(frame), shape.pixels());
  const Range all = range_of(pixels);
  const Range without = range_without_extremes(pixels);
  if (without.low == all.low && without.high == all.high) return {all};
  return {all, without};
}

/// With the level from which on pixels are not fitted, as the image has it.
control::DetectionSettings limited(control::DetectionSettings settings, const SearchImage& image,
                                   const CameraMaps& maps) {
  if (!std::isfinite(maps.saturation_adu())) return settings;
  const float level =
      maps.convert() ? kSaturated : std::ceil((maps.saturation_adu() - image.zero) * image.scale);
  settings.saturation_adu =
      level > UINT16_MAX ? 0 : static_cast<std::uint32_t>(std::max(level, 1.0f));
  return settings;
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
  const std::byte* filled = maps.hot().filled(shape, frame, copy);
  control::SpotSize size;
  for (const Range& range : ranges_of(shape, filled)) {
    const SearchImage image = as_u16(shape, filled, range, maps);
    size = control::choose_spot_size(image.pixels, shape.width_px, shape.height_px,
                                     limited(settings, image, maps));
    if (size.chosen()) break;
  }
  return size;
}

MarkerSearchResult find_markers(const camera::StackShape& shape, const std::byte* frame,
                                const control::DetectionSettings& settings, SpotFitter& fitter,
                                const CameraMaps& maps) {
  std::vector<std::byte> copy;
  const std::byte* filled = maps.hot().filled(shape, frame, copy);
  MarkerSearchResult best;
  const std::vector<Range> ranges = ranges_of(shape, filled);
  for (const Range& range : ranges) {
    const SearchImage image = as_u16(shape, filled, range, maps);
    const auto candidates = control::find_candidates(image.pixels, shape.width_px, shape.height_px,
                                                     limited(settings, image, maps));
    CutRois rois(shape, settings.roi_px, maps);
    rois.resize(candidates.size());
    for (std::size_t i = 0; i < candidates.size(); ++i)
      rois.cut(i, frame, candidates[i].roi_x_px, candidates[i].roi_y_px);
    std::vector<fitter::Localization> fits(candidates.size());
    fitter.fit(rois.batch(), fits);
    for (fitter::Localization& fit : fits) scale(fit, image.scale, fitter.options().estimator);
    const auto judged = control::judge_candidates(candidates, fits, shape.width_px, shape.height_px,
                                                  0, 0, settings);
    MarkerSearchResult here;
    for (const control::Marker& m : judged.markers) here.markers.push_back({m.x_px, m.y_px});
    for (const control::Rejection& r : judged.rejected) {
      here.rejected.push_back(fmt::format("at {:.1f}, {:.1f}: {}", r.x_px, r.y_px, r.reason));
    }
    if (&range == &ranges.front() || here.markers.size() > best.markers.size())
      best = std::move(here);
  }
  return best;
}

}  // namespace driftd::tools
