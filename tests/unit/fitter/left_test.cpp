// SPDX-License-Identifier: MIT
// Fits that are left for later, as batches leave the slowest, and go on from what was kept of them.
#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "fitter/choice.hpp"
#include "fitter/cpu/roi_sums.hpp"
#include "fitter/fit_spot.hpp"
#include "support/catch.hpp"
#include "unit/fitter/fits.hpp"
#include "unit/fitter/hard_images.hpp"

namespace driftd {
namespace {

using fitter::Estimator;
using fitter::FitOptions;
using fitter::Localization;
using fitter::Model;
namespace target = fitter::cpu::HWY_NAMESPACE;
using Sums = target::RoiSums<target::hn::CappedTag<float, 16>, 0>;

bool same_bits(const Localization& a, const Localization& b) {
  return std::memcmp(&a, &b, sizeof a) == 0;
}

struct LeftFit {
  Localization result;
  int evaluations = 0;
  int times_left = 0;
};

/// The first try is left after so many evaluations, and then goes on to its end.
template <class Search>
LeftFit fit_left_after(int evaluations, Sums& pixels, const fitter::FitInput& input,
                       const FitOptions& options) {
  LeftFit found;
  found.result = fitter::as_localization(fitter::bad_input<fitter::LocalizationOf<float>>());
  bool is_next = false;
  for (bool fits = true; fits;) {
    const auto fit = std::make_unique<fitter::SpotFit<Search>>();
    fit->begin(true, pixels.summary(), input, pixels.side(), options, is_next,
               fitter::numbers_of(found.result));
    int so_far = 0;
    fitter::search(
        pixels, *fit, options, [](bool mask) { return mask; },
        [&](bool searches) {
          ++found.evaluations;
          return searches && !is_next && ++so_far == evaluations;
        });
    if (fit->left()) {
      ++found.times_left;
      found.result = fitter::as_localization(fit->standing());
    } else if (fit->at_minimum()) {
      found.result = fitter::as_localization(fitter::finish(pixels, *fit, options));
    }
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
  const auto area = static_cast<std::size_t>(side * side);
  const auto workspace = std::make_unique<fitter::cpu::Workspace>();
  int left = 0;
  for (const test::HardInput& given : test::hard_inputs(images, options, 11)) {
    const fitter::Batch batch = given.batch(images);
    for (std::size_t i = 0; i < images.kinds.size(); ++i) {
      Sums pixels;
      pixels.attach(*workspace, side, given.options.integrated);
      pixels.load(images.pixels.data() + i * area, given.options.saturation_adu);
      fitter::FitInput input;
      if (batch.starts != nullptr) input.start = batch.starts[i];
      if (batch.levels != nullptr) input.levels = batch.levels[i];
      if (batch.bounds != nullptr) input.bounds = batch.bounds + i;
      const bool weighs = options.estimator != Estimator::ImplicitLeastSquares;
      if (batch.variances != nullptr && weighs) {
        input.variances = batch.variances + i * area;
        pixels.load_map(input.variances, given.options);
      }
      fitter::with_search<float>(given.options, [&]<class Search>() {
        const LeftFit whole = fit_left_after<Search>(0, pixels, input, given.options);
        for (const int after : {1, 2, 3, 5, 9}) {
          const LeftFit there = fit_left_after<Search>(after, pixels, input, given.options);
          CAPTURE(images.kinds[i], after);
          REQUIRE(same_bits(whole.result, there.result));
          REQUIRE(there.evaluations == whole.evaluations + there.times_left);
          left += there.times_left;
        }
      });
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
