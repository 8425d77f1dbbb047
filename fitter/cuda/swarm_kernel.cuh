// SPDX-License-Identifier: MIT
// The canonical particle swarm of PSFIT's figures 1 and 2: a block a ROI, a particle a thread. The
// counterpart of cpu/swarm_kernel.cpp; see there. Each model is instantiated in a file of its own.
#pragma once

#include <cstdint>
#include <limits>

#include "fitter/cuda/kernels.hpp"
#include "fitter/cuda/load_roi.cuh"
#include "fitter/swarm_search.hpp"
#include "fitter/swarm_step.hpp"

namespace driftd::fitter::cuda {

/// The best particle of a warp.
template <class Model>
struct Candidate {
  float value;
  float place[Model::kShape];
};

/// What the threads of a block share beside the pixels.
template <class Model>
struct SwarmMemory {
  PixelSummary summary;
  Candidate<Model> candidates[2][kMaxParticles / kWarpThreads];  ///< of this iteration and the last
  BestPlaces<Model> best_places;
};

/// @tparam kColumns  pixels of a row that are summed with their profile in registers
template <class Model, int kMostPx, int kColumns>
class SwarmKernelOf {
 public:
  using Sums = RoiSums<kWarpThreads, kMostPx>;
  static constexpr std::size_t kSharedBytes =
      sizeof(float) * Sums::kFloats + sizeof(SwarmMemory<Model>);

  __device__ SwarmKernelOf(float* memory, const SwarmArgument& job)
      : job_(job),
        side_(job.rois.roi_px),
        roi_(memory, side_, false),
        shared_(*reinterpret_cast<SwarmMemory<Model>*>(memory + Sums::kFloats)),
        takes_part_(static_cast<int>(threadIdx.x) < job.options.particles) {}

  __device__ void search() {
    const std::uint32_t index = blockIdx.x;
    fetch(index);
    const Bounds* const own = job_.rois.bounds != nullptr ? job_.rois.bounds + index : nullptr;
    domain_ = swarm_domain<Model>(side_, job_.rois.options.bounds, own);
    SwarmReport report = {{}, {}, NAN};
    if (summary_.usable && domain_.valid()) {
      roi_number_ = job_.first + index;
      scatter();
      for (int i = 1; i <= job_.options.iterations; ++i) iterate(static_cast<std::uint32_t>(i));
      if (threadIdx.x == 0)
        report = shared_.best_places.report(swarm_best_, swarm_value_, job_.options.spread_of_last);
    }
    if (threadIdx.x != 0) return;
    job_.starts[index] = report.best;
    if (job_.reports != nullptr) job_.reports[index] = report;
  }

 private:
  static constexpr int kDimensions = Model::kShape;
  static constexpr float kInfinity = std::numeric_limits<float>::infinity();

  /// The pixels into shared memory, 0 beside them; by one warp.
  __device__ void fetch(std::uint32_t index) {
    float* const pixels = roi_.pixels();
    for (int i = threadIdx.x; i < kMostPx * kMostPx; i += blockDim.x) pixels[i] = 0;
    __syncthreads();
    if (threadIdx.x < kWarpThreads) {
      load(roi_, job_.rois, index);
      if (threadIdx.x == 0) {
        shared_.summary = roi_.summary();
        shared_.best_places.count = 0;
      }
    }
    __syncthreads();
    summary_ = shared_.summary;
  }

  __device__ Philox random(std::uint32_t iteration) const {
    return swarm_numbers(job_.options.seed, roi_number_, threadIdx.x, iteration);
  }

  __device__ void scatter() {
    const Philox words = random(0);
#pragma unroll
    for (int j = 0; j < kDimensions; ++j) {
      const float share = uniform_pair(words.v[j]).of_low;
      at_[j] = best_[j] = domain_.lowest[j] + share * (domain_.highest[j] - domain_.lowest[j]);
      velocity_[j] = 0;
    }
    best_value_ = takes_part_ ? fminf(value_here(), kInfinity) : kInfinity;  // NaN is none
    swarm_value_ = kInfinity;
    update_swarm_best(0);
  }

  __device__ void iterate(std::uint32_t iteration) {
    const Philox words = random(iteration);
#pragma unroll
    for (int j = 0; j < kDimensions; ++j) {
      const float fastest = job_.options.max_velocity * (domain_.highest[j] - domain_.lowest[j]);
      const UniformPair<float> random = uniform_pair(words.v[j]);
      velocity_[j] = next_velocity(job_.options, velocity_[j], best_[j] - at_[j],
                                   swarm_best_[j] - at_[j], random.of_low, random.of_high, fastest);
      at_[j] = clamped(at_[j] + velocity_[j], domain_.lowest[j], domain_.highest[j]);
    }
    const float value = value_here();
    if (takes_part_ && value < best_value_) {
      best_value_ = value;
#pragma unroll
      for (int j = 0; j < kDimensions; ++j) best_[j] = at_[j];
    }
    update_swarm_best(iteration % 2);
  }

