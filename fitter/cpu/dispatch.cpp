// SPDX-License-Identifier: MIT
#include <hwy/highway.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "fitter/cpu/kernel.hpp"

// The other instruction sets that there are kernels for.
#ifdef DRIFTD_CPU_avx512
namespace driftd::fitter::cpu::N_AVX3 {
Kernels kernels();
}
#endif
#ifdef DRIFTD_CPU_avx2
namespace driftd::fitter::cpu::N_AVX2 {
Kernels kernels();
}
#endif
#ifdef DRIFTD_CPU_sse4
namespace driftd::fitter::cpu::N_SSE4 {
Kernels kernels();
}
#endif

namespace driftd::fitter::cpu {

namespace {

/// What this processor has, asked once, because a virtual machine takes microseconds to say; again
/// after a test has said hwy::GetChosenTarget().DeInit(). Others may have asked Highway before.
std::int64_t supported_targets() {
  static std::atomic<std::int64_t> supported = 0;
  hwy::ChosenTarget& chosen = hwy::GetChosenTarget();
  std::int64_t targets = supported;
  if (targets != 0 && chosen.IsInitialized()) return targets;
  targets = hwy::SupportedTargets();
  supported = targets;
  chosen.Update(targets);
  return targets;
}

}  // namespace

Kernels choose_kernels() {
  [[maybe_unused]] const std::int64_t supported = supported_targets();
#ifdef DRIFTD_CPU_avx512
  if ((supported & HWY_AVX3) != 0) return N_AVX3::kernels();
#endif
#ifdef DRIFTD_CPU_avx2
  if ((supported & HWY_AVX2) != 0) return N_AVX2::kernels();
#endif
#ifdef DRIFTD_CPU_sse4
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
  // A group of lanes takes as long as this many warm fits across them, or less: measured with
  // driftd_lanes_bench (docs/measured/benchmarks.md) with 4, 8 and 16 lanes and sides from 5 to 32.
  const double squares = static_cast<double>(kernels.lanes) * (6 + roi_px) / 80;
  const double as_long_as =
      std::max(1.5, estimator == Estimator::PoissonLikelihood ? 1.7 * squares : squares);
  const std::size_t rest = count % kernels.lanes;
  return static_cast<double>(rest) < as_long_as ? count - rest : count;
}

}  // namespace driftd::fitter::cpu
