// SPDX-License-Identifier: MIT
#include "tools/driftfit/clipped_pixels.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <vector>

#include "fitter/pixel_type.hpp"

namespace driftd::tools {
namespace {

constexpr std::size_t kFewestPixels =
    3;                           ///< pixels: a spot cut off at three quarters of its height
constexpr std::size_t kHot = 2;  ///< that may be brighter
/// A level counts from so many steps above the ROI's lowest value on, by the smallest step between
/// its values: lower spots have equal pixels by chance.
constexpr double kFewSteps = 64;
/// A round top has as many pixels within these steps below any level as at it.
constexpr double kStepsBelow = 8;
/// Mean height by which the pixels beside a flat top are below it, over its own: less is a bead,
/// more is no spot.
constexpr double kLeastFall = 0.03, kMostFall = 0.8;

/// The largest pixel, and the highest level that so many pixels share, but for the hot ones. NaN is
/// nowhere.
template <class Pixel>
struct Top {
  std::optional<Pixel> largest, shared;
};

template <class Pixel>
Top<Pixel> top_of(const Pixel* pixels, std::size_t area) {
  constexpr Pixel kNone = std::numeric_limits<Pixel>::lowest();
  std::array<Pixel, kHot + kFewestPixels> top{};  // descending
  top.fill(kNone);
  for (std::size_t k = 0; k < area; ++k) {
    if (!(pixels[k] > top.back())) continue;
    std::size_t at = top.size() - 1;
    for (; at > 0 && top[at - 1] < pixels[k]; --at) top[at] = top[at - 1];
    top[at] = pixels[k];
  }
  Top<Pixel> found;
  if (top[0] != kNone) found.largest = top[0];
  for (std::size_t i = 0; i <= kHot && !found.shared; ++i)
    if (top[i] == top[i + kFewestPixels - 1] && top[i] != kNone) found.shared = top[i];
  return found;
}

/// What lies in a ROI at a level and beside it.
struct Plateau {
  std::size_t pixels = 0;  ///< that have a neighbour at the level
  std::size_t first_x = SIZE_MAX, last_x = 0, first_y = SIZE_MAX, last_y = 0;
  double sum_beside = 0;  ///< of those next to one
  std::size_t beside = 0;
  bool is_top = true;  ///< none next to it is brighter: that were a spot's own top

