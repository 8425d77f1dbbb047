// SPDX-License-Identifier: MIT
// The steps of the kernels that find spots, by threads of the processor in place of a GPU's.
#pragma once

#include <atomic>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "fitter/cuda/find_spots_steps.hpp"

namespace driftd::test {

/// One of the threads of a block.
class ThreadOfBlock {
 public:
  ThreadOfBlock(std::size_t rank, std::size_t size, std::barrier<>& barrier)
      : rank_(rank), size_(size), barrier_(&barrier) {}
  std::size_t rank() const { return rank_; }
  std::size_t size() const { return size_; }
  void sync() const { barrier_->arrive_and_wait(); }
  void add(std::uint32_t& to, std::uint32_t value) const { std::atomic_ref(to) += value; }

 private:
  std::size_t rank_, size_;
  std::barrier<>* barrier_;
};

/// Calls step(thread, memory) in each thread of a block.
template <class Step>
void run_block(std::size_t threads, const Step& step) {
  fitter::cuda::SearchMemory memory;
  std::barrier<> barrier(static_cast<std::ptrdiff_t>(threads));
  std::vector<std::jthread> others;
  const auto run = [&](std::size_t rank) {
    ThreadOfBlock thread(rank, threads, barrier);
    step(thread, memory);
  };
  for (std::size_t rank = 1; rank < threads; ++rank) others.emplace_back(run, rank);
  run(0);
}

/// What find_kernel() does.
inline void mark_spots(const fitter::cuda::SearchArgument& job) {
  for (std::uint32_t frame = 0; frame < job.count; ++frame)
    for (std::uint32_t word = 0; word < job.words(); ++word) {
      std::uint32_t bits = 0;
      for (std::uint32_t bit = 0; bit < job.kBits; ++bit)
        if (fitter::cuda::is_spot(job, frame, word * job.kBits + bit)) bits |= 1u << bit;
      job.is_spot[std::size_t{frame} * job.words() + word] = bits;
    }
}

}  // namespace driftd::test
