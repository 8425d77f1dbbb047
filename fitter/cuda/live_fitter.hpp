// SPDX-License-Identifier: MIT
// The CUDA live fitter with the runtime's calls exchanged, for tests that inject failures.
#pragma once

#include "fitter/cuda/runtime.hpp"
#include "fitter/cuda_fitter.hpp"

namespace driftd::fitter::cuda {

std::unique_ptr<LiveFitter> make_live_fitter(int roi_px, std::size_t capacity,
                                             const FitOptions& options, const CudaLiveOptions& cuda,
                                             const RuntimeCalls& calls);

}  // namespace driftd::fitter::cuda
