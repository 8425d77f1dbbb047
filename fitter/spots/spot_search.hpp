// SPDX-License-Identifier: MIT
// Spots of one frame, found by the net gradient (Schnitzbauer et al. 2017, Nat. Protoc. 12:1198,
// as in Picasso): a pixel that is the largest of its box is a spot when the intensity gradients in
// the box point towards it. Pure functions, callable from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fitter/spots/frame_shape.hpp"
#include "fitter/spots/spot_at.hpp"

namespace driftd::fitter {

constexpr int kMostBoxPx = 63;

struct SpotSearchSettings {
  int box_px = 7;  ///< odd, from 3 to kMostBoxPx
  /// adu; not above 0: kNoiseSds standard deviations of the net gradient of the frame's own noise.
  double min_net_gradient = 0;
  double least_noise = 0;  ///< standard deviation of float pixels: what their rounding has left
};

/// A box around noise's maximum has a net gradient of some 4 standard deviations; of 10^7 pixels
/// of noise fewer than one box reaches this.
constexpr double kNoiseSds = 8;

struct FoundSpot {
  int x_px = 0, y_px = 0;
  float net_gradient = 0;
};

/// One of several frames.
struct FrameSpot {
  std::int32_t x_px = 0, y_px = 0, frame = 0;
  float net_gradient = 0;
};

/// Finds spots at least half a box from the border, in reading order; keeps the weights of the box.
class SpotSearch {
 public:
  /// @throws std::invalid_argument of another box
  explicit SpotSearch(const SpotSearchSettings& settings);

  /// @param frame  of the stack's shape
  std::vector<FoundSpot> find(const FrameShape& shape, const std::byte* frame) const;
  /// Standard deviation of the net gradient where pixels are white noise of standard deviation 1.
  double unit_noise() const noexcept { return unit_noise_; }
  const SpotSearchSettings& settings() const noexcept { return settings_; }
  /// With weights that are this search's.
  SearchBox box() const noexcept { return {half_px_, weights_.data()}; }
  /// By how much of a pixel's noise a net gradient has to exceed it.
  double noise_limit() const noexcept { return kNoiseSds * unit_noise_; }

 private:
  template <class Pixel>
  std::vector<FoundSpot> find_in(const FrameShape& shape, const Pixel* frame) const;

  /// The net gradient of the box around a pixel that has half a box and one pixel more on every
  /// side. Not a number where one of its pixels is none.
  template <class Pixel>
  float net_gradient(const Pixel* centre, int width) const;
  SpotSearchSettings settings_;
  int half_px_;
  /// Weight of each pixel in a square of box_px + 2 pixels, row by row: the net gradient is linear.
  std::vector<float> weights_;
  double unit_noise_ = 0;
};

}  // namespace driftd::fitter
