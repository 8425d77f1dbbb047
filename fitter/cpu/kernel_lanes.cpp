// SPDX-License-Identifier: MIT
// Fits one to a lane, in groups that stay in step.
#include <algorithm>
#include <cstdint>

#include "fitter/cpu/kernel.hpp"
#include "fitter/dispatch.hpp"
#include "fitter/fit_spot.hpp"
#include "fitter/pixel_type.hpp"

#if HWY_TARGET != HWY_SCALAR  // whose one lane gains nothing
#include "fitter/cpu/lane_group.hpp"
#include "fitter/cpu/lane_sums.hpp"

HWY_BEFORE_NAMESPACE();
namespace driftd::fitter::cpu::HWY_NAMESPACE {
namespace {

using Real = LaneSums::Real;

constexpr std::size_t kLanes = LaneSums::kLanes;
/// So many of a group are better left than waited for (docs/measured/benchmarks.md, "Lanes that are
/// done").
constexpr int kFew = std::max(1, LaneSums::kLanes / 8);
/// Fewer groups, as most live calls have, leave too few for another one.
constexpr std::size_t kLeastGroups = 8;

/// @param leaves   those that are to be tried again, and the last few that search still
/// @param goes_on  with what was left
/// @return those that are left
template <class Search>
Mask<Real> fit_group(const FitJob& job, const LaneGroup& group, LaneWorkspace& workspace,
                     bool leaves, bool goes_on) {
  const FitOptions& options = *job.options;
  LaneSums pixels(workspace, job.roi_px, options.integrated);
  group.load(pixels);
  FitInputOf<Real> input;
  input.start = group.start();
  BoundsOf<Real> bounds;
  if constexpr (Search::kSearchesLevels) {
    if (job.levels != nullptr) input.levels = group.levels();
    group.add_limits(pixels, bounds, input);
  }
  auto result = bad_input<LocalizationOf<Real>>();
  if (goes_on) result = group.results();
  const auto any_of = [](const Mask<Real>& mask) { return any(mask); };
  const auto too_few = [&](const Mask<Real>& mask) {
    return leaves && any(mask) && count_of(mask) <= kFew;
  };
  const bool detailed = job.details != nullptr;
  CovarianceOf<Search> covariance;
  Mask<Real> fits = Mask<Real>(true), left = Mask<Real>(false);
  for (bool is_next = goes_on; any(fits); is_next = true) {
    SpotFit<Search> fit;
    fit.begin(fits, pixels.summary(), input, job.roi_px, options, is_next, result);
    search(pixels, fit, options, any_of, too_few);
    CovarianceOf<Search> of_try;
    const LocalizationOf<Real> found = finish(pixels, fit, options, detailed ? &of_try : nullptr);
    result = where(fits, where(fit.left(), fit.standing(), found), result);
    if (detailed) covariance = all(fits) ? of_try : where(fits, of_try, covariance);
    fits = fit.tries_again();
    left = fit.left() || fits;
    if (leaves) break;
  }
  group.store(result);
  if (detailed) group.store_details(covariance);
  return left;
}

/// Batches do not wait for the slowest of each group: where few of one search still, they are left
/// until there are enough of them for a group of their own.
template <class Search>
void fit_all(const FitJob& job, LaneWorkspace& workspace) {
  std::size_t left[2 * kLanes];
  std::size_t left_count = 0;
  const bool leaves = job.count >= kLeastGroups * kLanes;
  const auto go_on = [&] {
    const LaneGroup group(job, {left, left_count});
    fit_group<Search>(job, group, workspace, false, true);
    left_count -= group.count();
    std::copy_n(left + group.count(), left_count, left);
  };
  for (std::size_t first = 0; first < job.count; first += kLanes) {
    const bool is_last = left_count == 0 && first + kLanes >= job.count;
    const LaneGroup group(job, first);
    const Mask<Real> later = fit_group<Search>(job, group, workspace, leaves && !is_last, false);
    alignas(64) float is_left[kLanes];
    where(later, Real(1.0f), Real(0.0f)).store(is_left);
    group.for_each_roi([&](std::size_t lane, std::size_t i) {
      if (is_left[lane] > 0) left[left_count++] = i;
    });
    if (left_count >= kLanes) go_on();
  }
  if (left_count > 0) go_on();
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
