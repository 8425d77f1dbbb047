// SPDX-License-Identifier: MIT
// The models' sums against loops over the pixels, their derivatives against differences, their
// limits on each side, and what is told of them.
#include "fitter/circular_gaussian.hpp"
#include "fitter/elliptical_gaussian.hpp"
#include "fitter/spot_model.hpp"
#include "support/catch.hpp"
#include "unit/fitter/explicit_sums.hpp"

namespace driftd {
namespace {

using fitter::CircularGaussian;
using fitter::EllipticalGaussian;
using fitter::SeparableMoments;
using test::Image;

constexpr int kSide = 8;

auto about(double expected) {
  return Approx(expected).epsilon(1e-4).margin(1e-4);
}

template <int n>
void check_products(const fitter::ProfileProducts<n>& product, const Image& weight, const Image& f,
                    const test::Derivatives& d) {
  CHECK(product.ff == about(test::sum(weight, f, f)));
  for (int j = 0; j < n; ++j) {
    CAPTURE(j);
    CHECK(product.fd[j] == about(test::sum(weight, f, d[j])));
    for (int k = 0; k <= j; ++k) CHECK(product.dd(j, k) == about(test::sum(weight, d[j], d[k])));
  }
}

TEMPLATE_TEST_CASE("A model's sums are those over its pixels", "", CircularGaussian,
                   EllipticalGaussian) {
  const bool integrated = GENERATE(false, true);
  const auto profile = [integrated](const std::vector<double>& p) {
    return test::gaussian(p, kSide, integrated);
  };
  auto shape = test::some_shape<TestType>();
  const bool in_corner = GENERATE(false, true);
  if (in_corner) shape[0] = 0.3, shape[1] = 6.8;  // where x and y do not part
  const Image f = profile(shape), one(f.size(), 1);
  const auto d = test::derivatives(profile, shape);
  const auto p = test::as_vec<TestType::kShape>(shape);
  const Image pixels = test::uneven(kSide);
  test::ScalarRoi roi(pixels, kSide, 0, {}, integrated);
  const fitter::ProfileMoments m = roi.set_profile(TestType::profile(p), true);

  const auto total = TestType::totals(m.first(), p);
  const auto rho = TestType::residual_products(m.residuals(15, -4), p);
  const Image residuals = test::difference(pixels, test::scaled(f, 15, -4));
  CHECK(total.f == about(test::sum(f)));
  for (int j = 0; j < TestType::kShape; ++j) {
    CAPTURE(j);
    CHECK(total.d[j] == about(test::sum(d[j])));
    CHECK(rho[j] == about(test::sum(residuals, d[j])));
  }
  check_products(TestType::products(m.second(), p), one, f, d);
  const fitter::CubicMoments third = roi.cubic_moments();
  check_products(TestType::products(SeparableMoments<float>{third.x, third.y}, p), f, f, d);
}

TEST_CASE("What is integrated over a pixel is what the integrals are") {
  for (const double sigma : {0.4, 0.5, 0.7, 1.3, 4.0}) {
    for (double u = -4; u <= 4; u += 0.05) {
      CAPTURE(sigma, u);
      const auto of = fitter::axis_element<true>(test::f32(u), [sigma](float at) {
        return test::f32(std::exp(-0.5 * std::pow(double{at} / sigma, 2)));
      });
      const test::Element expected = test::element(u, sigma, true);
      const double error = sigma > 0.45 ? 1e-6 : 5e-6;  // the header's
      CHECK(double{of.f} == Approx(expected.f).epsilon(0).margin(error));
      CHECK(double{of.uf} == Approx(expected.uf).epsilon(0).margin(error));
      CHECK(double{of.uuf} ==
            Approx(expected.uuf).epsilon(0).margin(std::max(1.0, sigma * sigma) * error));
    }
  }
}

template <class Model>
void check_limit(int parameter, float given, float expected) {
  auto p = test::as_vec<Model::kShape>(test::some_shape<Model>());
  p[parameter] = given;
  const auto limited = fitter::limited<Model>(p, kSide);
  CAPTURE(parameter, given);
  for (int j = 0; j < Model::kShape; ++j) CHECK(limited[j] == (j == parameter ? expected : p[j]));
}

TEMPLATE_TEST_CASE("A model is limited on each side apart", "", CircularGaussian,
                   EllipticalGaussian) {
  for (const int place : {0, 1}) {
    check_limit<TestType>(place, -0.6f, -0.5f);
    check_limit<TestType>(place, -0.4f, -0.4f);
    check_limit<TestType>(place, 7.4f, 7.4f);
    check_limit<TestType>(place, 7.6f, 7.5f);
  }
  for (int width = 2; width < TestType::kShape; ++width) {
    check_limit<TestType>(width, 0.3f, 0.4f);
    check_limit<TestType>(width, 0.5f, 0.5f);
    check_limit<TestType>(width, 3.9f, 3.9f);
    check_limit<TestType>(width, 4.1f, 4);
  }
}

TEMPLATE_TEST_CASE("A model tells each parameter and its uncertainty by name", "", CircularGaussian,
                   EllipticalGaussian) {
  constexpr bool kCircular = TestType::kShape == 3;
  const fitter::Start start = {1, 2, 3, kCircular ? 3.0f : 4.0f};
  fitter::LocalizationOf<float> l = {};
  TestType::store(TestType::from_start(start), l);
  CHECK(l.x_px == 1);
  CHECK(l.y_px == 2);
  CHECK(l.sigma_x_px == 3);
  CHECK(l.sigma_y_px == start.sigma_y_px);
  const fitter::Vec<4> sd = {{5, 6, 7, 8}};
  TestType::store_sd(sd, {}, l);
  CHECK(l.x_sd_px == 5);
  CHECK(l.y_sd_px == 6);
  CHECK(l.sigma_x_sd_px == 7);
  CHECK(l.sigma_y_sd_px == (kCircular ? 7 : 8));
  const auto scale = TestType::step_scale(TestType::from_start(start));
  CHECK(scale[0] == 3);
  CHECK(scale[1] == start.sigma_y_px);
}

TEST_CASE("A start with one width is one of two equal widths") {
  const auto p = EllipticalGaussian::from_start(fitter::Start{1, 2, 3, 0});
  CHECK(p[2] == 3);
  CHECK(p[3] == 3);
}

}  // namespace
}  // namespace driftd