  /// One axis of the profile.
  struct Axis {
    float centre, factor;

    __device__ float operator()(int i) const {
      constexpr float kSmallest = -28.0f * 1.44269504f;  // as in RoiSums
      const float u = static_cast<float>(i) - centre;
      return exp2f(fmaxf(u * u * factor, kSmallest));
    }
  };
  __device__ static Axis axis(float centre, float sigma) {
    return {centre, (-0.5f * 1.44269504f) / (sigma * sigma)};
  }

  __device__ float value_here() const {
    Vec<kDimensions> place;
    for (int j = 0; j < kDimensions; ++j) place[j] = at_[j];
    const Profile profile = Model::profile(place);
    const Axis x = axis(profile.x_px, profile.sigma_x_px);
    const Axis y = axis(profile.y_px, profile.sigma_y_px);
    float x_sum = 0, x_squares = 0, y_sum = 0, y_squares = 0, fg = 0;
    for (int first = 0; first < side_; first += kColumns) {
      float across[kColumns];
#pragma unroll
      for (int k = 0; k < kColumns; ++k) {
        across[k] = first + k < side_ ? x(first + k) : 0.0f;
        x_sum += across[k];
        x_squares += across[k] * across[k];
      }
      for (int row = 0; row < side_; ++row) {
        const float down = y(row);
        const auto* const pixels =
            reinterpret_cast<const float4*>(roi_.pixels() + row * kMostPx + first);
        float of_row = 0;
#pragma unroll
        for (int k = 0; k < kColumns / 4; ++k) {
          const float4 g = pixels[k];
          of_row += across[4 * k] * g.x;
          of_row += across[4 * k + 1] * g.y;
          of_row += across[4 * k + 2] * g.z;
          of_row += across[4 * k + 3] * g.w;
        }
        fg += of_row * down;
        if (first > 0) continue;
        y_sum += down;
        y_squares += down * down;
      }
    }
    return swarm_chi_square(summary_, static_cast<float>(side_ * side_), x_sum * y_sum,
                            x_squares * y_squares, fg);
  }

  /// The best of all particles, of equals the first.
  __device__ void update_swarm_best(int buffer) {
    float lowest = best_value_;
#pragma unroll
    for (int distance = 1; distance < kWarpThreads; distance *= 2)
      lowest = fminf(lowest, __shfl_xor_sync(kWholeWarp, lowest, distance));
    const int first = __ffs(static_cast<int>(__ballot_sync(kWholeWarp, best_value_ == lowest))) - 1;
    Candidate<Model>* const candidates = shared_.candidates[buffer];
    if (static_cast<int>(threadIdx.x % kWarpThreads) == first) {
      Candidate<Model>& own = candidates[threadIdx.x / kWarpThreads];
      own.value = best_value_;
#pragma unroll
      for (int j = 0; j < kDimensions; ++j) own.place[j] = best_[j];
    }
    __syncthreads();
    const Candidate<Model>* best = nullptr;
    for (unsigned warp = 0; warp < blockDim.x / kWarpThreads; ++warp) {
      if (!(candidates[warp].value < swarm_value_)) continue;
      swarm_value_ = candidates[warp].value;
      best = &candidates[warp];
    }
    if (best == nullptr) return;
#pragma unroll
    for (int j = 0; j < kDimensions; ++j) swarm_best_[j] = best->place[j];
    if (threadIdx.x == 0) shared_.best_places.add(swarm_best_, job_.options.spread_of_last);
  }

  const SwarmArgument& job_;
  int side_;
  Sums roi_;
  SwarmMemory<Model>& shared_;
  bool takes_part_;  ///< a whole warp has more threads than there may be particles
  PixelSummary summary_;
  SwarmDomain<Model> domain_;
  std::uint64_t roi_number_;
  float at_[kDimensions], velocity_[kDimensions];
  float best_[kDimensions], best_value_;  ///< of this particle
  float swarm_best_[kDimensions], swarm_value_;
};

template <class Model, int kMostPx, int kColumns>
__global__ void __launch_bounds__(kMaxParticles)
    search_rois(const __grid_constant__ SwarmArgument job) {
  extern __shared__ float4 memory[];
  SwarmKernelOf<Model, kMostPx, kColumns>(reinterpret_cast<float*>(memory), job).search();
}

template <class Model, int kMostPx, int kColumns>
SwarmKernel swarm() {
  return {reinterpret_cast<const void*>(&search_rois<Model, kMostPx, kColumns>),
          SwarmKernelOf<Model, kMostPx, kColumns>::kSharedBytes};
}

template <class Model>
SwarmKernel swarm_kernel(int roi_px) {
  if (roi_px <= 12) return swarm<Model, 16, 12>();
  if (roi_px <= 16) return swarm<Model, 16, 16>();
  if (roi_px <= 32) return swarm<Model, 32, 16>();
  return swarm<Model, 64, 16>();
}

}  // namespace driftd::fitter::cuda
