// SPDX-License-Identifier: MIT
#include "fitter/cuda/fit_kernel.cuh"
#include "fitter/elliptical_gaussian.hpp"

namespace driftd::fitter::cuda {

template Kernel batch_kernel<ImplicitLeastSquares<EllipticalGaussian>>(int, bool);
template Kernel live_kernel<ImplicitLeastSquares<EllipticalGaussian>>(int);

}  // namespace driftd::fitter::cuda
