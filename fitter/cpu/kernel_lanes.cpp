// SPDX-License-Identifier: MIT
// Fits one to a lane, in groups that stay in step.
#include <algorithm>
#include <cstdint>

#include "fitter/choice.hpp"
#include "fitter/cpu/kernel.hpp"
#include "fitter/fit_spot.hpp"
#include "fitter/pixel_type.hpp"

#if HWY_TARGET != HWY_SCALAR  // whose one lane gains nothing
#include "fitter/cpu/lane_sums.hpp"

HWY_BEFORE_NAMESPACE();
namespace driftd::fitter::cpu::HWY_NAMESPACE {
namespace {

using Real = LaneSums::Real;
constexpr int kLanes = LaneSums::kLanes;

/// The ROIs of a group: lane k fits number first + k, the lanes beyond the last ROI that one again.
class Group {
 public:
  Group(const FitJob& job, std::size_t first) : job_(job) {
    for (std::size_t k = 0; k < std::size_t{kLanes}; ++k)
      index_[k] = std::min(first + k, job.count - 1);
  }

  void load(LaneSums& pixels) const {
    with_pixels(job_.type, job_.pixels, [&]<class T>(const T*) { load_as<T>(pixels); });
  }

  void load_map(LaneSums& pixels) const {
    const float* maps[kLanes];
    const auto side = static_cast<std::size_t>(job_.roi_px);
    for (int k = 0; k < kLanes; ++k) maps[k] = job_.variances + index_[k] * side * side;
    pixels.load_map(maps, *job_.options);
  }

  StartOf<Real> start() const {
    if (job_.starts == nullptr) return {};
    return {gathered([&](std::size_t i) { return job_.starts[i].x_px; }),
            gathered([&](std::size_t i) { return job_.starts[i].y_px; }),
            gathered([&](std::size_t i) { return job_.starts[i].sigma_x_px; }),
            gathered([&](std::size_t i) { return job_.starts[i].sigma_y_px; })};
  }

  StartLevelsOf<Real> levels() const {
    return {gathered([&](std::size_t i) { return job_.levels[i].amplitude_adu; }),
            gathered([&](std::size_t i) { return job_.levels[i].background_adu; })};
  }

  BoundsOf<Real> bounds() const {
    BoundsOf<Real> b;
    for (int j = 0; j < kParameters; ++j) {
      b.lower[j] = gathered([&](std::size_t i) { return job_.bounds[i].lower[j]; });
      b.upper[j] = gathered([&](std::size_t i) { return job_.bounds[i].upper[j]; });
    }
    return b;
  }

  void store(const LocalizationOf<Real>& l) const {
    alignas(64) float of[kLocalizationNumbers][kLanes];
    int row = 0;
    for_each_number([&](const Real& number) { number.store(of[row++]); }, l);
    for (std::size_t k = 0; k < std::size_t{kLanes} && (k == 0 || index_[k] > index_[k - 1]); ++k) {
      LocalizationOf<float> one;
      row = 0;
      for_each_number([&](float& number) { number = of[row++][k]; }, one);
      job_.results[index_[k]] = as_localization(one);
    }
  }

 private:
  template <class T>
  void load_as(LaneSums& pixels) const {
    const T* rois[kLanes];
    for (int k = 0; k < kLanes; ++k)
      rois[k] = reinterpret_cast<const T*>(static_cast<const unsigned char*>(job_.pixels) +
                                           index_[k] * job_.stride_bytes);
    pixels.load(rois, job_.options->saturation_adu);
  }

  template <class OfRoi>
  Real gathered(const OfRoi& of_roi) const {
    alignas(64) float values[kLanes];
    for (int k = 0; k < kLanes; ++k) values[k] = of_roi(index_[k]);
    return Real::load(values);
  }

  const FitJob& job_;
  std::size_t index_[kLanes];
};

template <class Search>
void fit_all(const FitJob& job, LaneWorkspace& workspace) {
  for (std::size_t first = 0; first < job.count; first += kLanes) {
    const Group group(job, first);
    LaneSums pixels(workspace, job.roi_px, job.options->integrated);
    group.load(pixels);
    FitInputOf<Real> input;
    input.start = group.start();
    BoundsOf<Real> bounds;
    if constexpr (Search::kSearchesLevels) {
      if (job.levels != nullptr) input.levels = group.levels();
      if (job.bounds != nullptr) {
        bounds = group.bounds();
        input.bounds = &bounds;
      }
      if (job.variances != nullptr) {
        group.load_map(pixels);
        input.variances = job.variances;
      }
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
  return {hwy::TargetName(HWY_TARGET), 1, &fit_across_lanes, nullptr, &search_swarms};
#else
  return {hwy::TargetName(HWY_TARGET), kLanes, &fit_across_lanes, &fit_in_lanes, &search_swarms};
#endif
}

}  // namespace driftd::fitter::cpu::HWY_NAMESPACE
