// SPDX-License-Identifier: MIT
// The threads that fit one ROI together, and their sums. 2 to 16 threads are a part of a warp: its
// parts then go through every call here in step. 32 are a warp; more are whole warps of one block,
// which meet at a barrier of their own. Every thread gets the same bits.
#pragma once

#include <cuda_runtime.h>

namespace driftd::fitter::cuda {

constexpr unsigned kWholeWarp = 0xffffffffu;
constexpr int kWarpThreads = 32;

// What to combine value k of one thread with that of another by.
struct Sum {
  __device__ float operator()(int, float a, float b) const { return a + b; }
};
struct Largest {
  __device__ float operator()(int, float a, float b) const { return fmaxf(a, b); }
};
struct Smallest {
  __device__ float operator()(int, float a, float b) const { return fminf(a, b); }
};
struct SumThenLargest {
  __device__ float operator()(int k, float a, float b) const {
    return k == 0 ? a + b : fmaxf(a, b);
  }
};

/// @tparam kThreads  2, 4, 8, 16, 32 or a multiple of 32; groups of threads fill a block from
/// thread 0
template <int kThreads>
class ThreadGroup {
 public:
  static constexpr int kCount = kThreads;
  static constexpr int kWarps = kThreads > kWarpThreads ? kThreads / kWarpThreads : 1;
  /// Most values that one call combines, even and odd threads counted separately.
  static constexpr int kMostValues = 28;
  /// Shared memory a group needs: two buffers, so that one barrier per call suffices.
  static constexpr int kScratch = kWarps > 1 ? 2 * kWarps* kMostValues : 0;

  __device__ explicit ThreadGroup(float* scratch) : scratch_(scratch) {}

  __device__ int index() const { return static_cast<int>(threadIdx.x) % kThreads; }
  __device__ int group() const { return static_cast<int>(threadIdx.x) / kThreads; }

  /// Waits for all threads; what they wrote to shared memory before is seen after.
  __device__ void sync() const {
    if constexpr (kWarps == 1) {
      __syncwarp();
    } else {
      asm volatile("bar.sync %0, %1;" ::"r"(group() + 1), "n"(kThreads) : "memory");
    }
  }

  /// Whether to go on, for groups that share a warp: true where it is for one of them.
  __device__ bool any(bool condition) const {
    if constexpr (kThreads >= kWarpThreads) return condition;
    return __any_sync(kWholeWarp, condition);
  }

  template <int n, class Operation = Sum>
  __device__ void combine(float (&v)[n], Operation operation = {}) {
    combine_from<1>(v, operation);
  }

  /// The sums over the even threads and over the odd threads, each in its own threads.
  template <int n>
  __device__ void sum_by_parity(float (&v)[n]) {
    combine_from<2>(v, Sum{});
  }
  /// The largest likewise.
  template <int n>
  __device__ void largest_by_parity(float (&v)[n]) {
    combine_from<2>(v, Largest{});
  }

 private:
  template <int kFirst, int n, class Operation>
  __device__ void combine_from(float (&v)[n], Operation operation) {
#pragma unroll
    for (int distance = kFirst; distance < kThreads && distance < kWarpThreads; distance *= 2) {
#pragma unroll
      for (int k = 0; k < n; ++k)
        v[k] = operation(k, v[k], __shfl_xor_sync(kWholeWarp, v[k], distance));
    }
    if constexpr (kWarps > 1) across_warps<kFirst>(v, operation);
  }

  template <int kSets, int n, class Operation>
  __device__ void across_warps(float (&v)[n], Operation operation) {
    static_assert(kSets * n <= kMostValues);
    float* const buffer = scratch_ + (second_ ? kWarps * kMostValues : 0);
    second_ = !second_;
    const int lane = index() % kWarpThreads;
    if (lane < kSets) {
#pragma unroll
      for (int k = 0; k < n; ++k)
        buffer[(index() / kWarpThreads) * kMostValues + lane * n + k] = v[k];
    }
    sync();
#pragma unroll
    for (int k = 0; k < n; ++k) {
      const float* const of_set = buffer + (lane % kSets) * n + k;
      v[k] = of_set[0];
#pragma unroll
      for (int warp = 1; warp < kWarps; ++warp)
        v[k] = operation(k, v[k], of_set[warp * kMostValues]);
    }
  }

  float* scratch_;
  bool second_ = false;
};

}  // namespace driftd::fitter::cuda
