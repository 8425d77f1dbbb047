// SPDX-License-Identifier: MIT
// The search step by step, with evaluations made by hand: which steps are taken, with what damping,
// and when it ends.
#include <cmath>
#include <initializer_list>

#include "fitter/levenberg_marquardt.hpp"
#include "support/catch.hpp"

namespace driftd {
namespace {

using fitter::FitOptions;
using fitter::FitStatus;
using fitter::SymmetricMatrix;
using fitter::Vec;

/// Two parameters between -100 and 100, of other scale and curvature, and independent.
template <bool weighs>
struct TwoParameters {
  using Real = float;
  static constexpr bool kSearchesLevels = weighs;
  static constexpr int kSearched = 2;
  using Parameters = Vec<2>;
  struct Domain {
    float least_told = 0;
    float most_in_small_step = INFINITY;
    bool tells_ahead = true;

    Parameters limited(const Parameters& p) const {
      return {{fitter::clamped(p[0], -100.0f, 100.0f), fitter::clamped(p[1], -100.0f, 100.0f)}};
    }
  };
  struct Evaluation {
    float chi_square;
    SymmetricMatrix<2> normal = {{{2, 0}, {0, 4}}};
    Vec<2> gradient = {{12, -6}};  ///< undamped, a step of 6 and -1.5
    bool first_is_held = false;

    const SymmetricMatrix<2>& equations() const { return normal; }
    Vec<2> right_side() const { return {{first_is_held ? 0 : gradient[0], gradient[1]}}; }
    friend Evaluation where(bool mask, const Evaluation& yes, const Evaluation& no) {
      return mask ? yes : no;
    }
  };
  static Parameters from_start(const fitter::FitInput&, const Domain&) { return {}; }
  static float least_told(const Domain& d, const Evaluation&, const Evaluation&) {
    return d.least_told;
  }
  static float most_in_small_step(const Domain& d, const Evaluation&) {
    return d.most_in_small_step;
  }
  static bool tells_ahead(const Domain& d, const Evaluation&) { return d.tells_ahead; }
  static Parameters step_scale(const Parameters&) { return {{10, 1}}; }
  static Parameters reachable(const Domain& d, const Parameters&, const Parameters& to) {
    return d.limited(to);
  }
};

template <bool weighs = false>
struct Begun {
  using Search = TwoParameters<weighs>;
  fitter::LevenbergMarquardt<Search> search{};
  FitOptions options;

