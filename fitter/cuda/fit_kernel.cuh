// SPDX-License-Identifier: MIT
// The kernels of one search: batch and live, for three sizes of ROIs. Each search is instantiated
// in a file of its own, so that they compile side by side.
#pragma once

#include <cstdint>

#include "fitter/cuda/kernels.hpp"
#include "fitter/cuda/load_roi.cuh"
#include "fitter/cuda/thread_sums.cuh"
#include "fitter/fit_details.hpp"
#include "fitter/fit_spot.hpp"
#include "fitter/pixel_type.hpp"

namespace driftd::fitter::cuda {

/// Threads of a block, at most. Small blocks of a batch leave less of a multiprocessor idle; more
/// registers than 128 would, too. A live kernel may have all registers: it is never many.
template <int kThreads>
constexpr int kBatchThreads = kThreads > 64 ? kThreads : 64;
constexpr int kBatchThreadsAtOnce = 512;
constexpr int kLiveThreads = 128;

/// The whole fit of one ROI by the threads of a group; all get the result.
template <class Search, int kThreads, int kMostPx>
__device__ Localization fit_roi(RoiSums<kThreads, kMostPx>& pixels, const FitInput& input,
                                const FitOptions& options,
                                CovarianceOf<Search>* covariance = nullptr) {
  if constexpr (Search::kSearchesLevels)
    if (input.variances != nullptr) pixels.load_map(input.variances, options);
  const auto any_of = [&](bool mask) { return pixels.any_of(mask); };
  return as_localization(fit_spot<Search>(pixels, input, options, any_of, covariance));
}

/// The words of a result, in memory where every thread of the group reads them.
template <int kThreads, int kMostPx>
__device__ const std::uint32_t* shared_words(RoiSums<kThreads, kMostPx>& pixels,
                                             const Localization& l) {
  float* const memory = pixels.free_memory();
  pixels.group().sync();
  if (pixels.group().index() == 0) *reinterpret_cast<Localization*>(memory) = l;
  pixels.group().sync();
  return reinterpret_cast<const std::uint32_t*>(memory);
}

__device__ inline FitInput input_of(const KernelArgument& job, std::size_t index) {
  FitInput input;
  input.start = job.starts != nullptr ? job.starts[index] : Start{};
  if (job.levels != nullptr) input.levels = job.levels[index];
  if (job.bounds != nullptr) input.bounds = job.bounds + index;
  if (job.variances != nullptr) input.variances = job.variances + index * (job.roi_px * job.roi_px);
  if (job.angles_rad != nullptr) input.angle_rad = job.angles_rad[index];
  if (job.angle_bounds != nullptr) input.angle_bounds = job.angle_bounds[index];
  return input;
}

/// @tparam kDetailed  in kernels of their own: others would have to keep more registers in memory
template <class Search, int kThreads, int kMostPx, bool kDetailed>
__global__ void __launch_bounds__(kBatchThreads<kThreads>,
                                  kBatchThreadsAtOnce / kBatchThreads<kThreads>)
    fit_batch(const __grid_constant__ KernelArgument job) {
  extern __shared__ float4 memory[];
  const int groups = static_cast<int>(blockDim.x) / kThreads;
  const int group = static_cast<int>(threadIdx.x) / kThreads;
  const std::uint32_t wanted = blockIdx.x * groups + group;
  const std::uint32_t index = wanted < job.count ? wanted : job.count - 1;  // in step, unused
  using Sums = RoiSums<kThreads, kMostPx>;
  Sums pixels(reinterpret_cast<float*>(memory) + group * Sums::kFloats, job.roi_px,
              job.options.integrated);
  const FitInput input = input_of(job, index);
  load(pixels, job, index);
  CovarianceOf<Search> covariance;
  const Localization l =
      fit_roi<Search>(pixels, input, job.options, kDetailed ? &covariance : nullptr);
  const std::uint32_t* const words = shared_words(pixels, l);
  if (wanted >= job.count) return;
  if constexpr (kDetailed)
    if (pixels.group().index() == 0) set_details(covariance, l, job.details[index]);
  constexpr int kWords = sizeof(Localization) / sizeof(std::uint32_t);
  auto* const result = static_cast<std::uint32_t*>(job.results) + std::size_t{index} * kWords;
  for (int i = pixels.group().index(); i < kWords; i += kThreads) result[i] = words[i];
}

/// A ROI in every thread, for small ROIs whose details are not wanted: they cost others 2 to 7 %
/// here, asked for or not. In every two threads, where shared memory holds too few
/// of them to keep a multiprocessor busy: a full search is slower so, for want of registers.
constexpr int kMostThreadPx = 16;
template <class Search, int kSide>
using SumsInThreads = ThreadSums<kSide, (kSide > 14 && !Search::kSearchesLevels) ? 2 : 1>;

/// Warps of a multiprocessor, each a block: as many as its 65,536 registers and shared memory of
/// 227 KiB serve without losing more by registers kept in memory than is gained.
template <class Search, int kSide>
constexpr int kWarpsAtOnce = [] {
  constexpr int kReservedBytes = 1024;
  constexpr int kShared =
      (227 << 10) / (sizeof(float) * SumsInThreads<Search, kSide>::kFloats + kReservedBytes);
  constexpr int kImplicit = kSide + Search::kSearched < 14 ? 16 : 12;
  constexpr int kRegisters = !Search::kSearchesLevels ? kImplicit : kSide < 13 ? 12 : 8;
  return kRegisters < kShared ? kRegisters : kShared;
}();

/// So many threads of a warp are better left than waited for (docs/measured/benchmarks.md, "Lanes
/// that are done").
template <class Search, int kSide>
constexpr int kFew = Search::kSearchesLevels || kSide < 8 ? 4 : 6;

/// A warp waits for its slowest fit. So a launch may leave fits that are to be tried again, and the
/// last few that search still, to a second one, where they have warps of their own.
template <class Search, int kSide>
__global__ void __launch_bounds__(kWarpThreads, kWarpsAtOnce<Search, kSide>)
    fit_in_threads(const __grid_constant__ KernelArgument job) {
  using Sums = SumsInThreads<Search, kSide>;
  extern __shared__ float4 shared[];
  float* const memory = reinterpret_cast<float*>(shared);
  auto* const results = static_cast<Localization*>(job.results);
  const auto any_of = [](bool mask) { return Sums::any_of(mask); };
  const bool leaves = job.left != nullptr && !job.goes_on;
  const auto too_few = [&](bool mask) {
    return leaves && Sums::count_of(mask) <= kFew<Search, kSide>;
  };
  const std::uint32_t total = job.goes_on ? job.left[0] : job.count;
  for (std::uint32_t first = blockIdx.x * Sums::kRois; first < total;
       first += gridDim.x * Sums::kRois) {
    const std::uint32_t count = min(total - first, std::uint32_t{Sums::kRois});
    /// The batch's number of a ROI. @param roi  of the warp
    const auto left_number = [&](std::uint32_t roi) { return job.left[1 + first + roi]; };
    with_pixels(job.type, job.pixels, [&](const auto* of_type) {
      constexpr std::size_t kPixels = Sums::kPixels;
      const auto load = [&](const auto& rois) {
        Sums::load(memory, rois, static_cast<int>(count));
      };
      if (job.goes_on)
        load([&](int roi) { return of_type + left_number(roi) * kPixels; });
      else
        load([&](int roi) { return of_type + first * kPixels + roi * Sums::kPixels; });
    });
    Sums pixels(memory);
    pixels.summarize(job.type != PixelType::F32, job.saturation);
    const std::uint32_t own = min(static_cast<std::uint32_t>(Sums::roi()), count - 1);
    const std::uint32_t index = job.goes_on ? left_number(own) : first + own;
    const bool counts = Sums::roi() < count && Sums::part() == 0;
    LocalizationOf<float> before = bad_input<LocalizationOf<float>>();
    if (job.goes_on) before = numbers_of(results[index]);
    __syncwarp();  // before one of those that fit the last ROI writes it
    Localization l;
    bool is_next = job.goes_on;
    for (bool fits = true; any_of(fits);) {
      SpotFit<Search> fit;
      fit.begin(fits, pixels.summary(), input_of(job, index), kSide, job.options, is_next, before);
      search(pixels, fit, job.options, any_of, too_few);
      pixels.keep(fit.left(), as_localization(fit.standing()));
      const LocalizationOf<float> found = finish(pixels, fit, job.options);
      if (fits) l = as_localization(found);
      if (fit.left()) l = pixels.kept();
      fits = fit.tries_again();
      if (leaves) {
        if (counts && (fit.left() || fits)) job.left[1 + atomicAdd(job.left, 1u)] = index;
        break;
      }
      is_next = true;
      before.status = code_of(FitStatus::NotConverged);
    }
    if (job.goes_on) {
      if (counts) results[index] = l;
    } else {  // through shared memory, so that neighbours write to neighbours
      constexpr std::uint32_t kWords = sizeof(Localization) / sizeof(std::uint32_t);
      __syncwarp();
      if (counts) reinterpret_cast<Localization*>(memory)[Sums::roi()] = l;
      __syncwarp();
      for (std::uint32_t i = threadIdx.x; i < count * kWords; i += kWarpThreads)
        reinterpret_cast<std::uint32_t*>(results + first)[i] =
            reinterpret_cast<const std::uint32_t*>(memory)[i];
    }
    __syncwarp();
  }
}

template <class Search, int kThreads, int kMostPx>
__device__ void fit_slot(float* memory, const KernelArgument& job, std::uint32_t index,
                         std::uint32_t stamp) {
  RoiSums<kThreads, kMostPx> pixels(memory, job.roi_px, job.options.integrated);
  const unsigned char* const slot =
      static_cast<const unsigned char*>(job.pixels) + index * job.stride_bytes;
  const Start start = pixels.load_slot(reinterpret_cast<const uint4*>(slot), job.saturation);
  const Localization l = fit_roi<Search>(pixels, {start}, job.options);
  const std::uint32_t* const words = shared_words(pixels, l);
  auto* const result = static_cast<StampedResult*>(job.results) + index;
  const int part = pixels.group().index();
  if (part >= StampedResult::kParts) return;
  __stwt(reinterpret_cast<uint4*>(&result->parts[part]),
         make_uint4(words[3 * part], words[3 * part + 1], words[3 * part + 2], stamp));
}

/// Waits until the host's doorbell, or a relay of the device, has changed; what was written before
/// it was rung is then seen. After some milliseconds in vain it looks less often, so that an idle
/// kernel leaves the bus alone.
template <bool kOfHost>
__device__ Task next_task(const Task* doorbell, std::uint32_t last) {
  constexpr int kPatience = 4000;
  constexpr unsigned kNapNs = 500;
  for (int looks = 0;; ++looks) {
    std::uint64_t both;
    if constexpr (kOfHost)
      asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(both) : "l"(doorbell) : "memory");
    else
      asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(both) : "l"(doorbell) : "memory");
    const Task now = {static_cast<std::uint32_t>(both), static_cast<std::uint32_t>(both >> 32)};
    if (now.stamp != last || now.count == Task::kStop) return now;
    if (looks > kPatience) __nanosleep(kNapNs);
  }
}

