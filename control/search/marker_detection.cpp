// SPDX-License-Identifier: MIT
// Candidates: tiles' clipped medians give background and noise (as SExtractor does it, Bertin &
// Arnouts 1996), a difference of Gaussians matched to the expected spot finds the maxima.
#include "control/search/marker_detection.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "control/search/image_filter.hpp"

namespace driftd::control {
namespace {

/// Smoothing with the spot's own width finds it best in white noise; three times that is its
/// background.
constexpr double kBackgroundScale = 3;
/// Centre of the difference of Gaussians over a spot of unit amplitude and the expected width:
/// s^2 / (s^2 + s^2) - s^2 / (s^2 + (3 s)^2).
constexpr double kSpotResponse = 0.5 - 1.0 / (1.0 + kBackgroundScale * kBackgroundScale);
/// Threshold in units of the filtered noise: less than one false candidate in 10 megapixels of
/// white noise.
constexpr double kMinFilteredSnr = 5.5;
/// A candidate needs this share of the SNR that the fit must reach: the filter only pre-selects.
constexpr double kPreselection = 0.5;
/// Keeps a picture full of texture from asking for a million fits.
constexpr std::size_t kMaxCandidates = 4096;
constexpr int kClipRounds = 5;

/// Median and standard deviation without what lies beyond 3 sigma.
struct Level {
  float median = 0, noise = 0;
};

Level clipped_level(std::vector<float>& values) {
  Level level{median_of(values), 0};
  for (int round = 0; round < kClipRounds; ++round) {
    double sum2 = 0;
    for (const float v : values)
      sum2 += static_cast<double>(v - level.median) * static_cast<double>(v - level.median);
    level.noise = static_cast<float>(std::sqrt(sum2 / static_cast<double>(values.size())));
    const float limit = 3 * std::max(level.noise, static_cast<float>(kQuantisationNoiseAdu));
    const float centre = level.median;
    const auto kept = std::remove_if(values.begin(), values.end(), [centre, limit](float v) {
      return std::abs(v - centre) > limit;
    });
    if (kept == values.end()) break;
    values.erase(kept, values.end());
    level.median = median_of(values);
  }
  return level;
}

/// Levels of tiles of about `side` pixels, read out by linear interpolation between tile centres
/// (and extrapolation at the rim, so that a gradient stays a gradient).
class TileMap {
 public:
  TileMap(const Plane& image, int side)
      : columns_(std::max(1, image.width / side)),
        rows_(std::max(1, image.height / side)),
        tile_width_(static_cast<double>(image.width) / columns_),
        tile_height_(static_cast<double>(image.height) / rows_) {
    std::vector<float> values;
    for (int row = 0; row < rows_; ++row)
      for (int column = 0; column < columns_; ++column) {
        values.clear();
        for (int y = edge(row, tile_height_); y < edge(row + 1, tile_height_); ++y)
          for (int x = edge(column, tile_width_); x < edge(column + 1, tile_width_); ++x)
            values.push_back(image.at(x, y));
        levels_.push_back(clipped_level(values));
      }
  }
  float median(int x, int y) const { return read(x, y, &Level::median); }
  float noise(int x, int y) const {
    const int column = std::min(columns_ - 1, static_cast<int>(x / tile_width_));
    const int row = std::min(rows_ - 1, static_cast<int>(y / tile_height_));
    return level(column, row).noise;
  }

 private:
  static int edge(int tile, double side) { return static_cast<int>(std::lround(tile * side)); }
  const Level& level(int column, int row) const {
    return levels_[static_cast<std::size_t>(row) * static_cast<std::size_t>(columns_) +
                   static_cast<std::size_t>(column)];
  }
  float read(int x, int y, float Level::*field) const {
    const double u = (x + 0.5) / tile_width_ - 0.5;
    const double v = (y + 0.5) / tile_height_ - 0.5;
    const int column = std::clamp(static_cast<int>(std::floor(u)), 0, std::max(0, columns_ - 2));
    const int row = std::clamp(static_cast<int>(std::floor(v)), 0, std::max(0, rows_ - 2));
    const int right = std::min(column + 1, columns_ - 1);
    const int below = std::min(row + 1, rows_ - 1);
    const auto fx = static_cast<float>(columns_ > 1 ? u - column : 0);
    const auto fy = static_cast<float>(rows_ > 1 ? v - row : 0);
    const float top = level(column, row).*field * (1 - fx) + level(right, row).*field * fx;
    const float bottom = level(column, below).*field * (1 - fx) + level(right, below).*field * fx;
    return top * (1 - fy) + bottom * fy;
  }

