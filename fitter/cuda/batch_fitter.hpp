// SPDX-License-Identifier: MIT
// The CUDA batch fitter with the runtime's calls exchanged, for tests that inject failures.
#pragma once

#include <memory>
#include <string>

#include "fitter/cuda/runtime.hpp"
#include "fitter/cuda_fitter.hpp"

namespace driftd::fitter::cuda {

std::unique_ptr<CudaBatchFitter> make_batch_fitter(const CudaBatchOptions& cuda,
                                                   const RuntimeCalls& calls);

/// As cuda_obstacle().
std::string obstacle(const RuntimeCalls& calls, int device);

}  // namespace driftd::fitter::cuda
