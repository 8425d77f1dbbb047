// SPDX-License-Identifier: MIT
// The calls of the CUDA runtime that the host side makes, as a table in which a test can replace
// some, and owners of what they return. Every failure outside destructors is a FitterError that
// names the call's purpose and CUDA's own words.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>
#include <utility>

#include "fitter/fitter.hpp"

namespace driftd::fitter::cuda {

struct RuntimeCalls {
  decltype(&cudaGetDeviceCount) get_device_count = cudaGetDeviceCount;
  decltype(&cudaPointerGetAttributes) pointer_attributes = cudaPointerGetAttributes;
  decltype(&cudaGetDeviceProperties) get_device_properties = cudaGetDeviceProperties;
  decltype(&cudaFuncGetAttributes) function_attributes = cudaFuncGetAttributes;
  decltype(&cudaDeviceGetAttribute) get_attribute = cudaDeviceGetAttribute;
  decltype(&cudaGetDevice) get_device = cudaGetDevice;
  decltype(&cudaSetDevice) set_device = cudaSetDevice;
  decltype(&cudaHostAlloc) host_alloc = cudaHostAlloc;
  decltype(&cudaFreeHost) free_host = cudaFreeHost;
  decltype(&cudaHostGetDevicePointer) device_pointer = cudaHostGetDevicePointer;
  decltype(&cudaMalloc) device_alloc = cudaMalloc;
  decltype(&cudaFree) free_device = cudaFree;
  decltype(&cudaDeviceGetStreamPriorityRange) priority_range = cudaDeviceGetStreamPriorityRange;
  decltype(&cudaStreamCreateWithPriority) create_stream = cudaStreamCreateWithPriority;
  decltype(&cudaStreamDestroy) destroy_stream = cudaStreamDestroy;
  decltype(&cudaStreamQuery) query_stream = cudaStreamQuery;
  decltype(&cudaStreamSynchronize) synchronize_stream = cudaStreamSynchronize;
  decltype(&cudaLaunchKernel) launch = cudaLaunchKernel;
  decltype(&cudaGraphLaunch) launch_graph = cudaGraphLaunch;
  decltype(&cudaGraphExecKernelNodeSetParams) set_graph_node = cudaGraphExecKernelNodeSetParams;
  decltype(&cudaMemcpyAsync) copy = cudaMemcpyAsync;
  decltype(&cudaMemsetAsync) set = cudaMemsetAsync;
};

/// @throws FitterError "CUDA: <purpose>: <CUDA's words>"
void check(cudaError_t result, const char* purpose);

/// The number of devices. @throws FitterError without a driver or a device
int require_devices(const RuntimeCalls& calls);

/// The calling thread's current device, which is so again at the scope's end.
class CallersDevice {
 public:
  explicit CallersDevice(const RuntimeCalls& calls) noexcept;
  ~CallersDevice();
  CallersDevice(const CallersDevice&) = delete;
  CallersDevice& operator=(const CallersDevice&) = delete;

 private:
  const RuntimeCalls& calls_;
  int device_ = -1;  ///< there is none
};

/// Makes `device` the calling thread's, so that what is made next belongs to it, and makes sure
/// that it can run `kernel`. Returns its name. @throws FitterError
std::string take_device(const RuntimeCalls& calls, int device, const void* kernel);

/// Memory of the host that the device reads and writes through host(), device().
class PinnedMemory {
 public:
  /// Zeroed. @throws FitterError
  PinnedMemory(const RuntimeCalls& calls, std::size_t bytes);
  ~PinnedMemory();
  PinnedMemory(PinnedMemory&& other) noexcept;
  PinnedMemory& operator=(PinnedMemory&&) = delete;

  void* host() const { return host_; }
  void* device() const { return device_; }
  /// Never frees it: a device that hangs may still write to it.
  void abandon() { host_ = nullptr; }

 private:
  const RuntimeCalls* calls_;
  void* host_ = nullptr;
  void* device_ = nullptr;
};

class DeviceMemory {
 public:
  /// On the current device. @throws FitterError
  DeviceMemory(const RuntimeCalls& calls, std::size_t bytes);
  ~DeviceMemory();
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&&) = delete;

  void* get() const { return memory_; }
  /// Never frees it: that would wait for a device that hangs.
  void abandon() { memory_ = nullptr; }

 private:
  const RuntimeCalls* calls_;
  void* memory_ = nullptr;
};

class Stream {
 public:
  /// The highest priority that the current device has, or the lowest. @throws FitterError
  enum class Priority { Highest, Lowest };
  Stream(const RuntimeCalls& calls, Priority priority);
  ~Stream();
  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&&) = delete;

  cudaStream_t get() const { return stream_; }

 private:
  const RuntimeCalls* calls_;
  cudaStream_t stream_ = nullptr;
};

}  // namespace driftd::fitter::cuda
