// SPDX-License-Identifier: MIT
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "fitter/cpu/kernel.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h comes first: it includes this file once for every target
#include <hwy/highway.h>

#include <cstdint>

#include "fitter/cpu/kernel.hpp"
#include "fitter/cpu/roi_sums-inl.hpp"
#include "fitter/fit_spot.hpp"
#include "fitter/options.hpp"

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

/// Everything between two evaluations. False: the fit is done.
template <class Sums>
bool searching(Flight<Sums>& f, const FitOptions& options) {
  using Phase = typename SpotFit<Model>::Phase;
  if (f.fit.phase() == Phase::AtMinimum) {
    const Minimum<Model>& minimum = f.fit.minimum();
    if (!minimum.evaluated_last) f.pixels.set_profile(Model::profile(minimum.parameters));
    f.fit.finish(conclude<Model>(f.pixels, minimum, options));
  }
  if (f.fit.phase() == Phase::NeedsStart)
    f.fit.start(cold_start(f.pixels), f.pixels.side(), options);
  return f.fit.phase() == Phase::Searching;
}

template <class T, class Sums>
void fit_all(const FitJob& job, Workspace* workspaces) {
  const FitOptions& options = *job.options;
  const float saturation = options.saturation_adu;
  const auto* bytes = static_cast<const unsigned char*>(job.pixels);
  std::size_t next = 0;
  const auto launch = [&](Flight<Sums>& f) {
    while (next < job.count) {
      f.index = next++;
      f.pixels.load(reinterpret_cast<const T*>(bytes + f.index * job.stride_bytes), saturation);
      const Start start = job.starts != nullptr ? job.starts[f.index] : Start{};
      f.fit.begin(f.pixels.summary(), start, job.roi_px, options);
      if (searching(f, options)) return true;
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
      f.fit.advance(f.at, options);
      if (!searching(f, options)) {
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
