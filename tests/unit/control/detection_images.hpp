// SPDX-License-Identifier: MIT
// Pictures for the marker detection's tests: synthetic ones, pages of recorded TIFF stacks, and the
// daemon's part between the two steps (cut the candidates' ROIs, fit them).
#pragma once

#include <tiffio.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <random>
#include <stdexcept>
#include <vector>

#include "control/search/marker_detection.hpp"
#include "fitter/fitter.hpp"

namespace driftd::control::test {

struct Picture {
  int width_px = 0, height_px = 0;
  std::vector<std::uint16_t> pixels;
};

struct Spot {
  double x_px = 0, y_px = 0, amplitude_adu = 500, sigma_px = 1.3;
};

/// Spots and a sloping background, in real counts until picture() adds noise and rounds.
class Canvas {
 public:
  Canvas(int width_px, int height_px, double level_adu, Vec2 slope_adu_per_px = {})
      : width_(width_px), height_(height_px) {
    for (int y = 0; y < height_; ++y)
      for (int x = 0; x < width_; ++x)
        values_.push_back(level_adu + slope_adu_per_px.x * x + slope_adu_per_px.y * y);
  }
  void add(const Spot& spot) {
    for (int y = 0; y < height_; ++y)
      for (int x = 0; x < width_; ++x) {
        const double r2 = std::pow(x - spot.x_px, 2) + std::pow(y - spot.y_px, 2);
        at(x, y) += spot.amplitude_adu * std::exp(-0.5 * r2 / (spot.sigma_px * spot.sigma_px));
      }
  }
  double& at(int x, int y) {
    return values_[static_cast<std::size_t>(y) * static_cast<std::size_t>(width_) +
                   static_cast<std::size_t>(x)];
  }
  Picture picture(double noise_adu, unsigned seed, double full_adu = 65535) const {
    std::mt19937 random(seed);
    std::normal_distribution<double> normal;
    Picture p{width_, height_, {}};
    for (const double v : values_)
      p.pixels.push_back(static_cast<std::uint16_t>(
          std::clamp(std::round(v + noise_adu * normal(random)), 0.0, full_adu)));
    return p;
  }

 private:
  int width_, height_;
  std::vector<double> values_;
};

/// One page of a stack, 8 or 16 bits, grey.
inline Picture read_page(const std::filesystem::path& file, int page) {
  const std::unique_ptr<TIFF, decltype(&TIFFClose)> tiff(TIFFOpen(file.c_str(), "r"), TIFFClose);
  if (!tiff || TIFFSetDirectory(tiff.get(), static_cast<tdir_t>(page)) != 1)
    throw std::runtime_error("cannot read " + file.string());
  std::uint32_t width = 0, height = 0;
  std::uint16_t bits = 0;
  TIFFGetField(tiff.get(), TIFFTAG_IMAGEWIDTH, &width);
  TIFFGetField(tiff.get(), TIFFTAG_IMAGELENGTH, &height);
  TIFFGetField(tiff.get(), TIFFTAG_BITSPERSAMPLE, &bits);
  Picture p{static_cast<int>(width), static_cast<int>(height), {}};
  std::vector<std::uint8_t> line(static_cast<std::size_t>(TIFFScanlineSize(tiff.get())));
  for (std::uint32_t y = 0; y < height; ++y) {
    if (TIFFReadScanline(tiff.get(), line.data(), y) != 1)
      throw std::runtime_error("cannot read " + file.string());
    for (std::size_t x = 0; x < width; ++x)
      p.pixels.push_back(
          bits == 8 ? line[x] : static_cast<std::uint16_t>(line[2 * x] | (line[2 * x + 1] << 8)));
  }
  return p;
}

inline std::vector<fitter::Localization> fit_candidates(const Picture& picture,
                                                        std::span<const Candidate> candidates,
                                                        const DetectionSettings& settings) {
  std::vector<std::uint16_t> rois;
  for (const Candidate& c : candidates)
    for (int y = c.roi_y_px; y < c.roi_y_px + settings.roi_px; ++y)
      for (int x = c.roi_x_px; x < c.roi_x_px + settings.roi_px; ++x)
        rois.push_back(picture.pixels[static_cast<std::size_t>(y) *
                                          static_cast<std::size_t>(picture.width_px) +
                                      static_cast<std::size_t>(x)]);
  std::vector<fitter::Localization> fits(candidates.size());
  fitter::FitOptions options;
  if (settings.saturation_adu > 0)
    options.saturation_adu = static_cast<float>(settings.saturation_adu);
  fitter::fit_batch_cpu({.pixels = rois.data(),
                         .type = fitter::PixelType::U16,
                         .roi_px = settings.roi_px,
                         .count = candidates.size()},
                        options, fits);
  return fits;
}

inline DetectionResult detect(const Picture& picture, const DetectionSettings& settings) {
  const std::vector<Candidate> candidates =
      find_candidates(picture.pixels, picture.width_px, picture.height_px, settings);
  const auto fits = fit_candidates(picture, candidates, settings);
  return judge_candidates(candidates, fits, picture.width_px, picture.height_px, 0, 0, settings);
}

}  // namespace driftd::control::test
