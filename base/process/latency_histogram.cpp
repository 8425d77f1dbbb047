// SPDX-License-Identifier: MIT
#include "base/process/latency_histogram.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace driftd {

std::size_t LatencyHistogram::bin_of(std::uint64_t ns) noexcept {
  constexpr std::uint64_t kLinear = std::uint64_t{1} << kSubBits;
  if (ns < kLinear) return static_cast<std::size_t>(ns);
  const int octave = static_cast<int>(std::bit_width(ns)) - 1 - kSubBits;  // 0 for [32, 64)
  const std::uint64_t mantissa = ns >> octave;                             // 32..63
  const auto bin = (static_cast<std::uint64_t>(octave) << kSubBits) + mantissa;
  return std::min(static_cast<std::size_t>(bin), kBins - 1);
}

std::uint64_t LatencyHistogram::upper_edge_ns(std::size_t bin) noexcept {
  constexpr std::size_t kLinear = std::size_t{1} << kSubBits;
  if (bin < 2 * kLinear) return bin;
  const std::size_t octave = (bin >> kSubBits) - 1;
  const std::uint64_t mantissa = (bin & (kLinear - 1)) + kLinear;
  return ((mantissa + 1) << octave) - 1;
}

void LatencyHistogram::record(std::int64_t duration_ns) noexcept {
  const auto ns = static_cast<std::uint64_t>(std::max<std::int64_t>(duration_ns, 0));
  // One writer: load and store instead of a locked read-modify-write.
  auto& bin = bins_[bin_of(ns)];
  bin.store(bin.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  if (ns > max_ns_.load(std::memory_order_relaxed)) max_ns_.store(ns, std::memory_order_relaxed);
  sum_ns_.store(sum_ns_.load(std::memory_order_relaxed) + ns, std::memory_order_relaxed);
}

LatencySummary LatencyHistogram::summary() const noexcept {
  std::array<std::uint64_t, kBins> counts;
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < kBins; ++i) {
    counts[i] = bins_[i].load(std::memory_order_relaxed);
    total += counts[i];
  }
  LatencySummary result;
  result.count = total;
  if (total == 0) return result;
  const std::uint64_t max_ns = max_ns_.load(std::memory_order_relaxed);
  const auto percentile_us = [&](double share) {
    const auto rank = static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(total)));
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < kBins; ++i) {
      seen += counts[i];
      if (seen >= rank) return static_cast<double>(std::min(upper_edge_ns(i), max_ns)) * 1e-3;
    }
    return static_cast<double>(max_ns) * 1e-3;
  };
  result.p50_us = percentile_us(0.5);
  result.p99_us = percentile_us(0.99);
  result.p99_9_us = percentile_us(0.999);
  result.max_us = static_cast<double>(max_ns) * 1e-3;
  result.sum_us = static_cast<double>(sum_ns_.load(std::memory_order_relaxed)) * 1e-3;
  std::uint64_t seen = 0;
  std::size_t bin = 0;
  for (std::size_t i = 0; i < kLatencyEdges_us.size(); ++i) {
    const std::uint64_t edge_ns = std::uint64_t{kLatencyEdges_us[i]} * 1000;
    for (; bin < kBins && upper_edge_ns(bin) <= edge_ns; ++bin) seen += counts[bin];
    result.at_most[i] = seen;
  }
  return result;
}

}  // namespace driftd
