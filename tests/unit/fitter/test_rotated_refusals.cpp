// SPDX-License-Identifier: MIT
// What is no ellipse is not told as one, and what only ellipses have is refused to other models.
#include <array>
#include <cmath>
#include <random>
#include <vector>

#include "fitter/fitter.hpp"
#include "fitter/rotated_gaussian.hpp"
#include "support/catch.hpp"
#include "support/instrumented.hpp"
#include "unit/fitter/ellipses.hpp"
#include "unit/fitter/hard_images.hpp"

namespace driftd {
namespace {

using namespace test;

TEST_CASE("Noise and edges are no ellipses") {
  std::mt19937_64 generator(8);
  constexpr std::size_t kCount = test::kInstrumented ? 200 : 5000;
  std::vector<float> pixels;
  for (std::size_t i = 0; i < kCount; ++i)
    for (int k = 0; k < 11 * 11; ++k)
      pixels.push_back(static_cast<float>(std::normal_distribution<double>(100, 10)(generator)));
  int spots = 0;
  for (const Fit& f :
       fit({.pixels = pixels.data(), .type = fitter::PixelType::F32, .roi_px = 11, .count = kCount},
           rotated(GENERATE(Estimator::LeastSquares, Estimator::PoissonLikelihood))))
    if (converged(f.l.status)) ++spots;
  CHECK(spots <= 5);
}

TEST_CASE("Edges along a diagonal are no ellipses, as those along rows are none") {
  std::mt19937_64 generator(9);
  constexpr int kSide = 13;
  constexpr std::size_t kCount = test::kInstrumented ? 200 : 3000;
  std::uniform_real_distribution<double> from_middle(-0.45 * kSide, 0.45 * kSide);
  std::vector<float> pixels;
  for (std::size_t i = 0; i < kCount; ++i) {
    const double edge = from_middle(generator);
    for (int k = 0; k < kSide * kSide; ++k) {
      const double across = (k % kSide + k / kSide - kSide + 1) / std::sqrt(2.0) - edge;
      const double mean = 20 + 15 * (1 + std::tanh(across / 1.2));
      pixels.push_back(static_cast<float>(std::poisson_distribution<int>(mean)(generator)));
    }
  }
  int spots = 0;
  for (const Estimator estimator : {Estimator::LeastSquares, Estimator::PoissonLikelihood})
    for (const Fit& f : fit({.pixels = pixels.data(),
                        .type = fitter::PixelType::F32,
                        .roi_px = kSide,
                        .count = kCount},
                            rotated(estimator)))
      if (converged(f.l.status)) ++spots;
  CHECK(spots <= 90);  // some 60; 210 where the widths of sections along x and y are judged
}

TEST_CASE("The widths that are judged are those of the axes, round spots' of any") {
  using fitter::RotatedGaussian;
  for (const auto& [s, t, rho] : {std::array{1.3f, 1.3f, 0.5f}, {1.6f, 1.1f, -0.3f}, {2, 3, 0}}) {
    const fitter::Vec<5> p = {{3, 4, s, t, rho}};
    const auto widths = RotatedGaussian::widths(p);
    CHECK(widths.px[0] == RotatedGaussian::profile(p).sigma_x_px);
    CHECK(widths.px[1] == RotatedGaussian::profile(p).sigma_y_px);
    for (int j = 0; j < 3; ++j) {
      CAPTURE(s, t, rho, j);
      constexpr float kStep = 1e-3f;
      fitter::Vec<5> up = p, down = p;
      up[2 + j] += kStep;
      down[2 + j] -= kStep;
      const auto more = RotatedGaussian::profile(up), less = RotatedGaussian::profile(down);
      CHECK(widths.by[0][j] ==
            Approx((more.sigma_x_px - less.sigma_x_px) / (2 * kStep)).margin(2e-3));
      CHECK(widths.by[1][j] ==
            Approx((more.sigma_y_px - less.sigma_y_px) / (2 * kStep)).margin(2e-3));
    }
  }
  const auto round = RotatedGaussian::widths(fitter::Vec<5>{{3, 4, 1.5f, 1.5f, 0}});
  for (int width = 0; width < 2; ++width)
    for (int j = 0; j < 3; ++j)
      CHECK(round.by[width][j] == Approx(width == j ? 1 : 0).margin(1e-6));
}

TEST_CASE("Hard images end, and what has converged is a number") {
  FitOptions options = rotated(any_estimator());
  options.model = GENERATE(Model::CircularGaussian, Model::EllipticalGaussian,
                           Model::RotatedGaussian, Model::EllipticalCauchy);
  options.integrated = GENERATE(false, true);
  for (const int side : {4, 7, 12, 33}) {
    if (test::kInstrumented && side > 7) break;
    const test::HardImages images = test::hard_images(side, 300 + static_cast<unsigned>(side));
    for (const test::HardInput& input : test::hard_inputs(images, options, 9)) {
      const Batch batch = input.batch(images);
      for (const Fit& f : fit(batch, input.options)) {
        if (!converged(f.l.status)) continue;
        INFO("side " << side << " estimator " << static_cast<int>(options.estimator) << " model "
                     << static_cast<int>(options.model));
        REQUIRE(std::isfinite(f.l.x_px + f.l.sigma_x_px + f.l.sigma_y_px + f.l.amplitude_adu));
        REQUIRE(std::isfinite(f.d.angle_rad));
        REQUIRE(f.l.sigma_x_px > 0);
        REQUIRE(f.l.sigma_y_px > 0);
      }
    }
  }
}

TEST_CASE("What only ellipses have is refused to other models") {
  const std::vector<float> pixels(81, 1);
  const float angle = 0;
  const fitter::Start start = {};
  const fitter::AngleBounds bounds;
  Localization l;
  const Batch plain = {.pixels = pixels.data(),
                       .type = fitter::PixelType::F32,
                       .roi_px = 9,
                       .count = 1,
                       .starts = &start};
  Batch batch = plain;
  batch.angles_rad = &angle;
  CHECK_THROWS_WITH(fitter::fit_batch_cpu(batch, {}, {&l, 1}), contains("angles are given"));
  batch = plain;
  batch.angle_bounds = &bounds;
  FitOptions least;
  least.estimator = Estimator::LeastSquares;
  CHECK_THROWS_WITH(fitter::fit_batch_cpu(batch, least, {&l, 1}), contains("angles are given"));
  CHECK_THROWS_WITH(fitter::fit_batch_cpu(batch, rotated(Estimator::ImplicitLeastSquares), {&l, 1}),
                    contains("takes no bounds"));
  least.fixed = fitter::kAngleBit;
  CHECK_THROWS_WITH(fitter::fit_batch_cpu(plain, least, {&l, 1}),
                    contains("allowed are bits 0 to 5"));
  batch = plain;
  batch.angles_rad = &angle;
  batch.starts = nullptr;
  CHECK_THROWS_WITH(fitter::fit_batch_cpu(batch, rotated(Estimator::LeastSquares), {&l, 1}),
                    contains("needs the other start values"));
  CHECK_THROWS_WITH(fitter::make_cpu_live_fitter(9, 1, rotated(Estimator::LeastSquares)),
                    contains("in batches only"));
}

}  // namespace
}  // namespace driftd
