// SPDX-License-Identifier: MIT
#include "fitter/cuda/batch_fitter.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <exception>
#include <limits>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "fitter/cuda/cut_rois.hpp"
#include "fitter/cuda/growing.hpp"
#include "fitter/cuda/kernels.hpp"
#include "fitter/options.hpp"

namespace driftd::fitter::cuda {
namespace {

/// Fits of a chunk, whatever their size: bounds the memory for results.
constexpr std::size_t kMostFits = 131072;
/// Smaller chunks do not fill a device; with a block for each fit, as swarms have, fewer do.
constexpr std::size_t kFewestFits = 8192;
constexpr std::size_t kFewestSwarms = 1024;

/// All are made for the same devices.
const void* any_kernel() {
  return batch_kernel(FitOptions(), {kMinRoiPx}).function;
}

/// ROIs that a large GPU fits at once, each in a thread.
constexpr std::size_t kAtOnce = 65536;

struct Chunk {
  std::size_t from, count;
  bool leaves = false;  ///< its slowest fits to a second launch
};

/// Large chunks, because each copy has a price, that grow smaller at the end, because nothing
/// overlaps with the last one.
std::vector<Chunk> cut(std::size_t count, std::size_t devices, std::size_t fewest,
                       std::size_t most) {
  std::vector<Chunk> chunks;
  for (std::size_t from = 0; from < count; from += chunks.back().count) {
    const std::size_t share = std::max((count - from) / (4 * devices), fewest);
    chunks.push_back({from, std::min({share, most, count - from})});
  }
  return chunks;
}

enum class Where : std::uint8_t { Nowhere, Pageable, Pinned, Device };

/// An array of the caller's, `each` bytes an ROI. What is read is never written through it.
struct Array {
  void* memory = nullptr;
  std::size_t each = 0;
  Where where = Where::Nowhere;
  int device = -1;  ///< of Where::Device

  void* from(std::size_t index) const {
    return where == Where::Nowhere ? nullptr : static_cast<unsigned char*>(memory) + index * each;
  }
};

/// A stream's memory for one chunk of an array: the device's, and pinned memory that pageable
/// memory passes through.
class Passage {
 public:
  /// On the current device. @throws FitterError
  void reserve(const RuntimeCalls& calls, std::size_t bytes, bool staged) {
    on_device_.reserve(calls, bytes);
    if (staged) staged_.reserve(calls, bytes);
  }
  void* on_device() const { return (*on_device_).get(); }
  void* staged() const { return (*staged_).host(); }

 private:
  Growing<DeviceMemory> on_device_;
  Growing<PinnedMemory> staged_;
};

/// The arrays of a call.
constexpr std::size_t kPixels = 0, kStarts = 1, kLevels = 2, kVariances = 3, kBounds = 4,
                      kPlaces = 5, kAngles = 6, kAngleBounds = 7;
constexpr std::size_t kInputs = 8;
constexpr std::size_t kResults = 8, kReports = 9, kDetails = 10;
constexpr std::size_t kOutputs[] = {kResults, kReports, kDetails};
constexpr std::size_t kArrays = 11;

/// A stream of a device, and the memory by which a chunk of each array gets there and back.
struct Pipeline {
  Pipeline(const RuntimeCalls& calls, int on_device)
      : device(on_device), stream(calls, Stream::Priority::Lowest) {}

  int device;
  Stream stream;
  std::array<Passage, kArrays> passages;
  Growing<DeviceMemory> left;  ///< KernelArgument's
};

/// What fit_frames() was given.
struct FramesGiven {
  const FrameFits& fits;
  const FitOptions& options;
};

/// One call of fit(), fit_frames() or search().
struct BatchCall {
  const Batch& batch;  ///< fit_frames() gives no pixels: the device cuts them
  const FitOptions& options;
  const SwarmOptions* swarm = nullptr;  ///< null but for search()
  const FramesGiven* frames = nullptr;  ///< null but for fit_frames()
  std::array<Array, kArrays> arrays = {};
  int home = -1;  ///< the device on which something lies; -1: none
  Kernel kernel = {};
  std::vector<Pipeline*> pipelines = {};
  std::vector<Chunk> chunks = {};