  explicit Begun(const FitOptions& with = {}, Vec<2> start = {{10, 20}}) : options(with) {
    options.lambda_start = 1;
    search.set_domain({});
    search.begin(true, {start, options.lambda_start, 0});
  }
  /// Whether it ended with the last of these values of the trials.
  bool advance(std::initializer_list<float> values) {
    bool ended = false;
    for (const float value : values) {
      REQUIRE_FALSE(ended);
      search.advance({value}, options);
      ended = !search.searching();
    }
    return ended;
  }
  FitStatus status() const { return static_cast<FitStatus>(search.minimum().status); }
  float best(int j) const { return search.minimum().parameters[j]; }
  float trial(int j) { return search.trial()[j]; }
  /// From the best parameters to the trial, first parameter.
  float step() { return trial(0) - best(0); }
};

float step_at(float damping) {
  return 6 / (1 + damping);
}

TEST_CASE("A step solves the damped equations; taken, it lowers the damping, refused, raises it") {
  Begun fit;
  CHECK_FALSE(fit.advance({1000}));
  CHECK(fit.trial(0) == 10 + 3);
  CHECK(fit.trial(1) == 20 - 0.75f);
  CHECK_FALSE(fit.advance({900}));
  CHECK(fit.best(0) == 13);
  CHECK(fit.best(1) == 19.25f);
  CHECK(fit.step() == Approx(step_at(0.1f)));
  CHECK_FALSE(fit.advance({901}));
  CHECK(fit.best(0) == 13);
  CHECK(fit.search.minimum().at.chi_square == 900);
  CHECK(fit.step() == Approx(step_at(1)));
  CHECK_FALSE(fit.advance({NAN}));
  CHECK(fit.step() == Approx(step_at(10)));
  CHECK(fit.search.minimum().iterations == 2);
}

TEST_CASE("Damping past its limit ends the search at the best place, at its limit it does not") {
  FitOptions options;
  options.lambda_max = 100;
  Begun fit(options);
  CHECK_FALSE(fit.advance({1000, 1001, 1001}));
  CHECK(fit.advance({1001}));
  CHECK(fit.status() == FitStatus::NotConverged);
  CHECK(fit.best(0) == 10);
}

TEST_CASE("However many steps were taken, a few refused ones end the search") {
  FitOptions options;
  options.max_iterations = 60;
  Begun fit(options);
  float value = 1000;
  for (int i = 0; i < 55; ++i) REQUIRE_FALSE(fit.advance({value *= 0.9f}));
  int refused = 1;
  while (!fit.advance({2 * value}) && refused < 100) ++refused;
  CHECK(refused <= 13);  // from a damping of 1e-7 past 1e4
}

TEST_CASE("A search begun again forgets the one before") {
  Begun fit;
  CHECK_FALSE(fit.advance({1000, 900, 800, 801}));
  fit.search.begin(true, {{{-4, 30}}, fit.options.lambda_start, 0});
  CHECK(fit.trial(0) == -4);
  CHECK_FALSE(fit.advance({2000}));
  CHECK(fit.step() == step_at(1));
  CHECK(fit.search.minimum().iterations == 1);
  fit.options.min_step = 10;  // any step is small
  fit.search.begin(true, {{{-4, 30}}, fit.options.lambda_start, 0});
  CHECK_FALSE(fit.advance({2000}));  // where the one before ended is no step
}

TEST_CASE("Start and steps stay within the limits") {
  Begun fit({}, {{200, -99.5f}});
  CHECK(fit.trial(0) == 100);
  CHECK_FALSE(fit.advance({1000}));
  CHECK(fit.trial(0) == 100);
  CHECK(fit.trial(1) == -100);
}

TEST_CASE("A value that hardly changes ends the search there, though rounding let it rise") {
  const float value = GENERATE(999.9995f, 1000.0005f);
  Begun fit;
  CHECK(fit.advance({1000, value}));
  CHECK(fit.status() == FitStatus::ConvergedDecrease);
  CHECK(fit.best(0) == 13);
  CHECK(Begun().advance({1000, 999.99f}) == false);
  CHECK(Begun().advance({1000, 1000.01f}) == false);
}

TEST_CASE("Where values tell nothing, the gradients at both places say which is lower") {
  const auto goes_on_at = [](float value, Vec<2> gradient, bool held = false) {
    Begun fit;
    fit.search.set_domain({5});
    fit.search.begin(true, {{{10, 20}}, fit.options.lambda_start, 0});
    CHECK_FALSE(fit.advance({1000}));  // the next is 3 and -0.75 from it
    fit.search.advance({value, {{{2, 0}, {0, 4}}}, gradient, held}, fit.options);
    CHECK(fit.search.searching());
    return fit.best(0);
  };
  CHECK(goes_on_at(1004.9f, {{12, -6}}) == 13);
  CHECK(goes_on_at(1004.9f, {{-13.4f, 6}}) == 10);  // 3 (12 - 13.4) - 0.75 (-6 + 6)
  CHECK(goes_on_at(1004.9f, {{-13.4f, -2}}) == 13);
  CHECK(goes_on_at(995.1f, {{-13.4f, 6}}) == 10);
  CHECK(goes_on_at(994.9f, {{-13.4f, 6}}) == 13);
  CHECK(goes_on_at(1005.1f, {{12, -6}}) == 10);
  const bool held = true;  // at a limit, and the value falls there
  CHECK(goes_on_at(1004.9f, {{100, 200}}, held) == 13);
}

TEST_CASE("By the gradients a step lowers the value by the whole trapezoid") {
  const auto is_flat_within = [](float min_decrease) {
    FitOptions options;
    options.min_decrease = min_decrease;
    Begun fit(options);
    fit.search.set_domain({5});
    fit.search.begin(true, {{{10, 20}}, fit.options.lambda_start, 0});
    CHECK_FALSE(fit.advance({1000}));
    fit.search.advance({1000, {{{2, 0}, {0, 4}}}, {{8, 2}}}, fit.options);
    return !fit.search.searching();
  };
  // 3 (12 + 8) - 0.75 (-6 + 2) = 63 of 1000
  CHECK(is_flat_within(0.0631f));
  CHECK_FALSE(is_flat_within(0.0629f));
}

TEST_CASE("A step small in each parameter's scale ends the search, at the better of both places") {
  FitOptions options;
  const auto ended = [&](float min_step, float value) {
    options.min_step = min_step;
    Begun fit(options);
    const bool is = fit.advance({1000, value});
    if (is) CHECK(fit.status() == FitStatus::ConvergedStep);
    if (is) CHECK(fit.best(0) == (value < 1000 ? 13 : 10));
    return is;
  };
  // Undamped, steps of 6 and -1.5, of scales 10 and 1; damped, half of it.
  CHECK(ended(1.51f, 900));
  CHECK(ended(1.51f, 1100));
  CHECK_FALSE(ended(1.49f, 900));
  CHECK_FALSE(ended(1.49f, 1100));
  options.min_step = 0.59f;
  CHECK_FALSE(Begun(options, {{10, -100}}).advance({1000, 900}));  // the second cannot step
  options.min_step = 0.61f;
  CHECK(Begun(options, {{10, -100}}).advance({1000, 900}));
}

TEST_CASE("A step made small by damping is a minimum if it changes no more than rounding does") {
  FitOptions options;
  options.min_step = 0.1f;
  options.min_decrease = 0;
  const float value = GENERATE(1000 + 0.009f, 1000 - 0.009f, 1000.0f);
  Begun fit(options);
  CHECK_FALSE(fit.advance({1000, 1001, 1001}));  // a step of 0.05, of 10 allowed 1
  CHECK(fit.advance({value}));
  CHECK(fit.status() == FitStatus::ConvergedStep);
}

/// A search with next to no damping whose first place has this gradient and chi-square 1000, or the
/// values and gradients of several places in turn.
using Evaluation = Begun<>::Search::Evaluation;
constexpr SymmetricMatrix<2> kNormal = {{{2, 0}, {0, 4}}};
Begun<> undamped(std::initializer_list<Vec<2>> gradients,
                 const Begun<>::Search::Domain& domain = {}, Vec<2> start = {{10, 20}},
                 float damping = 1e-5f) {
  Begun fit;
  fit.options.lambda_start = damping;
  fit.search.set_domain(domain);
  fit.search.begin(true, {start, fit.options.lambda_start, 0});
  float value = 1000;
  for (const Vec<2>& gradient : gradients) {
    REQUIRE(fit.search.searching());
    fit.search.advance({value, kNormal, gradient}, fit.options);
    for (int j = 0; j < 2; ++j)  // as predicted
      value -= (fit.trial(j) - fit.best(j)) * gradient[j];
  }
  return fit;
}

TEST_CASE("The last step is not evaluated where it brings next to nothing") {
  // A decrease of (0.02 0.02) / 2 + (0.03 0.03) / 4 = 4.25e-4, of 1000 times half of 1e-6
  Begun fit = undamped({{{0.02f, 0.03f}}});
  CHECK_FALSE(fit.search.searching());
  CHECK(fit.status() == FitStatus::ConvergedDecrease);
  const auto& minimum = fit.search.minimum();
  CHECK(minimum.is_at_trial);
  CHECK(fit.best(0) == 10);
  CHECK(minimum.found()[0] == Approx(10 + 0.01).epsilon(1e-6));
  CHECK(minimum.found()[1] == Approx(20 + 0.0075).epsilon(1e-6));
  CHECK(minimum.decrease() == Approx(4.25e-4).epsilon(1e-2));
  CHECK(minimum.evaluated_last);
  CHECK(minimum.iterations == 1);
  CHECK(undamped({{{0.025f, 0.03f}}}).search.searching());  // 5.4e-4
}

TEST_CASE("The last step is not evaluated where it is small in each scale") {
  // Allowed are 1e-4 of 10 and of 1.
  Begun fit = undamped({{{0.0019f, 3.9e-4f}}});
  CHECK_FALSE(fit.search.searching());
  fit.options.min_decrease = 0;
  const auto ends = [&](float min_step, float most_in_small_step = INFINITY) {
    fit.options.min_step = min_step;
    fit.search.set_domain({0, most_in_small_step});
    fit.search.begin(true, {{{10, 20}}, fit.options.lambda_start, 0});
    fit.search.advance({1000, kNormal, {{0.0019f, 3.9e-4f}}}, fit.options);
    const bool is = !fit.search.searching();
    CHECK(fit.search.minimum().is_at_trial == is);
    if (is) CHECK(fit.status() == FitStatus::ConvergedStep);
    return is;
  };
  CHECK(ends(1e-4f));
  CHECK_FALSE(ends(0.96e-4f));  // of the second
  // It brings 0.0019^2 / 2 + 0.00039^2 / 4 = 1.84e-6.
  CHECK(ends(1e-4f, 1.9e-6f));
  CHECK_FALSE(ends(1e-4f, 1.8e-6f));
}

TEST_CASE("A last step is short, undamped and whole, or it is evaluated") {
  const Vec<2> little = {{0.02f, 0.03f}};
  CHECK_FALSE(undamped({little}, {}, {{10, 20}}, 1.9e-2f).search.searching());
  CHECK(undamped({little}, {}, {{10, 20}}, 2.1e-2f).search.searching());
  CHECK(undamped({little}, {}, {{10, 99.995f}}).search.searching());  // to 100 at most
  CHECK(undamped({little}, {}, {{99.995f, 20}}).search.searching());
  // The second parameter's scale is 1 and its curvature 4: it may step by a hundredth.
  const auto ends = [](float gradient) {
    Begun fit;
    fit.options.min_decrease = 1;
    fit.options.lambda_start = 1e-5f;
    fit.search.begin(true, {{{10, 20}}, fit.options.lambda_start, 0});
    fit.search.advance({1000, kNormal, {{0, gradient}}}, fit.options);
    return !fit.search.searching();
  };
  CHECK(ends(0.0399f));
  CHECK_FALSE(ends(0.0401f));
}

TEST_CASE("A last step brings little beside what is left, where that is told, or it is evaluated") {
  const auto ends = [](float value, bool tells_ahead = true) {
    Begun fit;
    fit.options.lambda_start = 1e-5f;
    fit.options.min_decrease = 1;
    fit.search.set_domain({0, INFINITY, tells_ahead});
    fit.search.begin(true, {{{10, 20}}, fit.options.lambda_start, 0});
    fit.search.advance({value, kNormal, {{0.03f, 0.03f}}}, fit.options);  // brings 6.75e-4
    return !fit.search.searching();
  };
  CHECK(ends(0.068f));
  CHECK_FALSE(ends(0.067f));
  CHECK_FALSE(ends(0.068f, false));
}

TEST_CASE("A search begun again is not where the one before ended") {
  Begun fit = undamped({{{0.02f, 0.03f}}});
  CHECK(fit.search.minimum().is_at_trial);
  fit.options.lambda_max = 2e-4f;
  fit.search.begin(true, {{{-4, 30}}, fit.options.lambda_start, 0});
  CHECK_FALSE(fit.advance({1000, 1001}));
  CHECK(fit.advance({1001}));  // past the most damping
  CHECK(fit.trial(0) != -4);
  CHECK(fit.search.minimum().found()[0] == -4);
  CHECK(fit.search.minimum().decrease() == 0);
}

TEST_CASE("A step that changes too much for a small one goes on") {
  FitOptions options;
  options.min_step = 1.6f;  // any step is small
  const auto ends = [&](float value) {
    Begun fit(options);
    fit.search.set_domain({0, 5});
    fit.search.begin(true, {{{10, 20}}, fit.options.lambda_start, 0});
    return fit.advance({1000, value});
  };
  CHECK(ends(995.1f));
  CHECK(ends(1004.9f));
  CHECK_FALSE(ends(994.9f));
  CHECK_FALSE(ends(1005.1f));
}

TEST_CASE("A search begun beside one under way leaves it alone") {
  Begun fit;
  fit.search.begin(false, {{{-4, 30}}, fit.options.lambda_start, 0});
  CHECK_FALSE(fit.advance({1000}));
  CHECK(fit.search.minimum().at.chi_square == 1000);
  CHECK(fit.step() == step_at(1));
  CHECK_FALSE(fit.advance({900}));
  fit.search.begin(false, {{{-4, 30}}, fit.options.lambda_start, 0});
  CHECK(fit.step() == Approx(step_at(0.1f)));
  CHECK_FALSE(fit.advance({901}));
  CHECK(fit.step() == Approx(step_at(1)));
  CHECK(fit.search.minimum().iterations == 2);
}

TEST_CASE("A step that only damping makes small is no minimum") {
  FitOptions options;
  options.min_step = 0.1f;
  options.lambda_max = 1e5f;
  Begun fit(options);
  CHECK_FALSE(fit.advance({1000, 1001, 1001, 1001, 1001}));  // a step of 6e-4 at last
  CHECK(std::abs(fit.step()) < 0.1f * 10 * options.min_step);
  CHECK_FALSE(fit.advance({1001}));
  CHECK(fit.advance({1001}));
  CHECK(fit.status() == FitStatus::NotConverged);
}

TEST_CASE("A small step where the equations have no solution is no minimum") {
  Begun<>::Search::Evaluation at = {1000};
  at.normal = {{{2, 0}, {2.1f, 2}}};
  at.gradient = {{0.006f, -0.003f}};
  Begun fit;
  fit.options.min_step = 0.1f;
  fit.search.advance(at, fit.options);
  CHECK_FALSE(fit.advance({1001}));
}

TEST_CASE("A flat step is told as such, however small") {
  FitOptions options;
  options.min_step = 10;
  Begun fit(options);
  CHECK(fit.advance({1000, 999.9999f}));
  CHECK(fit.status() == FitStatus::ConvergedDecrease);
}

TEST_CASE("It is told whether the best place is the one evaluated last") {
  Begun fit;
  CHECK_FALSE(fit.search.minimum().evaluated_last);
  CHECK_FALSE(fit.advance({1000}));
  CHECK(fit.search.minimum().evaluated_last);
  CHECK_FALSE(fit.advance({1001}));
  CHECK_FALSE(fit.search.minimum().evaluated_last);
  CHECK_FALSE(fit.advance({900}));
  CHECK(fit.search.minimum().evaluated_last);
}

TEST_CASE("A value below the least that matters ends the search, the first or a later one") {
  FitOptions options;
  options.min_chi_square = 5;
  Begun first(options);
  CHECK(first.advance({4.9f}));
  CHECK(first.status() == FitStatus::ConvergedResiduum);
  CHECK(first.search.minimum().iterations == 0);
  Begun later(options);
  CHECK_FALSE(later.advance({1000, 5.1f}));
  CHECK(later.advance({4.9f}));
  CHECK(later.status() == FitStatus::ConvergedResiduum);
  CHECK(later.search.minimum().at.chi_square == 4.9f);
}

TEST_CASE("A first value that is not finite ends the search") {
  const float value = GENERATE(NAN, INFINITY);
  Begun fit;
  CHECK(fit.advance({value}));
  CHECK(fit.status() == FitStatus::NotConverged);
}

TEST_CASE("As many steps are taken as are allowed") {
  FitOptions options;
  options.max_iterations = 2;
  Begun fit(options);
  CHECK_FALSE(fit.advance({1000, 900, 950}));
  CHECK(fit.advance({800}));
  CHECK(fit.status() == FitStatus::IterationLimit);
  CHECK(fit.search.minimum().iterations == 2);
  CHECK(fit.search.minimum().at.chi_square == 800);
}

TEST_CASE("Equations without a solution are damped until they have one, or the search ends") {
  Begun<>::Search::Evaluation at = {1000};
  at.normal = {{{2, 0}, {2.1f, 2}}};
  at.gradient = {{6, -3}};
  Begun fit;
  fit.options.lambda_start = 1e-3f;
  fit.search.begin(true, {{{10, 20}}, fit.options.lambda_start, 0});
  fit.search.advance(at, fit.options);
  CHECK(fit.search.searching());
  // 2.2 x + 2.1 y = 6 and 2.1 x + 2.2 y = -3, with the first damping that makes it definite: 0.1
  CHECK(fit.trial(0) == Approx(10 + (2.2 * 6 + 2.1 * 3) / (2.2 * 2.2 - 2.1 * 2.1)));
  at.normal = {{{0, 0}, {0, 0}}};
  fit.search.begin(true, {{{10, 20}}, fit.options.lambda_start, 0});
  fit.search.advance(at, fit.options);
  CHECK_FALSE(fit.search.searching());
  CHECK(fit.status() == FitStatus::NotConverged);
}

TEST_CASE("Where weights are expectations, a step that brings far less than predicted is halved") {
  // Predicted: 3 * 12 + 0.75 * 6 = 40.5, a quarter of it 10.1.
  Begun<true> much, little;
  CHECK_FALSE(much.advance({1000, 1000 - 10.2f}));
  CHECK(much.step() == Approx(step_at(0.1f)));
  CHECK_FALSE(little.advance({1000, 1000 - 10}));
  CHECK(little.step() == Approx(step_at(1)));
  CHECK_FALSE(little.advance({978}));  // of 40.5 again
  CHECK(little.step() == Approx(step_at(0.1f)));
  Begun<false> plain;
  CHECK_FALSE(plain.advance({1000, 1000 - 10}));
  CHECK(plain.step() == Approx(step_at(0.1f)));
}

}  // namespace
}  // namespace driftd
