// SPDX-License-Identifier: MIT
// What the estimators make of one pixel, against the textbook's formulas in double.
#include "support/catch.hpp"
#include "unit/fitter/explicit_sums.hpp"

namespace driftd {
namespace {

using fitter::Estimator;
using fitter::PixelNoise;

constexpr double kShift = 3;
constexpr PixelNoise kLikelihood = {Estimator::PoissonLikelihood, true, 0.5f, kShift, 0.01f};

TEST_CASE("The likelihood of a pixel is that of Poisson counts, near its model and far from it") {
  const float model = GENERATE(0.5f, 20.0f, 3000.0f);
  const float pixel = GENERATE_COPY(-1.0f, 0.2f, 0.98f * model, 1.5f * model, 1.65f * model,
                                    1.8f * model, 7 * model);
  const float own_shift = GENERATE(0.0f, 2.0f);
  CAPTURE(model, pixel, own_shift);
  const fitter::PoissonLikelihood<float> likelihood(kLikelihood);
  const auto of = likelihood.of(pixel, model, own_shift);
  const double q = pixel + kShift + own_shift, m = model + kShift + own_shift;
  const double deviance = 2 * (m - q - q * std::log(m / q));
  CHECK(likelihood.value(pixel, model, own_shift) ==
        Approx(deviance).epsilon(1e-5).margin(1e-9 * m));
  CHECK(of.value ==
        Approx(q < 5 * m ? (q - m) * (q - m) / m : 4 * (q - m)).epsilon(1e-5).margin(1e-9 * m));
  CHECK(of.weight == Approx(1 / m).epsilon(1e-6));
  CHECK(of.residual == Approx((q - m) / m).epsilon(1e-5).margin(1e-6));
}

TEST_CASE("There are no negative photons, and always some expected") {
  const fitter::PoissonLikelihood<float> likelihood(kLikelihood);
  const auto dark = likelihood.of(-10.0f, 4.0f, 0.0f);
  CHECK(dark.value == 7);
  CHECK(likelihood.value(-10.0f, 4.0f, 0.0f) == 2 * 7);
  CHECK(dark.residual == -1);
  CHECK(likelihood.of(1.0f, -10.0f, 0.0f).weight == Approx(100));
}

TEST_CASE("A photon where hardly any is expected is about as large as its deviance") {
  const PixelNoise dark = {Estimator::PoissonLikelihood, false, 1, 0, 0.01f};
  const fitter::PoissonLikelihood<float> likelihood(dark);
  const float photons = GENERATE(1.0f, 100.0f, 1e4f);
  const float size = likelihood.of(photons, 0.0f, 0.0f).value;
  const float deviance = likelihood.value(photons, 0.0f, 0.0f);
  CHECK(size > deviance / 8);
  CHECK(size < deviance);
}

TEST_CASE("A weighted square is the residual's over the variance") {
  const PixelNoise squares = {Estimator::WeightedLeastSquares, true, 1, 0, 0};
  const float weight = fitter::map_value(squares.estimator, squares.gain, 4.0f);
  const auto of = fitter::WeightedLeastSquares<float>(squares).of(12.0f, 6.0f, weight);
  CHECK(of.value == 9);
  CHECK(of.weight == 0.25f);
  CHECK(of.residual == 1.5f);
}

TEST_CASE("A pixel's own read noise counts in units of the gain") {
  CHECK(fitter::map_value(kLikelihood.estimator, kLikelihood.gain, 6.0f) == 3);
  CHECK(1 / fitter::map_value(kLikelihood.estimator, kLikelihood.gain, INFINITY) > 1e-38f);
}

}  // namespace
}  // namespace driftd