  /// As a spot's middle is; hot pixels in a row and tracks of particles are longer.
  bool is_round() const noexcept {
    if (pixels < kFewestPixels) return false;
    const std::size_t width = last_x - first_x + 1, height = last_y - first_y + 1;
    return std::max(width, height) <= 2 * std::min(width, height) && 2 * pixels >= width * height;
  }
};

template <class Pixel>
Plateau plateau_of(const Pixel* pixels, std::size_t side, Pixel level) {
  Plateau plateau;
  for (std::size_t k = 0; k < side * side; ++k) {
    const std::size_t x = k % side, y = k / side;
    bool beside = false;
    for (std::size_t v = y - (y > 0); v <= std::min(y + 1, side - 1); ++v)
      for (std::size_t u = x - (x > 0); u <= std::min(x + 1, side - 1); ++u)
        beside = beside || (v * side + u != k && pixels[v * side + u] == level);
    if (!beside) continue;
    if (pixels[k] == level) {
      ++plateau.pixels;
      plateau.first_x = std::min(plateau.first_x, x), plateau.last_x = std::max(plateau.last_x, x);
      plateau.first_y = std::min(plateau.first_y, y), plateau.last_y = std::max(plateau.last_y, y);
      continue;
    }
    plateau.is_top = plateau.is_top && !(pixels[k] > level);
    if (!std::isfinite(static_cast<double>(pixels[k]))) continue;
    plateau.sum_beside += static_cast<double>(pixels[k]);
    ++plateau.beside;
  }
  return plateau;
}

bool is_full_scale(double level) {
  constexpr double kEightBits = 255;
  return level >= kEightBits && level == std::floor(level) && level <= UINT16_MAX &&
         std::has_single_bit(static_cast<std::uint32_t>(level) + 1);
}

/// Of so many values the most that are equal.
std::size_t most_equal(std::span<const double> sorted) {
  std::size_t most = 0;
  for (auto begin = sorted.begin(); begin != sorted.end();) {
    const auto end = std::upper_bound(begin, sorted.end(), *begin);
    most = std::max(most, static_cast<std::size_t>(end - begin));
    begin = end;
  }
  return most;
}

/// Whether a level is a spot's edge, not one of the steps of a round top, nor of what has no noise.
template <class Pixel>
bool is_edge(const Pixel* pixels, std::size_t side, Pixel level) {
  std::vector<double> values;
  for (std::size_t k = 0; k < side * side; ++k) {
    const auto value = static_cast<double>(pixels[k]);
    if (pixels[k] <= level && std::isfinite(value)) values.push_back(value);
  }
  std::ranges::sort(values);
  double step = std::numeric_limits<double>::infinity();
  for (std::size_t i = 1; i < values.size(); ++i)
    if (values[i] > values[i - 1]) step = std::min(step, values[i] - values[i - 1]);
  const auto edge = static_cast<double>(level);
  if (!(edge - values.front() >= kFewSteps * step)) return false;
  const auto equal = std::ranges::lower_bound(values, edge);
  // A spot without noise has the same values on all its sides, and its background one.
  const std::span lower(values.begin(), equal);
  const auto next_below = std::ranges::lower_bound(lower, lower.back());
  if (lower.end() - next_below >= std::ptrdiff_t{kFewestPixels}) return false;
  if (2 * most_equal(lower) > lower.size() && !is_full_scale(edge)) return false;
  const auto below = std::ranges::lower_bound(values, edge - (kStepsBelow + 0.5) * step);
  if (values.end() - equal <= equal - below) return false;
  const Plateau plateau = plateau_of(pixels, side, level);
  if (!plateau.is_top || !plateau.is_round() || plateau.beside == 0) return false;
  const double beside = plateau.sum_beside / static_cast<double>(plateau.beside);
  const double fall = (edge - beside) / (edge - values.front());
  return fall >= kLeastFall && fall <= kMostFall;
}

/// About a value's place among all that are not negative.
std::uint32_t bucket_of(float value) {
  constexpr int kBitsLeftOut = 16;
  return value > 0 ? std::bit_cast<std::uint32_t>(value) >> kBitsLeftOut : 0;
}

}  // namespace

std::string level_in_digits(double level) {
  if (level == std::floor(level) && std::abs(level) < 1e15) return fmt::format("{:.0f}", level);
  const double unit = std::pow(10.0, std::floor(std::log10(std::abs(level))) - 5);
  return fmt::format("{:.6g}", std::floor(level / unit) * unit);
}

template <class Pixel>
void ClippedPixels::look_at(const Pixel* pixels, std::size_t side, std::size_t count) {
  const std::size_t area = side * side;
  rois_ += count;
  tops_.assign(count, std::numeric_limits<float>::quiet_NaN());
  for (std::size_t i = 0; i < count; ++i, pixels += area) {
    const Top<Pixel> top = top_of(pixels, area);
    if (!top.largest) continue;
    tops_[i] = static_cast<float>(*top.largest);
    ++by_tops_[bucket_of(tops_[i])];
    if (!top.shared || static_cast<double>(*top.shared) >= saturation_) continue;
    if (is_edge(pixels, side, *top.shared)) ++flat_[static_cast<double>(*top.shared)];
  }
}

void ClippedPixels::look_at(const fitter::Batch& batch) {
  const auto side = static_cast<std::size_t>(batch.roi_px);
  fitter::with_pixels(batch.type, batch.pixels,
                      [&](const auto* pixels) { look_at(pixels, side, batch.count); });
}

std::optional<double> ClippedPixels::level() const {
  constexpr double kShare = 0.01;
  std::size_t all = 0;
  auto most = flat_.begin();
  for (auto level = flat_.begin(); level != flat_.end(); ++level) {
    all += level->second;
    if (level->second > most->second) most = level;
  }
  // By chance they stand at many levels.
  if (all == 0 || most->second < 2 || 2 * most->second < all) return std::nullopt;
  if (static_cast<double>(most->second) < kShare * static_cast<double>(rois_)) return std::nullopt;
  // Nor do the tops of more ROIs stand above a level that cuts off, but for hot pixels.
  if (!is_full_scale(most->first) && above(most->first) > most->second) return std::nullopt;
  return most->first;
}

std::size_t ClippedPixels::above(double level) const {
  std::size_t count = 0;
  for (auto top = by_tops_.upper_bound(bucket_of(static_cast<float>(level))); top != by_tops_.end();
       ++top)
    count += top->second;
  return count;
}

std::size_t ClippedPixels::below(double level) const {
  std::size_t count = 0;
  const auto end = by_tops_.lower_bound(bucket_of(static_cast<float>(level)));
  for (auto top = by_tops_.begin(); top != end; ++top) count += top->second;
  return count;
}

std::string ClippedPixels::told(double level) const {
  const double share = static_cast<double>(flat_.at(level)) / static_cast<double>(rois_);
  return fmt::format(
      "{:.0f} % of the ROIs have three neighbouring pixels or more of exactly {} at the top of "
      "their spot: spots that are clipped fit too wide",
      100 * share, level_in_digits(level));
}

}  // namespace driftd::tools
