// SPDX-License-Identifier: MIT
// Short hands of the fitter's tests: fit many ROIs of any pixel type, fit one, draw a clean spot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "fitter/fitter.hpp"
#include "support/spots.hpp"

namespace driftd::test {

template <class Pixel>
constexpr fitter::PixelType pixel_type() {
  if (std::is_same_v<Pixel, std::uint8_t>) return fitter::PixelType::U8;
  if (std::is_same_v<Pixel, std::uint16_t>) return fitter::PixelType::U16;
  return fitter::PixelType::F32;
}

template <class Pixel>
std::vector<fitter::Localization> fit_all(const std::vector<Pixel>& pixels, int side,
                                          const fitter::FitOptions& options = {},
                                          const std::vector<fitter::Start>& starts = {},
                                          int threads = 1) {
  const std::size_t count = pixels.size() / static_cast<std::size_t>(side * side);
  std::vector<fitter::Localization> results(count);
  fitter::fit_batch_cpu(
      {pixels.data(), pixel_type<Pixel>(), side, count, starts.empty() ? nullptr : starts.data()},
      options, results, threads);
  return results;
}

template <class Pixel>
fitter::Localization fit_one(const std::vector<Pixel>& pixels, int side,
                             const fitter::FitOptions& options = {}) {
  return fit_all(pixels, side, options).at(0);
}

/// The spot's expected intensities, without noise.
inline std::vector<float> clean_image(const Spot& spot, int side) {
  std::vector<float> pixels;
  for (int row = 0; row < side; ++row)
    for (int column = 0; column < side; ++column)
      pixels.push_back(static_cast<float>(intensity(spot, column, row)));
  return pixels;
}

inline std::vector<fitter::Start> starts_from(std::span<const fitter::Localization> fits) {
  std::vector<fitter::Start> starts;
  for (const fitter::Localization& l : fits)
    starts.push_back({l.x_px, l.y_px, l.sigma_x_px, l.sigma_y_px});
  return starts;
}

}  // namespace driftd::test
