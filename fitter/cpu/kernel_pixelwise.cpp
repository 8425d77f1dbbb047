// SPDX-License-Identifier: MIT
// Pixel-by-pixel fits, one to a lane, in groups that stay in step.
#include "fitter/cpu/kernel.hpp"
#include "fitter/fit_details.hpp"
#include "fitter/pixelwise_choice.hpp"

#if HWY_TARGET != HWY_SCALAR
#include "fitter/cpu/lane_group.hpp"
#include "fitter/cpu/lane_sums.hpp"

HWY_BEFORE_NAMESPACE();
namespace driftd::fitter::cpu::HWY_NAMESPACE {
namespace {

using Pixels = LaneSumsIn<PixelwiseWorkspace>;
using Real = Pixels::Real;

/// The result in one lane of a group.
template <int n>
class ResultsByLane {
 public:
  explicit ResultsByLane(const PixelwiseResult<n, Real>& group) {
    int row = 0;
    PixelwiseResult<n, Real> copy = group;
    for_each_number([&](Real& number) { number.store(of_[row++]); }, copy);
  }

  PixelwiseResult<n, float> operator[](std::size_t lane) const {
    PixelwiseResult<n, float> one;
    int row = 0;
    for_each_number([&](float& number) { number = of_[row++][lane]; }, one);
    return one;
  }

 private:
  static constexpr int kNumbers = n + n * (n + 1) / 2 + 3;
  alignas(64) float of_[std::size_t{kNumbers}][Pixels::kLanes];
};

template <class Search>
void fit_by_pixels(const FitJob& job, PixelwiseWorkspace& workspace) {
  for (std::size_t first = 0; first < job.count; first += Pixels::kLanes) {
    const LaneGroup group(job, first);
    Pixels pixels(workspace, job.roi_px, job.options->integrated);
    group.load(pixels);
    group.load_places(pixels);
    FitInputOf<Real> input;
    BoundsOf<Real> bounds;
    group.add_limits(pixels, bounds, input);
    input.start = group.start();
    if (job.levels != nullptr) input.levels = group.levels();
    if (job.angles_rad != nullptr) input.angle_rad = group.angles();
    if (job.angle_bounds != nullptr) input.angle_bounds = group.angle_bounds();
    const ResultsByLane found(fit_pixelwise<Search>(pixels, input, *job.options));
    group.for_each_roi([&](std::size_t lane, std::size_t i) {
      const float start = job.angles_rad != nullptr ? job.angles_rad[i] : 0.0f;
      const AngleBounds of = job.angle_bounds != nullptr ? job.angle_bounds[i] : AngleBounds();
      FitDetails* const details = job.details != nullptr ? job.details + i : nullptr;
      job.results[i] = as_localization<typename Search::Model>(found[lane], start, of, details);
    });
  }
}

}  // namespace

void fit_pixelwise(const FitJob& job, PixelwiseWorkspace& workspace) {
  with_pixelwise_search<Real>(*job.options, job.bounds_axes,
                              [&]<class Search>() { fit_by_pixels<Search>(job, workspace); });
}

}  // namespace driftd::fitter::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
