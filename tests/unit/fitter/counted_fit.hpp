// SPDX-License-Identifier: MIT
// A fit by the shared mathematics, over the sums of the CPU back end, whose evaluations are counted
// and which is given up after too many: so a search without end fails a test and does not hang it.
#pragma once

#include <hwy/highway.h>

#include <memory>

#include "fitter/circular_gaussian.hpp"
#include "fitter/cpu/roi_sums-inl.hpp"
#include "fitter/elliptical_gaussian.hpp"
#include "fitter/fit_spot.hpp"

HWY_BEFORE_NAMESPACE();
namespace driftd::test::HWY_NAMESPACE {

struct CountedFit {
  int searches = 0;          ///< one, or two: a warm start that leads nowhere, then a cold one
  int most_evaluations = 0;  ///< of a search
  bool ended = false;
  fitter::Localization result = {};
};

template <class Search, class Sums>
CountedFit count_evaluations(Sums& pixels, const fitter::FitInput& input,
                             const fitter::FitOptions& options, int give_up_after) {
  using Phase = typename fitter::SpotFit<Search>::Phase;
  CountedFit counted;
  const auto all_zero = std::make_unique<fitter::SpotFit<Search>>();
  fitter::SpotFit<Search>& fit = *all_zero;
  fit.begin(pixels.summary(), input, pixels.side(), options);
  if constexpr (Search::kWeighs) {
    if (input.variances != nullptr) pixels.load_map(input.variances, fit.domain().noise);
    if (!pixels.summary().usable) fit.refuse();
  }
  while (fit.phase() != Phase::Done) {
    if (fit.phase() == Phase::NeedsStart) fit.start(fitter::cold_start(pixels), options);
    ++counted.searches;
    int evaluations = 0;
    while (fit.phase() == Phase::Searching) {
      typename Search::Parameters& p = fit.trial();
      typename Search::Evaluation at;
      Search::prepare(pixels.set_profile(Search::profile(p)), pixels.summary(), fit.domain(), p,
                      at);
      Search::linearize(pixels, fit.domain(), p, at);
      counted.most_evaluations = std::max(counted.most_evaluations, ++evaluations);
      if (evaluations > give_up_after) return counted;
      fit.advance(at, options);
    }
    const auto& minimum = fit.minimum();
    pixels.set_profile(Search::profile(minimum.parameters));
    fit.finish(fitter::conclude<Search>(pixels, fit.domain(), minimum, options), options);
  }
  counted.ended = true;
  counted.result = fit.result();
  return counted;
}

/// ROI `index` of a batch of f32 pixels.
inline CountedFit counted_fit(const fitter::Batch& batch, std::size_t index,
                              const fitter::FitOptions& options, int give_up_after) {
  namespace hn = hwy::HWY_NAMESPACE;
  using fitter::CircularGaussian;
  using fitter::EllipticalGaussian;
  const auto side = static_cast<std::size_t>(batch.roi_px);
  const std::size_t area = side * side;
  const auto workspace = std::make_unique<fitter::cpu::Workspace>();
  fitter::cpu::HWY_NAMESPACE::RoiSums<hn::CappedTag<float, 16>, 0> pixels;
  pixels.attach(*workspace, batch.roi_px);
  pixels.load(static_cast<const float*>(batch.pixels) + index * area, options.saturation_adu);
  fitter::FitInput input;
  if (batch.starts != nullptr) input.start = batch.starts[index];
  if (batch.levels != nullptr) input.levels = batch.levels[index];
  if (batch.bounds != nullptr) input.bounds = batch.bounds + index;
  if (batch.variances != nullptr) input.variances = batch.variances + index * area;
  const auto with = [&]<template <class> class Search>() {
    return options.model == fitter::Model::CircularGaussian
               ? count_evaluations<Search<CircularGaussian>>(pixels, input, options, give_up_after)
               : count_evaluations<Search<EllipticalGaussian>>(pixels, input, options,
                                                               give_up_after);
  };
  if (options.estimator == fitter::Estimator::ImplicitLeastSquares)
    return with.template operator()<fitter::ImplicitLeastSquares>();
  return with.template operator()<fitter::FullSearch>();
}

}  // namespace driftd::test::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
