// SPDX-License-Identifier: MIT
#include "fitter/cuda/find_spots.hpp"

#include "fitter/cuda/find_spots_steps.hpp"

namespace driftd::fitter::cuda {
namespace {

/// The threads of a block.
struct Block {
  __device__ std::size_t rank() const { return threadIdx.x; }
  __device__ std::size_t size() const { return blockDim.x; }
  __device__ void sync() const { __syncthreads(); }
  __device__ void add(std::uint32_t& to, std::uint32_t value) const { atomicAdd(&to, value); }
};

__global__ void __launch_bounds__(kSearchThreads) fill(const SearchArgument job) {
  Block block;
  fill_holes(block, job, blockIdx.x);
}

__global__ void __launch_bounds__(kSearchThreads) noise(const SearchArgument job) {
  __shared__ SearchMemory memory;
  Block block;
  set_limit(block, memory, job, blockIdx.x);
}

__global__ void __launch_bounds__(kSearchThreads) find(const SearchArgument job) {
  const std::uint32_t pixel = blockIdx.x * kSearchThreads + threadIdx.x;
  const std::uint32_t word = pixel / SearchArgument::kBits;
  if (word >= job.words()) return;  // a whole warp
  const std::uint32_t frame = blockIdx.y;
  const std::uint32_t bits = __ballot_sync(0xffffffffu, is_spot(job, frame, pixel));
  if (pixel % SearchArgument::kBits == 0)
    job.is_spot[std::size_t{frame} * job.words() + word] = bits;
}

__global__ void __launch_bounds__(kSearchThreads) count(const SearchArgument job) {
  __shared__ SearchMemory memory;
  Block block;
  count_spots(block, memory, job, blockIdx.x);
}

__global__ void __launch_bounds__(kSearchThreads) ends(const SearchArgument job) {
  __shared__ SearchMemory memory;
  Block block;
  set_ends(block, memory, job);
}

__global__ void __launch_bounds__(kSearchThreads) gather(const SearchArgument job) {
  __shared__ SearchMemory memory;
  Block block;
  gather_spots(block, memory, job, blockIdx.x);
}

}  // namespace

const void* fill_kernel() {
  return reinterpret_cast<const void*>(fill);
}
const void* noise_kernel() {
  return reinterpret_cast<const void*>(noise);
}
const void* find_kernel() {
  return reinterpret_cast<const void*>(find);
}
const void* count_kernel() {
  return reinterpret_cast<const void*>(count);
}
const void* ends_kernel() {
  return reinterpret_cast<const void*>(ends);
}
const void* gather_kernel() {
  return reinterpret_cast<const void*>(gather);
}

}  // namespace driftd::fitter::cuda
