// SPDX-License-Identifier: MIT
#include "fitter/cuda/kernels.hpp"

#include <algorithm>

#include "fitter/dispatch.hpp"
#include "fitter/pixelwise_choice.hpp"

namespace driftd::fitter::cuda {

int Kernel::groups(int of_block) const {
  const int by_memory = static_cast<int>(kMostSharedBytes / group_bytes);
  const int a_warp = std::max(1, 32 / threads);
  const int by_threads = std::min(of_block, most_threads) / threads;
  return std::max(a_warp, std::min(by_memory, by_threads) / a_warp * a_warp);
}

Kernel batch_kernel(const FitOptions& options, const BatchKind& batch) {
  if (!is_separable(options.model))
    return with_pixelwise_search<float>(options, batch.bounds_axes, [&]<class Search>() {
      return pixelwise_kernel<Search>(batch.roi_px);
    });
  const bool in_threads = !options.integrated && !batch.mapped && !batch.detailed;
  return with_search<float>(options, [&]<class Search>() {
    return batch_kernel<Search>(batch.roi_px, in_threads, batch.detailed);
  });
}

Kernel live_kernel(const FitOptions& options, int roi_px) {
  return with_search<float>(options, [&]<class Search>() { return live_kernel<Search>(roi_px); });
}

SwarmKernel swarm_kernel(Model model, int roi_px) {
  return with_model(model, [&]<class M>() { return swarm_kernel<M>(roi_px); });
}

}  // namespace driftd::fitter::cuda
