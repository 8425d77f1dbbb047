// SPDX-License-Identifier: MIT
// The CUDA spot finder with the runtime's calls exchanged, for tests.
#pragma once

#include <memory>

#include "fitter/cuda/runtime.hpp"
#include "fitter/cuda_fitter.hpp"

namespace driftd::fitter::cuda {

std::unique_ptr<CudaSpotFinder> make_spot_finder(const CudaBatchOptions& cuda,
                                                 const RuntimeCalls& calls);

}  // namespace driftd::fitter::cuda
