// SPDX-License-Identifier: MIT
// Chooses the back end that fits batches, for libdriftfit, libGpufit and driftfit. Called by one
// thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "fitter/cuda_fitter.hpp"
#include "fitter/fitter.hpp"
#include "fitter/frames.hpp"
#include "fitter/swarm.hpp"

namespace driftd::fitter {

enum class BackEnd : std::uint8_t {
  Auto,  ///< a GPU, as long as one can be had and does not fail; else the CPU
  Cpu,
  Cuda
};

class BatchBackEnd {
 public:
  /// @param cuda  unused by BackEnd::Cpu
  /// @throws FitterError where BackEnd::Cuda cannot be had, or for senseless CudaBatchOptions
  explicit BatchBackEnd(BackEnd wish, const CudaBatchOptions& cuda = {});

  /// As fit_batch_cpu(). Where BackEnd::Auto meets a GPU that fails, the CPU fits the same batch
  /// and all that follow, if its arrays lie where the CPU can read them; if not, the failure is the
  /// caller's.
  /// @param threads  of the CPU
  /// @throws FitterError
  void fit(const Batch& batch, const FitOptions& options, std::span<Localization> results,
           int threads);
  /// What fit_frames() checks before it begins. @throws FitterError
  void check(const FrameFits& fits, const FitOptions& options,
             std::span<const Localization> results) const;
  /// As fit_frames_cpu(), with the same choice of back end as fit(). Frames of the host are cut for
  /// a GPU by threads of the CPU, a block while the one before is fitted; then all arrays lie where
  /// the CPU can read them. Frames on a GPU are cut there: CudaBatchFitter::fit_frames().
  void fit_frames(const FrameFits& fits, const FitOptions& options, std::span<Localization> results,
                  int threads);
  /// As fit_swarm_cpu(), with the same choice of back end as fit().
  void search(const Batch& batch, const FitOptions& options, const SwarmOptions& swarm,
              std::span<Localization> results, std::span<SwarmReport> reports, int threads);

  /// Calls work(options of the GPUs) where a GPU is used: other work of one, with the same choice
  /// as of fit(). False: there is none, or BackEnd::Auto met one that failed; the CPU is to do it.
  /// @throws FitterError
  bool run_on_gpu(const std::function<void(const CudaBatchOptions&)>& work);

  bool on_gpu() const noexcept { return cuda_ != nullptr; }
  /// Why this back end: what was asked for, or what keeps a GPU from being used.
  const std::string& reason() const noexcept { return reason_; }

 private:
  /// Memory of at least the size asked for; it grows by twice at least. Null where there is not so
  /// much.
  class PinnedBlock {
   public:
    std::byte* of(std::size_t bytes, int device) noexcept;

   private:
    struct Free {
      void operator()(std::byte* memory) const noexcept { free_pinned(memory); }
    };
    std::unique_ptr<std::byte, Free> memory_;
    std::size_t asked_for_ = 0;
  };

  template <class OnGpu>
  bool done_on_gpu(bool cpu_could, const OnGpu& on_gpu);

  BackEnd wish_;
  std::array<PinnedBlock, 2> cut_;  ///< ROIs of frames, in turn; from their first use on
  CudaBatchOptions options_;
  std::unique_ptr<CudaBatchFitter> cuda_;
  std::string reason_;
};

}  // namespace driftd::fitter
