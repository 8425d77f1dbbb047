// SPDX-License-Identifier: MIT
// Fits that are left for later, as batches leave the slowest, and go on from what was kept of them.
#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "support/catch.hpp"
#include "unit/fitter/counted_fit.hpp"
#include "unit/fitter/fits.hpp"
#include "unit/fitter/hard_images.hpp"

namespace driftd {
namespace {

using fitter::Estimator;
using fitter::FitOptions;
using fitter::Localization;
using fitter::Model;

bool same_bits(const Localization& a, const Localization& b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

struct LeftFit {
  Localization result;
  int evaluations = 0, most_of_a_search = 0;
  int times_left = 0;
};

/// The first try is left after so many evaluations, and then goes on to its end.
template <class Search, class Sums>
LeftFit fit_left_after(int evaluations, Sums& pixels, const fitter::FitInput& input,
                       const FitOptions& options) {
  LeftFit found;
  found.result = fitter::as_localization(fitter::bad_input<fitter::LocalizationOf<float>>());
  bool is_next = false;
  int of_search = 0;
  for (bool fits = true; fits;) {
    const auto fit = std::make_unique<fitter::SpotFit<Search>>();
    fit->begin(true, pixels.summary(), input, pixels.side(), options, is_next,
               fitter::numbers_of(found.result));
    fitter::search(
        pixels, *fit, options, [](bool mask) { return mask; },
        [&](bool searches) {
          ++found.evaluations;
          ++of_search;
          return searches && !is_next && of_search == evaluations;
        });
    if (fit->left()) {
      ++found.times_left;
      found.result = fitter::as_localization(fit->standing());
    } else if (fit->at_minimum()) {
      found.result = fitter::as_localization(fitter::finish(pixels, *fit, options));
    }
    found.most_of_a_search = std::max(found.most_of_a_search, of_search);
    if (!fit->left()) of_search = 0;
    fits = fit->left() || fit->tries_again();
    is_next = true;
  }
  return found;
}

FitOptions any_options() {
  FitOptions options;
  options.model = GENERATE(Model::CircularGaussian, Model::EllipticalGaussian);
  options.estimator = GENERATE(Estimator::ImplicitLeastSquares, Estimator::LeastSquares,
                               Estimator::WeightedLeastSquares, Estimator::PoissonLikelihood);
  return options;
}

TEST_CASE("A fit that is left, whenever that is, ends with the same bits") {
  const FitOptions options = any_options();
  const int side = GENERATE(5, 9, 12);
  const test::HardImages images = test::hard_images(side, 300 + static_cast<unsigned>(side));
  int left = 0;
  for (const test::HardInput& given : test::hard_inputs(images, options, 11)) {
    const int promised = fitter::most_evaluations(given.options.max_iterations);
    const fitter::Batch batch = given.batch(images);
    for (std::size_t i = 0; i < images.kinds.size(); ++i) {
      const auto check = [&]<class Search>(auto& pixels, const auto& input) {
        const LeftFit whole = fit_left_after<Search>(0, pixels, input, given.options);
        for (const int after : {1, 2, 3, 5, 9}) {
          const LeftFit there = fit_left_after<Search>(after, pixels, input, given.options);
          CAPTURE(images.kinds[i], after);
          REQUIRE(same_bits(whole.result, there.result));
          REQUIRE(there.evaluations == whole.evaluations + there.times_left);
          REQUIRE(there.most_of_a_search <= promised);
          left += there.times_left;
        }
      };
      test::with_roi(batch, i, given.options, check);
    }
  }
  CHECK(left > 100);
}

/// Half of them hardly spots, so that they take long, or are tried again.
std::vector<float> easy_and_hard(int side, std::size_t count) {
  const auto spots = test::simulate_spots<float>(side, 2000, 400, count, 31);
  const test::HardImages hard = test::hard_images(side, 32);
  const auto area = static_cast<std::ptrdiff_t>(side) * side;
  std::vector<float> pixels = spots.pixels;
  for (std::size_t i = 0; i < count; i += 2) {
    const std::size_t from = i / 2 % hard.kinds.size();
    std::copy_n(hard.pixels.begin() + static_cast<std::ptrdiff_t>(from) * area, area,
                pixels.begin() + static_cast<std::ptrdiff_t>(i) * area);
  }
  return pixels;
}

TEST_CASE("Slow and quick fits of a batch have the bits that each has alone, in any order") {
  constexpr int kSide = 9;
  constexpr std::size_t kCount = 301, kArea = 81;
  FitOptions options = any_options();
  options.spots_only = GENERATE(true, false);
  const auto pixels = easy_and_hard(kSide, kCount);
  std::vector<float> variances;
  for (std::size_t i = 0; i < kCount; ++i) {
    variances.insert(variances.end(), kArea, 4 + static_cast<float>(i % 13));
    variances.back() = 6;
  }
  std::vector<fitter::Start> starts(kCount, {4, 4, 1.3f, 1.3f});
  for (std::size_t i = 0; i < kCount; i += 5) starts[i] = {0, 8, 0.5f, 0.5f};
  fitter::Batch batch = {pixels.data(), fitter::PixelType::F32, kSide, kCount};
  if (options.estimator == Estimator::WeightedLeastSquares) batch.variances = variances.data();
  if (GENERATE(true, false)) batch.starts = starts.data();
  std::vector<Localization> together(kCount);
  fitter::fit_batch_cpu(batch, options, together, 1);
  for (std::size_t i = 0; i < kCount; ++i) {
    fitter::Batch alone = fitter::part_of(batch, i, 1);
    Localization one;
    fitter::fit_batch_cpu(alone, options, {&one, 1}, 1);
    CAPTURE(i);
    REQUIRE(same_bits(one, together[i]));
  }
  // Every seventh after another, so that others wait for one another.
  std::vector<float> mixed;
  std::vector<float> mixed_variances;
  std::vector<fitter::Start> mixed_starts;
  std::vector<std::size_t> numbers;
  for (std::size_t k = 0; k < kCount; ++k) {
    const std::size_t i = k * 7 % kCount;
    numbers.push_back(i);
    mixed_starts.push_back(starts[i]);
    mixed_variances.insert(mixed_variances.end(),
                           variances.begin() + static_cast<std::ptrdiff_t>(i * kArea),
                           variances.begin() + static_cast<std::ptrdiff_t>((i + 1) * kArea));
    mixed.insert(mixed.end(), pixels.begin() + static_cast<std::ptrdiff_t>(i * kArea),
                 pixels.begin() + static_cast<std::ptrdiff_t>((i + 1) * kArea));
  }
  fitter::Batch other = batch;
  other.pixels = mixed.data();
  if (batch.starts != nullptr) other.starts = mixed_starts.data();
  if (batch.variances != nullptr) other.variances = mixed_variances.data();
  std::vector<Localization> in_other_order(kCount);
  fitter::fit_batch_cpu(other, options, in_other_order, 1);
  for (std::size_t k = 0; k < kCount; ++k)
    REQUIRE(same_bits(in_other_order[k], together[numbers[k]]));
}

}  // namespace
}  // namespace driftd
