// SPDX-License-Identifier: MIT
// Fits with their pixels across the lanes: the faster way for few ROIs, and for large ones. Each
// kind of search has a file of its own, so that they compile side by side.
#pragma once

#include <cstdint>

#include "fitter/cpu/kernel.hpp"
#include "fitter/cpu/roi_sums.hpp"
#include "fitter/dispatch.hpp"
#include "fitter/fit_details.hpp"
#include "fitter/fit_spot.hpp"

HWY_BEFORE_NAMESPACE();
namespace driftd::fitter::cpu::HWY_NAMESPACE {

/// A fit under way. Several are advanced side by side, because one alone is a long chain of
/// dependent operations; the processor overlaps the chains of neighbours.
template <class Search, class Sums>
struct Flight {
  Sums pixels;
  SpotFit<Search> fit;
  typename Search::Prepared prepared;
  typename Search::Evaluation at;
  FitInput input;
  std::size_t index;
};

template <class Search, class Sums>
void evaluate_all(Flight<Search, Sums>* flights, int count) {
  for (int k = 0; k < count; ++k) {
    Flight<Search, Sums>& f = flights[k];
    const auto& trial = f.fit.trial();
    f.pixels.set_profile(Search::profile(trial), Search::wants_moments(f.fit.domain(), trial));
  }
  for (int k = 0; k < count; ++k) {
    Flight<Search, Sums>& f = flights[k];
    f.prepared =
        Search::prepare(f.pixels.moments(), f.pixels.summary(), f.fit.domain(), f.fit.trial());
  }
  for (int k = 0; k < count; ++k) {
    Flight<Search, Sums>& f = flights[k];
    f.at = Search::linearize(f.pixels, f.fit.domain(), f.fit.trial(), f.prepared);
  }
}

/// Everything between two evaluations. False: the fit is done, and has its result.
template <class Search, class Sums>
bool searching(Flight<Search, Sums>& f, const FitJob& job) {
  const FitOptions& options = *job.options;
  for (;;) {
    if (f.fit.needs_start()) f.fit.start(cold_start(f.pixels), options);
    if (f.fit.searching()) return true;
    auto result = bad_input<LocalizationOf<float>>();
    CovarianceOf<Search> covariance = {};
    if (f.fit.at_minimum())
      result = finish(f.pixels, f.fit, options, job.details != nullptr ? &covariance : nullptr);
    job.results[f.index] = as_localization(result);
    if (job.details != nullptr) set_details(covariance, job.results[f.index], job.details[f.index]);
    if (!f.fit.tries_again()) return false;
    f.fit.begin(true, f.pixels.summary(), f.input, job.roi_px, options, true);
  }
}

inline FitInput input_of(const FitJob& job, std::size_t index) {
  FitInput input;
  if (job.starts != nullptr) input.start = job.starts[index];
  if (job.levels != nullptr) input.levels = job.levels[index];
  if (job.bounds != nullptr) input.bounds = job.bounds + index;
  if (job.variances != nullptr) {
    const auto side = static_cast<std::size_t>(job.roi_px);
    input.variances = job.variances + index * side * side;
  }
  return input;
}

template <class Search, class Sums>
void fit_all(const FitJob& job, Workspace* workspaces) {
  using Flying = Flight<Search, Sums>;
  const FitOptions& options = *job.options;
  std::size_t next = 0;
  const auto launch = [&](Flying& f) {
    while (next < job.count) {
      f.index = next++;
      load_roi(f.pixels, job, f.index);
      f.input = input_of(job, f.index);
      if constexpr (Search::kSearchesLevels)
        if (f.input.variances != nullptr) f.pixels.load_map(f.input.variances, options);
      f.fit.begin(true, f.pixels.summary(), f.input, job.roi_px, options);
      if (searching(f, job)) return true;
    }
    return false;
  };

  Flying flights[kFlights];
  int flying = 0;
  for (int k = 0; k < kFlights; ++k) {
    flights[flying].pixels.attach(workspaces[k], job.roi_px, options.integrated);
    if (launch(flights[flying])) ++flying;
  }
  while (flying > 0) {
    evaluate_all(flights, flying);
    for (int k = 0; k < flying;) {
      Flying& f = flights[k];
      f.fit.advance(f.at, options);
      if (!searching(f, job) && !launch(f)) {
        f = flights[--flying];  // evaluated already: advanced next
        continue;
      }
      ++k;
    }
  }
}

/// @tparam Search  of a model
template <template <SpotModel, class> class Search, class Sums>
void fit_model(const FitJob& job, Workspace* workspaces) {
  with_model(job.options->model,
             [&]<class M>() { fit_all<Search<M, float>, Sums>(job, workspaces); });
}

template <template <SpotModel, class> class Search>
void fit_by(const FitJob& job, Workspace* workspaces) {
  // Narrow ROIs would leave most lanes of a wide vector empty; loops over a number of vectors that
  // the compiler does not know take twice the time. What no side needs with several lanes is not
  // compiled.
  using Narrow = hn::CappedTag<float, kMaxLanes / 2>;
  using Wide = hn::CappedTag<float, kMaxLanes>;
  constexpr int kNarrow = hn::MaxLanes(Narrow()), kWide = hn::MaxLanes(Wide());
  const int width = job.roi_px;
  if (width <= kNarrow) return fit_model<Search, RoiSums<Narrow, 1>>(job, workspaces);
  if constexpr (kWide > kNarrow)
    if (width <= kWide) return fit_model<Search, RoiSums<Wide, 1>>(job, workspaces);
  if (width <= 2 * kWide) return fit_model<Search, RoiSums<Wide, 2>>(job, workspaces);
  if constexpr (kMaxRoiPx > 4 * kWide)
    if (width > 4 * kWide) return fit_model<Search, RoiSums<Wide, 0>>(job, workspaces);
  fit_model<Search, RoiSums<Wide, 4>>(job, workspaces);
}

}  // namespace driftd::fitter::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
