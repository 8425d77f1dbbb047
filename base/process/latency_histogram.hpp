// SPDX-License-Identifier: MIT
// A histogram of durations with a fixed relative resolution of 1/32 from 1 ns to beyond an hour, so
// that tails over weeks cost no memory. One thread records (wait-free, no allocation); any thread
// reads.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace driftd {

/// Edges of the buckets of `status`, and so of Prometheus' histograms.
inline constexpr std::array<std::uint32_t, 15> kLatencyEdges_us = {
    5, 10, 20, 50, 100, 200, 500, 1'000, 2'000, 5'000, 10'000, 20'000, 50'000, 100'000, 1'000'000};

struct LatencySummary {
  std::uint64_t count = 0;
  double p50_us = 0, p99_us = 0, p99_9_us = 0, max_us = 0;
  double sum_us = 0;
  /// How many took at most each of kLatencyEdges_us; those of a bin that an edge cuts count above.
  std::array<std::uint64_t, kLatencyEdges_us.size()> at_most = {};
};

class LatencyHistogram {
 public:
  /// Negative durations count as 0.
  void record(std::int64_t duration_ns) noexcept;
  /// Percentiles by the upper edge of their bin, so never too low; max is exact.
  LatencySummary summary() const noexcept;

 private:
  static constexpr int kSubBits = 5;  // 32 bins an octave
  static constexpr std::size_t kBins = (64 - kSubBits) << kSubBits;
  static std::size_t bin_of(std::uint64_t ns) noexcept;
  static std::uint64_t upper_edge_ns(std::size_t bin) noexcept;

  std::array<std::atomic<std::uint64_t>, kBins> bins_{};
  std::atomic<std::uint64_t> max_ns_{0};
  std::atomic<std::uint64_t> sum_ns_{0};
};

}  // namespace driftd
