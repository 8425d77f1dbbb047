// SPDX-License-Identifier: MIT
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "fitter/cpu/kernel.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h comes first: it includes this file once for every target
#include <hwy/highway.h>

#include "fitter/cpu/kernel.hpp"
#include "fitter/cpu/roi_sums-inl.hpp"
#include "fitter/fit_spot.hpp"

HWY_BEFORE_NAMESPACE();
namespace driftd::fitter::cpu::HWY_NAMESPACE {
namespace {

template <class T, class D>
void fit_all(const FitJob& job, Workspace& workspace) {
  RoiSums<D> sums(workspace, job.roi_px);
  const float saturation = static_cast<float>(job.options->saturation_adu);
  const auto* bytes = static_cast<const unsigned char*>(job.pixels);
  for (std::size_t i = 0; i < job.count; ++i) {
    sums.load(reinterpret_cast<const T*>(bytes + i * job.stride_bytes), saturation);
    const Start start = job.starts != nullptr ? job.starts[i] : Start{};
    job.results[i] = fit_spot<CircularGaussian>(sums, start, *job.options);
  }
}

template <class D>
void fit_typed(const FitJob& job, Workspace& workspace) {
  switch (job.type) {
    case PixelType::U8:
      return fit_all<std::uint8_t, D>(job, workspace);
    case PixelType::U16:
      return fit_all<std::uint16_t, D>(job, workspace);
    case PixelType::F32:
      return fit_all<float, D>(job, workspace);
  }
}

}  // namespace

void fit_rois(const FitJob& job, Workspace& workspace) {
  // Narrow ROIs would leave most lanes of a wide vector empty.
  if (job.roi_px <= 8) return fit_typed<hn::CappedTag<float, 8>>(job, workspace);
  fit_typed<hn::CappedTag<float, kMaxLanes>>(job, workspace);
}

}  // namespace driftd::fitter::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace driftd::fitter::cpu {

HWY_EXPORT(fit_rois);

ChosenKernel choose_kernel() {
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  const FitKernel kernel = &HWY_DYNAMIC_DISPATCH(fit_rois);
  std::int64_t best = hwy::SupportedTargets() & HWY_TARGETS;
  best &= -best;  // targets are ordered, best first
  return {kernel, hwy::TargetName(best)};
}

}  // namespace driftd::fitter::cpu
#endif  // HWY_ONCE
