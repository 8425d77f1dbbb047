// SPDX-License-Identifier: MIT
// The CUDA back end of the contract in fitter.hpp. No CUDA header is needed; in a build without
// CUDA the same calls exist and report that. A call leaves the calling thread's current device as
// it was, except that a live fitter's thread keeps the fitter's device.
//
// Results agree with the CPU's to rounding. Where both stop by the same criterion at the same
// iteration, they agree to some 1e-5 standard deviations; where rounding makes one stop an
// iteration earlier, within the stop criteria, 2 sqrt(min_decrease) side standard deviations. The
// live and the batch calls share a fit among different numbers of threads and so differ by rounding
// as well.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "fitter/cuda_mode.hpp"
#include "fitter/fitter.hpp"
#include "fitter/frames.hpp"
#include "fitter/swarm.hpp"

namespace driftd::fitter {

/// Devices that CUDA knows, also those that cannot run the fits; 0 without a driver. Never throws.
int cuda_device_count() noexcept;

/// The calling thread's current device; 0 also without any.
int cuda_current_device() noexcept;

/// The device that has `memory`; nothing: the host has it, or CUDA does not say.
std::optional<int> cuda_device_of(const void* memory) noexcept;

/// Why `device` cannot run the fits (it is too old for the kernels, taken by others); "" if it can.
std::string cuda_obstacle(int device = 0);

/// Whether the processor can read `memory` where it lies. Where CUDA does not say, because
/// something failed before, the system does. True for a null pointer.
bool host_can_read(const void* memory) noexcept;

/// 1000 * major + 10 * minor; 0: there is none.
struct CudaVersions {
  int runtime = 0;
  int driver = 0;
};
CudaVersions cuda_versions() noexcept;

/// Memory of the host that all devices reach; null: there is no device, or not so much memory.
/// @param device  that asks for it; nothing: the calling thread's current one
void* allocate_pinned(std::size_t bytes, std::optional<int> device = std::nullopt) noexcept;
void free_pinned(void* memory) noexcept;

/// Copies `bytes` bytes between any two of host and devices. @throws FitterError
void cuda_copy(void* to, const void* from, std::size_t bytes);

struct CudaLiveOptions {
  int device = 0;
  CudaMode mode = CudaMode::Graph;
  /// A call that has no results by then has failed.
  std::chrono::microseconds deadline{5000};
};

/// Staging is pinned memory that the device reads and writes by itself; fit() launches, waits by
/// polling, and allocates nothing. Once a call failed or missed its deadline, error() says why.
/// @throws FitterError without such a device, without memory, or where a mode cannot be had
std::unique_ptr<LiveFitter> make_cuda_live_fitter(int roi_px, std::size_t capacity,
                                                  const FitOptions& options,
                                                  const CudaLiveOptions& cuda = {});

struct CudaBatchOptions {
  std::vector<int> devices = {0};
  int streams = 4;                                  ///< per device
  std::size_t chunk_bytes = std::size_t{16} << 20;  ///< of pixels, per stream
};

/// Fits any number of ROIs at the speed of the bus: in chunks, copied and fitted in turn on several
/// streams of several devices. Its memory grows with what is fitted, and stays. Called by one
/// thread at a time; not to be shared.
class CudaBatchFitter {
 public:
  virtual ~CudaBatchFitter() = default;
  CudaBatchFitter() = default;
  CudaBatchFitter(const CudaBatchFitter&) = delete;
  CudaBatchFitter& operator=(const CudaBatchFitter&) = delete;

  /// Results are in input order. Every array of the batch and the results may each lie in pageable
  /// memory, in pinned memory (faster), or in the memory of one of the devices. That device then
  /// does all the work, after the work of its default stream; other streams must be done with the
  /// arrays.
  /// Same input gives the same bits, whatever the chunks, streams and devices of one kind.
  /// @throws FitterError for senseless arguments and for what CUDA reports
  virtual void fit(const Batch& batch, const FitOptions& options,
                   std::span<Localization> results) = 0;

  /// As fit_frames_cpu() and fit(), but ROIs are cut by the device. Frames (pixels at multiples of
  /// their bytes) and maps lie in the memory of one of the devices, all else as for fit(). Places
  /// in that memory are not looked at first: a place in a frame that is not there is BadInput.
  virtual void fit_frames(const FrameFits& fits, const FitOptions& options,
                          std::span<Localization> results) = 0;

  /// As fit_swarm_cpu() and fit(), with a block for each ROI and a thread for each particle. The
  /// random numbers are the same, but rounding soon parts the ways of the particles: results agree
  /// where both find the same minimum.
  virtual void search(const Batch& batch, const FitOptions& options, const SwarmOptions& swarm,
                      std::span<Localization> results, std::span<SwarmReport> reports = {}) = 0;
};

/// @throws FitterError
std::unique_ptr<CudaBatchFitter> make_cuda_batch_fitter(const CudaBatchOptions& cuda = {});

struct SpotJob;  // fitter/spots/spot_job.hpp
struct FoundInFrames;

/// Finds the spots of whole frames, and fits them where the frames lie then: pixels go up once,
/// spots and results come down. Frames are taken in pieces of chunk_bytes, 8 MiB at most, in turn
/// on several streams of several devices. Its memory grows with the frames' size, and stays. Called
/// by one thread at a time; not to be shared.
class CudaSpotFinder {
 public:
  virtual ~CudaSpotFinder() = default;
  CudaSpotFinder() = default;
  CudaSpotFinder(const CudaSpotFinder&) = delete;
  CudaSpotFinder& operator=(const CudaSpotFinder&) = delete;

  /// Spots are those of SpotSearch::find() and fits those of CudaBatchFitter::fit(), to the bit.
  /// Frames in pinned memory are read where they lie.
  /// @param job  of frames of less than 2^31 pixels  @throws FitterError
  virtual FoundInFrames find(const SpotJob& job) = 0;
};

/// @throws FitterError
std::unique_ptr<CudaSpotFinder> make_cuda_spot_finder(const CudaBatchOptions& cuda = {});

}  // namespace driftd::fitter