  std::size_t devices() const {
    std::set<int> used;
    for (const Pipeline* pipeline : pipelines) used.insert(pipeline->device);
    return used.size();
  }
  bool any(Where where) const {
    return std::any_of(arrays.begin(), arrays.end(),
                       [where](const Array& array) { return array.where == where; });
  }
};

class BatchFitter final : public CudaBatchFitter {
 public:
  BatchFitter(const CudaBatchOptions& cuda, const RuntimeCalls& calls)
      : calls_(calls), chunk_bytes_(cuda.chunk_bytes) {
    constexpr std::size_t kLargestRoi = sizeof(float) * kMaxRoiPx * kMaxRoiPx;
    if (cuda.devices.empty() || cuda.streams < 1 || chunk_bytes_ < kLargestRoi)
      throw FitterError("CUDA: a batch needs a device, a stream and chunks of 16 KiB or more");
    const CallersDevice callers(calls_);
    for (const int device : cuda.devices) take_device(calls_, device, any_kernel());
    for (int stream = 0; stream < cuda.streams; ++stream) {
      for (const int device : cuda.devices) {
        check(calls_.set_device(device), "taking the device");
        pipelines_.push_back(std::make_unique<Pipeline>(calls_, device));
      }
    }
  }

  void fit(const Batch& batch, const FitOptions& options,
           std::span<Localization> results) override {
    check_batch(batch, options, results.size());
    if (batch.places != nullptr)
      throw FitterError("CUDA: places of the pixels are given, which only the CPU's fits take");
    run({batch, options}, results.data(), nullptr);
  }

  void fit_frames(const FrameFits& fits, const FitOptions& options,
                  std::span<Localization> results) override {
    check_frames(fits, options, results.size());
    Batch rois = fits.rois;
    rois.type = type_of_cut(fits.frames);
    const FramesGiven given = {fits, options};
    run({rois, options_of_cut(fits.frames, options), nullptr, &given}, results.data(), nullptr);
  }

  void search(const Batch& batch, const FitOptions& options, const SwarmOptions& swarm,
              std::span<Localization> results, std::span<SwarmReport> reports) override {
    check_batch(batch, options, results.size());
    check_swarm(batch, swarm, reports);
    run({batch, options, &swarm}, results.data(), reports.data());
  }

 private:
  void run(BatchCall call, Localization* results, SwarmReport* reports) {
    if (call.batch.count == 0) return;
    const CallersDevice callers(calls_);
    plan(call, results, reports);
    // The streams here do not wait for the default one by themselves.
    if (call.home >= 0) {
      check(calls_.set_device(call.pipelines.front()->device), "taking the device");
      check(calls_.synchronize_stream(cudaStreamLegacy), "waiting for the batch");
    }
    try {
      if (call.any(Where::Pageable)) {
        run_in_threads(call);
      } else {
        for (std::size_t k = 0; k < call.chunks.size(); ++k)
          enqueue(call, k, *call.pipelines[k % call.pipelines.size()]);
      }
    } catch (...) {
      for (Pipeline* pipeline : call.pipelines) calls_.synchronize_stream(pipeline->stream.get());
      throw;
    }
    cudaError_t first = cudaSuccess;  // after all of them nothing is written any more
    for (Pipeline* pipeline : call.pipelines) {
      const cudaError_t now = calls_.synchronize_stream(pipeline->stream.get());
      if (first == cudaSuccess) first = now;
    }
    check(first, "fitting");
  }

  /// @param alignment  of what is read there by the device
  Array locate(const void* memory, std::size_t each, std::size_t alignment = alignof(float)) const {
    if (memory == nullptr) return {};
    Array array = {const_cast<void*>(memory), each, Where::Pageable, -1};
    cudaPointerAttributes attributes;
    check(calls_.pointer_attributes(&attributes, memory), "asking where the batch lies");
    if (attributes.type == cudaMemoryTypeManaged)
      throw FitterError("CUDA: managed memory is not supported");
    if (attributes.type == cudaMemoryTypeHost) array.where = Where::Pinned;
    if (attributes.type == cudaMemoryTypeDevice) {
      array.where = Where::Device;
      array.device = attributes.device;
      if (reinterpret_cast<std::uintptr_t>(memory) % alignment != 0)
        throw FitterError(
            "CUDA: an array in a GPU's memory has an address that is no multiple of " +
            std::to_string(alignment));
    }
    return array;
  }

  /// The device that has the frames and all of their maps, of which none is copied.
  int home_of(const Frames& frames) const {
    Array pixels = locate(frames.pixels, 1, bytes_per_pixel(frames.type));
    for (const float* map : {frames.gains_e_per_adu, frames.offsets_adu, frames.variances_adu2}) {
      const Array there = locate(map, sizeof(float));
      if (map != nullptr && there.device != pixels.device) pixels.where = Where::Nowhere;
    }
    if (pixels.where != Where::Device)
      throw FitterError("CUDA: frames and maps do not all lie in the memory of one GPU");
    return pixels.device;
  }