  int columns_, rows_;
  double tile_width_, tile_height_;
  std::vector<Level> levels_;
};

/// Among equal neighbours the first in reading order is the maximum.
bool is_maximum(const Plane& plane, int x, int y, int radius) {
  const float value = plane.at(x, y);
  for (int v = std::max(0, y - radius); v <= std::min(plane.height - 1, y + radius); ++v)
    for (int u = std::max(0, x - radius); u <= std::min(plane.width - 1, x + radius); ++u) {
      const bool before = v < y || (v == y && u < x);
      const float other = plane.at(u, v);
      if (other > value || (before && other == value)) return false;
    }
  return true;
}

bool any_saturated(std::span<const std::uint16_t> image, int width_px, const Candidate& c,
                   const DetectionSettings& settings) {
  if (settings.saturation_adu == 0) return false;
  for (int y = c.roi_y_px; y < c.roi_y_px + settings.roi_px; ++y)
    for (int x = c.roi_x_px; x < c.roi_x_px + settings.roi_px; ++x)
      if (image[static_cast<std::size_t>(y) * static_cast<std::size_t>(width_px) +
                static_cast<std::size_t>(x)] >= settings.saturation_adu)
        return true;
  return false;
}

}  // namespace

std::vector<Candidate> find_candidates(std::span<const std::uint16_t> image, int width_px,
                                       int height_px, const DetectionSettings& settings,
                                       SearchBounds* bounds) {
  std::vector<Candidate> found;
  const std::stop_token stop = bounds != nullptr ? bounds->stop : std::stop_token();
  if (std::min(width_px, height_px) < settings.roi_px) return found;
  Plane flat(image, width_px, height_px);
  const double sigma_px = settings.expected_sigma_px;
  const int tile_px = std::max(32, static_cast<int>(std::lround(16 * sigma_px)));
  const TileMap background(flat, tile_px);
  for (int y = 0; y < height_px; ++y)
    for (int x = 0; x < width_px; ++x) flat.at(x, y) -= background.median(x, y);
  const TileMap residual(flat, tile_px);

  const std::vector<float> narrow = gaussian_kernel(sigma_px);
  const std::vector<float> wide = gaussian_kernel(kBackgroundScale * sigma_px);
  Plane filtered = smoothed(flat, narrow, stop);
  const Plane surround = smoothed(flat, wide, stop);
  for (std::size_t i = 0; i < filtered.values.size(); ++i) filtered.values[i] -= surround.values[i];
  if (stop.stop_requested()) return found;

  const double threshold = std::max(kMinFilteredSnr * filtered_noise(narrow, wide),
                                    kPreselection * kSpotResponse * settings.min_snr);
  const int radius = std::max(1, static_cast<int>(std::lround(1.5 * sigma_px)));
  const double half_px = 0.5 * (settings.roi_px - 1);
  for (int y = 0; y < height_px; ++y)
    for (int x = 0; x < width_px; ++x) {
      const double noise =
          std::max(static_cast<double>(residual.noise(x, y)), kQuantisationNoiseAdu);
      const double value = filtered.at(x, y);
      if (value < threshold * noise || !is_maximum(filtered, x, y, radius)) continue;
      Candidate c{.x_px = x, .y_px = y, .height_adu = value / kSpotResponse, .noise_adu = noise};
      c.roi_x_px =
          std::clamp(static_cast<int>(std::lround(x - half_px)), 0, width_px - settings.roi_px);
      c.roi_y_px =
          std::clamp(static_cast<int>(std::lround(y - half_px)), 0, height_px - settings.roi_px);
      c.saturated = any_saturated(image, width_px, c, settings);
      found.push_back(c);
    }
  std::stable_sort(found.begin(), found.end(), [](const Candidate& a, const Candidate& b) {
    return a.height_adu > b.height_adu;
  });
  if (found.size() <= kMaxCandidates) return found;
  if (bounds != nullptr) bounds->spots_left_out += found.size() - kMaxCandidates;
  found.resize(kMaxCandidates);
  return found;
}

}  // namespace driftd::control
