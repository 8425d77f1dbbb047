// SPDX-License-Identifier: MIT
// Whether a pixel is a spot, and its net gradient: what both back ends ask of each pixel. Host and
// device, to the same bits: comparisons, and sums in one order, each product and each sum rounded
// for itself.
#pragma once

#include <cstddef>
#include <limits>

#include "fitter/host_device.hpp"
#include "fitter/real.hpp"
#include "fitter/spots/frame_shape.hpp"

namespace driftd::fitter {

/// Half the side of the box, rounded down, and the weight of each pixel in a square of one pixel
/// more on every side, row by row.
struct SearchBox {
  int half_px = 0;
  const float* weights = nullptr;

  DRIFTD_HD int side_of_weights() const { return 2 * half_px + 3; }
};

DRIFTD_HD float with_product(float sum, float weight, float pixel) {
#ifdef __CUDA_ARCH__
  return __fadd_rn(sum, __fmul_rn(weight, pixel));
#else
  return sum + weight * pixel;  // of a processor without fused ones: spot_search.cpp's flags
#endif
}

DRIFTD_HD int clamped(int value, int least, int most) {
  return value < least ? least : value > most ? most : value;
}

/// Whether all that come before a pixel in its box, in reading order, are smaller: of equals the
/// first is the largest.
template <class Pixel>
DRIFTD_HD bool exceeds_those_before(const Pixel* centre, std::ptrdiff_t width, int half) {
  const Pixel value = *centre;
  for (int v = -half; v <= 0; ++v) {
    const Pixel* const row = centre + v * width;
    for (int u = -half; u <= (v < 0 ? half : -1); ++u)
      if (!(row[u] < value)) return false;
  }
  return true;
}

/// Whether none of those after it is larger, or no number.
template <class Pixel>
DRIFTD_HD bool is_no_less_than_those_behind(const Pixel* centre, std::ptrdiff_t width, int half) {
  const Pixel value = *centre;
  for (int v = 0; v <= half; ++v)
    for (int u = v > 0 ? -half : 0; u <= half; ++u)
      if (!(centre[v * width + u] <= value)) return false;
  return true;
}

/// The net gradient of the box around a pixel that has half a box and one pixel more on every side.
/// Not a number where one of its pixels is none.
template <class Pixel>
DRIFTD_HD float net_gradient_inside(const Pixel* centre, std::ptrdiff_t width,
                                    const SearchBox& box) {
  const int side = box.side_of_weights();
  const Pixel* const first = centre - (box.half_px + 1) * (width + 1);
  float sum = 0;
  for (int u = 0; u < side; ++u) {
    float of_column = 0;
    for (int v = 0; v < side; ++v)
      of_column = with_product(of_column, box.weights[v * side + u],
                               static_cast<float>(first[v * width + u]));
    sum += of_column;
  }
  return sum;
}

/// Beyond the border, and where a pixel beside the box is no number, the pixels before go on.
template <class Pixel>
DRIFTD_HD float net_gradient_at_border(const FrameShape& shape, const Pixel* frame, int x, int y,
                                       const SearchBox& box) {
  const int reach = box.half_px + 1;
  const float* weight = box.weights;
  const auto at = [&](int u, int v) {
    const std::ptrdiff_t row = clamped(v, 0, shape.height_px - 1);
    return static_cast<float>(frame[row * shape.width_px + clamped(u, 0, shape.width_px - 1)]);
  };
  float sum = 0;
  for (int v = y - reach; v <= y + reach; ++v)
    for (int u = x - reach; u <= x + reach; ++u) {
      float pixel = at(u, v);
      if (!is_finite(pixel))  // the box has none
        pixel = at(clamped(u, x - box.half_px, x + box.half_px),
                   clamped(v, y - box.half_px, y + box.half_px));
      sum = with_product(sum, *weight++, pixel);
    }
  return sum;
}

/// The net gradient of a box that lies in the frame, wherever it is.
template <class Pixel>
DRIFTD_HD float net_gradient(const FrameShape& shape, const Pixel* frame, int x, int y,
                             const SearchBox& box) {
  const int reach = box.half_px + 1;
  const bool inside =
      x >= reach && x < shape.width_px - reach && y >= reach && y < shape.height_px - reach;
  if (inside) {
    const std::ptrdiff_t width = shape.width_px;
    const float sum = net_gradient_inside(frame + y * width + x, width, box);
    if (is_finite(sum)) return sum;
  }
  return net_gradient_at_border(shape, frame, x, y, box);
}

/// The net gradient of a spot in a pixel; not a number: there is none.
/// @param least  that a spot exceeds
template <class Pixel>
DRIFTD_HD float spot_at(const FrameShape& shape, const Pixel* frame, int x, int y,
                        const SearchBox& box, double least) {
  constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
  const int half = box.half_px;
  if (x < half || y < half || x >= shape.width_px - half || y >= shape.height_px - half)
    return kNone;
  const std::ptrdiff_t width = shape.width_px;
  const Pixel* const centre = frame + y * width + x;
  // Most are out by their neighbours, also on the flank of a wide spot.
  if (!(centre[-width] < *centre) || !(centre[-1] < *centre) || !(centre[1] <= *centre) ||
      !(centre[width] <= *centre) || !exceeds_those_before(centre, width, half) ||
      !is_no_less_than_those_behind(centre, width, half))
    return kNone;
  const float sum = net_gradient(shape, frame, x, y, box);
  return static_cast<double>(sum) > least ? sum : kNone;
}

}  // namespace driftd::fitter
