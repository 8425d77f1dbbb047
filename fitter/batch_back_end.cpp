// SPDX-License-Identifier: MIT
#include "fitter/batch_back_end.hpp"

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
