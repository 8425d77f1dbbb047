// SPDX-License-Identifier: MIT
// Fits one to a lane, in groups that stay in step.
#include <algorithm>
#include <cstdint>

#include "fitter/choice.hpp"
#include "fitter/cpu/kernel.hpp"
#include "fitter/fit_spot.hpp"
#include "fitter/pixel_type.hpp"

#if HWY_TARGET != HWY_SCALAR  // whose one lane gains nothing
#include "fitter/cpu/lane_group.hpp"
#include "fitter/cpu/lane_sums.hpp"

HWY_BEFORE_NAMESPACE();
namespace driftd::fitter::cpu::HWY_NAMESPACE {
namespace {

using Real = LaneSums::Real;

template <class Search>
void fit_all(const FitJob& job, LaneWorkspace& workspace) {
  for (std::size_t first = 0; first < job.count; first += LaneSums::kLanes) {
    const LaneGroup group(job, first);
    LaneSums pixels(workspace, job.roi_px, job.options->integrated);
    group.load(pixels);
    FitInputOf<Real> input;
    input.start = group.start();
    BoundsOf<Real> bounds;
    if constexpr (Search::kSearchesLevels) {
      if (job.levels != nullptr) input.levels = group.levels();
      group.add_limits(pixels, bounds, input);
    }
    group.store(fit_spot<Search>(pixels, input, *job.options,
                                 [](const Mask<Real>& mask) { return any(mask); }));
  }
}

}  // namespace

void fit_in_lanes(const FitJob& job, LaneWorkspace& workspace) {
  with_search<Real>(*job.options, [&]<class Search>() { fit_all<Search>(job, workspace); });
}

}  // namespace driftd::fitter::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

namespace driftd::fitter::cpu::HWY_NAMESPACE {

Kernels kernels() {
#if HWY_TARGET == HWY_SCALAR
  return {hwy::TargetName(HWY_TARGET), 1, &fit_across_lanes, nullptr, nullptr, &search_swarms};
#else
  return {hwy::TargetName(HWY_TARGET),
          LaneSums::kLanes,
          &fit_across_lanes,
          &fit_in_lanes,
          &fit_pixelwise,
          &search_swarms};
#endif
}

}  // namespace driftd::fitter::cpu::HWY_NAMESPACE
