// SPDX-License-Identifier: MIT
#include "fitter/cuda/spot_finder.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <exception>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fitter/cuda/batch_fitter.hpp"
#include "fitter/cuda/cut_rois.hpp"
#include "fitter/cuda/find_spots.hpp"
#include "fitter/cuda/growing.hpp"
#include "fitter/options.hpp"
#include "fitter/spots/spot_job.hpp"

namespace driftd::fitter::cuda {
namespace {

/// A chunk's frames at most: each of several streams gets one of a block that driftfit reads.
constexpr std::size_t kChunkBytes = std::size_t{8} << 20;
/// Frames of a chunk: bounds what is known of each, and the launches' grids.
constexpr std::size_t kMostFrames = 4096;

/// A stream of a device, with memory for a chunk of frames and what is found in it.
struct Lane {
  Lane(const RuntimeCalls& calls, int on_device, std::size_t chunk_bytes)
      : device(on_device),
        stream(calls, Stream::Priority::Lowest),
        fitter(make_batch_fitter({.devices = {on_device}, .streams = 1, .chunk_bytes = chunk_bytes},
                                 calls)) {}

  int device;
  Stream stream;
  std::unique_ptr<CudaBatchFitter> fitter;
  Growing<PinnedMemory> staged, spots_staged, end_staged;
  Growing<DeviceMemory> frames, searched, limits, is_spot, found, ends, spots, places, rois,
      roi_variances;
  Growing<DeviceMemory> weights, fills, sources, rings, variances;  ///< of a whole job
};

/// What all chunks of a job have in common, in the memory of a lane.
struct Common {
  SearchArgument search;
  const float* variances = nullptr;
};

class SpotFinder final : public CudaSpotFinder {
 public:
  SpotFinder(const CudaBatchOptions& cuda, const RuntimeCalls& calls)
      : calls_(calls), chunk_bytes_(std::min(cuda.chunk_bytes, kChunkBytes)) {
    const CallersDevice callers(calls_);
    for (int stream = 0; stream < cuda.streams; ++stream)
      for (const int device : cuda.devices) {
        check(calls_.set_device(device), "taking the device");
        lanes_.push_back(std::make_unique<Lane>(calls_, device, cuda.chunk_bytes));
      }
  }

  FoundInFrames find(const SpotJob& job) override {
    FoundInFrames all;
    const int box_px = job.search->settings().box_px;
    if (job.count == 0 || std::min(job.shape.width_px, job.shape.height_px) < box_px) return all;
    const CallersDevice callers(calls_);
    const std::size_t frame_bytes = job.shape.pixels() * bytes_per_pixel(job.shape.type);
    const std::size_t each = std::clamp<std::size_t>(chunk_bytes_ / frame_bytes, 1, kMostFrames);
    std::vector<FoundInFrames> parts((job.count - 1) / each + 1);
    std::atomic<std::size_t> next = 0;
    share(parts.size(), [&](Lane& lane) {
      check(calls_.set_device(lane.device), "taking the device");
      Common common = bring_common(lane, job);
      for (std::size_t i = next++; i < parts.size(); i = next++) {
        common.search.first = static_cast<std::uint32_t>(i * each);
        common.search.count = static_cast<std::uint32_t>(std::min(each, job.count - i * each));
        parts[i] = find_in_chunk(lane, job, common);
      }
    });
    for (const FoundInFrames& part : parts) {
      all.spots.insert(all.spots.end(), part.spots.begin(), part.spots.end());
      all.fits.insert(all.fits.end(), part.fits.begin(), part.fits.end());
    }
    return all;
  }

 private:
  /// Calls work(lane) for as many as there is work for, each in a thread; rethrows what one threw.
  template <class Work>
  void share(std::size_t chunks, const Work& work) {
    const std::size_t count = std::min(chunks, lanes_.size());
    std::vector<std::exception_ptr> failures(count);
    const auto run = [&](std::size_t i) {
      try {
        work(*lanes_[i]);
      } catch (...) {
        failures[i] = std::current_exception();
        calls_.synchronize_stream(lanes_[i]->stream.get());  // then nothing writes any more
      }
    };
    {
      std::vector<std::jthread> threads;
      for (std::size_t i = 1; i < count; ++i) threads.emplace_back(run, i);
      run(0);
    }
    for (const std::exception_ptr& failure : failures)
      if (failure) std::rethrow_exception(failure);
  }

