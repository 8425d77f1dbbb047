// SPDX-License-Identifier: MIT
// A batch in pieces, taken by threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

#include "fitter/fitter.hpp"
#include "fitter/options.hpp"

namespace driftd::fitter {

inline std::size_t roi_bytes(const Batch& batch) {
  const auto side = static_cast<std::size_t>(batch.roi_px);
  return side * side * bytes_per_pixel(batch.type);
}

/// ROIs that a thread takes at least, so that it works for longer than it takes to start one: with
/// a fit in every lane, whole groups of lanes; with larger ROIs; of other work.
constexpr std::size_t kPieceInLanes = 64, kPieceAcross = 8, kPieceOfWork = 64;

/// How many threads share `count` ROIs. @param threads  as wanted; 0: one for each core
/// @param whole  as in run_in_parts()
/// @throws FitterError
inline std::size_t parts_of(std::size_t count, int threads, std::size_t whole) {
  if (threads < 0) throw FitterError("fitter: a negative number of threads");
  const std::size_t wanted = threads > 0 ? static_cast<std::size_t>(threads)
                                         : std::max(1u, std::thread::hardware_concurrency());
  return std::clamp<std::size_t>((count + whole - 1) / whole, 1, wanted);
}

/// Calls run(thread, first, count) for pieces of a whole on so many threads, of which this one is
/// the last; returns when all are done. Each thread takes the next piece when it is done with one,
/// so that a slow core among fast ones holds up no other.
/// @param whole  a piece is a multiple of it
/// @param run    must not throw
template <class Run>
void run_in_parts(std::size_t count, int threads, std::size_t whole, const Run& run) {
  constexpr std::size_t kPiecesEach = 8;
  const std::size_t workers = parts_of(count, threads, whole);
  if (workers == 1) return run(std::size_t{0}, std::size_t{0}, count);
  const std::size_t piece = (count / (workers * kPiecesEach) + whole) / whole * whole;
  std::atomic<std::size_t> next = 0;
  const auto work = [&](std::size_t worker) {
    for (std::size_t from = next.fetch_add(piece); from < count; from = next.fetch_add(piece))
      run(worker, from, std::min(piece, count - from));
  };
  std::vector<std::jthread> others;
  for (std::size_t k = 1; k < workers; ++k) others.emplace_back(work, k);
  work(0);
}

}  // namespace driftd::fitter
