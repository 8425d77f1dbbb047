// SPDX-License-Identifier: MIT
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "fitter/cpu/kernel.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h comes first: it includes this file once for every target
#include <hwy/highway.h>

#include <cstdint>
#include <limits>

#include "fitter/cpu/kernel.hpp"
#include "fitter/cpu/roi_sums-inl.hpp"
#include "fitter/fit_spot.hpp"

HWY_BEFORE_NAMESPACE();
namespace driftd::fitter::cpu::HWY_NAMESPACE {
namespace {

using Model = CircularGaussian;

/// A fit under way. Several are advanced side by side, because one alone is a long chain of
/// dependent operations; the processor overlaps the chains of neighbours.
template <class Sums>
struct Flight {
  Sums pixels;
  SpotFit<Model> fit;
  Evaluation<Model::kShape> at;
  ProfileMoments moments;
  std::size_t index;
};

template <class Sums>
void evaluate(Flight<Sums>* flights, int count) {
  for (int k = 0; k < count; ++k) {
    flights[k].moments = flights[k].pixels.set_profile(Model::profile(flights[k].fit.trial()));
  }
  for (int k = 0; k < count; ++k) {
    Flight<Sums>& f = flights[k];
    eliminate_amplitudes<Model>(f.moments, f.fit.trial(), f.pixels.side() * f.pixels.side(),
                                f.pixels.summary().sum, f.fit.min_beta(), f.at);
  }
  for (int k = 0; k < count; ++k) {
    Flight<Sums>& f = flights[k];
    linearize<Model>(f.pixels.residuals(f.at.alpha, f.at.beta), f.fit.trial(), f.at);
  }
}

template <class T, class Sums>
void fit_all(const FitJob& job, Workspace* workspaces) {
  const FitOptions& options = *job.options;
  const float saturation = options.saturation_adu == FitOptions().saturation_adu
                               ? std::numeric_limits<float>::infinity()
                               : static_cast<float>(options.saturation_adu);
  const auto* bytes = static_cast<const unsigned char*>(job.pixels);
  std::size_t next = 0;
  const auto launch = [&](Flight<Sums>& f) {
    while (next < job.count) {
      f.index = next++;
      f.pixels.load(reinterpret_cast<const T*>(bytes + f.index * job.stride_bytes), saturation);
      const Start start = job.starts != nullptr ? job.starts[f.index] : Start{};
      if (f.fit.begin(f.pixels, start, options)) return true;
      job.results[f.index] = f.fit.result();
    }
    return false;
  };

  Flight<Sums> flights[kFlights];
  int flying = 0;
  for (int k = 0; k < kFlights; ++k) {
    flights[flying].pixels.attach(workspaces[k], job.roi_px);
    if (launch(flights[flying])) ++flying;
  }
  while (flying > 0) {
    evaluate(flights, flying);
    for (int k = 0; k < flying;) {
      Flight<Sums>& f = flights[k];
      if (f.fit.advance(f.pixels, f.at, options)) {
        job.results[f.index] = f.fit.result();
        if (!launch(f)) {
          f = flights[--flying];  // evaluated already: advanced next
          continue;
        }
      }
      ++k;
    }
  }
}

template <class Sums>
void fit_typed(const FitJob& job, Workspace* workspaces) {
  switch (job.type) {
    case PixelType::U8:
      return fit_all<std::uint8_t, Sums>(job, workspaces);
    case PixelType::U16:
      return fit_all<std::uint16_t, Sums>(job, workspaces);
    case PixelType::F32:
      return fit_all<float, Sums>(job, workspaces);
  }
}

}  // namespace

void fit_rois(const FitJob& job, Workspace* workspaces) {
  // Narrow ROIs would leave most lanes of a wide vector empty; loops over a number of vectors that
  // the compiler does not know take twice the time.
  using Narrow = hn::CappedTag<float, kMaxLanes / 2>;
  using Wide = hn::CappedTag<float, kMaxLanes>;
  const auto width = static_cast<std::size_t>(job.roi_px);
  if (width <= hn::MaxLanes(Narrow())) return fit_typed<RoiSums<Narrow, 1>>(job, workspaces);
  if (width <= hn::MaxLanes(Wide())) return fit_typed<RoiSums<Wide, 1>>(job, workspaces);
  if (width <= 2 * hn::MaxLanes(Wide())) return fit_typed<RoiSums<Wide, 2>>(job, workspaces);
  if (width <= 4 * hn::MaxLanes(Wide())) return fit_typed<RoiSums<Wide, 4>>(job, workspaces);
  fit_typed<RoiSums<Wide, 0>>(job, workspaces);
}

const char* target_name() {
  return hwy::TargetName(HWY_TARGET);
}

}  // namespace driftd::fitter::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace driftd::fitter::cpu {

HWY_EXPORT(fit_rois);
HWY_EXPORT(target_name);

ChosenKernel choose_kernel() {
  hwy::ChosenTarget& chosen = hwy::GetChosenTarget();
  if (!chosen.IsInitialized()) chosen.Update(hwy::SupportedTargets());
  return {&HWY_DYNAMIC_DISPATCH(fit_rois), HWY_DYNAMIC_DISPATCH(target_name)()};
}

}  // namespace driftd::fitter::cpu
#endif  // HWY_ONCE