  template <class T>
  T* room(Growing<DeviceMemory>& memory, std::size_t count) const {
    memory.reserve(calls_, std::max<std::size_t>(count, 1) * sizeof(T));
    return static_cast<T*>((*memory).get());
  }
  template <class T>
  const T* brought(Growing<DeviceMemory>& memory, std::span<const T> from,
                   cudaStream_t stream) const {
    T* const to = room<T>(memory, from.size());
    if (!from.empty()) copy(to, from.data(), from.size_bytes(), cudaMemcpyHostToDevice, stream);
    return to;
  }
  void copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
            cudaStream_t stream) const {
    check(calls_.copy(to, from, bytes, kind, stream),
          kind == cudaMemcpyHostToDevice ? "copying to the device" : "copying from the device");
  }

  Common bring_common(Lane& lane, const SpotJob& job) const {
    cudaStream_t stream = lane.stream.get();
    const SearchBox box = job.search->box();
    const auto side = static_cast<std::size_t>(box.side_of_weights());
    Common common;
    SearchArgument& search = common.search = {};
    search.shape = job.shape;
    search.box = {box.half_px, brought<float>(lane.weights, {box.weights, side * side}, stream)};
    search.min_net_gradient = job.search->settings().min_net_gradient;
    search.noise_limit = job.search->noise_limit();
    search.least_noise = job.search->settings().least_noise;
    search.roi_px = job.roi_px;
    search.fills = brought(lane.fills, job.hot->fills(), stream);
    search.sources = brought(lane.sources, job.hot->sources(), stream);
    search.rings = brought(lane.rings, job.hot->rings(), stream);
    search.ring_count = static_cast<std::uint32_t>(job.hot->rings().size());
    if (job.roi_px > 0 && job.variances != nullptr)
      common.variances =
          brought<float>(lane.variances, {job.variances, job.shape.pixels()}, stream);
    return common;
  }

  /// The frames of a chunk, in the device's memory.
  void* bring_frames(Lane& lane, const SpotJob& job, const SearchArgument& chunk) const {
    const std::size_t each = job.shape.pixels() * bytes_per_pixel(job.shape.type);
    const std::size_t bytes = chunk.count * each;
    const std::byte* from = job.frames == nullptr ? nullptr : job.frames + chunk.first * each;
    if (from == nullptr || !is_pinned(from)) {
      lane.staged.reserve(calls_, bytes);
      auto* const staged = static_cast<std::byte*>((*lane.staged).host());
      if (from != nullptr) std::memcpy(staged, from, bytes);
      for (std::size_t i = 0; from == nullptr && i < chunk.count; ++i)
        job.bring(chunk.first + i, staged + i * each);
      from = staged;
    }
    void* const to = room<std::byte>(lane.frames, bytes);
    copy(to, from, bytes, cudaMemcpyHostToDevice, lane.stream.get());
    return to;
  }
  bool is_pinned(const void* memory) const {
    cudaPointerAttributes attributes;
    check(calls_.pointer_attributes(&attributes, memory), "asking where the frames lie");
    return attributes.type == cudaMemoryTypeHost;
  }

  FoundInFrames find_in_chunk(Lane& lane, const SpotJob& job, const Common& common) const {
    cudaStream_t stream = lane.stream.get();
    SearchArgument chunk = common.search;
    void* const frames = bring_frames(lane, job, chunk);
    chunk.frames = frames;
    if (chunk.ring_count > 0) {  // fits see the pixels as they are
      const std::size_t bytes = chunk.count * job.shape.pixels() * bytes_per_pixel(job.shape.type);
      chunk.frames = room<std::byte>(lane.searched, bytes);
      copy(chunk.frames, frames, bytes, cudaMemcpyDeviceToDevice, stream);
      launch(fill_kernel(), {chunk.count, 1, 1}, chunk, stream);
    }
    chunk.limits = room<double>(lane.limits, chunk.count);
    chunk.is_spot = room<std::uint32_t>(lane.is_spot, std::size_t{chunk.count} * chunk.words());
    chunk.found = room<std::uint32_t>(lane.found, chunk.count);
    chunk.ends = room<std::uint32_t>(lane.ends, chunk.count);
    if (!(chunk.min_net_gradient > 0)) launch(noise_kernel(), {chunk.count, 1, 1}, chunk, stream);
    constexpr std::uint32_t kWords = kSearchThreads / SearchArgument::kBits;
    launch(find_kernel(), {(chunk.words() - 1) / kWords + 1, chunk.count, 1}, chunk, stream);
    launch(count_kernel(), {chunk.count, 1, 1}, chunk, stream);
    launch(ends_kernel(), {1, 1, 1}, chunk, stream);
    lane.end_staged.reserve(calls_, sizeof(std::uint32_t));
    auto* const end = static_cast<std::uint32_t*>((*lane.end_staged).host());
    copy(end, chunk.ends + chunk.count - 1, sizeof *end, cudaMemcpyDeviceToHost, stream);
    check(calls_.synchronize_stream(stream), "searching for spots");
    FoundInFrames found;
    found.spots.resize(*end);
    if (*end > 0) gather(lane, job, common, chunk, frames, found);
    return found;
  }

