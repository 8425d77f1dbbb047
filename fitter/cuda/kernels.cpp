// SPDX-License-Identifier: MIT
#include "fitter/cuda/kernels.hpp"

#include <algorithm>

#include "fitter/circular_gaussian.hpp"
#include "fitter/elliptical_gaussian.hpp"
#include "fitter/full_search.hpp"
#include "fitter/implicit_least_squares.hpp"

namespace driftd::fitter::cuda {
namespace {

/// Calls find.operator()<Search>() for the search that the options ask for.
template <class Find>
Kernel of_search(const FitOptions& options, const Find& find) {
  const bool circular = options.model == Model::CircularGaussian;
  if (options.estimator == Estimator::ImplicitLeastSquares)
    return circular ? find.template operator()<ImplicitLeastSquares<CircularGaussian>>()
                    : find.template operator()<ImplicitLeastSquares<EllipticalGaussian>>();
  return circular ? find.template operator()<FullSearch<CircularGaussian>>()
                  : find.template operator()<FullSearch<EllipticalGaussian>>();
}

}  // namespace

int Kernel::groups(int of_block) const {
  const int by_memory = static_cast<int>(kMostSharedBytes / group_bytes);
  const int a_warp = std::max(1, 32 / threads);
  const int by_threads = std::min(of_block, most_threads) / threads;
  return std::max(a_warp, std::min(by_memory, by_threads) / a_warp * a_warp);
}

Kernel batch_kernel(const FitOptions& options, int roi_px) {
  return of_search(
      options, [&]<class Search>() { return batch_kernel<Search>(roi_px, options.integrated); });
}

Kernel live_kernel(const FitOptions& options, int roi_px) {
  return of_search(options, [&]<class Search>() { return live_kernel<Search>(roi_px); });
}

}  // namespace driftd::fitter::cuda
