// SPDX-License-Identifier: MIT
#include "fitter/cuda/cut_rois.hpp"

#include "fitter/cut_pixels.hpp"
#include "fitter/pixel_type.hpp"

namespace driftd::fitter::cuda {
namespace {

constexpr std::uint32_t kWarpThreads = 32;

/// A pixel, or one of those that are all alike: bad input to every fit.
/// @param from    of the frame; null: there is none
/// @param in_map  its place in the maps
template <class Pixel>
__device__ void cut_pixel(const CutArgument& job, const Pixel* from, std::size_t in_map,
                          std::size_t to) {
  const Frames& frames = job.frames;
  const float* const gains = frames.gains_e_per_adu;
  const float* const offsets = frames.offsets_adu;
  const Pixel pixel = from != nullptr ? *from : Pixel{0};
  const float gain = from != nullptr && gains != nullptr ? gains[in_map] : 1.0f;
  if (gains == nullptr && offsets == nullptr) {
    static_cast<Pixel*>(job.pixels)[to] = pixel;
  } else {
    float converted = 0;
    if (from != nullptr)
      converted = converted_pixel(static_cast<float>(pixel), gain,
                                  offsets != nullptr ? offsets[in_map] : job.offset_adu,
                                  job.saturation_adu);
    static_cast<float*>(job.pixels)[to] = converted;
  }
  if (job.variances != nullptr)
    job.variances[to] =
        from != nullptr ? converted_variance(frames.variances_adu2[in_map], gain) : 1.0f;
}

__global__ void __launch_bounds__(kCutThreads) cut_rois(const CutArgument job) {
  const std::uint32_t roi = (blockIdx.x * kCutThreads + threadIdx.x) / kWarpThreads;
  if (roi >= job.count) return;
  const Frames& frames = job.frames;
  const Place place = job.places[roi];
  const Corner corner = corner_of(place, job.roi_px);
  const bool inside = is_within(frames, place, job.roi_px);
  const auto side = static_cast<std::uint32_t>(job.roi_px);
  const std::size_t first = std::size_t{roi} * (side * side);
  const std::uint32_t lane = threadIdx.x % kWarpThreads;
  with_pixels(frames.type, frames.pixels, [&]<class Pixel>(const Pixel* pixels) {
    const auto* const begin = reinterpret_cast<const unsigned char*>(pixels + corner.x_px) +
                              place.frame * frames.frame_bytes + corner.y_px * frames.row_bytes;
    const std::size_t begin_in_map = corner.y_px * frames.width_px + corner.x_px;
    for (std::uint32_t pixel = lane; pixel < side * side; pixel += kWarpThreads) {
      const std::uint32_t y = pixel / side, x = pixel - y * side;
      const auto* const row = reinterpret_cast<const Pixel*>(begin + y * frames.row_bytes);
      cut_pixel(job, inside ? row + x : nullptr, begin_in_map + y * frames.width_px + x,
                first + pixel);
    }
  });
  if (lane != 0 || job.starts == nullptr) return;
  Start start = job.starts[roi];
  start.x_px -= static_cast<float>(corner.x_px);
  start.y_px -= static_cast<float>(corner.y_px);
  job.starts_of_rois[roi] = start;
}

__global__ void __launch_bounds__(kCutThreads) to_frame(const CutArgument job) {
  const std::uint32_t roi = blockIdx.x * kCutThreads + threadIdx.x;
  if (roi >= job.count) return;
  const Corner corner = corner_of(job.places[roi], job.roi_px);
  Localization& result = job.results[roi];
  if (isnan(result.x_px)) return;  // another NaN would come of the sum than on a processor
  result.x_px += static_cast<float>(corner.x_px);
  result.y_px += static_cast<float>(corner.y_px);
}

}  // namespace

const void* cut_kernel() {
  return reinterpret_cast<const void*>(cut_rois);
}

const void* to_frame_kernel() {
  return reinterpret_cast<const void*>(to_frame);
}

}  // namespace driftd::fitter::cuda
