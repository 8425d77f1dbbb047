// SPDX-License-Identifier: MIT
#include "fitter/circular_gaussian.hpp"
#include "fitter/cuda/fit_kernel.cuh"

namespace driftd::fitter::cuda {

template Kernel batch_kernel<FullSearch<CircularGaussian>>(int, bool);
template Kernel live_kernel<FullSearch<CircularGaussian>>(int);

}  // namespace driftd::fitter::cuda
