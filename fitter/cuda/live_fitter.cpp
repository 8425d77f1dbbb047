// SPDX-License-Identifier: MIT
#include "fitter/cuda/live_fitter.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "fitter/cuda/kernels.hpp"
#include "fitter/options.hpp"

namespace driftd::fitter::cuda {
namespace {

using Clock = std::chrono::steady_clock;

/// Start-up loads the kernels, which may take seconds.
constexpr auto kStartDeadline = std::chrono::seconds(20);
constexpr auto kStopDeadline = std::chrono::seconds(1);

const char* name_of(CudaMode mode) {
  switch (mode) {
    case CudaMode::Launch:
      return "launch";
    case CudaMode::Graph:
      return "graph";
    case CudaMode::Resident:
      return "resident";
  }
  throw FitterError("CUDA: unknown mode");
}

class CudaLiveFitter final : public LiveFitter {
 public:
  CudaLiveFitter(int roi_px, std::size_t capacity, const FitOptions& options,
                 const CudaLiveOptions& cuda, const RuntimeCalls& calls)
      : calls_(calls),
        roi_px_(roi_px),
        capacity_(capacity),
        cuda_(cuda),
        kernel_(live_kernel(options, roi_px)),
        description_("cuda (" + take_device(calls_, cuda.device, kernel_.function) + ", " +
                     name_of(cuda.mode) + ")"),
        thread_(std::this_thread::get_id()),
        start_offset_(start_offset(roi_px)),
        slot_bytes_(slot_bytes(roi_px)),
        slots_(calls_, slot_bytes_ * capacity),
        stamped_(calls_, sizeof(StampedResult) * capacity),
        doorbell_(calls_, sizeof(Task)),
        relay_(calls_, sizeof(Task)),
        results_(capacity),
        stream_(calls_, Stream::Priority::Highest),
        groups_(kernel_.groups(cuda.mode == CudaMode::Resident ? kernel_.most_threads : 1)),
        job_({slots_.device(), slot_bytes_, PixelType::U16, roi_px,
              static_cast<std::uint32_t>(capacity), nullptr, nullptr, nullptr, nullptr, options,
              options.saturation_adu, stamped_.device()}),
        passed_doorbell_(doorbell_.device()) {
    if (cuda.mode == CudaMode::Graph) make_graph();
    if (cuda.mode == CudaMode::Resident) start_resident();
    const std::vector<Start> cold(capacity);
    for (int i = 0; i < 3 && !failed_; ++i) fit_until(cold, Clock::now() + kStartDeadline);
    if (failed_) {
      stop();
      throw FitterError(error_);
    }
  }

  ~CudaLiveFitter() override { stop(); }

  int roi_px() const noexcept override { return roi_px_; }
  std::size_t capacity() const noexcept override { return capacity_; }
  const char* error() const noexcept override { return failed_ ? error_ : nullptr; }
  const char* description() const noexcept override { return description_.c_str(); }

  std::uint16_t* staging(std::size_t i) noexcept override {
    return reinterpret_cast<std::uint16_t*>(slot(i));
  }

  std::span<const Localization> fit(std::span<const Start> starts) noexcept override {
    return fit_until(starts, Clock::now() + cuda_.deadline);
  }

 private:
  std::span<const Localization> fit_until(std::span<const Start> starts,
                                          Clock::time_point deadline) noexcept {
    const std::size_t count = std::min(starts.size(), capacity_);
    if (failed_ || count == 0) return {};
    for (std::size_t i = 0; i < count; ++i)
      std::memcpy(slot(i) + start_offset_, &starts[i], sizeof(Start));
    if (++task_.stamp == 0) task_.stamp = 1;  // 0 is what the memory held at first
    task_.count = static_cast<std::uint32_t>(count);
    const cudaError_t submitted = submit();
    if (submitted != cudaSuccess) {
      fail("starting the fit", submitted);
      return {};
    }
    if (!await(count, deadline)) return {};
    for (std::size_t i = 0; i < count; ++i) take(i);
    return {results_.data(), count};
  }

