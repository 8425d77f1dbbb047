// SPDX-License-Identifier: MIT
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "support/catch.hpp"

namespace driftd::test {

/// An array of the device or pinned in the host, freed with the scope.
template <class T>
class CudaArray {
 public:
  CudaArray(bool device, const T* from, std::size_t count) : device_(device) {
    const std::size_t bytes = count * sizeof(T);
    REQUIRE((device ? cudaMalloc(&memory_, bytes) : cudaMallocHost(&memory_, bytes)) ==
            cudaSuccess);
    REQUIRE(cudaMemcpy(memory_, from, bytes, cudaMemcpyDefault) == cudaSuccess);
  }
  ~CudaArray() { device_ ? cudaFree(memory_) : cudaFreeHost(memory_); }
  CudaArray(const CudaArray&) = delete;
  CudaArray& operator=(const CudaArray&) = delete;
  T* get() const { return static_cast<T*>(memory_); }

 private:
  bool device_;
  void* memory_ = nullptr;
};

}  // namespace driftd::test
