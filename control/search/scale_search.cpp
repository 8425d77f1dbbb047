// SPDX-License-Identifier: MIT
#include "control/search/scale_search.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numbers>

#include "control/search/image_filter.hpp"
#include "fitter/fitter.hpp"

namespace driftd::control {
namespace {

/// From each octave to the next the image is binned 2x2, so that every octave costs a quarter of
/// the one before.
constexpr int kOctaves = 4;
/// Differences of neighbouring smoothings, the scale of each sqrt 2 times that of the one before. A
/// maximum over scale is one of the inner two; the outer ones are the neighbours they need. In the
/// first octave the first may be one, too: nothing is narrower.
constexpr std::size_t kDifferences = 4;
/// Narrowest smoothing, in pixels of the octave; narrower ones are no Gaussians on a pixel grid.
constexpr double kFirstScalePx = 0.6;
/// A difference of smoothings by t and t sqrt 2 answers most to a spot of sigma t times this.
constexpr double kCentre = 1.189207115002721;
/// How near a maximum over scale is to the neighbours' values: octaves do not agree to more.
constexpr float kNearlyMaximum = 0.96f;
/// Threshold in units of the filtered noise.
constexpr double kMinFilteredSnr = 6;
/// Side of a candidate's ROI over sigma: near neighbours stay outside, most of the spot is inside.
constexpr double kRoiSigmas = 6.5;
constexpr double kLeastRoiSigmas = 4;
constexpr int kNarrowestRoiPx = 7;
constexpr std::size_t kMostCandidates = 128;
constexpr int kNoiseTilePx = 64;
/// Median of |N(0, 1)|.
constexpr double kMadOfNormal = 0.6745;

/// White noise of the pixels by tiles, from differences of neighbours in a row: background and wide
/// spots hardly show in their median.
class NoiseMap {
 public:
  explicit NoiseMap(const Plane& image)
      : columns_(std::max(1, image.width / kNoiseTilePx)),
        rows_(std::max(1, image.height / kNoiseTilePx)),
        width_(image.width),
        height_(image.height) {
    std::vector<float> differences;
    for (int row = 0; row < rows_; ++row)
      for (int column = 0; column < columns_; ++column) {
        differences.assign(1, 0);
        for (int y = row * height_ / rows_; y < (row + 1) * height_ / rows_; ++y)
          for (int x = column * width_ / columns_ + 1; x < (column + 1) * width_ / columns_; ++x)
            differences.push_back(std::abs(image.at(x, y) - image.at(x - 1, y)));
        const double sd =
            static_cast<double>(median_of(differences)) / (kMadOfNormal * std::numbers::sqrt2);
        noise_adu_.push_back(std::max(sd, kQuantisationNoiseAdu));
      }
  }
  double at(int x, int y) const {
    return noise_adu_[static_cast<std::size_t>(y * rows_ / height_) *
                          static_cast<std::size_t>(columns_) +
                      static_cast<std::size_t>(x * columns_ / width_)];
  }

 private:
  int columns_, rows_, width_, height_;
  std::vector<double> noise_adu_;
};

Plane binned(const Plane& image) {
  Plane half(image.width / 2, image.height / 2);
  for (int y = 0; y < half.height; ++y)
    for (int x = 0; x < half.width; ++x)
      half.at(x, y) = 0.25f * (image.at(2 * x, 2 * y) + image.at(2 * x + 1, 2 * y) +
                               image.at(2 * x, 2 * y + 1) + image.at(2 * x + 1, 2 * y + 1));
  return half;
}

struct Octave {
  std::vector<Plane> differences;
  std::vector<double> noise;  ///< that each leaves of white noise of 1
};

Octave octave_of(const Plane& image, const std::stop_token& stop) {
  Octave octave;
  std::vector<float> kernel = gaussian_kernel(kFirstScalePx);
  Plane finer = smoothed(image, kernel, stop);
  for (std::size_t i = 0; i < kDifferences; ++i) {
    const double scale_px = kFirstScalePx * std::pow(2.0, 0.5 * static_cast<double>(i + 1));
    const std::vector<float> wider = gaussian_kernel(scale_px);
    Plane coarser = smoothed(image, wider, stop);
    octave.noise.push_back(filtered_noise(kernel, wider));
    for (std::size_t j = 0; j < finer.values.size(); ++j) finer.values[j] -= coarser.values[j];
    octave.differences.push_back(std::move(finer));
    finer = std::move(coarser);
    kernel = wider;
  }
  return octave;
}

/// Over the 26 neighbours in place and scale. A spot half-way between two scales is one of both.
bool is_maximum(const Octave& octave, std::size_t level, int x, int y) {
  const float value = octave.differences[level].at(x, y);
  for (std::size_t k = std::max<std::size_t>(1, level) - 1; k <= level + 1; ++k)
    for (int v = y - 1; v <= y + 1; ++v) {
      const float* row = octave.differences[k].row(v);
      for (int u = x - 1; u <= x + 1; ++u)
        if (row[u] * (k == level ? 1 : kNearlyMaximum) > value) return false;
    }
  return true;
}

int odd_at_least(double side_px) {
  return 2 * static_cast<int>(std::ceil((side_px - 1) / 2)) + 1;
}

class Search {
 public:
  Search(const Plane& image, const NoiseMap& noise) : image_(image), noise_(noise) {}

