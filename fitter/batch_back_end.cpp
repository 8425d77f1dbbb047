// SPDX-License-Identifier: MIT
#include "fitter/batch_back_end.hpp"

#include <algorithm>

#include "fitter/cpu/parts.hpp"
#include "fitter/options.hpp"

namespace driftd::fitter {
namespace {

bool all_readable(const Batch& batch, std::span<const Localization> results,
                  std::span<const SwarmReport> reports = {}) {
  return host_can_read(batch.pixels) && host_can_read(batch.starts) &&
         host_can_read(batch.levels) && host_can_read(batch.variances) &&
         host_can_read(batch.bounds) && host_can_read(results.data()) &&
         host_can_read(reports.data());
}

bool all_readable(const FrameFits& fits, std::span<const Localization> results) {
  const Frames& frames = fits.frames;
  return host_can_read(frames.pixels) && host_can_read(frames.gains_e_per_adu) &&
         host_can_read(frames.offsets_adu) && host_can_read(frames.variances_adu2) &&
         host_can_read(fits.places) && all_readable(fits.rois, results);
}

}  // namespace

BatchBackEnd::BatchBackEnd(BackEnd wish, const CudaBatchOptions& cuda) : wish_(wish) {
  if (wish == BackEnd::Cpu) {
    reason_ = "the CPU was asked for";
    return;
  }
  try {
    cuda_ = make_cuda_batch_fitter(cuda);
    reason_ = wish == BackEnd::Cuda ? "CUDA was asked for" : "there is a GPU that can be used";
  } catch (const FitterError& error) {
    if (wish == BackEnd::Cuda) throw;
    reason_ = error.what();
  }
}

/// @param cpu_could  whether the CPU can step in
template <class OnGpu>
bool BatchBackEnd::done_on_gpu(bool cpu_could, const OnGpu& on_gpu) {
  try {
    on_gpu(*cuda_);
    return true;
  } catch (const FitterError& error) {
    if (!cpu_could) throw;
    reason_ = error.what();
  }
  cuda_.reset();
  return false;
}

void BatchBackEnd::fit(const Batch& batch, const FitOptions& options,
                       std::span<Localization> results, int threads) {
  check_batch(batch, options, results.size());
  if (cuda_) {
    const bool cpu_could = wish_ == BackEnd::Auto && all_readable(batch, results);
    if (done_on_gpu(cpu_could, [&](CudaBatchFitter& cuda) { cuda.fit(batch, options, results); }))
      return;
  }
  fit_batch_cpu(batch, options, results, threads);
}

void BatchBackEnd::check(const FrameFits& fits, const FitOptions& options,
                         std::span<const Localization> results) const {
  check_frames(fits, options, results.size());
  if (cuda_ && !all_readable(fits, results))
    throw FitterError("fitter: frames, maps, places and results have to lie in the host's memory");
}

void BatchBackEnd::fit_frames(const FrameFits& fits, const FitOptions& options,
                              std::span<Localization> results, int threads) {
  if (!cuda_) return fit_frames_cpu(fits, options, results, threads);
  check(fits, options, results);
  constexpr std::size_t kBlockBytes = std::size_t{1} << 26;
  const std::size_t block = std::min(kBlockBytes / CutRois::bytes_of_each(fits), results.size());
  const FitOptions of_cut = options_of_cut(fits.frames, options);
  CutRois cut(fits, options, block);
  for (std::size_t done = 0; done < results.size(); done += block) {
    const std::span<Localization> now =
        results.subspan(done, std::min(block, results.size() - done));
    cpu::run_in_parts(now.size(), threads, cpu::kPieceOfWork,
                      [&](std::size_t, std::size_t from, std::size_t count) {
                        cut.cut(done + from, count, from);
                      });
    fit(cut.batch(done, now.size()), of_cut, now, threads);
    cut.to_frame(done, now);
  }
}

void BatchBackEnd::search(const Batch& batch, const FitOptions& options, const SwarmOptions& swarm,
                          std::span<Localization> results, std::span<SwarmReport> reports,
                          int threads) {
  check_batch(batch, options, results.size());
  check_swarm(batch, swarm, reports);
  if (cuda_) {
    const bool cpu_could = wish_ == BackEnd::Auto && all_readable(batch, results, reports);
    if (done_on_gpu(cpu_could, [&](CudaBatchFitter& cuda) {
          cuda.search(batch, options, swarm, results, reports);
        }))
      return;
  }
  fit_swarm_cpu(batch, options, swarm, results, reports, threads);
}

}  // namespace driftd::fitter
