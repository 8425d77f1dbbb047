// SPDX-License-Identifier: MIT
// The search over all parameters: its limits, what is fixed and held, its start levels, what the
// likelihood needs beside. Its equations: test_equations.cpp.
#include "fitter/full_search.hpp"

#include "fitter/circular_gaussian.hpp"
#include "fitter/elliptical_gaussian.hpp"
#include "support/catch.hpp"
#include "unit/fitter/explicit_sums.hpp"

namespace driftd {
namespace {

using fitter::CircularGaussian;
using fitter::EllipticalGaussian;
using fitter::Estimator;
using fitter::FitInput;
using fitter::FitOptions;
using fitter::Parameter;
using Search = fitter::FullSearch<CircularGaussian>;  // 3: amplitude, 4: background

constexpr int kSide = 8;
constexpr float kPedestal = 7;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
/// Mean 2 and standard deviation 3 of the pixels less the pedestal.
constexpr fitter::PixelSummary kSummary = {kPedestal, 128, 64 * 13, true};

FitOptions options_of(Estimator estimator) {
  FitOptions options;
  options.estimator = estimator;
  options.noise = {0.5f, 3, 4};
  return options;
}

Search::Domain domain(const FitOptions& options, const FitInput& input = {}) {
  return Search::domain(kSummary, input, kSide, options);
}

TEST_CASE("The limits are the ROI's, and of the likelihood no less than nothing") {
  const auto squares = domain(options_of(Estimator::LeastSquares));
  const float lower[] = {-0.5f, -0.5f, 0.4f, -kInfinity, -kInfinity};
  const float upper[] = {7.5f, 7.5f, 4, kInfinity, kInfinity};
  for (int j = 0; j < 5; ++j) {
    CHECK(squares.lower[j] == lower[j]);
    CHECK(squares.upper[j] == upper[j]);
  }
  FitOptions options = options_of(Estimator::PoissonLikelihood);
  const auto likelihood = domain(options);
  CHECK(likelihood.lower[3] == 0);
  // Background, offset and read noise make 0.01 electrons: 0.5 (b - 4) + 9 = 0.01.
  CHECK(likelihood.lower[4] + kPedestal == Approx(4 - (9 - 0.01) / 0.5));
  options.min_background_adu = 5;
  CHECK(domain(options).lower[4] == 5 - kPedestal);
}

TEST_CASE("The likelihood counts electrons, with the read noise of the camera or of each pixel") {
  FitOptions options = options_of(Estimator::PoissonLikelihood);
  const fitter::PixelNoise even = domain(options).noise;
  CHECK(even.gain == 0.5f);
  CHECK(even.shift == kPedestal - 4 + 9 / 0.5f);
  CHECK(even.floor == 0.01f / 0.5f);
  CHECK_FALSE(even.mapped);
  const float variance = 1;
  FitInput input;
  input.variances = &variance;
  CHECK(domain(options, input).noise.shift == kPedestal - 4);
  CHECK(domain(options, input).noise.mapped);
  options.noise.gain_e_per_adu = 0;
  CHECK(domain(options).noise.gain == 1);
}

TEST_CASE("Bounds of all fits and of this one narrow the limits, and never widen them") {
  FitOptions options = options_of(Estimator::LeastSquares);
  options.bounds.lower[0] = -9;
  options.bounds.upper[0] = 6;
  options.bounds.lower[4] = 20;  // amplitude
  options.bounds.lower[5] = 10;  // background
  fitter::Bounds own;
  own.lower[0] = 1;
  own.upper[0] = 9;
  own.upper[2] = 2;
  own.upper[5] = 30;
  FitInput input;
  input.bounds = &own;
  const auto all = domain(options);
  CHECK(all.lower[0] == -0.5f);
  CHECK(all.upper[0] == 6);
  CHECK(all.upper[2] == 4);
  const auto both = domain(options, input);
  CHECK(both.lower[0] == 1);
  CHECK(both.upper[0] == 6);
  CHECK(both.upper[2] == 2);
  CHECK(both.lower[3] == 20);
  CHECK(both.lower[4] == 10 - kPedestal);
  CHECK(both.upper[4] == 30 - kPedestal);
  CHECK(both.valid());
  own.lower[1] = 8;
  CHECK_FALSE(domain(options, input).valid());
}

TEST_CASE("What is fixed has its start value as both limits, or none if it has no start") {
  FitOptions options = options_of(Estimator::LeastSquares);
  options.fixed = bit(Parameter::Y) | bit(Parameter::Background);
  FitInput input;
  input.start = {3, 4, 1.2f, 0};
  input.levels = {50, 20};
  const auto d = domain(options, input);
  CHECK(d.fixed == 0b10010);
  CHECK(d.lower[1] == 4);
  CHECK(d.upper[1] == 4);
  CHECK(d.lower[4] == 20 - kPedestal);
  CHECK(d.upper[4] == 20 - kPedestal);
  CHECK(d.upper[0] == 7.5f);
  CHECK(d.valid());
  const auto valid_with = [&](const fitter::Start& start, float background) {
    input.start = start;
    input.levels.background_adu = background;
    return domain(options, input).valid();
  };
  CHECK_FALSE(valid_with({3, NAN, 1.2f, 0}, 20));
  CHECK_FALSE(valid_with({3, 4, 0, 0}, 20));
  CHECK_FALSE(valid_with({3, 4, 1.2f, 0}, INFINITY));
  options.fixed = bit(Parameter::Background);
  CHECK(valid_with({3, 4, 0, 0}, 20));  // a level needs no place
}

TEST_CASE("A step is relative to the widths, and for both levels to the amplitude") {
  using Elliptical = fitter::FullSearch<EllipticalGaussian>;
  const auto scale = Elliptical::step_scale({{3, 4, 1.2f, 1.7f, -50, 20}});
  const float expected[] = {1.2f, 1.7f, 1.2f, 1.7f, 50, 50};
  for (int j = 0; j < 6; ++j) CHECK(scale[j] == expected[j]);
}

TEST_CASE("A likelihood keeps a tenth of its amplitude in a step, squares may lose all") {
  const Search::Parameters from = {{3, 4, 1.2f, 50, 20}}, to = {{9, 5, 1.3f, -8, 21}};
  CHECK(Search::reachable(domain(options_of(Estimator::PoissonLikelihood)), from, to)[3] == 5);
  CHECK(Search::reachable(domain(options_of(Estimator::LeastSquares)), from, to)[3] == -8);
}

TEST_CASE(
    "A likelihood moves and widens by half a width a step at most, squares as far as limits") {
  const Search::Parameters from = {{3, 4, 1.2f, 50, 20}}, to = {{9, 3.5f, 0.1f, 300, 90}};
  const auto likelihood =
      Search::reachable(domain(options_of(Estimator::PoissonLikelihood)), from, to);
  CHECK(likelihood[0] == Approx(3.6));
  CHECK(likelihood[1] == 3.5f);
  CHECK(likelihood[2] == Approx(0.6));
  CHECK(likelihood[3] == 300);
  CHECK(likelihood[4] == 90);
  const auto squares = Search::reachable(domain(options_of(Estimator::LeastSquares)), from, to);
  CHECK(squares[0] == 7.5f);
  CHECK(squares[2] == 0.4f);
}

/// The levels that a search begins with at a spot of `amplitude` on 30 adu.
fitter::Levels prepared(const FitOptions& options, double amplitude,
                        const fitter::StartLevels& given) {
  const test::Image pixels = test::scaled(test::gaussian({3.3, 4.6, 1.2}, kSide), amplitude, 30);
  test::ScalarRoi roi(pixels, kSide, kPedestal);
  FitInput input;
  input.start = {3.3f, 4.6f, 1.2f, 0};
  input.levels = given;
  const auto d = Search::domain(roi.summary(), input, kSide, options);
  auto p = Search::from_start(input, d);
  const auto e = Search::prepare(roi.set_profile(Search::profile(p), true), roi.summary(), d, p);
  CHECK(p[3] == e.level.alpha);
  CHECK(p[4] == e.level.beta);
  return {e.level.alpha, e.level.beta + kPedestal};
}

TEST_CASE("Levels that are not given are the best ones, those given are kept") {
  FitOptions options = options_of(Estimator::LeastSquares);
  const auto given = prepared(options, 80, {-5, 10});
  CHECK(given.alpha == -5);
  CHECK(given.beta == 10);
  for (const fitter::StartLevels& missing : {fitter::StartLevels{NAN, NAN}, {NAN, 10}, {50, NAN}}) {
    const auto best = prepared(options, 80, missing);
    CHECK(best.alpha == Approx(80));
    CHECK(best.beta == Approx(30));
  }
  CHECK(prepared(options, -20, {NAN, NAN}).alpha == Approx(-20));
  options.bounds.upper[4] = 70;
  CHECK(prepared(options, 80, {NAN, NAN}).alpha == 70);
  options.bounds.lower[5] = 35;
  CHECK(prepared(options, 80, {NAN, NAN}).beta == 35);
  options.bounds.upper[4] = kInfinity;  // best with the background at its limit
  const test::Image f = test::gaussian({3.3, 4.6, 1.2}, kSide);
  CHECK(prepared(options, 80, {NAN, NAN}).alpha == Approx(80 - 5 * test::sum(f) / test::sum(f, f)));
}

TEST_CASE("A likelihood without amplitude begins with the least that explains the contrast") {
  FitOptions options = options_of(Estimator::PoissonLikelihood);
  CHECK(prepared(options, 80, {0, 10}).alpha == Approx(80));
  CHECK(prepared(options, 80, {5, 10}).alpha == 5);
  const test::Image dark = test::scaled(test::gaussian({3.3, 4.6, 1.2}, kSide), -20, 0);
  const double mean = test::sum(dark) / 64;
  const double sd = std::sqrt(test::sum(dark, dark) / 64 - mean * mean);
  CHECK(prepared(options, -20, {0, 10}).alpha == Approx(2 * sd).epsilon(1e-3));
  options.bounds.upper[4] = 0;
  CHECK(prepared(options, 80, {0, 10}).beta == 10);
}

TEST_CASE("The profile's moments are asked for where they are read, and only there") {
  const float given = 20, dark = 0;
  for (const Estimator estimator : {Estimator::LeastSquares, Estimator::PoissonLikelihood}) {
    const bool likelihood = estimator == Estimator::PoissonLikelihood;
    const auto wanted = [&](const fitter::StartLevels& levels) {
      test::ScalarRoi roi(test::scaled(test::gaussian({3.3, 4.6, 1.2}, kSide), 80, 30), kSide,
                          kPedestal);
      FitInput input;
      input.start = {3.3f, 4.6f, 1.2f, 0};
      input.levels = levels;
      const auto d = Search::domain(roi.summary(), input, kSide, options_of(estimator));
      auto p = Search::from_start(input, d);
      const bool wants = Search::wants_moments(d, p);
      const auto start = p;
      Search::prepare({}, roi.summary(), d, p);
      if (!wants) CHECK((p[3] == start[3] && p[4] == start[4]));
      return wants;
    };
    CHECK(wanted({given, given}) == !likelihood);
    CHECK(wanted({NAN, given}));
    CHECK(wanted({given, NAN}));
    CHECK(wanted({dark, given}));
  }
}

/// The search at some parameters, of a spot of amplitude 80 at (3.3, 4.6) on 30 adu.
struct Evaluated {
  test::ScalarRoi roi;
  Search::Domain domain;
  Search::Parameters p;
  Search::Evaluation e;

