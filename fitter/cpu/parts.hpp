// SPDX-License-Identifier: MIT
// A batch in parts, one for each thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <thread>
#include <vector>

#include "fitter/fitter.hpp"
#include "fitter/options.hpp"

namespace driftd::fitter::cpu {

inline std::size_t roi_bytes(const Batch& batch) {
  const auto side = static_cast<std::size_t>(batch.roi_px);
  return side * side * bytes_per_pixel(batch.type);
}

/// How many threads fit `count` ROIs. @param threads  as wanted; 0: one for each core
/// @throws FitterError
inline std::size_t parts_of(std::size_t count, int threads) {
  if (threads < 0) throw FitterError("fitter: a negative number of threads");
  const std::size_t wanted = threads > 0 ? static_cast<std::size_t>(threads)
                                         : std::max(1u, std::thread::hardware_concurrency());
  return std::clamp<std::size_t>(count, 1, wanted);
}

/// Calls run(part, first, count) on a thread each, the last of them this one; returns when all
/// have.
/// @param run  must not throw
template <class Run>
void run_in_parts(std::size_t count, int threads, const Run& run) {
  const std::size_t parts = parts_of(count, threads);
  const auto part = [&](std::size_t k) {
    const std::size_t from = count * k / parts;
    run(k, from, count * (k + 1) / parts - from);
  };
  std::vector<std::jthread> workers;
  for (std::size_t k = 1; k < parts; ++k) workers.emplace_back(part, k);
  part(0);
}

}  // namespace driftd::fitter::cpu