  /// Where everything lies, and who fits which part of it.
  void plan(BatchCall& call, Localization* results, SwarmReport* reports) const {
    const Batch& batch = call.batch;
    const auto side = static_cast<std::size_t>(batch.roi_px);
    const std::size_t pixels = side * side;
    const bool mapped =
        batch.variances != nullptr ||
        (call.frames != nullptr && call.frames->fits.frames.variances_adu2 != nullptr);
    call.kernel = batch_kernel(
        call.options, {batch.roi_px, batch.bounds_axes(), mapped, batch.details != nullptr});
    const std::size_t pixel = bytes_per_pixel(batch.type);
    call.arrays = {
        locate(batch.pixels, pixels * pixel, pixel),
        locate(batch.starts, sizeof(Start)),
        locate(batch.levels, sizeof(StartLevels)),
        locate(batch.variances, pixels * sizeof(float)),
        locate(batch.bounds, sizeof(Bounds)),
        locate(call.frames != nullptr ? call.frames->fits.places : nullptr, sizeof(Place)),
        locate(batch.angles_rad, sizeof(float)),
        locate(batch.angle_bounds, sizeof(AngleBounds)),
        locate(results, sizeof(Localization)),
        locate(reports, sizeof(SwarmReport)),
        locate(batch.details, sizeof(FitDetails))};
    int& home = call.home;
    if (call.frames != nullptr) home = home_of(call.frames->fits.frames);
    for (const Array& array : call.arrays) {
      if (array.where != Where::Device) continue;
      if (home >= 0 && array.device != home)
        throw FitterError("CUDA: the batch lies on more than one device");
      home = array.device;
    }
    for (const auto& pipeline : pipelines_)
      if (home < 0 || pipeline->device == home) call.pipelines.push_back(pipeline.get());
    if (call.pipelines.empty())
      throw FitterError("CUDA: the batch lies on device " + std::to_string(home) +
                        ", which this fitter does not use");
    if (call.frames != nullptr && call.arrays[kPlaces].where != Where::Device)
      check_places(call.frames->fits);
    const bool on_device = !call.any(Where::Pinned) && !call.any(Where::Pageable);
    const bool may_try_again =
        (batch.starts != nullptr || call.swarm != nullptr) && call.options.spots_only;
    if (on_device && call.swarm == nullptr && call.frames == nullptr) {
      // Many are cut in a part for each stream: while one waits for its slowest fits, the GPU has
      // those of the others to do.
      const bool are_many = call.kernel.leaves && batch.count >= 6 * kAtOnce;
      constexpr std::size_t kMostOfALaunch = std::numeric_limits<std::int32_t>::max() / 128;
      const std::size_t parts =
          std::max(are_many ? call.pipelines.size() : 1, (batch.count - 1) / kMostOfALaunch + 1);
      const std::size_t part = (batch.count - 1) / parts + 1;
      for (std::size_t from = 0; from < batch.count; from += part)
        call.chunks.push_back({from, std::min(part, batch.count - from),
                               call.kernel.leaves && (are_many || may_try_again)});
    } else {
      const bool varies = call.frames != nullptr
                              ? call.frames->fits.frames.variances_adu2 != nullptr
                              : batch.variances != nullptr;
      const std::size_t largest = pixels * std::max(pixel, varies ? sizeof(float) : 0);
      const std::size_t most = std::min(kMostFits, chunk_bytes_ / largest);
      std::size_t fewest = call.swarm == nullptr ? kFewestFits : kFewestSwarms;
      if (on_device && call.swarm == nullptr) fewest = most;  // no copy waits for the last one
      call.chunks = cut(batch.count, call.devices(), fewest, most);
      for (Chunk& chunk : call.chunks) chunk.leaves = call.kernel.leaves && may_try_again;
    }
    if (call.pipelines.size() > call.chunks.size()) call.pipelines.resize(call.chunks.size());
  }

  /// A thread a stream, because the processor copies pageable memory.
  void run_in_threads(const BatchCall& call) {
    std::vector<std::exception_ptr> failures(call.pipelines.size());
    const auto run_pipeline = [&](std::size_t first) {
      try {
        for (std::size_t k = first; k < call.chunks.size(); k += call.pipelines.size())
          enqueue(call, k, *call.pipelines[first]);
      } catch (...) {
        failures[first] = std::current_exception();
      }
    };
    {
      std::vector<std::jthread> threads;
      for (std::size_t i = 1; i < call.pipelines.size(); ++i) threads.emplace_back(run_pipeline, i);
      run_pipeline(0);
    }
    for (const auto& failure : failures)
      if (failure) std::rethrow_exception(failure);
  }

