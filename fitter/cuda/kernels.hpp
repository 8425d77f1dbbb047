// SPDX-License-Identifier: MIT
// The kernels as the host sees them: what a launch is told, which kernel fits a ROI side, and how
// its results lie in memory. No CUDA here.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fitter/fitter.hpp"

namespace driftd::fitter::cuda {

/// The argument of every kernel. All pointers are such as the device may follow.
struct Job {
  const void* pixels;        ///< `count` ROIs, row-major
  std::size_t stride_bytes;  ///< from one to the next
  PixelType type;            ///< live: always U16
  int roi_px;
  std::uint32_t count;  ///< live: the capacity; a Task says how many of them
  const Start* starts;  ///< batch: null where all are cold; live: see start_offset()
  FitOptions options;
  float saturation;  ///< pixels at or above are bad input
  void* results;     ///< batch: Localization; live: StampedResult
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

/// Several groups of lanes, one a ROI, make a block.
struct Kernel {
  const void* function;     ///< batch: (Job); live: (Job, Task, const Task* doorbell, Task* relay)
  int lanes;                ///< threads for one ROI
  int most_threads;         ///< of a block
  std::size_t group_bytes;  ///< shared memory for one ROI

  /// ROIs in a block of at most `threads` threads and 48 KiB, which every device has.
  int groups(int threads) const;
};

/// @throws FitterError for what there is no kernel for
Kernel batch_kernel(const FitOptions& options, int roi_px);
Kernel live_kernel(const FitOptions& options, int roi_px);

}  // namespace driftd::fitter::cuda
