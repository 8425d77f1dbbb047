// SPDX-License-Identifier: MIT
// A fit by the shared mathematics, over the sums of the CPU back end, whose evaluations are counted
// and which is given up after too many: so a search without end fails a test and does not hang it.
#pragma once

#include <algorithm>
#include <memory>

#include "fitter/cpu/roi_sums.hpp"
#include "fitter/dispatch.hpp"
#include "fitter/fit_spot.hpp"

namespace driftd::test {

struct CountedFit {
  int searches = 0;          ///< one, or two: a warm start that leads nowhere, then a cold one
  int most_evaluations = 0;  ///< of a search
  bool ended = false;
  fitter::Localization result = {};
};

template <class Search, class Sums>
CountedFit count_evaluations(Sums& pixels, const fitter::FitInput& input,
                             const fitter::FitOptions& options, int give_up_after) {
  CountedFit counted;
  const auto all_zero = std::make_unique<fitter::SpotFit<Search>>();
  fitter::SpotFit<Search>& fit = *all_zero;
  do {
    fit.begin(true, pixels.summary(), input, pixels.side(), options, counted.searches > 0);
    if (fit.needs_start()) fit.start(fitter::cold_start(pixels), options);
    int evaluations = 0;
    while (fit.searching()) {
      const auto at = fitter::evaluate(pixels, fit);
      counted.most_evaluations = std::max(counted.most_evaluations, ++evaluations);
      if (evaluations > give_up_after) return counted;
      fit.advance(at, options);
    }
    if (fit.at_minimum()) {
      ++counted.searches;
      counted.result = fitter::as_localization(fitter::finish(pixels, fit, options));
    } else {
      counted.result = fitter::as_localization(fitter::bad_input<fitter::LocalizationOf<float>>());
    }
  } while (fit.tries_again());
  counted.ended = true;
  return counted;
}

/// action.operator()<Search>(pixels, input) with ROI `index` of a batch of f32 pixels.
template <class Action>
auto with_roi(const fitter::Batch& batch, std::size_t index, const fitter::FitOptions& options,
              const Action& action) {
  namespace target = fitter::cpu::HWY_NAMESPACE;
  const auto side = static_cast<std::size_t>(batch.roi_px);
  const std::size_t area = side * side;
  const auto workspace = std::make_unique<fitter::cpu::Workspace>();
  target::RoiSums<target::hn::CappedTag<float, 16>, 0> pixels;
  pixels.attach(*workspace, batch.roi_px, options.integrated);
  pixels.load(static_cast<const float*>(batch.pixels) + index * area, options.saturation_adu);
  fitter::FitInput input;
  if (batch.starts != nullptr) input.start = batch.starts[index];
  if (batch.levels != nullptr) input.levels = batch.levels[index];
  if (batch.bounds != nullptr) input.bounds = batch.bounds + index;
  const bool weighs = options.estimator != fitter::Estimator::ImplicitLeastSquares;
  if (weighs && batch.variances != nullptr) {
    input.variances = batch.variances + index * area;
    pixels.load_map(input.variances, options);
  }
  return fitter::with_search<float>(
      options, [&]<class Search>() { return action.template operator()<Search>(pixels, input); });
}

inline CountedFit counted_fit(const fitter::Batch& batch, std::size_t index,
                              const fitter::FitOptions& options, int give_up_after) {
  return with_roi(batch, index, options, [&]<class Search>(auto& pixels, const auto& input) {
    return count_evaluations<Search>(pixels, input, options, give_up_after);
  });
}

}  // namespace driftd::test
