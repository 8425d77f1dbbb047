// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstring>
#include <exception>
#include <limits>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "fitter/cuda/kernels.hpp"
#include "fitter/cuda/runtime.hpp"
#include "fitter/cuda_fitter.hpp"
#include "fitter/options.hpp"

namespace driftd::fitter::cuda {
namespace {

/// Fits of a chunk, whatever their size: bounds the memory for results.
constexpr std::size_t kMostFits = 131072;
/// Smaller chunks do not fill a device.
constexpr std::size_t kFewestFits = 8192;

struct Chunk {
  std::size_t from, count;
};

/// Large chunks, because each copy has a price, that grow smaller at the end, because nothing
/// overlaps with the last one.
std::vector<Chunk> cut(std::size_t count, std::size_t devices, std::size_t most) {
  std::vector<Chunk> chunks;
  for (std::size_t from = 0; from < count; from += chunks.back().count) {
    const std::size_t share = std::max((count - from) / (4 * devices), kFewestFits);
    chunks.push_back({from, std::min({share, most, count - from})});
  }
  return chunks;
}

enum class Place { Nowhere, Pageable, Pinned, Device };

struct Located {
  Place place;
  int device;  ///< where Place::Device
};

/// A stream with the memory of one chunk, and pinned memory to pass pageable memory through.
struct Lane {
  Lane(const RuntimeCalls& calls, int on_device, std::size_t chunk_bytes)
      : device(on_device),
        stream(calls, Stream::Priority::Lowest),
        pixels(calls, chunk_bytes),
        starts(calls, kMostFits * sizeof(Start)),
        results(calls, kMostFits * sizeof(Localization)),
        staged_pixels(calls, chunk_bytes),
        staged_starts(calls, kMostFits * sizeof(Start)),
        staged_results(calls, kMostFits * sizeof(Localization)) {}

  int device;
  Stream stream;
  DeviceMemory pixels, starts, results;
  PinnedMemory staged_pixels, staged_starts, staged_results;
};

/// One call of fit().
struct Call {
  const Batch& batch;
  const FitOptions& options;
  Localization* results;
  Located pixels_at, starts_at, results_at;
  Kernel kernel;
  std::size_t roi_bytes;
  std::vector<Lane*> lanes;
  std::vector<Chunk> chunks;
  std::size_t devices() const {
    std::set<int> used;
    for (const Lane* lane : lanes) used.insert(lane->device);
    return used.size();
  }
  bool any(Place place) const {
    return pixels_at.place == place || starts_at.place == place || results_at.place == place;
  }
};

class BatchFitter final : public CudaBatchFitter {
 public:
  explicit BatchFitter(const CudaBatchOptions& cuda) : chunk_bytes_(cuda.chunk_bytes) {
    constexpr std::size_t kLargestRoi = sizeof(float) * kMaxRoiPx * kMaxRoiPx;
    const int present = require_devices(calls_);
    if (cuda.devices.empty() || cuda.streams < 1 || chunk_bytes_ < kLargestRoi)
      throw FitterError("CUDA: a batch needs a device, a stream and chunks of 16 KiB or more");
    for (int stream = 0; stream < cuda.streams; ++stream) {
      for (const int device : cuda.devices) {
        if (device < 0 || device >= present) {
          throw FitterError("CUDA: device " + std::to_string(device) + " is not there, only 0 to " +
                            std::to_string(present - 1));
        }
        check(calls_.set_device(device), "taking the device");
        lanes_.push_back(std::make_unique<Lane>(calls_, device, chunk_bytes_));
      }
    }
  }

  void fit(const Batch& batch, const FitOptions& options,
           std::span<Localization> results) override {
    check_batch(batch, options, results.size());
    if (batch.count == 0) return;
    const Call call = plan(batch, options, results.data());
    try {
      if (call.any(Place::Pageable)) {
        run_in_threads(call);
      } else {
        for (std::size_t k = 0; k < call.chunks.size(); ++k)
          enqueue(call, k, *call.lanes[k % call.lanes.size()]);
      }
    } catch (...) {
      for (Lane* lane : call.lanes) calls_.synchronize_stream(lane->stream.get());
      throw;
    }
    for (Lane* lane : call.lanes) check(calls_.synchronize_stream(lane->stream.get()), "fitting");
  }

 private:
  Located locate(const void* memory) const {
    if (memory == nullptr) return {Place::Nowhere, -1};
    cudaPointerAttributes attributes;
    check(calls_.pointer_attributes(&attributes, memory), "asking where the batch lies");
    switch (attributes.type) {
      case cudaMemoryTypeHost:
        return {Place::Pinned, -1};
      case cudaMemoryTypeDevice:
        return {Place::Device, attributes.device};
      case cudaMemoryTypeManaged:
        throw FitterError("CUDA: managed memory is not supported");
      default:
        return {Place::Pageable, -1};
    }
  }

