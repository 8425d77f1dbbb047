// SPDX-License-Identifier: MIT
#include "fitter/spots/gpu_search.hpp"

#include "fitter/options.hpp"

namespace driftd::fitter {

bool GpuSearch::find(BatchBackEnd& back_end, const SpotJob& job, FoundInFrames& found) {
  constexpr std::size_t kTooLarge = std::size_t{1} << 31;  // pixels that the kernels count
  if (job.roi_px > 0)
    check_batch({.roi_px = job.roi_px, .count = 0, .variances = job.variances}, job.options, 0);
  if (job.shape.pixels() >= kTooLarge) return false;
  const bool done = back_end.run_on_gpu([&](const CudaBatchOptions& cuda) {
    if (!finder_) finder_ = make_cuda_spot_finder(cuda);
    found = finder_->find(job);
  });
  if (!done) finder_.reset();
  return done;
}

}  // namespace driftd::fitter
