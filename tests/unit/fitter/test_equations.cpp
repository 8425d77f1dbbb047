// SPDX-License-Identifier: MIT
// The equations of each step: their matrix and gradient against loops over the pixels, their
// solution against the equations.
#include "fitter/circular_gaussian.hpp"
#include "fitter/elliptical_gaussian.hpp"
#include "fitter/full_search.hpp"
#include "fitter/levenberg_marquardt.hpp"
#include "support/catch.hpp"
#include "unit/fitter/explicit_sums.hpp"

namespace driftd {
namespace {

using fitter::CircularGaussian;
using fitter::EllipticalGaussian;
using fitter::Estimator;
using fitter::FullSearch;
using fitter::ImplicitLeastSquares;
using fitter::SymmetricMatrix;
using test::Image;

constexpr int kSide = 8;
constexpr float kPedestal = 7;

Approx about(double expected, double scale) {
  return Approx(expected).epsilon(0).margin(1e-4 * std::fabs(scale));
}

/// The matrix is the sum of w d_j d_k, the gradient that of w r d_j.
template <int n>
void check_equations(const SymmetricMatrix<n>& matrix, const fitter::Vec<n>& gradient,
                     const Image& w, const Image& r, const test::Derivatives& d) {
  const auto size = [&](int j) { return std::sqrt(test::sum(w, d[j], d[j])); };
  for (int j = 0; j < n; ++j) {
    CAPTURE(j);
    CHECK(gradient[j] == about(test::sum(w, r, d[j]), size(j) * std::sqrt(test::sum(w, r, r))));
    for (int k = 0; k <= j; ++k) {
      CAPTURE(k);
      CHECK(matrix(j, k) == about(test::sum(w, d[j], d[k]), size(j) * size(k)));
    }
  }
}

struct BestLevels {
  double alpha, beta;
};

/// The levels of least squares, with a background of `least` or more.
BestLevels best_levels(const Image& f, const Image& pixels, double least) {
  const double count = static_cast<double>(f.size());
  const double alpha = (test::sum(f, pixels) - test::sum(f) * test::sum(pixels) / count) /
                       (test::sum(f, f) - test::sum(f) * test::sum(f) / count);
  const double beta = (test::sum(pixels) - alpha * test::sum(f)) / count;
  if (beta >= least) return {alpha, beta};
  return {(test::sum(f, pixels) - least * test::sum(f)) / test::sum(f, f), least};
}

TEMPLATE_TEST_CASE("Implicit least squares: the best levels, and the equations that follow", "",
                   CircularGaussian, EllipticalGaussian) {
  using Search = ImplicitLeastSquares<TestType>;
  const bool limited = GENERATE(false, true);
  const auto shape = test::some_shape<TestType>();
  Image pixels = test::scaled(test::gaussian({3.0, 5.1, 1.5, 1.4}, kSide), 60, 30);
  pixels = test::difference(pixels, test::uneven(kSide));
  const double least = limited ? 37 : -1e9;
  const auto at = [&](const std::vector<double>& p) {
    return best_levels(test::gaussian(p, kSide), pixels, least);
  };
  const auto model = [&](const std::vector<double>& p) {
    return test::scaled(test::gaussian(p, kSide), at(p).alpha, at(p).beta);
  };
  const BestLevels level = at(shape);
  CHECK((level.beta == least) == limited);

  test::ScalarRoi roi(pixels, kSide, kPedestal);
  fitter::FitOptions options;
  options.min_background_adu = test::f32(least);
  const auto domain = Search::domain(roi.summary(), {}, kSide, options);
  const auto p = test::as_vec<TestType::kShape>(shape);
  const auto prepared =
      Search::prepare(roi.set_profile(Search::profile(p), true), roi.summary(), domain, p);
  const auto e = Search::linearize(roi, domain, p, prepared);

  const Image r = test::difference(pixels, model(shape));
  CHECK(e.level.alpha == about(level.alpha, level.alpha));
  CHECK(e.level.beta + kPedestal == about(level.beta, level.beta));
  CHECK(e.chi_square == about(test::sum(r, r), test::sum(r, r)));
  check_equations(e.normal, e.gradient, Image(r.size(), 1), r, test::derivatives(model, shape));
}

TEMPLATE_TEST_CASE(
    "Of residuals that are nothing beside their pixels, chi-square is that of the pixels", "",
    ImplicitLeastSquares<CircularGaussian>, FullSearch<EllipticalGaussian>) {
  auto all = test::some_shape<typename TestType::Model>();
  const Image f = test::gaussian(all, kSide);
  const Image pixels = test::difference(test::scaled(f, 4e4, 500), test::uneven(kSide));
  test::ScalarRoi roi(pixels, kSide, kPedestal);
  fitter::FitOptions options;
  options.estimator = Estimator::LeastSquares;
  const auto domain = TestType::domain(roi.summary(), {}, kSide, options);
  all.insert(all.end(), {4e4, 500 - kPedestal});
  auto p = test::as_vec<TestType::kSearched>(all);
  const auto prepared =
      TestType::prepare(roi.set_profile(TestType::profile(p), true), roi.summary(), domain, p);
  const auto e = TestType::linearize(roi, domain, p, prepared);
  const Image r =
      test::difference(pixels, test::scaled(f, e.level.alpha, double{e.level.beta} + kPedestal));
  CHECK(double{roi.summary().sum_squares} > 1e5 * test::sum(r, r));
  CHECK(e.chi_square == Approx(test::sum(r, r)).epsilon(1e-3));
  const double terms =
      double{roi.summary().sum_squares} + 2 * kSide * kSide * std::pow(double{e.level.beta}, 2);
  CHECK(TestType::least_told(domain, e, e) == Approx(1e-5 * terms));
  const auto plain = TestType::plain_sums(roi, domain, p, e, false);
  CHECK(plain.squares == Approx(test::sum(r, r)).epsilon(1e-3));
  CHECK(plain.count == kSide * kSide);
}

TEMPLATE_TEST_CASE("Implicit least squares holds what lies at a limit while the minimum is beyond",
                   "", CircularGaussian, EllipticalGaussian) {
  using Search = ImplicitLeastSquares<TestType>;
  const bool beyond = GENERATE(false, true);
  const int side_of_limit = GENERATE(0, 1);
  const float edge = side_of_limit == 0 ? -0.5f : kSide - 0.5f;
  const float inwards = side_of_limit == 0 ? 1.0f : -1.0f;
  auto spot = test::some_shape<TestType>();
  spot[0] = edge + (beyond ? -0.5 : 0.5) * inwards;
  const Image pixels = test::scaled(test::gaussian(spot, kSide), 60, 30);
  test::ScalarRoi roi(pixels, kSide, kPedestal);
  const auto domain = Search::domain(roi.summary(), {}, kSide, {});
  auto p = test::as_vec<TestType::kShape>(test::some_shape<TestType>());
  p[0] = edge;
  const auto prepared =
      Search::prepare(roi.set_profile(Search::profile(p), true), roi.summary(), domain, p);
  const auto e = Search::linearize(roi, domain, p, prepared);
  CAPTURE(beyond, side_of_limit);
  CHECK(e.gradient[0] != 0);
  CHECK((e.right_side()[0] == 0) == beyond);
  const auto step = e.equations();
  CHECK(step(0, 0) == (beyond ? 1 : e.normal(0, 0)));
  for (int j = 1; j < TestType::kShape; ++j) {
    CHECK_FALSE(e.held.of[j]);
    CHECK(e.gradient[j] != 0);
    CHECK(e.right_side()[j] == e.gradient[j]);
    CHECK(step(j, 0) == (beyond ? 0 : e.normal(j, 0)));
    CHECK(step(j, j) == e.normal(j, j));
  }
}

TEMPLATE_TEST_CASE("Beside an evaluation the best levels follow the shape", "", CircularGaussian,
                   EllipticalGaussian) {
  using Search = ImplicitLeastSquares<TestType>;
  constexpr int n = TestType::kShape;
  const auto shape = test::some_shape<TestType>();
  const Image pixels =
      test::difference(test::scaled(test::gaussian(shape, kSide), 4000, 30), test::uneven(kSide));
  test::ScalarRoi roi(pixels, kSide, kPedestal);
  auto domain = Search::domain(roi.summary(), {}, kSide, {});
  const auto p = test::as_vec<n>(shape);
  const auto prepared =
      Search::prepare(roi.set_profile(Search::profile(p), true), roi.summary(), domain, p);
  fitter::Minimum<Search> minimum = {};
  minimum.parameters = p;
  minimum.at.level = prepared.level;
  CHECK(Search::tells_ahead(domain, minimum.at));
  const auto plain = Search::plain_sums(roi, domain, p, minimum.at, true);
  const auto full =
      fitter::full_matrix<n>(plain.product, plain.total, plain.count, prepared.level.alpha);
  const BestLevels before = best_levels(test::gaussian(shape, kSide), pixels, -1e9);
  for (int j = 0; j < n; ++j) {
    CAPTURE(j);
    std::vector<double> to = shape;
    to[static_cast<std::size_t>(j)] += 3e-3;
    minimum.trial = test::as_vec<n>(to);
    const auto check = [&](const BestLevels& best) {
      minimum.is_at_trial = false;
      CHECK(Search::levels(domain, minimum, full).alpha == prepared.level.alpha);
      CHECK(Search::levels(domain, minimum, full).beta == prepared.level.beta);
      minimum.is_at_trial = true;
      const auto levels = Search::levels(domain, minimum, full);
      CHECK(levels.alpha - prepared.level.alpha ==
            Approx(best.alpha - before.alpha).epsilon(0.05).margin(0.1));
      CHECK(levels.beta - prepared.level.beta ==
            Approx(best.beta - before.beta).epsilon(0.05).margin(0.01));
    };
    const BestLevels best = best_levels(test::gaussian(to, kSide), pixels, -1e9);
    domain.min_beta = -1e9f;
    check(best);
    if (j < 2) continue;
    CHECK(std::abs(best.alpha - before.alpha) > 1.5);
    REQUIRE(best.beta < before.beta - 0.05);  // and no further than a limit half way
    const double least = (before.beta + best.beta) / 2;
    domain.min_beta = test::f32(least - kPedestal);
    check(best_levels(test::gaussian(to, kSide), pixels, least));
  }
  domain.min_beta = prepared.level.beta;
  CHECK_FALSE(Search::tells_ahead(domain, minimum.at));
}

TEST_CASE("A likelihood's step is small by what it brings, too") {
  using Search = FullSearch<CircularGaussian>;
  Search::Domain domain = {};
  Search::Evaluation at = {};
  const auto most = [&](Estimator estimator, float chi_square) {
    domain.noise.estimator = estimator;
    at.chi_square = chi_square;
    return Search::most_in_small_step(domain, at);
  };
  CHECK(most(Estimator::PoissonLikelihood, 9) == 1e-3f);
  CHECK(most(Estimator::PoissonLikelihood, 50) == Approx(5e-3));
  CHECK(most(Estimator::WeightedLeastSquares, 50) == INFINITY);
}

TEST_CASE("Where the background comes to its limit, or leaves it, gradients tell nothing") {
  using Search = ImplicitLeastSquares<CircularGaussian>;
  const Search::Domain domain = {kSide, -4, 900};
  const auto least_told = [&](float from, float to) {
    Search::Evaluation a = {}, b = {};
    a.level.beta = from;
    b.level.beta = to;
    return Search::least_told(domain, a, b);
  };
  CHECK(least_told(1, 2) == Approx(1e-5 * (900 + kSide * kSide * 5)));
  CHECK(least_told(-4, -4) == Approx(1e-5 * (900 + kSide * kSide * 32)));
  CHECK(least_told(1, -4) == 0);
  CHECK(least_told(-4, 1) == 0);
}

/// What the estimators are to minimize: the textbook's formulas in electrons.
struct Expected {
  double value, squares;  ///< the latter over their variance
  Image weight;           ///< of derivatives in adu
  Image residual;         ///< adu
};

constexpr double kGain = 0.5, kReadNoise = 3, kOffset = 4;

Expected expected(Estimator estimator, const Image& pixels, const Image& model,
                  const Image& variances) {
  Expected of = {0, 0, Image(pixels.size(), 1), test::difference(pixels, model)};
  if (estimator == Estimator::PoissonLikelihood) {
    for (std::size_t i = 0; i < pixels.size(); ++i) {
      const double read =
          variances.empty() ? kReadNoise * kReadNoise : kGain * kGain * variances[i];
      const double q = std::max(0.0, kGain * (pixels[i] - kOffset) + read);
      const double m = kGain * (model[i] - kOffset) + read;
      of.value += 2 * (m - q - (q > 0 ? q * std::log(m / q) : 0));
      of.weight[i] = kGain * kGain / m;
      of.residual[i] = (q - m) / kGain;
      of.squares += (q - m) * (q - m) / m;
    }
    return of;
  }
  if (estimator == Estimator::WeightedLeastSquares)
    for (std::size_t i = 0; i < pixels.size(); ++i) of.weight[i] = 1 / variances[i];
  of.value = of.squares = test::sum(of.weight, of.residual, of.residual);
  return of;
}

TEMPLATE_TEST_CASE("Every estimator's value and equations are those of its pixels", "",
                   CircularGaussian, EllipticalGaussian) {
  using Search = FullSearch<TestType>;
  const auto [estimator, mapped] =
      GENERATE(table<Estimator, bool>({{Estimator::LeastSquares, false},
                                       {Estimator::WeightedLeastSquares, true},
                                       {Estimator::PoissonLikelihood, false},
                                       {Estimator::PoissonLikelihood, true}}));
  CAPTURE(static_cast<int>(estimator), mapped);
  const Image pixels = test::scaled(test::uneven(kSide), 1, 50);
  Image variances;
  if (mapped) variances = test::scaled(test::uneven(kSide), 1, 60);
  auto all = test::some_shape<TestType>();
  all.insert(all.end(), {40, 30});
  auto p = test::as_vec<Search::kSearched>(all);
  p[Search::kBeta] -= kPedestal;
  const auto model = [](const std::vector<double>& v) {
    const std::vector<double> shape(v.begin(), v.end() - 2);
    return test::scaled(test::gaussian(shape, kSide), v.end()[-2], v.end()[-1]);
  };

  test::ScalarRoi roi(pixels, kSide, kPedestal, variances);
  fitter::FitOptions options;
  options.estimator = estimator;
  options.noise = {kGain, kReadNoise, kOffset};
  fitter::FitInput input;
  const float some = 0;
  if (mapped) input.variances = &some;  // the ROI has them
  const auto domain = Search::domain(roi.summary(), input, kSide, options);
  const auto prepared =
      Search::prepare(roi.set_profile(Search::profile(p), true), roi.summary(), domain, p);
  const auto e = Search::linearize(roi, domain, p, prepared);

  // Whose value is a difference of sums, or not known before the minimum.
  CHECK((Search::least_told(domain, e, e) > 0) == (estimator != Estimator::WeightedLeastSquares));
  const Expected of = expected(estimator, pixels, model(all), variances);
  CHECK(Search::value(roi, domain, e) == about(of.value, of.value));
  CHECK(e.chi_square == about(of.squares, of.squares));
  for (const bool held : e.held.of) CHECK_FALSE(held);
  check_equations(e.normal, e.gradient, of.weight, of.residual, test::derivatives(model, all));
}

/// A matrix of full rank, its units far apart; its upper triangle is not to be read.
SymmetricMatrix<4> some_matrix() {
  constexpr double kTerms[6][4] = {{1, 2, -1, 3}, {4, -1, 2, 1},   {-2, 3, 5, 1},
                                   {1, 1, 1, -4}, {2, -5, 1, 0.5}, {0.5, 1, -3, 2}};
  constexpr double kUnits[4] = {1e-3, 1, 50, 2e4};
  SymmetricMatrix<4> a;
  for (int j = 0; j < 4; ++j) {
    for (int k = 0; k < 4; ++k) {
      double total = 0;
      for (const auto& term : kTerms) total += term[j] * term[k];
      a(j, k) = k <= j ? test::f32(total * kUnits[j] * kUnits[k]) : NAN;
    }
  }
  return a;
}

double element(const SymmetricMatrix<4>& a, int row, int column) {
  return row >= column ? a(row, column) : a(column, row);
}

TEST_CASE("Damped equations are solved, their damping relative to the diagonal") {
  const float damping = GENERATE(0.0f, 0.5f);
  const SymmetricMatrix<4> a = some_matrix();
  const auto factors = fitter::factorize(a, damping);
  REQUIRE(factors.positive_definite);
  const fitter::Vec<4> b = {{1e-3f, -2, 30, 4e4f}};
  const fitter::Vec<4> x = fitter::solve(factors, b);
  for (int j = 0; j < 4; ++j) {
    double row = double{damping} * a(j, j) * x[j];
    for (int k = 0; k < 4; ++k) row += element(a, j, k) * x[k];
    CHECK(row == about(b[j], b[j]));
  }
}

TEST_CASE("The inverse times the matrix is one") {
  const SymmetricMatrix<4> a = some_matrix();
  const auto factors = fitter::factorize(a);
  const auto lower = fitter::inverse_lower(factors);
  const auto inverse = fitter::inverse(factors, lower);
  const auto diagonal = fitter::inverse_diagonal(factors, lower);
  for (int j = 0; j < 4; ++j) {
    CHECK(diagonal[j] == about(inverse(j, j), inverse(j, j)));
    for (int k = 0; k < 4; ++k) {
      double product = 0;
      for (int i = 0; i < 4; ++i) product += element(inverse, j, i) * element(a, i, k);
      CHECK(product == about(j == k, std::sqrt(inverse(j, j) * a(k, k))));
    }
  }
}

TEST_CASE("A matrix is definite or not whatever its unit") {
  for (const float unit : {1e-9f, 1.0f, 1e9f}) {
    CAPTURE(unit);
    const auto definite = [&](float corner) {
      return fitter::factorize(SymmetricMatrix<2>{{{unit, 0}, {unit, corner * unit}}})
          .positive_definite;
    };
    CHECK(definite(1.1f));
    CHECK(definite(1.00001f));
    CHECK_FALSE(definite(1));
    CHECK_FALSE(definite(0.9f));
  }
}

TEST_CASE("What is held has no part in the other equations") {
  SymmetricMatrix<4> a = some_matrix();
  fitter::hold(a, 0b0110);
  const SymmetricMatrix<4> before = some_matrix();
  for (int j = 0; j < 4; ++j) {
    for (int k = 0; k <= j; ++k) {
      const bool held = j == 1 || j == 2 || k == 1 || k == 2;
      CHECK(a(j, k) == (held ? static_cast<float>(j == k) : before(j, k)));
    }
  }
}

TEST_CASE("A value is clamped on both sides") {
  CHECK(fitter::clamped(-3.0f, -2.0f, 5.0f) == -2);
  CHECK(fitter::clamped(4.0f, -2.0f, 5.0f) == 4);
  CHECK(fitter::clamped(6.0f, -2.0f, 5.0f) == 5);
}

}  // namespace
}  // namespace driftd
