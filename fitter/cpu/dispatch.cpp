// SPDX-License-Identifier: MIT
#include <hwy/highway.h>

#include <atomic>
#include <cstdint>

#include "fitter/cpu/kernel.hpp"

#if HWY_ARCH_X86_64
namespace driftd::fitter::cpu::N_AVX3 {
Kernels kernels();
}
namespace driftd::fitter::cpu::N_AVX2 {
Kernels kernels();
}
namespace driftd::fitter::cpu::N_SSE4 {
Kernels kernels();
}
#endif

namespace driftd::fitter::cpu {

namespace {

/// What this processor has, asked once, because a virtual machine takes microseconds to say; again
/// after a test has said hwy::GetChosenTarget().DeInit().
std::int64_t supported_targets() {
  static std::atomic<std::int64_t> supported = 0;
  hwy::ChosenTarget& chosen = hwy::GetChosenTarget();
  if (!chosen.IsInitialized()) {
    supported = hwy::SupportedTargets();
    chosen.Update(supported);
  }
  return supported;
}

}  // namespace

Kernels choose_kernels() {
  [[maybe_unused]] const std::int64_t supported = supported_targets();
#if HWY_ARCH_X86_64
  if ((supported & HWY_AVX3) != 0) return N_AVX3::kernels();
  if ((supported & HWY_AVX2) != 0) return N_AVX2::kernels();
  if ((supported & HWY_SSE4) != 0) return N_SSE4::kernels();
#endif
  return HWY_NAMESPACE::kernels();
}

bool batch_in_lanes(const Kernels& kernels, int roi_px) {
  return kernels.fit_in_lanes != nullptr && roi_px <= kMostLaneRoiPx;
}

std::size_t live_in_lanes(const Kernels& kernels, int roi_px, Estimator estimator,
                          std::size_t count) {
  if (!batch_in_lanes(kernels, roi_px)) return 0;
  // A group of lanes takes as long as this many fits across them, or less: measured with
  // driftd_lanes_bench (docs/benchmarks.md) with 4, 8 and 16 lanes and sides from 5 to 32.
  const double lanes = static_cast<double>(kernels.lanes);
  const double as_long_as =
      (estimator == Estimator::PoissonLikelihood ? 1.6 : 1.0) * roi_px * lanes / 45;
  const std::size_t rest = count % kernels.lanes;
  return static_cast<double>(rest) < as_long_as ? count - rest : count;
}

}  // namespace driftd::fitter::cpu
