// SPDX-License-Identifier: MIT
// Fits of cameras some of whose pixels are much noisier than the others, or gone, with a map that
// says so: start value and verdict see such pixels no more than the estimator does.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "support/catch.hpp"
#include "support/instrumented.hpp"
#include "support/noisy_pixels.hpp"

namespace driftd {
namespace {

using fitter::Estimator;
using fitter::Localization;
using test::NoisyPixels;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<Localization> fit(const fitter::Batch& batch, const fitter::FitOptions& options) {
  std::vector<Localization> fits(batch.count);
  fitter::fit_batch_cpu(batch, options, fits);
  return fits;
}

Estimator any_with_a_map() {
  return GENERATE(Estimator::WeightedLeastSquares, Estimator::PoissonLikelihood);
}

std::size_t count_passing(const std::vector<Localization>& fits) {
  return static_cast<std::size_t>(std::count_if(
      fits.begin(), fits.end(), [](const Localization& l) { return converged(l.status); }));
}

TEST_CASE("A spot passes as it would without the noisy pixels of the map, and as precisely") {
  const Estimator estimator = any_with_a_map();
  const bool warm = GENERATE(false, true);
  const int side = GENERATE(7, 9, 16, 33);
  const double photons = GENERATE(1000.0, 10000.0);
  const double variance = GENERATE(100.0, 10000.0, std::numeric_limits<double>::infinity());
  if (test::kInstrumented && warm != (side == 9)) return;  // the same code, much slower
  const double gain = side % 2 == 0 ? 2 : 1;
  constexpr std::size_t kCount = 300;
  const auto verdicts = [&](int noisy) {
    const NoisyPixels s =
        test::draw_noisy({side, 1.3, photons, 10, gain, variance, noisy}, kCount, 5);
    fitter::Batch batch = s.batch(estimator);
    const auto starts = s.starts();
    if (warm) batch.starts = starts.data();
    return test::verdicts(s, fit(batch, s.options(estimator)));
  };
  const double refused = verdicts(0).refused;
  CHECK(refused < 0.01);
  for (const int noisy : {1, 2, 3}) {
    INFO("estimator " << static_cast<int>(estimator) << " side " << side << " photons " << photons
                      << " variance " << variance << " noisy " << noisy << " warm " << warm);
    const test::Verdicts v = verdicts(noisy);
    CHECK(v.refused < refused + 0.01);
    CHECK(v.rms == Approx(1).margin(0.15));
  }
}

TEST_CASE("Noisy pixels that are bright do not hide by their own light") {
  const int side = GENERATE(7, 9, 16);
  const int noisy = GENERATE(1, 2, 3);
  const double variance = GENERATE(1e3, 1e4, 6e4);
  const Estimator estimator = any_with_a_map();
  // To weighted least squares 1e3 is less than 16 times the spot's own noise.
  if (estimator == Estimator::WeightedLeastSquares && variance < 5e3) return;
  CAPTURE(side, noisy, variance, static_cast<int>(estimator));
  const NoisyPixels s = test::draw_noisy({side, 1.3, 1000, 10, 1, variance, noisy, true}, 300, 8);
  const test::Verdicts v = test::verdicts(s, fit(s.batch(estimator), s.options(estimator)));
  CHECK(v.refused < 0.01);
  CHECK(v.rms == Approx(1).margin(0.15));
}

TEST_CASE("A pixel whose read noise is small beside the light is kept, however small the others'") {
  // The mean light of 1000 photons on 10 is 14 to 30 electrons a pixel: 16 times that is beyond
  // 100.
  const int side = GENERATE(7, 16);
  NoisyPixels s = test::draw_noisy({side, 1.3, 1000, 10, 1, 0, 0}, 100, 9);
  const std::size_t area = s.pixels.size() / 100,
                    middle = area / 2 + (side % 2 == 0 ? static_cast<std::size_t>(side) / 2 : 0);
  const auto kept =
      fit(s.batch(Estimator::PoissonLikelihood), s.options(Estimator::PoissonLikelihood));
  for (std::size_t i = 0; i < 100; ++i) s.read_variances[i * area + middle] = 100;
  const auto noisier =
      fit(s.batch(Estimator::PoissonLikelihood), s.options(Estimator::PoissonLikelihood));
  for (std::size_t i = 0; i < 100; ++i) s.read_variances[i * area + middle] = kInfinity;
  const auto gone =
      fit(s.batch(Estimator::PoissonLikelihood), s.options(Estimator::PoissonLikelihood));
  double known = 0, left_out = 0;
  for (std::size_t i = 0; i < 100; ++i) {
    known += noisier[i].amplitude_sd_adu < gone[i].amplitude_sd_adu ? 1 : 0;
    left_out += noisier[i].amplitude_sd_adu == gone[i].amplitude_sd_adu ? 1 : 0;
    CHECK(converged(kept[i].status));
  }
  CHECK(known > 90);
  CHECK(left_out == 0);
}

TEST_CASE("What a pixel that is gone shows makes no difference") {
  const Estimator estimator = any_with_a_map();
  const int side = GENERATE(9, 33);
  const NoisyPixels s = test::draw_noisy(
      {side, 1.3, 3000, 10, 1, std::numeric_limits<double>::infinity(), 2}, 100, 6);
  const auto one = fit(s.batch(estimator), s.options(estimator));
  std::vector<float> others = s.pixels;
  for (std::size_t i = 0; i < others.size(); ++i)
    if (s.variances[i] == kInfinity) others[i] = 3;
  fitter::Batch batch = s.batch(estimator);
  batch.pixels = others.data();
  const auto other = fit(batch, s.options(estimator));
  for (std::size_t i = 0; i < one.size(); ++i) {
    CHECK(converged(one[i].status));
    CHECK(converged(other[i].status));
    CHECK(other[i].x_px == Approx(one[i].x_px).margin(0.02 * one[i].x_sd_px));
    CHECK(other[i].chi_square == Approx(one[i].chi_square).epsilon(1e-3));
    CHECK(other[i].background_adu ==
          Approx(one[i].background_adu).margin(0.02 * one[i].background_sd_adu));
  }
}

/// Chi-square of a fit over all pixels of its ROI.
double chi_square_of_all(const NoisyPixels& s, std::size_t index, const Localization& l) {
  const test::Spot found = {l.x_px, l.y_px, l.sigma_x_px, l.amplitude_adu, l.background_adu};
  const int side = s.camera.side;
  const auto first = index * static_cast<std::size_t>(side * side);
  double sum = 0;
  for (int i = 0; i < side * side; ++i) {
    const std::size_t at = first + static_cast<std::size_t>(i);
    const double r = s.pixels[at] - test::intensity(found, i % side, i / side);
    sum += r * r / s.variances[at];
  }
  return sum;
}

TEST_CASE("No pixel of a bright spot is left out because its light makes it noisier") {
  const double sigma = GENERATE(0.5, 0.7, 1.3);
  const int side = GENERATE(7, 16);
  constexpr std::size_t kCount = 300;
  const NoisyPixels s = test::draw_noisy({side, sigma, 1e5, 0.5, 1, 0, 0}, kCount, 7);
  const auto fits =
      fit(s.batch(Estimator::WeightedLeastSquares), s.options(Estimator::WeightedLeastSquares));
  INFO("sigma " << sigma << " side " << side);
  CHECK(count_passing(fits) > kCount * 95 / 100);
  for (std::size_t i = 0; i < kCount; ++i)
    if (converged(fits[i].status))
      CHECK(fits[i].chi_square == Approx(chi_square_of_all(s, i, fits[i])).epsilon(1e-2));
}

TEST_CASE("A pixel ten times as noisy as the others keeps its small say") {
  const NoisyPixels clean = test::draw_noisy({9, 1.3, 1000, 100, 1, 0, 0}, 20, 8);
  NoisyPixels s = clean;
  for (std::size_t i = 40; i < s.variances.size(); i += 81) s.variances[i] *= 10;
  const auto fits =
      fit(s.batch(Estimator::WeightedLeastSquares), s.options(Estimator::WeightedLeastSquares));
  for (std::size_t i = 0; i < fits.size(); ++i)
    CHECK(fits[i].chi_square == Approx(chi_square_of_all(s, i, fits[i])).epsilon(1e-3));
}

/// Makes the pixels in the columns from .. to - 1 gone.
void take_away(NoisyPixels& s, int from, int to) {
  for (std::size_t i = 0; i < s.pixels.size(); ++i) {
    const int column = static_cast<int>(i) % s.camera.side;
    if (column < from || column >= to) continue;
    s.variances[i] = s.read_variances[i] = kInfinity;
    s.pixels[i] = static_cast<float>(i % 7) * 9000;
  }
}

TEST_CASE("A spot beside another one that the map takes away is a spot alone") {
  const Estimator estimator = any_with_a_map();
  constexpr int kSide = 16;
  const NoisyPixels s = test::draw_noisy({kSide, 1.3, 3000, 10, 1, 0, 0}, 200, 9);
  NoisyPixels two = s;
  for (std::size_t i = 0; i < two.pixels.size(); ++i) {
    const int place = static_cast<int>(i % (kSide * kSide));
    const float more =
        static_cast<float>(test::intensity({14.5, 7.5, 1.3, 280, 0}, place % kSide, place / kSide));
    two.pixels[i] += more;
    two.variances[i] += more;
  }
  CHECK(count_passing(fit(two.batch(estimator), two.options(estimator))) < 50);
  take_away(two, 11, kSide);
  const auto v = test::verdicts(two, fit(two.batch(estimator), two.options(estimator)));
  CHECK(v.refused < 0.02);
  CHECK(v.rms == Approx(1).margin(0.2));
}

TEST_CASE("Noise is no spot because most of its pixels are gone") {
  const Estimator estimator = any_with_a_map();
  const int side = GENERATE(9, 16);
  NoisyPixels s = test::draw_noisy({side, 1.3, 0, 100, 1, 0, 0}, 3000, 10);
  take_away(s, side / 2, side);
  CHECK(count_passing(fit(s.batch(estimator), s.options(estimator))) <= 3);
}

TEST_CASE("Pixels that are gone do not hide those that are noisy") {
  const Estimator estimator = any_with_a_map();
  NoisyPixels s = test::draw_noisy({9, 1.3, 1000, 10, 1, 20000, 2}, 300, 12);
  take_away(s, 0, 1);
  CHECK(count_passing(fit(s.batch(estimator), s.options(estimator))) >= 297);
}

TEST_CASE("A ROI of which nothing is left is no spot") {
  const Estimator estimator = any_with_a_map();
  const int side = GENERATE(9, 33);
  NoisyPixels s = test::draw_noisy({side, 1.3, 3000, 10, 1, 0, 0}, 20, 11);
  take_away(s, 0, side);
  CHECK(count_passing(fit(s.batch(estimator), s.options(estimator))) == 0);
}

/// Row and column.
struct Place {
  int row, column;
};

/// Spots under a map that is 10 all over.
NoisyPixels evenly_noisy(int side, std::size_t count) {
  NoisyPixels s = test::draw_noisy({side, 1.3, 1000, 10, 1, 0, 0}, count, 13);
  std::fill(s.variances.begin(), s.variances.end(), 10.0f);
  return s;
}

/// Sets the variance of these places in each step-th ROI.
void set_variance(NoisyPixels& s, const std::vector<Place>& places, float variance,
                  std::size_t step = 1) {
  const auto side = static_cast<std::size_t>(s.camera.side);
  for (std::size_t i = 0; i < s.truth.size(); i += step)
    for (const Place& p : places)
      s.variances[i * side * side + static_cast<std::size_t>(p.row) * side +
                  static_cast<std::size_t>(p.column)] = variance;
}

std::size_t count_other_bits(const std::vector<Localization>& a,
                             const std::vector<Localization>& b) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    count += std::memcmp(&a[i], &b[i], sizeof(a[i])) != 0 ? 1u : 0u;
  return count;
}

TEST_CASE("Pixels beyond the limit are left out wherever they lie, those at the limit are not") {
  const int side = GENERATE(7, 8, 9, 16, 33, 40);
  const int last = side - 1;
  // By whether rows and columns are even: in one class, in two, in three, the last ones, in none.
  const std::vector<Place> places = GENERATE_COPY(
      std::vector<Place>{{2, 2}}, std::vector<Place>{{1, 1}, {3, 3}, {5, 1}},
      std::vector<Place>{{2, 3}, {4, 1}, {3, 2}}, std::vector<Place>{{2, 2}, {2, 3}, {3, 2}},
      std::vector<Place>{{2, 2}, {2, 3}}, std::vector<Place>{{2, 2}, {3, 2}},
      std::vector<Place>{{2, 3}, {3, 3}}, std::vector<Place>{{last, last}},
      std::vector<Place>{{last, 0}, {0, last}, {last, last - 1}},
      std::vector<Place>{{0, 0}, {1, 1}, {last - 1, last}});
  constexpr std::size_t kCount = 37;
  constexpr float kLimit = 160;
  const auto fits_with = [&](float variance) {
    NoisyPixels s = evenly_noisy(side, kCount);
    set_variance(s, places, variance);
    return fit(s.batch(Estimator::WeightedLeastSquares),
               s.options(Estimator::WeightedLeastSquares));
  };
  const auto gone = fits_with(kInfinity);
  CAPTURE(side, places.front().row, places.front().column, places.size());
  CHECK(count_other_bits(fits_with(std::nextafter(kLimit, kInfinity)), gone) == 0);
  CHECK(count_other_bits(fits_with(1e30f), gone) == 0);
  CHECK(count_other_bits(fits_with(kLimit), gone) == kCount);
}

TEST_CASE("Four pixels as noisy are kept in whatever class; four that are gone are not") {
  const int side = GENERATE(7, 16, 33);
  const auto places = GENERATE(std::vector<Place>{{1, 1}, {3, 3}, {5, 1}, {3, 5}},
                               std::vector<Place>{{2, 2}, {2, 3}, {3, 2}, {3, 3}});
  CAPTURE(side, places.back().row);
  const auto fits_with = [&](float variance, float shown) {
    NoisyPixels s = evenly_noisy(side, 37);
    set_variance(s, places, variance);
    for (std::size_t i = 0; i < s.pixels.size(); ++i)
      if (s.variances[i] == variance) s.pixels[i] += shown;
    return fit(s.batch(Estimator::WeightedLeastSquares),
               s.options(Estimator::WeightedLeastSquares));
  };
  CHECK(count_other_bits(fits_with(1000, 0), fits_with(kInfinity, 0)) == 37);
  // What pixels that are gone show would be most of each pixel's sum.
  CHECK(count_passing(fits_with(kInfinity, 3000)) == 37);
}

TEST_CASE("A fit's bits do not depend on whether its neighbours have pixels to be left out") {
  const Estimator estimator = any_with_a_map();
  const int side = GENERATE(7, 9, 16, 33);
  const auto step = GENERATE(std::size_t{2}, std::size_t{5}, std::size_t{19});
  CAPTURE(side, step, static_cast<int>(estimator));
  const NoisyPixels clean = test::draw_noisy({side, 1.3, 1000, 10, 1, 0, 0}, 37, 14);
  NoisyPixels mixed = clean;
  set_variance(mixed, {{2, 3}, {side - 1, side - 1}}, 1e5f, step);
  mixed.read_variances = mixed.variances;
  NoisyPixels noisy = mixed;
  set_variance(noisy, {{2, 3}, {side - 1, side - 1}}, 1e5f);
  noisy.read_variances = noisy.variances;
  NoisyPixels quiet = clean;
  quiet.read_variances = quiet.variances;
  const auto of_mixed = fit(mixed.batch(estimator), mixed.options(estimator));
  const auto of_quiet = fit(quiet.batch(estimator), quiet.options(estimator));
  const auto of_noisy = fit(noisy.batch(estimator), noisy.options(estimator));
  for (std::size_t i = 0; i < of_mixed.size(); ++i) {
    const auto& alone = i % step == 0 ? of_noisy[i] : of_quiet[i];
    CHECK(std::memcmp(&of_mixed[i], &alone, sizeof(alone)) == 0);
  }
}

TEST_CASE("Fewer pixels than a fit has parameters to find are bad input, any minimum or not") {
  using fitter::Model, fitter::Parameter;
  struct Case {
    Model model;
    int side;
    unsigned fixed;
    int parameters;
  };
  constexpr unsigned kSigma = fitter::bit(Parameter::SigmaX);
  const Case c =
      GENERATE(Case{Model::CircularGaussian, 9, 0, 5}, Case{Model::CircularGaussian, 33, 0, 5},
               Case{Model::CircularGaussian, 9, kSigma, 4},
               Case{Model::CircularGaussian, 33, kSigma | fitter::bit(Parameter::X), 3},
               Case{Model::EllipticalGaussian, 9, 0, 6}, Case{Model::RotatedGaussian, 9, 0, 7},
               Case{Model::RotatedGaussian, 9, fitter::kAngleBit, 6});
  const Estimator estimator = any_with_a_map();
  constexpr int kMost = 9;
  CAPTURE(static_cast<int>(c.model), c.side, c.fixed, static_cast<int>(estimator));
  NoisyPixels s = test::draw_noisy({c.side, 1.3, 10000, 10, 1, 0, 0}, kMost + 1, 15);
  const int area = c.side * c.side;
  for (int there = 0; there <= kMost; ++there) {  // from the second row above the middle on
    const auto first = static_cast<std::size_t>(there * area);
    for (int k = 0; k < area; ++k)
      if (k < area / 2 - 2 * c.side || k >= area / 2 - 2 * c.side + there)
        s.variances[first + static_cast<std::size_t>(k)] = kInfinity;
  }
  s.read_variances = s.variances;
  fitter::Batch batch = s.batch(estimator);
  const auto starts = s.starts();
  batch.starts = starts.data();
  fitter::FitOptions options = s.options(estimator);
  options.model = c.model;
  options.fixed = static_cast<std::uint8_t>(c.fixed);
  options.spots_only = false;
  const auto fits = fit(batch, options);
  for (int there = 0; there <= kMost; ++there) {
    CAPTURE(there);
    const bool bad = fits[static_cast<std::size_t>(there)].status == fitter::FitStatus::BadInput;
    CHECK(bad == (there < c.parameters));
  }
}

TEST_CASE("Pixels that are all equal but for those that are gone are bad input") {
  const Estimator estimator = any_with_a_map();
  const int side = GENERATE(9, 33);
  NoisyPixels s = test::draw_noisy({side, 1.3, 1000, 10, 1, 0, 0}, 20, 16);
  for (std::size_t i = 0; i < s.pixels.size(); ++i) {
    const bool gone = i % static_cast<std::size_t>(side) < 3;
    if (!gone) s.pixels[i] = 117;
    if (gone) s.variances[i] = kInfinity;
  }
  s.read_variances = s.variances;
  fitter::FitOptions options = s.options(estimator);
  options.spots_only = false;
  for (const Localization& l : fit(s.batch(estimator), options))
    CHECK(l.status == fitter::FitStatus::BadInput);
}

}  // namespace
}  // namespace driftd