/// To those who wait at the relay, with all that was seen before.
__device__ inline void pass_on(const Task& task, Task* relay) {
  const std::uint64_t both = std::uint64_t{task.count} << 32 | task.stamp;
  asm volatile("st.release.gpu.global.u64 [%0], %1;" ::"l"(relay), "l"(both) : "memory");
}

/// @param task   to do at once, where relay is null
/// @param relay  else the kernel stays and fits at every ring: the first block watches the doorbell
///               and passes the task on to the others through `relay`, in device memory, because
///               watching over the bus does not scale with the watchers.
template <class Search, int kThreads, int kMostPx>
__global__ void __launch_bounds__(kLiveThreads)
    fit_live(const __grid_constant__ KernelArgument job, Task task, const Task* doorbell,
             Task* relay) {
  extern __shared__ float4 memory[];
  __shared__ Task next;
  const int groups = static_cast<int>(blockDim.x) / kThreads;
  const int group = static_cast<int>(threadIdx.x) / kThreads;
  const std::uint32_t index = blockIdx.x * groups + group;
  float* const own = reinterpret_cast<float*>(memory) + group * RoiSums<kThreads, kMostPx>::kFloats;
  do {
    if (relay != nullptr) {
      if (threadIdx.x == 0) {
        if (blockIdx.x == 0) {
          next = next_task<true>(doorbell, task.stamp);
          pass_on(next, relay);
        } else {
          next = next_task<false>(relay, task.stamp);
        }
      }
      __syncthreads();
      task = next;
      if (task.count == Task::kStop) return;
    }
    if (index < task.count) fit_slot<Search, kThreads, kMostPx>(own, job, index, task.stamp);
    if (relay != nullptr) __syncthreads();
  } while (relay != nullptr);
}

