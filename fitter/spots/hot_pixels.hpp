// SPDX-License-Identifier: MIT
// Pixels that a camera's map calls much noisier than most, or gone. For the search for spots alone
// each is given the mean of its neighbours, so that it is not taken for a spot; fits see the pixels
// as they are, with their variances.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "fitter/host_device.hpp"
#include "fitter/spots/frame_shape.hpp"

namespace driftd::fitter {

/// What rounding to whole counts adds to a pixel's variance, counts^2.
constexpr float kRoundingVariance = 1.0f / 12.0f;

/// What a pixel gets that is filled: the mean of others, added up in their order. Host and device,
/// to the same bits.
template <class Pixel>
DRIFTD_HD Pixel mean_of(const Pixel* frame, const std::uint32_t* sources, std::uint32_t count) {
  float sum = 0;
  for (std::uint32_t i = 0; i < count; ++i) sum += static_cast<float>(frame[sources[i]]);
  const float mean = sum / static_cast<float>(count);
  return static_cast<Pixel>(std::numeric_limits<Pixel>::is_integer ? roundf(mean) : mean);
}

/// @param values  at least one
float median_of(std::vector<float> values);

class HotPixels {
 public:
  /// So many times noisier than the median pixel is too noisy for the search: what fits leave out.
  static constexpr float kMostNoise = 16;

  HotPixels() = default;  ///< none
  /// @param width_px   of a row of the map
  /// @param variances  of the pixels of a frame, e-^2 or anything in proportion
  /// @param rounding   variance that rounding to whole counts has left, likewise: that of a pixel
  ///   where the median is 0, as in a map of whole numbers
  HotPixels(int width_px, std::span<const float> variances, float rounding = kRoundingVariance);

  std::size_t count() const noexcept { return count_; }
  float median_variance() const noexcept { return median_; }
  /// A pixel that is filled.
  struct Fill {
    std::uint32_t pixel;
    std::uint32_t end;  ///< of its sources, which begin where those of the one before end
  };
  /// From the rims of holes inwards.
  std::span<const Fill> fills() const noexcept { return fills_; }
  /// Pixels that fills are made of: none of those of the same ring.
  std::span<const std::uint32_t> sources() const noexcept { return sources_; }
  /// The number of fills up to the end of each ring.
  std::span<const std::uint32_t> rings() const noexcept { return rings_; }
  /// A frame with them filled in: `copy`, or where there are none the frame itself.
  /// @param frame  of the shape of the map
  const std::byte* filled(const FrameShape& shape, const std::byte* frame,
                          std::vector<std::byte>& copy) const;

 private:
  template <class Pixel>
  void fill(Pixel* frame) const noexcept;

  float median_ = 0;
  std::size_t count_ = 0;
  std::vector<Fill> fills_;
  std::vector<std::uint32_t> sources_, rings_;
};

}  // namespace driftd::fitter
