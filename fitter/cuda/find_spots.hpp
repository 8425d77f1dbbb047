// SPDX-License-Identifier: MIT
// The search for spots in frames that lie in the device's memory, as the host sees it. No CUDA
// here.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fitter/frames.hpp"
#include "fitter/spots/hot_pixels.hpp"
#include "fitter/spots/spot_search.hpp"

namespace driftd::fitter::cuda {

/// The argument of all kernels here. All pointers are such as the device may follow.
struct SearchArgument {
  FrameShape shape;
  void* frames;  ///< as they are searched: fill_kernel() fills their holes
  std::uint32_t count;
  std::uint32_t first;  ///< number of the first one
  SearchBox box;
  double min_net_gradient;  ///< not above 0: by each frame's noise
  double noise_limit, least_noise;
  double* limits;          ///< of each frame, by its noise
  std::uint32_t* is_spot;  ///< a bit a pixel, whole words a frame
  std::uint32_t* found;    ///< in each frame
  std::uint32_t* ends;     ///< how many up to each frame's end
  FrameSpot* spots;        ///< receives them, in the order of frames and of reading
  int roi_px;
  Place* places;  ///< receives the places of their ROIs in these frames; null: none are wanted
  const HotPixels::Fill* fills;
  const std::uint32_t *sources, *rings;
  std::uint32_t ring_count;

  static constexpr std::uint32_t kBits = 32;
  /// Of a frame.
  DRIFTD_HD std::uint32_t words() const {
    return static_cast<std::uint32_t>((shape.pixels() + kBits - 1) / kBits);
  }
};

constexpr unsigned kSearchThreads = 256;  ///< of a block

const void* fill_kernel();    ///< a block a frame
const void* noise_kernel();   ///< a block a frame: limits
const void* find_kernel();    ///< a thread a pixel, in whole words; a row of blocks a frame
const void* count_kernel();   ///< a block a frame: found
const void* ends_kernel();    ///< a block
const void* gather_kernel();  ///< a block a frame: spots and places

}  // namespace driftd::fitter::cuda
