// SPDX-License-Identifier: MIT
#include "fitter/cuda/runtime.hpp"

#include <cstring>
#include <string>

namespace driftd::fitter::cuda {

void check(cudaError_t result, const char* purpose) {
  if (result == cudaSuccess) return;
  throw FitterError(std::string("CUDA: ") + purpose + ": " + cudaGetErrorString(result));
}

int require_devices(const RuntimeCalls& calls) {
  int count = 0;
  const cudaError_t result = calls.get_device_count(&count);
  // CUDA calls the driver too old also where a computer has none at all.
  if (result == cudaErrorInsufficientDriver)
    throw FitterError("CUDA: there is no NVIDIA driver, or one too old for this CUDA");
  check(result, "looking for devices");
  if (count == 0) throw FitterError("CUDA: there is no device");
  return count;
}

CallersDevice::CallersDevice(const RuntimeCalls& calls) noexcept : calls_(calls) {
  if (calls_.get_device(&device_) != cudaSuccess) device_ = -1;
}

/// To set the device that is current would be to begin with one that nobody has used yet.
CallersDevice::~CallersDevice() {
  int now = device_;
  if (calls_.get_device(&now) == cudaSuccess && now != device_ && device_ >= 0)
    calls_.set_device(device_);
}

std::string take_device(const RuntimeCalls& calls, int device, const void* kernel) {
  constexpr int kOldestMajor = 7, kOldestMinor = 5;  // the first of cmake/cuda.cmake
  const int count = require_devices(calls);
  if (device < 0 || device >= count) {
    throw FitterError("CUDA: device " + std::to_string(device) + " is not there, only 0 to " +
                      std::to_string(count - 1));
  }
  cudaDeviceProp properties;
  check(calls.get_device_properties(&properties, device), "reading the device's properties");
  std::string name = properties.name;
  const std::string called = std::to_string(device) + " (" + name + ", compute capability " +
                             std::to_string(properties.major) + "." +
                             std::to_string(properties.minor) + ")";
  if (properties.major < kOldestMajor ||
      (properties.major == kOldestMajor && properties.minor < kOldestMinor)) {
    throw FitterError("CUDA: device " + called + " is too old: it takes " +
                      std::to_string(kOldestMajor) + "." + std::to_string(kOldestMinor) +
                      " or newer");
  }
  check(calls.set_device(device), ("taking device " + called).c_str());
  cudaFuncAttributes attributes;
  check(calls.function_attributes(&attributes, kernel),
        ("loading the kernels on device " + called).c_str());
  return name;
}

PinnedMemory::PinnedMemory(const RuntimeCalls& calls, std::size_t bytes) : calls_(&calls) {
  check(calls.host_alloc(&host_, bytes, cudaHostAllocMapped | cudaHostAllocPortable),
        "allocating pinned memory");
  std::memset(host_, 0, bytes);
  const cudaError_t mapped = calls.device_pointer(&device_, host_, 0);
  if (mapped != cudaSuccess) calls.free_host(std::exchange(host_, nullptr));
  check(mapped, "mapping pinned memory");
}

PinnedMemory::~PinnedMemory() {
  if (host_ != nullptr) calls_->free_host(host_);
}

PinnedMemory::PinnedMemory(PinnedMemory&& other) noexcept
    : calls_(other.calls_), host_(std::exchange(other.host_, nullptr)), device_(other.device_) {}

DeviceMemory::DeviceMemory(const RuntimeCalls& calls, std::size_t bytes) : calls_(&calls) {
  check(calls.device_alloc(&memory_, bytes), "allocating device memory");
}

DeviceMemory::~DeviceMemory() {
  if (memory_ != nullptr) calls_->free_device(memory_);
}

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : calls_(other.calls_), memory_(std::exchange(other.memory_, nullptr)) {}

Stream::Stream(const RuntimeCalls& calls, Priority priority) : calls_(&calls) {
  int lowest = 0, highest = 0;
  check(calls.priority_range(&lowest, &highest), "reading stream priorities");
  check(calls.create_stream(&stream_, cudaStreamNonBlocking,
                            priority == Priority::Highest ? highest : lowest),
        "creating a stream");
}

Stream::~Stream() {
  if (stream_ != nullptr) calls_->destroy_stream(stream_);
}

Stream::Stream(Stream&& other) noexcept
    : calls_(other.calls_), stream_(std::exchange(other.stream_, nullptr)) {}

}  // namespace driftd::fitter::cuda