template <class Search, int kThreads, int kMostPx>
Kernel batch(bool detailed) {
  const void* const function =
      detailed ? reinterpret_cast<const void*>(&fit_batch<Search, kThreads, kMostPx, true>)
               : reinterpret_cast<const void*>(&fit_batch<Search, kThreads, kMostPx, false>);
  return {function, kThreads, kBatchThreads<kThreads>,
          sizeof(float) * RoiSums<kThreads, kMostPx>::kFloats};
}

template <class Search, int kThreads, int kMostPx>
Kernel live() {
  return {reinterpret_cast<const void*>(&fit_live<Search, kThreads, kMostPx>), kThreads,
          kLiveThreads, sizeof(float) * RoiSums<kThreads, kMostPx>::kFloats};
}

template <class Search, int kSide = kMinRoiPx>
Kernel thread_kernel(int roi_px) {
  if constexpr (kSide < kMostThreadPx)
    if (roi_px > kSide) return thread_kernel<Search, kSide + 1>(roi_px);
  using Sums = SumsInThreads<Search, kSide>;
  return {reinterpret_cast<const void*>(&fit_in_threads<Search, kSide>), Sums::kThreads,
          kWarpThreads, sizeof(float) * Sums::kPitch, true};
}

template <class Search>
Kernel batch_kernel(int roi_px, bool in_threads, bool detailed) {
  if (roi_px <= kMostThreadPx && in_threads) return thread_kernel<Search>(roi_px);
  if (roi_px <= 16) return batch<Search, 4, 16>(detailed);
  if (roi_px <= 32) return batch<Search, 16, 32>(detailed);
  return batch<Search, 128, 64>(detailed);
}

template <class Search>
Kernel live_kernel(int roi_px) {
  if (roi_px <= 16) return live<Search, 32, 16>();
  if (roi_px <= 32) return live<Search, 32, 32>();
  return live<Search, 128, 64>();
}

}  // namespace driftd::fitter::cuda