  Call plan(const Batch& batch, const FitOptions& options, Localization* results) const {
    Call call = {
        batch,
        options,
        results,
        locate(batch.pixels),
        locate(batch.starts),
        locate(results),
        batch_kernel(options, batch.roi_px),
        static_cast<std::size_t>(batch.roi_px * batch.roi_px) * bytes_per_pixel(batch.type),
        {},
        {}};
    int home = -1;
    for (const Located& at : {call.pixels_at, call.starts_at, call.results_at}) {
      if (at.place != Place::Device) continue;
      if (home >= 0 && at.device != home)
        throw FitterError("CUDA: the batch lies on more than one device");
      home = at.device;
    }
    for (const auto& lane : lanes_)
      if (home < 0 || lane->device == home) call.lanes.push_back(lane.get());
    if (call.lanes.empty())
      throw FitterError("CUDA: the batch lies on device " + std::to_string(home) +
                        ", which this fitter does not use");
    if (!call.any(Place::Pinned) && !call.any(Place::Pageable)) {
      constexpr std::size_t kMostOfALaunch = std::numeric_limits<std::int32_t>::max() / 128;
      for (std::size_t from = 0; from < batch.count; from += kMostOfALaunch)
        call.chunks.push_back({from, std::min(kMostOfALaunch, batch.count - from)});
    } else {
      call.chunks =
          cut(batch.count, call.devices(), std::min(kMostFits, chunk_bytes_ / call.roi_bytes));
    }
    if (call.lanes.size() > call.chunks.size()) call.lanes.resize(call.chunks.size());
    return call;
  }

  /// A thread a stream, because the processor copies pageable memory.
  void run_in_threads(const Call& call) {
    std::vector<std::exception_ptr> failures(call.lanes.size());
    const auto run = [&](std::size_t first) {
      try {
        for (std::size_t k = first; k < call.chunks.size(); k += call.lanes.size())
          enqueue(call, k, *call.lanes[first]);
      } catch (...) {
        failures[first] = std::current_exception();
      }
    };
    {
      std::vector<std::jthread> threads;
      for (std::size_t i = 1; i < call.lanes.size(); ++i) threads.emplace_back(run, i);
      run(0);
    }
    for (const auto& failure : failures)
      if (failure) std::rethrow_exception(failure);
  }

  /// The part of an array that a chunk needs, where the device can read it.
  const void* bring(const Located& at, const void* from, std::size_t bytes, PinnedMemory& staged,
                    DeviceMemory& memory, cudaStream_t stream) const {
    if (at.place == Place::Nowhere || at.place == Place::Device) return from;
    if (at.place == Place::Pageable) {
      std::memcpy(staged.host(), from, bytes);
      from = staged.host();
    }
    check(calls_.copy(memory.get(), from, bytes, cudaMemcpyHostToDevice, stream),
          "copying to the device");
    return memory.get();
  }

  /// Chunk k on a stream, which keeps the order of its own chunks. Returns when the results are
  /// there only if some memory is pageable.
  void enqueue(const Call& call, std::size_t k, Lane& lane) const {
    const Batch& batch = call.batch;
    const auto [from, count] = call.chunks[k];
    const std::size_t result_bytes = count * sizeof(Localization);
    cudaStream_t stream = lane.stream.get();
    check(calls_.set_device(lane.device), "taking the device");

    const auto* pixels = static_cast<const unsigned char*>(batch.pixels) + from * call.roi_bytes;
    const Start* starts = batch.starts != nullptr ? batch.starts + from : nullptr;
    Localization* results = call.results + from;
    const bool fits_there = call.results_at.place == Place::Device;
    Job job = {bring(call.pixels_at, pixels, count * call.roi_bytes, lane.staged_pixels,
                     lane.pixels, stream),
               call.roi_bytes,
               batch.type,
               batch.roi_px,
               static_cast<std::uint32_t>(count),
               static_cast<const Start*>(bring(call.starts_at, starts, count * sizeof(Start),
                                               lane.staged_starts, lane.starts, stream)),
               call.options,
               call.options.saturation_adu,
               fits_there ? results : lane.results.get()};
    constexpr int kThreads = 128;
    const auto groups = static_cast<std::size_t>(call.kernel.groups(kThreads));
    void* arguments[] = {&job};
    check(calls_.launch(
              call.kernel.function, {static_cast<unsigned>((count + groups - 1) / groups), 1, 1},
              {static_cast<unsigned>(groups) * static_cast<unsigned>(call.kernel.lanes), 1, 1},
              arguments, groups * call.kernel.group_bytes, stream),
          "starting the fits");
    const bool through = call.results_at.place == Place::Pageable;
    if (!fits_there) {
      check(calls_.copy(through ? lane.staged_results.host() : results, job.results, result_bytes,
                        cudaMemcpyDeviceToHost, stream),
            "copying from the device");
    }
    if (call.any(Place::Pageable)) check(calls_.synchronize_stream(stream), "fitting");
    if (through) std::memcpy(results, lane.staged_results.host(), result_bytes);
  }

  const RuntimeCalls calls_;
  std::size_t chunk_bytes_;
  std::vector<std::unique_ptr<Lane>> lanes_;
};

}  // namespace
}  // namespace driftd::fitter::cuda

namespace driftd::fitter {

std::unique_ptr<CudaBatchFitter> make_cuda_batch_fitter(const CudaBatchOptions& cuda) {
  return std::make_unique<cuda::BatchFitter>(cuda);
}

}  // namespace driftd::fitter
