// SPDX-License-Identifier: MIT
// A CUDA device that is not there: its memory is the host's, a launch fits at once by the CPU twin,
// and it fails as it is told to. One for the process; no thread but the test's may use it.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "fitter/cuda/cut_rois.hpp"
#include "fitter/cuda/find_spots.hpp"
#include "fitter/cuda/kernels.hpp"
#include "fitter/cuda/runtime.hpp"
#include "fitter/cuda_fitter.hpp"
#include "support/searching_blocks.hpp"

namespace driftd::test::pretended {

enum class Trouble {
  None,
  NoDevice,
  OldDriver,
  TooOld,      ///< compute capability 6.1
  NoImage,     ///< not a device that the kernels were compiled for
  Exclusive,   ///< another process has it for itself
  MemoryFull,  ///< of the device
  PinnedFull,
  NoMapping,  ///< of pinned memory
  NoStream,
  LaunchFails,
  LaterLaunchFails,  ///< of fits, when some were made
  NoResults,         ///< a launch that does nothing
  SyncFails,
  CopyFails
};

struct Named {
  Trouble trouble;
  const char* says;  ///< a part of the sentence that people read
};

/// What can keep a device from being had at all.
inline const std::vector<Named>& at_start() {
  static const std::vector<Named> all = {
      {Trouble::NoDevice, "CUDA: looking for devices: no CUDA-capable device is detected"},
      {Trouble::OldDriver, "CUDA: there is no NVIDIA driver, or one too old for this CUDA"},
      {Trouble::TooOld,
       "CUDA: device 0 (Pretended, compute capability 6.1) is too old: it takes 7.5 or newer"},
      {Trouble::NoImage,
       "CUDA: loading the kernels on device 0 (Pretended, compute capability 9.0): no kernel image "
       "is available"},
      {Trouble::Exclusive,
       "CUDA: taking device 0 (Pretended, compute capability 9.0): CUDA-capable device(s) is/are "
       "busy or unavailable"},
      {Trouble::NoStream, "CUDA: creating a stream"}};
  return all;
}

/// What can keep it from having memory: a live fitter at the start, a batch's from its first fits.
inline const std::vector<Named>& of_memory() {
  static const std::vector<Named> all = {
      {Trouble::MemoryFull, "CUDA: allocating device memory: out of memory"},
      {Trouble::PinnedFull, "CUDA: allocating pinned memory: out of memory"},
      {Trouble::NoMapping, "CUDA: mapping pinned memory"}};
  return all;
}

/// What may happen to one that was had.
inline const std::vector<Named>& later() {
  static const std::vector<Named> all = {
      {Trouble::LaunchFails, "CUDA: starting the fits: unspecified launch failure"},
      {Trouble::SyncFails, "CUDA: fitting: an illegal memory access"},
      {Trouble::CopyFails, "CUDA: copying to the device"}};
  return all;
}

inline std::vector<Named> both(std::vector<Named> all, const std::vector<Named>& more) {
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

struct State {
  Trouble trouble = Trouble::None;
  int allocations = 0;           ///< pinned ones not given back
  std::size_t pinned_bytes = 0;  ///< of all that were asked for
  std::size_t fitted = 0;
  int current_device = 0;
};

inline State& state() {
  static State the_state;
  return the_state;
}

inline cudaError_t fails_by(Trouble trouble, cudaError_t error) {
  return state().trouble == trouble ? error : cudaSuccess;
}

inline cudaError_t allocate(void** memory, std::size_t bytes) {
  *memory = std::aligned_alloc(128, (bytes + 127) / 128 * 128);
  return *memory != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}

inline cudaError_t host_alloc(void** memory, std::size_t bytes, unsigned) {
  if (state().trouble == Trouble::PinnedFull) return cudaErrorMemoryAllocation;
  ++state().allocations;
  state().pinned_bytes += bytes;
  return allocate(memory, bytes);
}

inline cudaError_t free_host(void* memory) {
  std::free(memory);
  --state().allocations;
  return cudaSuccess;
}

inline cudaError_t launch_trouble() {
  if (state().trouble == Trouble::LaterLaunchFails && state().fitted > 0)
    return cudaErrorLaunchFailure;
  return fails_by(Trouble::LaunchFails, cudaErrorLaunchFailure);
}

/// A live kernel.
inline cudaError_t launch_live(const void*, dim3, dim3, void** arguments, std::size_t,
                               cudaStream_t) {
  if (const cudaError_t error = launch_trouble(); error != cudaSuccess) return error;
  if (state().trouble == Trouble::NoResults) return cudaSuccess;
  const auto& job = *static_cast<const fitter::cuda::KernelArgument*>(arguments[0]);
  const auto& task = *static_cast<const fitter::cuda::Task*>(arguments[1]);
  for (std::size_t i = 0; i < task.count; ++i) {
    std::vector<fitter::Localization> fit(1);
    const auto* slot = static_cast<const unsigned char*>(job.pixels) + i * job.stride_bytes;
    fitter::Start start;
    std::memcpy(&start, slot + fitter::cuda::start_offset(job.roi_px), sizeof(start));
    fitter::fit_batch_cpu({slot, job.type, job.roi_px, 1, &start}, job.options, fit);
    auto& result = static_cast<fitter::cuda::StampedResult*>(job.results)[i];
    std::uint32_t words[15] = {};
    std::memcpy(words, fit.data(), sizeof(fit[0]));
    const std::uint32_t* from = words;
    for (auto& part : result.parts) {
      std::copy_n(from, 3, part.words);
      part.stamp = task.stamp;
      from += 3;
    }
  }
  return cudaSuccess;
}

/// ROIs of frames without gains and offsets that lie in their frames.
inline void cut(const fitter::cuda::CutArgument& job) {
  const fitter::Frames& frames = job.frames;
  const auto side = static_cast<std::size_t>(job.roi_px);
  const auto width = static_cast<std::size_t>(frames.width_px);
  const std::size_t pixel = frames.row_bytes / width;
  for (std::size_t i = 0; i < job.count * side; ++i) {
    const fitter::Place& place = job.places[i / side];
    const auto x = static_cast<std::size_t>(place.x_px) - side / 2;
    const std::size_t y = static_cast<std::size_t>(place.y_px) - side / 2 + i % side;
    const auto* const frame = static_cast<const unsigned char*>(frames.pixels) +
                              static_cast<std::size_t>(place.frame) * frames.frame_bytes;
    std::memcpy(static_cast<unsigned char*>(job.pixels) + i * side * pixel,
                frame + y * frames.row_bytes + x * pixel, side * pixel);
    if (job.variances != nullptr)
      std::copy_n(frames.variances_adu2 + y * width + x, side, job.variances + i * side);
  }
}

/// A kernel that finds spots, or cuts ROIs; false: it is another.
inline bool find_or_cut(const void* kernel, dim3 blocks, void** arguments) {
  namespace cuda = fitter::cuda;
  const auto& job = *static_cast<const cuda::SearchArgument*>(arguments[0]);
  const auto in_each = [&](const auto& step) {
    for (std::uint32_t block = 0; block < blocks.x; ++block)
      run_block(1, [&](auto& group, auto& memory) { step(group, memory, block); });
  };
  if (kernel == cuda::cut_kernel()) {
    cut(*static_cast<const cuda::CutArgument*>(arguments[0]));
  } else if (kernel == cuda::fill_kernel()) {
    in_each([&](auto& group, auto&, auto frame) { cuda::fill_holes(group, job, frame); });
  } else if (kernel == cuda::noise_kernel()) {
    in_each([&](auto& group, auto& memory, auto f) { cuda::set_limit(group, memory, job, f); });
  } else if (kernel == cuda::find_kernel()) {
    mark_spots(job);
  } else if (kernel == cuda::count_kernel()) {
    in_each([&](auto& group, auto& memory, auto f) { cuda::count_spots(group, memory, job, f); });
  } else if (kernel == cuda::ends_kernel()) {
    in_each([&](auto& group, auto& memory, auto) { cuda::set_ends(group, memory, job); });
  } else if (kernel == cuda::gather_kernel()) {
    in_each([&](auto& group, auto& memory, auto f) { cuda::gather_spots(group, memory, job, f); });
  } else {
    return false;
  }
  return true;
}

/// A batch kernel, or one of the search for spots; swarms are not pretended.
inline cudaError_t launch_batch(const void* kernel, dim3 blocks, dim3, void** arguments,
                                std::size_t, cudaStream_t) {
  if (const cudaError_t error = launch_trouble(); error != cudaSuccess) return error;
  if (find_or_cut(kernel, blocks, arguments)) return cudaSuccess;
  const auto& job = *static_cast<const fitter::cuda::KernelArgument*>(arguments[0]);
  state().fitted += job.count;
  fitter::fit_batch_cpu({.pixels = job.pixels,
                         .type = job.type,
                         .roi_px = job.roi_px,
                         .count = job.count,
                         .starts = job.starts,
                         .levels = job.levels,
                         .variances = job.variances,
                         .bounds = job.bounds,
                         .angles_rad = job.angles_rad,
                         .angle_bounds = job.angle_bounds,
                         .details = job.details},
                        job.options, {static_cast<fitter::Localization*>(job.results), job.count});
  return cudaSuccess;
}

inline cudaError_t properties(cudaDeviceProp* p, int) {
  *p = {};
  std::snprintf(p->name, sizeof p->name, "Pretended");
  const bool old = state().trouble == Trouble::TooOld;
  p->major = old ? 6 : 9;
  p->minor = old ? 1 : 0;
  return cudaSuccess;
}

inline cudaError_t count_devices(int* count) {
  *count = 1;
  if (state().trouble == Trouble::OldDriver) return cudaErrorInsufficientDriver;
  return fails_by(Trouble::NoDevice, cudaErrorNoDevice);
}

/// Calls whose failures are `Trouble`s; the device works until one is set.
inline fitter::cuda::RuntimeCalls calls() {
  state().trouble = Trouble::None;
  fitter::cuda::RuntimeCalls c;
  c.get_device_count = count_devices;
  c.get_device_properties = properties;
  c.function_attributes = [](cudaFuncAttributes*, const void*) {
    return fails_by(Trouble::NoImage, cudaErrorNoKernelImageForDevice);
  };
  c.pointer_attributes = [](cudaPointerAttributes* a, const void*) { return *a = {}, cudaSuccess; };
  c.get_device = [](int* device) { return *device = state().current_device, cudaSuccess; };
  c.set_device = [](int device) {
    state().current_device = device;
    return fails_by(Trouble::Exclusive, cudaErrorDevicesUnavailable);
  };
  c.host_alloc = host_alloc;
  c.free_host = free_host;
  c.device_alloc = [](void** memory, std::size_t bytes) {
    if (state().trouble == Trouble::MemoryFull) return cudaErrorMemoryAllocation;
    return allocate(memory, bytes);
  };
  c.free_device = [](void* memory) { return std::free(memory), cudaSuccess; };
  c.device_pointer = [](void** device, void* host, unsigned) {
    *device = host;
    return fails_by(Trouble::NoMapping, cudaErrorInvalidValue);
  };
  c.priority_range = [](int* low, int* high) { return *low = *high = 0, cudaSuccess; };
  c.create_stream = [](cudaStream_t*, unsigned, int) {
    return fails_by(Trouble::NoStream, cudaErrorMemoryAllocation);
  };
  c.destroy_stream = [](cudaStream_t) { return cudaSuccess; };
  c.query_stream = [](cudaStream_t) { return cudaSuccess; };
  c.synchronize_stream = [](cudaStream_t) {
    return fails_by(Trouble::SyncFails, cudaErrorIllegalAddress);
  };
  c.copy = [](void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t) {
    if (state().trouble == Trouble::CopyFails) return cudaErrorInvalidValue;
    return std::memcpy(to, from, bytes), cudaSuccess;
  };
  return c;
}

inline fitter::cuda::RuntimeCalls live_calls() {
  fitter::cuda::RuntimeCalls c = calls();
  c.launch = launch_live;
  return c;
}

inline fitter::cuda::RuntimeCalls batch_calls() {
  fitter::cuda::RuntimeCalls c = calls();
  c.launch = launch_batch;
  return c;
}

}  // namespace driftd::test::pretended
