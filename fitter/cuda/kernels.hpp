// SPDX-License-Identifier: MIT
// The kernels as the host sees them: what a launch is told, which kernel fits a ROI side, and how
// its results lie in memory. No CUDA here.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fitter/fitter.hpp"
#include "fitter/swarm.hpp"

namespace driftd::fitter::cuda {

/// The argument of every kernel. All pointers are such as the device may follow.
struct KernelArgument {
  const void* pixels;        ///< `count` ROIs, row-major
  std::size_t stride_bytes;  ///< from one to the next
  PixelType type;            ///< live: always U16
  int roi_px;
  std::uint32_t count;        ///< live: the capacity; a Task says how many of them
  const Start* starts;        ///< batch: null where all are cold; live: see start_offset()
  const StartLevels* levels;  ///< this and the next two: batch, see Batch; may be null
  const float* variances;
  const Bounds* bounds;
  FitOptions options;
  float saturation;                   ///< pixels at or above are bad input
  void* results;                      ///< batch: Localization; live: StampedResult
  const float* angles_rad = nullptr;  ///< this and the next two: batch, see Batch
  const AngleBounds* angle_bounds = nullptr;
  FitDetails* details = nullptr;
  /// batch, of a kernel that leaves fits: how many, then which; written by the first launch, read
  /// by the second. Null: none are left.
  std::uint32_t* left = nullptr;
  bool goes_on = false;  ///< the second launch
};

/// Live slots hold the start value in the first whole 16 bytes behind the pixels, so that one read
/// over the bus brings both: readers of one line of host memory would wait for one another.
constexpr std::size_t start_offset(int roi_px) {
  return (static_cast<std::size_t>(roi_px * roi_px) * sizeof(std::uint16_t) + sizeof(Start) - 1) /
         sizeof(Start) * sizeof(Start);
}
constexpr std::size_t slot_bytes(int roi_px) {
  constexpr std::size_t kAlignment = 64;
  return (start_offset(roi_px) + sizeof(Start) + kAlignment - 1) / kAlignment * kAlignment;
}

/// A result that the host may poll: every 16 bytes, which arrive as one, carry the stamp.
struct alignas(128) StampedResult {
  static constexpr int kParts = 5;
  struct alignas(16) Part {
    std::uint32_t words[3];
    std::uint32_t stamp;
  };
  Part parts[kParts];
};
static_assert(sizeof(Localization) <= StampedResult::kParts * sizeof(std::uint32_t) * 3);

/// What to fit now. At a doorbell, which a resident kernel watches, written by the host in one
/// 8-byte store; count kStop ends the kernel.
struct alignas(8) Task {
  static constexpr std::uint32_t kStop = 0xffffffffu;
  std::uint32_t stamp;  ///< what marks the results
  std::uint32_t count;  ///< of the slots, from the first on
};

/// The argument of a swarm kernel: the ROIs of a batch, a block each, a particle a thread.
struct SwarmArgument {
  KernelArgument rois;  ///< starts, levels, variances and results unused
  std::uint64_t first;  ///< number of its first ROI
  SwarmOptions options;
  Start* starts;         ///< receives the best places
  SwarmReport* reports;  ///< receives what the swarms found; may be null
};

/// Several groups of threads, one a ROI, make a block.
struct Kernel {
  /// batch: (KernelArgument); live: (KernelArgument, Task, const Task* doorbell, Task* relay)
  const void* function;
  int threads;              ///< for one ROI
  int most_threads;         ///< of a block
  std::size_t group_bytes;  ///< shared memory for one ROI
  bool leaves = false;      ///< see KernelArgument::left

  static constexpr std::size_t kMostSharedBytes = std::size_t{47} << 10;
  /// ROIs in a block of at most `of_block` threads and 48 KiB, which every device has.
  int groups(int of_block) const;
};

/// What of a batch, beside its options, says which kernel fits it.
struct BatchKind {
  int roi_px;
  bool bounds_axes = false;  ///< Batch::bounds_axes()
  bool mapped = false;       ///< with a map of variances
  bool detailed = false;     ///< with KernelArgument::details
};
Kernel batch_kernel(const FitOptions& options, const BatchKind& batch);
Kernel live_kernel(const FitOptions& options, int roi_px);

/// (SwarmArgument): a block of as many threads as particles, in whole warps, with its shared
/// memory.
struct SwarmKernel {
  const void* function;
  std::size_t shared_bytes;
};
SwarmKernel swarm_kernel(Model model, int roi_px);

/// The same of one search, e.g. FullSearch<CircularGaussian>; fit_kernel.cuh.
/// @param in_threads  a thread may fit a ROI by itself: pixels' centres, no map, no details
template <class Search>
Kernel batch_kernel(int roi_px, bool in_threads, bool detailed);
template <class Search>
Kernel live_kernel(int roi_px);
/// The same of a pixel-by-pixel search; pixelwise_kernel.cuh.
template <class Search>
Kernel pixelwise_kernel(int roi_px);
/// The same of one model, e.g. CircularGaussian; swarm_kernel.cuh.
template <class Spot>
SwarmKernel swarm_kernel(int roi_px);

}  // namespace driftd::fitter::cuda