  cudaError_t submit() noexcept {
    if (const auto thread = std::this_thread::get_id(); thread != thread_) {
      thread_ = thread;  // the current device is a thread's own
      if (const cudaError_t e = calls_.set_device(cuda_.device); e != cudaSuccess) return e;
    }
    switch (cuda_.mode) {
      case CudaMode::Resident:
        ring();
        return cudaSuccess;
      case CudaMode::Graph:
        node_.gridDim = grid(task_.count);
        if (const cudaError_t e = calls_.set_graph_node(graph_, in_graph_, &node_);
            e != cudaSuccess)
          return e;
        return calls_.launch_graph(graph_, stream_.get());
      case CudaMode::Launch:
        break;
    }
    return calls_.launch(kernel_.function, grid(task_.count), block(), arguments_, shared_bytes(),
                         stream_.get());
  }

  dim3 grid(std::size_t count) const noexcept {
    const auto groups = static_cast<std::size_t>(groups_);
    return {static_cast<unsigned>((count + groups - 1) / groups), 1, 1};
  }
  dim3 block() const noexcept { return {static_cast<unsigned>(groups_ * kernel_.threads), 1, 1}; }
  std::size_t shared_bytes() const noexcept {
    return kernel_.group_bytes * static_cast<std::size_t>(groups_);
  }

  void ring() noexcept {
    std::atomic_ref<std::uint64_t>(*static_cast<std::uint64_t*>(doorbell_.host()))
        .store(std::uint64_t{task_.count} << 32 | task_.stamp, std::memory_order_release);
  }

  void make_graph() {
    node_.func = const_cast<void*>(kernel_.function);
    node_.gridDim = grid(capacity_);
    node_.blockDim = block();
    node_.sharedMemBytes = static_cast<unsigned>(shared_bytes());
    node_.kernelParams = arguments_;
    cudaGraph_t graph = nullptr;
    check(cudaGraphCreate(&graph, 0), "making a graph");
    const cudaError_t added = cudaGraphAddKernelNode(&in_graph_, graph, nullptr, 0, &node_);
    const cudaError_t made = added != cudaSuccess ? added : cudaGraphInstantiate(&graph_, graph, 0);
    graph_source_ = graph;
    check(made, "making a graph");
  }

  void start_resident() {
    int multiprocessors = 0, watched = 0;
    check(calls_.get_attribute(&multiprocessors, cudaDevAttrMultiProcessorCount, cuda_.device),
          "reading the device's properties");
    check(calls_.get_attribute(&watched, cudaDevAttrKernelExecTimeout, cuda_.device),
          "reading the device's properties");
    if (watched != 0)
      throw FitterError("CUDA: mode resident cannot be had on a device that serves a display");
    if (grid(capacity_).x > static_cast<unsigned>(multiprocessors)) {
      throw FitterError("CUDA: mode resident fits at most " +
                        std::to_string(groups_ * multiprocessors) + " ROIs of this side here");
    }
    check(cudaMemsetAsync(relay_.get(), 0, sizeof(Task), stream_.get()),
          "starting the resident kernel");
    passed_relay_ = relay_.get();
    check(calls_.launch(kernel_.function, grid(capacity_), block(), arguments_, shared_bytes(),
                        stream_.get()),
          "starting the resident kernel");
    resident_ = true;
  }

  /// False: failed, see error().
  bool await(std::size_t count, Clock::time_point deadline) noexcept {
    constexpr unsigned kLooksPerClock = 16;
    for (unsigned looks = 1; !arrived(count); ++looks) {
      if (looks % kLooksPerClock != 0 || Clock::now() < deadline) continue;
      if (arrived(count)) break;  // this thread may have slept meanwhile
      const cudaError_t state = calls_.query_stream(stream_.get());
      fail(state == cudaSuccess || state == cudaErrorNotReady ? "no results by the deadline"
                                                              : "fitting",
           state);
      return false;
    }
    return true;
  }

