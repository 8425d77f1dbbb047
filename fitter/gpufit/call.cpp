// SPDX-License-Identifier: MIT
#include "fitter/gpufit/call.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "fitter/batch_back_end.hpp"
#include "fitter/cuda_fitter.hpp"
#include "fitter/fitter.hpp"
#include "fitter/gpufit/gpufit.h"
#include "fitter/gpufit/straight_line.hpp"
#include "fitter/gpufit/translation.hpp"

namespace driftd::fitter::drop_in {
namespace {

/// Fits that a thread translates and fits at a time: their copies stay in its caches.
constexpr std::size_t kBlock = 1024;
/// Fewest fits worth a thread, or a GPU: some 100 us, of which starting it takes tens.
constexpr std::size_t kFewestFits = 64;
/// Fits that a thread translates, copies and has fitted by the GPU at a time, and such threads.
constexpr std::size_t kGpuBlock = 16384;
constexpr std::size_t kGpuThreads = 12;
constexpr std::size_t kFewestOfAThread = 8192;

void require(bool good, const char* text) {
  if (!good) throw FitterError(std::string("gpufit: ") + text);
}

void check_constraints(const Call& call, std::size_t parameters) {
  if (call.constraints == nullptr) return;
  require(call.constraint_types != nullptr, "constraints given without constraint_types");
  for (std::size_t j = 0; j < parameters; ++j)
    if (call.constraint_types[j] < NONE || call.constraint_types[j] > LOWER_UPPER)
      throw FitterError("gpufit: a constraint type is " + std::to_string(call.constraint_types[j]) +
                        ", allowed are 0 to 3");
}

void check_arrays(const Call& call) {
  require(call.parameters_to_fit != nullptr, "parameters_to_fit is null");
  require(call.n_fits <= std::numeric_limits<std::size_t>::max() / sizeof(float) / call.n_points,
          "too many fits");
  if (call.n_fits == 0) return;
  require(call.data != nullptr, "data is null");
  require(call.initial_parameters != nullptr, "initial_parameters is null");
  require(call.output_parameters != nullptr && call.output_states != nullptr &&
              call.output_chi_squares != nullptr && call.output_n_iterations != nullptr,
          "an output is null");
}

void check_places(const Call& call) {
  if (call.user_info_size == 0) return;
  require(is_of_one_dimension(call.model_id), "user_info is given, and this model has none");
  require(call.user_info != nullptr, "user_info is null");
  const std::size_t shared = call.n_points * sizeof(float);
  if (call.user_info_size != shared && call.user_info_size != call.n_fits * shared)
    throw FitterError("gpufit: user_info_size is " + std::to_string(call.user_info_size) +
                      " bytes, allowed are the places of n_points points, " +
                      std::to_string(shared) + ", or of those of all fits, " +
                      std::to_string(call.n_fits * shared));
}

/// Has all fits of a call done, block by block, by so many threads.
/// @param size  of a block
/// @param work  (thread, first fit, count): does a block
template <class Work>
void fit_in_blocks(const Call& call, std::size_t threads, std::size_t size, const Work& work) {
  std::atomic<std::size_t> next = 0;
  std::vector<std::exception_ptr> failures(threads);
  const auto run = [&](std::size_t thread) noexcept {
    try {
      for (std::size_t first = next.fetch_add(size); first < call.n_fits;
           first = next.fetch_add(size))
        work(thread, first, std::min(size, call.n_fits - first));
    } catch (...) {
      failures[thread] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    for (std::size_t thread = 1; thread < threads; ++thread) others.emplace_back(run, thread);
    run(0);
  }
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
}

std::size_t cores() {
  return std::max(1u, std::thread::hardware_concurrency());
}

void fit_on_cpu(const Call& call, const FitOptions& options, bool straight) {
  const std::size_t threads = std::clamp<std::size_t>(call.n_fits / kFewestFits, 1, cores());
  const std::size_t size = std::clamp<std::size_t>(call.n_fits / threads, 1, kBlock);
  std::vector<Arrays> arrays(threads);
  fit_in_blocks(call, threads, size, [&](std::size_t thread, std::size_t first, std::size_t count) {
    if (straight) return fit_straight_lines(call, first, count);
    Block block(call, options, arrays[thread]);
    const Batch batch = block.translate(first, count);
    fit_batch_cpu(batch, options, block.results(), 1);
    block.write();
  });
}

bool has_gpu() {
  static const bool has = cuda_device_count() > 0;
  return has;
}

/// A GPU, which fits for one call at a time. Threads translate, copy and write, each a block of its
/// own, so that one of these is done while the GPU fits the blocks of others. Their fitters and
/// arrays stay for the next call: to make the ones and to touch the others first takes as long as
/// many fits.
class Gpu {
 public:
  explicit Gpu(int device) : device_(device) {}
  /// False: it cannot be used, and nothing was done.
  bool fit(const Call& call, const FitOptions& options) {
    const std::lock_guard lock(one_at_a_time_);
    if (!usable()) return false;
    const std::size_t most = std::min(kGpuThreads, cores());
    const std::size_t threads = std::clamp<std::size_t>(call.n_fits / kFewestOfAThread, 1, most);
    const std::size_t size = std::clamp<std::size_t>(call.n_fits / threads, 1, kGpuBlock);
    for (std::size_t k = 0; k < threads; ++k) back_end_of(workers_[k]);
    fit_in_blocks(call, threads, size,
                  [&](std::size_t thread, std::size_t first, std::size_t count) {
                    Worker& worker = workers_[thread];
                    Block block(call, options, worker.arrays);
                    const Batch batch = block.translate(first, count);
                    worker.back_end->fit(batch, options, block.results(), kAllCores);
                    block.write();
                  });
    return true;
  }

  /// What keeps it from being used; "" if nothing does.
  std::string obstacle() {
    const std::lock_guard lock(one_at_a_time_);
    if (!workers_[0].back_end) return cuda_obstacle(device_);
    for (const Worker& worker : workers_)
      if (worker.back_end && !worker.back_end->on_gpu()) return worker.back_end->reason();
    return {};
  }

 private:
  static constexpr int kAllCores = 0;  ///< where the GPU fails in the middle of a call
  struct Worker {
    std::optional<BatchBackEnd> back_end;
    Arrays arrays;
  };

  BatchBackEnd& back_end_of(Worker& worker) {
    if (!worker.back_end)
      worker.back_end.emplace(BackEnd::Auto, CudaBatchOptions{.devices = {device_}, .streams = 1});
    return *worker.back_end;
  }

  /// Once it has failed to one it is left by all.
  bool usable() {
    back_end_of(workers_[0]);
    for (const Worker& worker : workers_)
      if (worker.back_end && !worker.back_end->on_gpu()) return false;
    return true;
  }

  int device_;
  std::mutex one_at_a_time_;
  std::array<Worker, kGpuThreads> workers_;
};

/// Stays where it is.
Gpu& gpu(int device) {
  static std::mutex one_at_a_time;
  static std::map<int, Gpu> gpus;
  const std::lock_guard lock(one_at_a_time);
  return gpus.try_emplace(device, device).first->second;
}

}  // namespace

std::size_t parameters_of(int model_id) {
  return row_of(model_id).order.size();
}

void check(const Call& call) {
  side_of(call);
  check_arrays(call);
  check_places(call);
  check_constraints(call, parameters_of(call.model_id));
  options_of(call);
}

std::string gpu_obstacle() {
  return gpu(cuda_current_device()).obstacle();
}

std::string fit(const Call& call, DataIn data) {
  check(call);
  FitOptions options = options_of(call);
  set_unit(call, data, options);
  const bool straight = !row_of(call.model_id).model.has_value();
  const bool cpu_alone = straight || places_of(call, 0) != nullptr;
  const bool wanted =
      data == DataIn::Device || (call.n_fits > kFewestFits && !cpu_alone && has_gpu());
  std::string obstacle;
  if (wanted) {
    const auto home = data == DataIn::Device ? cuda_device_of(call.data) : std::nullopt;
    Gpu& chosen = gpu(home.value_or(cuda_current_device()));
    const bool fitted = chosen.fit(call, options);
    obstacle = chosen.obstacle();
    if (fitted) return obstacle;
  }
  if (data == DataIn::Device) throw FitterError(obstacle);
  fit_on_cpu(call, options, straight);
  return obstacle;
}

}  // namespace driftd::fitter::drop_in