  /// @param bin_px  side of the octave's pixels
  ScaleLevel level_of(const Octave& octave, std::size_t level, int bin_px) const {
    const double scale_px = kFirstScalePx * std::pow(2.0, 0.5 * static_cast<double>(level));
    ScaleLevel found{.sigma_px = kCentre * scale_px * bin_px, .roi_px = 0, .candidates = {}};
    const int room_px = std::min({image_.width, image_.height, fitter::kMaxRoiPx});
    found.roi_px =
        std::min(std::max(kNarrowestRoiPx, odd_at_least(kRoiSigmas * found.sigma_px)), room_px);
    if (found.roi_px < std::max<double>(kNarrowestRoiPx, kLeastRoiSigmas * found.sigma_px))
      return found;
    const Plane& plane = octave.differences[level];
    for (int y = 1; y < plane.height - 1; ++y)
      for (int x = 1; x < plane.width - 1; ++x) {
        if (!(plane.at(x, y) > 0) || !is_maximum(octave, level, x, y)) continue;
        Candidate c = candidate_at(x * bin_px + bin_px / 2, y * bin_px + bin_px / 2, found.roi_px);
        c.height_adu = static_cast<double>(plane.at(x, y));
        if (c.height_adu * bin_px >= kMinFilteredSnr * octave.noise[level] * c.noise_adu)
          found.candidates.push_back(c);
      }
    keep_clearest(found.candidates);
    return found;
  }

 private:
  Candidate candidate_at(int x, int y, int roi_px) const {
    return {.x_px = x,
            .y_px = y,
            .roi_x_px = std::clamp(x - roi_px / 2, 0, image_.width - roi_px),
            .roi_y_px = std::clamp(y - roi_px / 2, 0, image_.height - roi_px),
            .noise_adu = noise_.at(x, y)};
  }
  static void keep_clearest(std::vector<Candidate>& candidates) {
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Candidate& a, const Candidate& b) {
                       return a.height_adu * b.noise_adu > b.height_adu * a.noise_adu;
                     });
    candidates.resize(std::min(candidates.size(), kMostCandidates));
  }

  const Plane& image_;
  const NoiseMap& noise_;
};

}  // namespace

std::vector<ScaleLevel> search_scales(std::span<const std::uint16_t> image, int width_px,
                                      int height_px, const std::stop_token& stop) {
  std::vector<ScaleLevel> levels;
  if (width_px < fitter::kMinRoiPx || height_px < fitter::kMinRoiPx) return levels;
  const Plane full(image, width_px, height_px);
  const NoiseMap noise(full);
  const Search search(full, noise);
  Plane plane = full;
  for (int o = 0; o < kOctaves && std::min(plane.width, plane.height) >= 3; ++o) {
    if (o > 0) plane = binned(plane);
    if (std::min(plane.width, plane.height) < 3 || stop.stop_requested()) break;
    const Octave octave = octave_of(plane, stop);
    for (std::size_t level = o == 0 ? 0 : 1; level + 1 < kDifferences; ++level)
      levels.push_back(search.level_of(octave, level, 1 << o));
  }
  return levels;
}

}  // namespace driftd::control