  unsigned char* slot(std::size_t i) const noexcept {
    return static_cast<unsigned char*>(slots_.host()) + i * slot_bytes_;
  }

  StampedResult& stamped(std::size_t i) const noexcept {
    return static_cast<StampedResult*>(stamped_.host())[i];
  }

  /// Whether all parts of all results are there. Without a branch for each: every look at what the
  /// device wrote misses the cache, and so the misses overlap.
  bool arrived(std::size_t count) const noexcept {
    std::uint32_t difference = 0;
    for (std::size_t i = 0; i < count; ++i) {
      for (StampedResult::Part& part : stamped(i).parts) {
        const std::atomic_ref<std::uint32_t> stamp(part.stamp);
        difference |= stamp.load(std::memory_order_acquire) ^ task_.stamp;
      }
    }
    return difference == 0;
  }

  void take(std::size_t i) noexcept {
    std::uint32_t words[3 * StampedResult::kParts];
    std::uint32_t* to = words;
    for (const StampedResult::Part& part : stamped(i).parts) to = std::copy_n(part.words, 3, to);
    std::memcpy(&results_[i], words, sizeof(Localization));
  }

  void fail(const char* purpose, cudaError_t result) noexcept {
    std::snprintf(error_, sizeof(error_), "CUDA: %s: %s", purpose, cudaGetErrorString(result));
    failed_ = true;
  }

  /// Ends the work on the device; leaves it its memory if it does not end.
  void stop() noexcept {
    task_.count = Task::kStop;
    if (resident_) ring();
    const auto deadline = Clock::now() + kStopDeadline;
    while (calls_.query_stream(stream_.get()) == cudaErrorNotReady) {
      if (Clock::now() < deadline) continue;
      for (PinnedMemory* m : {&slots_, &stamped_, &doorbell_}) m->abandon();
      relay_.abandon();
      break;
    }
    if (graph_ != nullptr) cudaGraphExecDestroy(graph_);
    if (graph_source_ != nullptr) cudaGraphDestroy(graph_source_);
    graph_ = nullptr;
    graph_source_ = nullptr;
  }

  const RuntimeCalls calls_;
  int roi_px_;
  std::size_t capacity_;
  CudaLiveOptions cuda_;
  Kernel kernel_;
  std::string description_;
  std::thread::id thread_;
  std::size_t start_offset_, slot_bytes_;
  PinnedMemory slots_, stamped_, doorbell_;
  DeviceMemory relay_;
  std::vector<Localization> results_;
  Stream stream_;
  int groups_;
  KernelArgument job_;
  Task task_ = {0, 0};
  void* passed_doorbell_;
  void* passed_relay_ = nullptr;
  void* arguments_[4] = {&job_, &task_, &passed_doorbell_, &passed_relay_};
  cudaGraph_t graph_source_ = nullptr;
  cudaGraphExec_t graph_ = nullptr;
  cudaGraphNode_t in_graph_ = nullptr;
  cudaKernelNodeParams node_ = {};
  bool resident_ = false;
  bool failed_ = false;
  char error_[256] = {};
};

}  // namespace

std::unique_ptr<LiveFitter> make_live_fitter(int roi_px, std::size_t capacity,
                                             const FitOptions& options, const CudaLiveOptions& cuda,
                                             const RuntimeCalls& calls) {
  check_roi_px(roi_px);
  check_live_options(options);
  constexpr std::size_t kMost = 1u << 20;
  if (capacity == 0 || capacity > kMost)
    throw FitterError("fitter: capacity is " + std::to_string(capacity) + ", allowed are 1 to " +
                      std::to_string(kMost));
  return std::make_unique<CudaLiveFitter>(roi_px, capacity, options, cuda, calls);
}

}  // namespace driftd::fitter::cuda