  /// The part of an array that a chunk needs, where the device can read it.
  const void* bring(const Array& array, const Chunk& chunk, Passage& passage,
                    cudaStream_t stream) const {
    const void* from = array.from(chunk.from);
    if (array.where == Where::Nowhere || array.where == Where::Device) return from;
    const std::size_t bytes = chunk.count * array.each;
    const bool staged = array.where == Where::Pageable;
    passage.reserve(calls_, bytes, staged);
    if (staged) {
      std::memcpy(passage.staged(), from, bytes);
      from = passage.staged();
    }
    check(calls_.copy(passage.on_device(), from, bytes, cudaMemcpyHostToDevice, stream),
          "copying to the device");
    return passage.on_device();
  }

  /// The device's part of a passage, through which nothing passes.
  void* room(Passage& passage, std::size_t bytes) const {
    passage.reserve(calls_, bytes, false);
    return passage.on_device();
  }

  /// Where the device writes the part of an array that belongs to a chunk.
  void* room(const Array& array, const Chunk& chunk, Passage& passage) const {
    if (array.where == Where::Nowhere || array.where == Where::Device)
      return array.from(chunk.from);
    passage.reserve(calls_, chunk.count * array.each, array.where == Where::Pageable);
    return passage.on_device();
  }

  /// Copies that part to the host, for pageable memory as far as pinned memory.
  void send_back(const Array& array, const Chunk& chunk, const Passage& passage,
                 cudaStream_t stream) const {
    if (array.where == Where::Nowhere || array.where == Where::Device) return;
    void* const to = array.where == Where::Pageable ? passage.staged() : array.from(chunk.from);
    check(calls_.copy(to, passage.on_device(), chunk.count * array.each, cudaMemcpyDeviceToHost,
                      stream),
          "copying from the device");
  }

  /// Chunk k on a stream, which keeps the order of its own chunks. Returns when the results are
  /// there only if some memory is pageable.
  void enqueue(const BatchCall& call, std::size_t k, Pipeline& pipeline) const {
    const Chunk& chunk = call.chunks[k];
    const auto& arrays = call.arrays;
    cudaStream_t stream = pipeline.stream.get();
    check(calls_.set_device(pipeline.device), "taking the device");
    std::array<const void*, kInputs> in;
    for (std::size_t i = 0; i < kInputs; ++i)
      in[i] = bring(arrays[i], chunk, pipeline.passages[i], stream);
    const auto side = static_cast<std::size_t>(call.batch.roi_px);
    KernelArgument job = {
        in[kPixels],
        side * side * bytes_per_pixel(call.batch.type),
        call.batch.type,
        call.batch.roi_px,
        static_cast<std::uint32_t>(chunk.count),
        static_cast<const Start*>(in[kStarts]),
        static_cast<const StartLevels*>(in[kLevels]),
        static_cast<const float*>(in[kVariances]),
        static_cast<const Bounds*>(in[kBounds]),
        call.options,
        call.options.saturation_adu,
        room(arrays[kResults], chunk, pipeline.passages[kResults]),
        static_cast<const float*>(in[kAngles]),
        static_cast<const AngleBounds*>(in[kAngleBounds]),
        static_cast<FitDetails*>(room(arrays[kDetails], chunk, pipeline.passages[kDetails]))};
    CutArgument cut = {};
    if (call.frames != nullptr) {
      cut = launch_cut(*call.frames, static_cast<const Place*>(in[kPlaces]), job, pipeline);
      job.pixels = cut.pixels;
      job.variances = cut.variances;
      job.starts = cut.starts_of_rois;
    }
    if (call.swarm != nullptr) job.starts = launch_swarm(call, chunk, pipeline, job);
    launch_fits(call.kernel, job, chunk.leaves, pipeline);
    if (call.frames != nullptr)
      launch_cutting(to_frame_kernel(), cut, job.count, stream, "moving the results");
    for (const std::size_t out : kOutputs)
      send_back(arrays[out], chunk, pipeline.passages[out], stream);
    if (!call.any(Where::Pageable)) return;
    check(calls_.synchronize_stream(stream), "fitting");
    for (const std::size_t out : kOutputs)
      if (arrays[out].where == Where::Pageable)
        std::memcpy(arrays[out].from(chunk.from), pipeline.passages[out].staged(),
                    chunk.count * arrays[out].each);
  }

