// SPDX-License-Identifier: MIT
// The calls of cuda_fitter.hpp on the real runtime.
#include "fitter/cuda_fitter.hpp"

#include <sys/uio.h>
#include <unistd.h>

#include "fitter/cuda/batch_fitter.hpp"
#include "fitter/cuda/kernels.hpp"
#include "fitter/cuda/live_fitter.hpp"
#include "fitter/cuda/runtime.hpp"
#include "fitter/cuda/spot_finder.hpp"

namespace driftd::fitter {

int cuda_device_count() noexcept {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

std::string cuda_obstacle(int device) {
  return cuda::obstacle({}, device);
}

int cuda_current_device() noexcept {
  int device = 0;
  return cudaGetDevice(&device) == cudaSuccess ? device : 0;
}

std::optional<int> cuda_device_of(const void* memory) noexcept {
  cudaPointerAttributes attributes;
  if (memory == nullptr || cudaPointerGetAttributes(&attributes, memory) != cudaSuccess ||
      attributes.type != cudaMemoryTypeDevice)
    return std::nullopt;
  return attributes.device;
}

bool host_can_read(const void* memory) noexcept {
  if (memory == nullptr) return true;
  cudaPointerAttributes attributes;
  if (cudaPointerGetAttributes(&attributes, memory) == cudaSuccess)
    return attributes.type != cudaMemoryTypeDevice;
  char byte;
  const iovec to = {&byte, 1}, from = {const_cast<void*>(memory), 1};
  return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == 1;
}

CudaVersions cuda_versions() noexcept {
  CudaVersions versions;
  if (cudaRuntimeGetVersion(&versions.runtime) != cudaSuccess) versions.runtime = 0;
  if (cudaDriverGetVersion(&versions.driver) != cudaSuccess) versions.driver = 0;
  return versions;
}

void* allocate_pinned(std::size_t bytes, std::optional<int> device) noexcept {
  const cuda::RuntimeCalls calls;
  const cuda::CallersDevice callers(calls);
  if (device && cudaSetDevice(*device) != cudaSuccess) return nullptr;
  void* memory = nullptr;
  return cudaHostAlloc(&memory, bytes, cudaHostAllocPortable) == cudaSuccess ? memory : nullptr;
}

void free_pinned(void* memory) noexcept {
  cudaFreeHost(memory);
}

void cuda_copy(void* to, const void* from, std::size_t bytes) {
  cuda::check(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), "copying");
}

std::unique_ptr<LiveFitter> make_cuda_live_fitter(int roi_px, std::size_t capacity,
                                                  const FitOptions& options,
                                                  const CudaLiveOptions& cuda) {
  return cuda::make_live_fitter(roi_px, capacity, options, cuda, {});
}

std::unique_ptr<CudaBatchFitter> make_cuda_batch_fitter(const CudaBatchOptions& cuda) {
  return cuda::make_batch_fitter(cuda, {});
}

std::unique_ptr<CudaSpotFinder> make_cuda_spot_finder(const CudaBatchOptions& cuda) {
  return cuda::make_spot_finder(cuda, {});
}

}  // namespace driftd::fitter