  /// Brings the spots, and fits them.
  void gather(Lane& lane, const SpotJob& job, const Common& common, SearchArgument& chunk,
              const void* frames, FoundInFrames& found) const {
    cudaStream_t stream = lane.stream.get();
    const std::size_t count = found.spots.size();
    const std::size_t bytes = count * sizeof(FrameSpot);
    chunk.spots = room<FrameSpot>(lane.spots, count);
    if (job.roi_px > 0) chunk.places = room<Place>(lane.places, count);
    launch(gather_kernel(), {chunk.count, 1, 1}, chunk, stream);
    lane.spots_staged.reserve(calls_, bytes);
    copy((*lane.spots_staged).host(), chunk.spots, bytes, cudaMemcpyDeviceToHost, stream);
    Batch batch;
    if (job.roi_px > 0) batch = cut(lane, job, common, chunk, frames, count);
    check(calls_.synchronize_stream(stream), "searching for spots");
    std::memcpy(found.spots.data(), (*lane.spots_staged).host(), bytes);
    if (job.roi_px == 0) return;
    found.fits.resize(count);
    lane.fitter->fit(batch, job.options, found.fits);
  }

  Batch cut(Lane& lane, const SpotJob& job, const Common& common, const SearchArgument& chunk,
            const void* frames, std::size_t count) const {
    const auto side = static_cast<std::size_t>(job.roi_px);
    const std::size_t pixels = count * side * side;
    const std::size_t row =
        static_cast<std::size_t>(job.shape.width_px) * bytes_per_pixel(job.shape.type);
    CutArgument rois = {};
    rois.frames = {.pixels = frames,
                   .type = job.shape.type,
                   .width_px = job.shape.width_px,
                   .height_px = job.shape.height_px,
                   .count = chunk.count,
                   .row_bytes = row,
                   .frame_bytes = row * static_cast<std::size_t>(job.shape.height_px),
                   .variances_adu2 = common.variances};
    rois.roi_px = job.roi_px;
    rois.count = static_cast<std::uint32_t>(count);
    rois.places = chunk.places;
    rois.pixels = room<std::byte>(lane.rois, pixels * bytes_per_pixel(job.shape.type));
    if (common.variances != nullptr) rois.variances = room<float>(lane.roi_variances, pixels);
    constexpr std::size_t kWarp = 32;
    void* arguments[] = {&rois};
    check(calls_.launch(cut_kernel(),
                        {static_cast<unsigned>((kWarp * count - 1) / kCutThreads + 1), 1, 1},
                        {kCutThreads, 1, 1}, arguments, 0, lane.stream.get()),
          "cutting the ROIs");
    return {.pixels = rois.pixels,
            .type = job.shape.type,
            .roi_px = job.roi_px,
            .count = count,
            .variances = rois.variances};
  }

  void launch(const void* kernel, dim3 blocks, SearchArgument& chunk, cudaStream_t stream) const {
    void* arguments[] = {&chunk};
    check(calls_.launch(kernel, blocks, {kSearchThreads, 1, 1}, arguments, 0, stream),
          "searching for spots");
  }

  const RuntimeCalls calls_;
  std::size_t chunk_bytes_;
  std::vector<std::unique_ptr<Lane>> lanes_;
};

}  // namespace

std::unique_ptr<CudaSpotFinder> make_spot_finder(const CudaBatchOptions& cuda,
                                                 const RuntimeCalls& calls) {
  return std::make_unique<SpotFinder>(cuda, calls);
}

}  // namespace driftd::fitter::cuda