  /// @param leaves  the slowest to a second launch
  void launch_fits(const Kernel& kernel, KernelArgument job, bool leaves,
                   Pipeline& pipeline) const {
    cudaStream_t stream = pipeline.stream.get();
    if (!leaves) return launch(kernel, job, job.count, stream);
    pipeline.left.reserve(calls_, (std::size_t{job.count} + 1) * sizeof(std::uint32_t));
    job.left = static_cast<std::uint32_t*>((*pipeline.left).get());
    check(calls_.set(job.left, 0, sizeof(std::uint32_t), stream), "preparing the fits");
    launch(kernel, job, job.count, stream);
    job.goes_on = true;
    launch(kernel, job, std::min<std::uint32_t>(job.count, kAtOnce), stream);
  }

  /// @param rois  as many as the launch has blocks for
  void launch(const Kernel& kernel, KernelArgument& job, std::uint32_t rois,
              cudaStream_t stream) const {
    constexpr int kThreads = 128;
    const auto groups = static_cast<unsigned>(kernel.groups(kThreads));
    void* arguments[] = {&job};
    check(calls_.launch(kernel.function, {(rois + groups - 1) / groups, 1, 1},
                        {groups * static_cast<unsigned>(kernel.threads), 1, 1}, arguments,
                        groups * kernel.group_bytes, stream),
          "starting the fits");
  }

  /// The ROIs of a chunk, in the memory by which others would have been brought.
  CutArgument launch_cut(const FramesGiven& given, const Place* places, const KernelArgument& job,
                         Pipeline& pipeline) const {
    const Frames& frames = given.fits.frames;
    const auto side = static_cast<std::size_t>(job.roi_px);
    const std::size_t pixels = side * side * job.count;
    CutArgument cut = {frames,
                       job.roi_px,
                       job.count,
                       places,
                       job.starts,
                       given.options.noise.offset_adu,
                       given.options.saturation_adu,
                       room(pipeline.passages[kPixels], pixels * bytes_per_pixel(job.type)),
                       nullptr,
                       nullptr,
                       static_cast<Localization*>(job.results)};
    if (frames.variances_adu2 != nullptr)
      cut.variances =
          static_cast<float*>(room(pipeline.passages[kVariances], pixels * sizeof(float)));
    if (job.starts != nullptr)
      cut.starts_of_rois =
          static_cast<Start*>(room(pipeline.passages[kStarts], job.count * sizeof(Start)));
    constexpr std::size_t kWarp = 32;
    launch_cutting(cut_kernel(), cut, kWarp * job.count, pipeline.stream.get(), "cutting the ROIs");
    return cut;
  }

  void launch_cutting(const void* kernel, CutArgument& cut, std::size_t threads,
                      cudaStream_t stream, const char* purpose) const {
    void* arguments[] = {&cut};
    check(calls_.launch(kernel, {static_cast<unsigned>((threads - 1) / kCutThreads + 1), 1, 1},
                        {kCutThreads, 1, 1}, arguments, 0, stream),
          purpose);
  }

  /// The best places, for the fits to start from.
  const Start* launch_swarm(const BatchCall& call, const Chunk& chunk, Pipeline& pipeline,
                            const KernelArgument& rois) const {
    constexpr unsigned kWarp = 32;
    auto* const starts =
        static_cast<Start*>(room(pipeline.passages[kStarts], rois.count * sizeof(Start)));
    SwarmArgument job = {
        rois, call.swarm->first_roi + chunk.from, *call.swarm, starts,
        static_cast<SwarmReport*>(room(call.arrays[kReports], chunk, pipeline.passages[kReports]))};
    const SwarmKernel kernel = swarm_kernel(call.options.model, call.batch.roi_px);
    const auto particles = static_cast<unsigned>(call.swarm->particles);
    void* arguments[] = {&job};
    check(calls_.launch(kernel.function, {rois.count, 1, 1},
                        {(particles + kWarp - 1) / kWarp * kWarp, 1, 1}, arguments,
                        kernel.shared_bytes, pipeline.stream.get()),
          "starting the swarms");
    return starts;
  }

  const RuntimeCalls calls_;
  std::size_t chunk_bytes_;
  std::vector<std::unique_ptr<Pipeline>> pipelines_;
};

}  // namespace

std::unique_ptr<CudaBatchFitter> make_batch_fitter(const CudaBatchOptions& cuda,
                                                   const RuntimeCalls& calls) {
  return std::make_unique<BatchFitter>(cuda, calls);
}

std::string obstacle(const RuntimeCalls& calls, int device) {
  const CallersDevice callers(calls);
  try {
    take_device(calls, device, any_kernel());
    return {};
  } catch (const FitterError& error) {
    return error.what();
  }
}

}  // namespace driftd::fitter::cuda
