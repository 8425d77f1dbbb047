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
  std::uint32_t count;
  std::uint32_t stamp;  ///< live: what marks the results
  const Start* starts;  ///< null: all cold
  FitOptions options;
  float saturation;  ///< see saturation_of()
  void* results;     ///< batch: Localization; live: StampedResult
};

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

/// What a resident kernel waits for, written by the host in one 8-byte store. Count kStop: return.
struct alignas(64) Doorbell {
  static constexpr std::uint32_t kStop = 0xffffffffu;
  std::uint32_t sequence;
  std::uint32_t count;
};

/// Several groups of lanes, one a ROI, make a block.
struct Kernel {
  const void* function;     ///< batch: (Job); live: (Job, const Doorbell*), null but for resident
  int lanes;                ///< threads for one ROI
  int most_threads;         ///< of a block
  std::size_t group_bytes;  ///< shared memory for one ROI

  /// ROIs in a block of at most `threads` threads and 48 KiB, which every device has.
  int groups(int threads) const;
};

Kernel batch_kernel(Model model, int roi_px);
Kernel live_kernel(Model model, int roi_px);

}  // namespace driftd::fitter::cuda