  Evaluated(const FitOptions& options, const Search::Parameters& at)
      : roi(test::scaled(test::gaussian({3.3, 4.6, 1.2}, kSide), 80, 30), kSide, kPedestal),
        domain(Search::domain(roi.summary(), {}, kSide, options)),
        p(at) {
    const auto prepared =
        Search::prepare(roi.set_profile(Search::profile(p), true), roi.summary(), domain, p);
    e = Search::linearize(roi, domain, p, prepared);
  }

  /// Bit j: parameter j.
  unsigned held() const {
    unsigned bits = 0;
    for (unsigned j = 0; j < Search::kSearched; ++j) bits |= e.held.of[j] ? 1u << j : 0u;
    return bits;
  }
};

TEST_CASE("A parameter at a bound is held while the minimum lies beyond it") {
  const float y = GENERATE(4.2f, 5.0f);  // the minimum is above, below
  const bool at_lower = GENERATE(true, false);
  FitOptions options = options_of(Estimator::LeastSquares);
  (at_lower ? options.bounds.lower : options.bounds.upper)[1] = y;
  const Evaluated at(options, {{3, y, 1.2f, 80, 30 - kPedestal}});
  const auto& e = at.e;
  const bool held = at_lower == (y > 4.6f);
  CAPTURE(y, at_lower);
  CHECK(at.held() == (held ? 0b10 : 0));
  CHECK((e.right_side()[1] == 0) == held);
  CHECK(e.gradient[1] != 0);
  CHECK(e.gradient[0] > 0);
  const auto step = e.equations();
  for (int k = 0; k <= 1; ++k) CHECK(step(1, k) == (held ? static_cast<float>(k) : e.normal(1, k)));
  CHECK(e.normal(1, 1) > 1);
}

TEST_CASE("A fixed parameter is held wherever the minimum lies") {
  FitOptions options = options_of(Estimator::LeastSquares);
  options.bounds.lower[0] = options.bounds.upper[0] = 3;
  options.bounds.lower[1] = options.bounds.upper[1] = 5;
  for (const float amplitude : {80.0f, 0.0f})  // without it, nothing depends on the place
    CHECK(Evaluated(options, {{3, 5, 1.2f, amplitude, 30 - kPedestal}}).held() == 0b11);
}

TEST_CASE("The verdict rests on plain squares, whatever was minimized") {
  FitOptions options = options_of(Estimator::PoissonLikelihood);
  Evaluated at(options, {{3, 5, 1.2f, 70, 32 - kPedestal}});
  const auto plain = Search::plain_sums(at.roi, at.domain, at.p, at.e, false);
  const test::Image f = test::gaussian({3, 5, 1.2}, kSide);
  const test::Image r = test::difference(
      test::scaled(test::gaussian({3.3, 4.6, 1.2}, kSide), 80, 30), test::scaled(f, 70, 32));
  CHECK(plain.squares == Approx(test::sum(r, r)).epsilon(1e-4));
  CHECK(plain.product.ff == Approx(test::sum(f, f)));
  CHECK(plain.total.f == Approx(test::sum(f)));
}

}  // namespace
}  // namespace driftd
