// SPDX-License-Identifier: MIT
// The search for spots by the GPUs of a back end, and the memory that it takes there, kept from the
// first use on. Called by one thread at a time.
#pragma once

#include <memory>

#include "fitter/batch_back_end.hpp"
#include "fitter/spots/spot_job.hpp"

namespace driftd::fitter {

class GpuSearch {
 public:
  /// Finds spots of frames of the host, and fits them: what the CPU finds, to the bit. False: no
  /// GPU is used, or BackEnd::Auto met one that failed, or frames are too large; the CPU is to do
  /// it.
  /// @param back_end  the same in all calls  @throws FitterError
  bool find(BatchBackEnd& back_end, const SpotJob& job, FoundInFrames& found);

 private:
  std::unique_ptr<CudaSpotFinder> finder_;
};

}  // namespace driftd::fitter
