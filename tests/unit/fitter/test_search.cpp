// SPDX-License-Identifier: MIT
// What every search owes its caller: it ends, within the evaluations that fitter.hpp states, and a
// likelihood finds the spot that it starts near.
#include <algorithm>
#include <string>

#include "fitter/options.hpp"
#include "support/catch.hpp"
#include "support/instrumented.hpp"
#include "unit/fitter/counted_fit.hpp"
#include "unit/fitter/far_starts.hpp"
#include "unit/fitter/hard_images.hpp"

namespace driftd {
namespace {

using fitter::Estimator;
using fitter::FitOptions;
using fitter::Model;

/// Every so many images one is searched: an instrumented search takes a hundred times as long.
constexpr std::size_t kEach = test::kInstrumented ? 4 : 1;

FitOptions any_search() {
  FitOptions options;
  options.model = GENERATE(Model::CircularGaussian, Model::EllipticalGaussian);
  options.estimator = GENERATE(Estimator::ImplicitLeastSquares, Estimator::LeastSquares,
                               Estimator::WeightedLeastSquares, Estimator::PoissonLikelihood);
  return options;
}

void check_ends(const test::HardImages& images, const test::HardInput& input, std::size_t image) {
  const int promised = fitter::most_evaluations(input.options.max_iterations);
  const auto fit = test::counted_fit(input.batch(images), image, input.options, promised);
  if (fit.ended && fit.searches <= 2 && fit.result.iterations <= input.options.max_iterations)
    return;
  FAIL("side " << images.side << ", " << images.kinds[image] << ": " << fit.searches
               << " searches, " << fit.most_evaluations << " evaluations, iterations "
               << int{fit.result.iterations} << (fit.ended ? "" : ", and no end"));
}

TEST_CASE("Every search ends within the evaluations promised, whatever the pixels") {
  const FitOptions options = any_search();
  const int max_iterations = GENERATE(1, 20, 46, 255);
  for (const int side : {4, 5, 7, 9, 12, 16}) {
    const test::HardImages images = test::hard_images(side, 100 + static_cast<unsigned>(side));
    for (test::HardInput input : test::hard_inputs(images, options, 7)) {
      input.options.max_iterations = max_iterations;
      for (auto i = static_cast<std::size_t>(side + max_iterations) % kEach;
           i < images.kinds.size(); i += kEach)
        check_ends(images, input, i);
    }
  }
}

TEST_CASE("So it does at every size") {
  const FitOptions options = any_search();
  constexpr int kIterations[] = {255, 46, 200};
  for (int side = fitter::kMinRoiPx; side <= fitter::kMaxRoiPx; ++side) {
    const auto number = static_cast<std::size_t>(side);
    const test::HardImages images = test::hard_images(side, 200 + number);
    const auto inputs = test::hard_inputs(images, options, number);
    test::HardInput input = inputs[number % inputs.size()];
    input.options.max_iterations = kIterations[number % 3];
    for (std::size_t i = number % (5 * kEach); i < images.kinds.size(); i += 5 * kEach)
      check_ends(images, input, i);
  }
}

TEST_CASE("More iterations than a result can count are refused") {
  FitOptions options;
  options.max_iterations = 256;
  CHECK_THROWS_WITH(fitter::check_options(options), contains("max_iterations is 256"));
  options.max_iterations = 10'000;
  CHECK_THROWS_AS(fitter::check_options(options), fitter::FitterError);
}

TEST_CASE("A likelihood fit reaches its spot from three pixels away") {
  for (const double distance_px : {0.0, 1.0, 2.0, 3.0}) {
    for (const test::FarStarts& far : test::all_far_starts(distance_px)) {
      const test::FarSample sample = test::draw_far(far, 200);
      std::vector<fitter::Localization> fits(sample.truth.size());
      fitter::fit_batch_cpu(sample.batch(), sample.options, fits);
      INFO(distance_px << " px off, sigma " << far.sigma_px << " px, " << far.photons
                       << " photons, levels " << static_cast<int>(far.with) << ", model "
                       << static_cast<int>(far.model));
      CHECK(sample.reached(fits) >= test::kLeastReached);
    }
  }
}

TEST_CASE("An amplitude of 0 that is fixed or a bound stays 0") {
  test::FarSample sample =
      test::draw_far({Model::CircularGaussian, 1.3, 3000, 0.5, test::StartsWith::NoAmplitude}, 20);
  const bool fixed = GENERATE(true, false);
  if (fixed) {
    sample.options.fixed = bit(fitter::Parameter::Amplitude);
  } else {
    sample.options.bounds.upper[static_cast<int>(fitter::Parameter::Amplitude)] = 0;
  }
  std::vector<fitter::Localization> fits(sample.truth.size());
  fitter::fit_batch_cpu(sample.batch(), sample.options, fits);
  for (const auto& fit : fits) CHECK(fit.amplitude_adu == 0);
}

}  // namespace
}  // namespace driftd
