// SPDX-License-Identifier: MIT
// Fits one to a lane: each lane's sums against loops over its own pixels, and what vectors of
// numbers make of each.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "fitter/cpu/lane_sums.hpp"
#include "support/catch.hpp"
#include "unit/fitter/explicit_sums.hpp"

namespace driftd {
namespace {

using fitter::Estimator;
namespace target = fitter::cpu::HWY_NAMESPACE;
using Real = target::LaneSums::Real;
using Pair = target::PairOf<Real>;
using Lane = std::size_t;
constexpr Lane kLanes = target::LaneSums::kLanes;

std::vector<float> each(const Real& v) {
  alignas(64) float values[kLanes];
  v.store(values);
  return {values, values + kLanes};
}

std::vector<bool> each(const Real::Mask& m) {
  std::vector<bool> set;
  for (const float v : each(where(m, Real(1.0f), Real(0.0f)))) set.push_back(v == 1);
  return set;
}

Real of_lanes(const std::vector<float>& values) {
  alignas(64) float aligned[kLanes];
  std::copy_n(values.data(), kLanes, aligned);
  return Real::load(aligned);
}

/// A value that says of which lane it is.
Real by_lane(float first, float step) {
  std::vector<float> values;
  for (Lane k = 0; k < kLanes; ++k) values.push_back(first + step * static_cast<float>(k));
  return of_lanes(values);
}

/// A ROI for each lane.
/// @tparam kTwoAbreast  as processors with many registers have it
template <class T, bool kTwoAbreast = false>
struct Rois {
  int side;
  bool integrated;
  std::vector<std::vector<T>> images;
  std::vector<std::vector<float>> variances;
  std::unique_ptr<fitter::cpu::LaneWorkspace> workspace =
      std::make_unique<fitter::cpu::LaneWorkspace>();
  target::LaneSumsIn<fitter::cpu::LaneWorkspace, kTwoAbreast> sums{*workspace, side, integrated};

  explicit Rois(int side_px, bool over_pixels = false)
      : side(side_px), integrated(over_pixels), images(kLanes), variances(kLanes) {
    for (Lane k = 0; k < kLanes; ++k) {
      const double shift = 0.3 * static_cast<double>(k % 4);
      const test::Image f = test::gaussian({1.4 + shift, 1.9 + shift, 0.9 + shift}, side);
      const test::Image other = test::uneven(side);
      for (std::size_t i = 0; i < f.size(); ++i) {
        images[k].push_back(
            static_cast<T>(90 + 9 * static_cast<double>(k) + 60 * f[i] + 0.4 * other[i]));
        variances[k].push_back(test::f32(3 + static_cast<double>(k) + std::fabs(other[i])));
      }
    }
  }

  void load(float saturation = 1e9f) {
    const T* rois[kLanes];
    for (Lane k = 0; k < kLanes; ++k) rois[k] = images[k].data();
    sums.load(rois, saturation);
  }
  void load_map(Estimator estimator, float gain) {
    const float* maps[kLanes];
    for (Lane k = 0; k < kLanes; ++k) maps[k] = variances[k].data();
    fitter::FitOptions options;
    options.estimator = estimator;
    options.noise.gain_e_per_adu = gain;
    sums.load_map(maps, options);
  }

  /// The ROI of lane k, after load().
  test::ScalarRoi scalar(Lane k) const {
    const test::Image pixels(images[k].begin(), images[k].end());
    const test::Image map(variances[k].begin(), variances[k].end());
    return {pixels, side, each(sums.summary().pedestal_adu)[k], map, integrated};
  }
};

TEMPLATE_TEST_CASE("Each lane has the pixels of its own ROI", "", std::uint8_t, std::uint16_t,
                   float) {
  const int side = GENERATE(4, 5, 6, 7, 8, 9, 13, 31, 32);
  Rois<TestType> rois(side);
  rois.load();
  const auto pedestals = each(rois.sums.summary().pedestal_adu);
  const auto usable = each(rois.sums.summary().usable);
  for (Lane k = 0; k < kLanes; ++k) {
    CAPTURE(side, k);
    CHECK(usable[k]);
    const auto& image = rois.images[k];
    const test::Image pixels(image.begin(), image.end());
    const double mean = test::sum(pixels) / static_cast<double>(pixels.size());
    CHECK(pedestals[k] == Approx(mean).epsilon(0).margin(10));  // of pixels that span 60 and more
    if (!std::is_same_v<TestType, float>) CHECK(pedestals[k] == std::round(pedestals[k]));
    const test::Image less = test::scaled(pixels, 1, -pedestals[k]);
    for (std::size_t i = 0; i < less.size(); ++i)
      CHECK(rois.workspace->pixels[i * kLanes + k] == Approx(less[i]).margin(1e-4));
    const double squares = test::sum(less, less);
    CHECK(each(rois.sums.summary().sum)[k] ==
          Approx(test::sum(less)).epsilon(0).margin(1e-5 * squares));
    CHECK(each(rois.sums.summary().sum_squares)[k] == Approx(squares).epsilon(1e-5));
  }
}

TEST_CASE("One pixel spoils the ROI of its lane alone") {
  const int side = GENERATE(4, 5);
  const float bad = GENERATE(NAN, INFINITY, -INFINITY, 3e38f, 500.0f);
  for (std::size_t i = 0; i < static_cast<std::size_t>(side * side); ++i) {
    const Lane spoilt = i % kLanes;
    Rois<float> rois(side);
    rois.images[spoilt][i] = bad;
    rois.load(500);
    const auto usable = each(rois.sums.summary().usable);
    for (Lane k = 0; k < kLanes; ++k) CHECK(usable[k] == (k != spoilt));
  }
  Rois<float> rois(side);
  std::fill(rois.images[1].begin(), rois.images[1].end(), 12.5f);
  rois.images[0].back() = 499;  // the highest, and no lower than the lowest before
  rois.load(500);
  CHECK(each(rois.sums.summary().usable)[0]);
  CHECK_FALSE(each(rois.sums.summary().usable)[1]);
}

TEST_CASE("Each lane has the map of its own ROI; a variance that is none spoils that alone") {
  const auto estimator = GENERATE(Estimator::WeightedLeastSquares, Estimator::PoissonLikelihood);
  const int side = GENERATE(4, 5, 6, 7);
  const auto count = static_cast<std::size_t>(side * side);
  constexpr float kGain = 0.5f;
  Rois<float> rois(side);
  rois.load();
  rois.load_map(estimator, kGain);
  for (Lane k = 0; k < kLanes; ++k) {
    CHECK(each(rois.sums.summary().usable)[k]);
    for (std::size_t i = 0; i < count; ++i)
      CHECK(rois.workspace->map[i * kLanes + k] ==
            Approx(fitter::map_value(estimator, kGain, rois.variances[k][i])));
  }
  for (const float bad : {-1.0f, NAN}) {
    for (std::size_t i = 0; i < count; ++i) {
      const Lane spoilt = i % kLanes;
      Rois<float> again(side);
      again.variances[spoilt][i] = bad;
      again.load();
      again.load_map(estimator, kGain);
      const auto usable = each(again.sums.summary().usable);
      for (Lane k = 0; k < kLanes; ++k) CHECK(usable[k] == (k != spoilt));
    }
  }
  rois.variances[2][count - 1] = 0;
  rois.load_map(estimator, kGain);
  CHECK(each(rois.sums.summary().usable)[2] == (estimator == Estimator::PoissonLikelihood));
}

TEST_CASE("What had no pixels to use has none with a map") {
  Rois<float> rois(4);
  rois.images[1][0] = NAN;
  rois.load();
  rois.load_map(Estimator::WeightedLeastSquares, 1);
  CHECK_FALSE(each(rois.sums.summary().usable)[1]);
}

/// A profile, levels and noise of each lane's own.
struct Point {
  fitter::ProfileOf<Real> profile = {by_lane(1.6f, 0.4f), by_lane(2.1f, 0.2f), by_lane(1.1f, 0.3f),
                                     by_lane(1.4f, 0.25f)};
  Real alpha = by_lane(50, 5), beta = by_lane(-6, 2);
  fitter::PixelNoiseOf<Real> noise = {Estimator::WeightedLeastSquares, true, 0.5f, by_lane(60, 3),
                                      50};

  fitter::Profile of(Lane k) const {
    return {each(profile.x_px)[k], each(profile.y_px)[k], each(profile.sigma_x_px)[k],
            each(profile.sigma_y_px)[k]};
  }
  fitter::PixelNoise noise_of(Lane k) const {
    return {noise.estimator, noise.mapped, noise.gain, each(noise.shift)[k], noise.floor};
  }
};

/// To single precision of the largest of the sums that are alike.
void check_sum(const Real& sum, Lane k, double expected, double scale) {
  CHECK(each(sum)[k] == Approx(expected).epsilon(2e-4).margin(2e-6 * std::fabs(scale)));
}

TEMPLATE_TEST_CASE("A lane's sums are those of its own pixels and profile", "", std::false_type,
                   std::true_type) {
  const int side = GENERATE(4, 5, 8, 9, 32);
  Rois<float, TestType::value> rois(side, GENERATE(false, true));
  rois.load();
  const Point at;
  const auto m = rois.sums.set_profile(at.profile, true);
  CHECK(&rois.sums.moments() == &rois.sums.set_profile(at.profile, true));
  const auto third = rois.sums.cubic_moments();
  const auto variance = rois.sums.quotient_sums(at.alpha, at.beta);
  const auto squares = rois.sums.squares(at.alpha, at.beta);
  for (Lane k = 0; k < kLanes; ++k) {
    CAPTURE(side, k);
    test::ScalarRoi scalar = rois.scalar(k);
    const fitter::ProfileMoments of = scalar.set_profile(at.of(k), true);
    const float alpha = each(at.alpha)[k], beta = each(at.beta)[k];
    check_sum(m.pixels.f, k, of.pixels.f, 1e3);
    check_sum(m.pixels.u, k, of.pixels.u, 1e3);
    check_sum(m.pixels.v, k, of.pixels.v, 1e3);
    check_sum(m.pixels.uu, k, of.pixels.uu, 1e3);
    check_sum(m.pixels.vv, k, of.pixels.vv, 1e3);
    const fitter::CubicMoments of_third = scalar.cubic_moments();
    for (const auto& [axis, expected, cubic, of_cubic] :
         {std::tuple{&m.x, &of.x, third.x, of_third.x}, {&m.y, &of.y, third.y, of_third.y}}) {
      for (int a = 0; a < 3; ++a)
        check_sum(axis->first[a], k, expected->first[a], expected->first[a % 2 == 0 ? a : a + 1]);
      for (int a = 0; a < fitter::kPairs; ++a) {
        const int alike = a == fitter::k01 ? fitter::k11 : a == fitter::k12 ? fitter::k22 : a;
        check_sum(axis->second[a], k, expected->second[a], expected->second[alike]);
        check_sum(cubic[a], k, of_cubic[a], of_cubic[alike]);
      }
    }
    check_sum(squares, k, scalar.squares(alpha, beta), 0);
    const fitter::QuotientSums of_variance = scalar.quotient_sums(alpha, beta);
    check_sum(variance.q, k, of_variance.q, 0);
    check_sum(variance.qq, k, of_variance.qq, 0);
    check_sum(variance.q_rr, k, of_variance.q_rr, 0);
    check_sum(variance.qq_rr, k, of_variance.qq_rr, 0);
  }
}

TEMPLATE_TEST_CASE("A lane's weighted sums are those of its own pixels, profile, map and noise", "",
                   std::false_type, std::true_type) {
  const int side = GENERATE(4, 5, 9, 16);
  const auto [estimator, mapped] =
      GENERATE(table<Estimator, bool>({{Estimator::WeightedLeastSquares, true},
                                       {Estimator::PoissonLikelihood, false},
                                       {Estimator::PoissonLikelihood, true}}));
  Rois<float, TestType::value> rois(side, GENERATE(false, true));
  rois.load();
  Point at;
  at.noise.estimator = estimator;
  at.noise.mapped = mapped;
  rois.load_map(estimator, at.noise.gain);  // there from a fit before, where it is not asked for
  rois.sums.set_profile(at.profile, true);
  auto found = rois.sums.weighted_moments(at.noise, at.alpha, at.beta);
  std::vector<Real> sums;
  for_each_sum(found, [&](const Real& sum) { sums.push_back(sum); });
  CHECK(sums.size() == fitter::kWeightedSums);
  const Real values = rois.sums.values(at.noise, at.alpha, at.beta);
  for (Lane k = 0; k < kLanes; ++k) {
    test::ScalarRoi scalar = rois.scalar(k);
    scalar.set_profile(at.of(k), true);
    check_sum(values, k, scalar.values(at.noise_of(k), each(at.alpha)[k], each(at.beta)[k]), 1);
    auto of = scalar.weighted_moments(at.noise_of(k), each(at.alpha)[k], each(at.beta)[k]);
    std::size_t i = 0;
    for_each_sum(of, [&](float expected) {
      CAPTURE(side, k, i);
      check_sum(sums[i++], k, expected, 1);
    });
  }
}

TEST_CASE("A lane's likelihood is that of Poisson counts, near the model and far from it") {
  constexpr fitter::PixelNoise kNoise = {Estimator::PoissonLikelihood, false, 1, 3, 0.01f};
  const fitter::PoissonLikelihood<Real> likelihood(kNoise);
  const float model = GENERATE(0.5f, 20.0f, 3000.0f);
  const Real pixel = by_lane(0.1f * model - kNoise.shift, 0.31f * model);
  const auto of = likelihood.of(pixel, Real(model), Real(0.0f));
  const Real value = likelihood.value(pixel, Real(model), Real(0.0f));
  const double m = model + kNoise.shift;
  for (Lane k = 0; k < kLanes; ++k) {
    const double q = std::max(0.0, double{each(pixel)[k]} + kNoise.shift);
    CAPTURE(model, q);
    CHECK(each(value)[k] == Approx(2 * (m - q - q * std::log(m / q))).epsilon(1e-5));
    const double squares = q < 5 * m ? (q - m) * (q - m) / m : 4 * (q - m);
    CHECK(each(of.value)[k] == Approx(squares).epsilon(1e-5).margin(1e-6));
    CHECK(each(of.weight)[k] == Approx(1 / m).epsilon(1e-6));
    CHECK(each(of.residual)[k] == Approx((q - m) / m).epsilon(1e-5).margin(1e-6));
  }
  const Real far = likelihood.value(Real(-10.0f), Real(4.0f), Real(0.0f));
  CHECK(each(far)[0] == 2 * 7);
  CHECK(each(likelihood.of(Real(1.0f), Real(-10.0f), Real(0.0f)).weight)[0] == Approx(100));
}

TEST_CASE("A lane's smoothed extremes are those of its own pixels, and of equals the first") {
  const int side = GENERATE(4, 5, 9, 32);
  const bool ties = GENERATE(false, true);
  Rois<std::uint16_t> rois(side);
  const auto n = static_cast<std::size_t>(side);
  for (Lane k = 0; ties && k < kLanes; ++k) {  // one bright pixel is in nine windows
    auto& image = rois.images[k];
    std::fill(image.begin(), image.end(), std::uint16_t{100});
    const std::size_t row = (2 + k) % (n - 1), column = (3 + 2 * k) % (n - 1);
    image[row * n + column] = 900;
    image[(n - 1) * n + k % n] = 20;
  }
  rois.load();
  const Point at;
  rois.sums.set_profile(at.profile, true);
  const auto pixels = rois.sums.smoothed_pixels();
  const auto residuals = rois.sums.smoothed_residuals(at.alpha, at.beta);
  const Real level = by_lane(-20, 10);
  const Real above = rois.sums.count_above(level);
  const auto middle = [&](Lane k, Lane step) {  // of a window, another in each lane
    return static_cast<float>(1 + k * step % (n - 2));
  };
  std::vector<float> x_px, y_px;
  for (Lane k = 0; k < kLanes; ++k) {
    x_px.push_back(middle(k, 1));
    y_px.push_back(middle(k, 3));
  }
  const Real one_window = rois.sums.smoothed_pixel(of_lanes(x_px), of_lanes(y_px));
  for (Lane k = 0; k < kLanes; ++k) {
    CAPTURE(side, ties, k);
    test::ScalarRoi scalar = rois.scalar(k);
    const fitter::SmoothedExtremes expected = scalar.smoothed_pixels();
    check_sum(pixels.highest, k, expected.highest, 100);
    check_sum(pixels.lowest, k, expected.lowest, 100);
    CHECK(each(pixels.x_px)[k] == expected.x_px);
    CHECK(each(pixels.y_px)[k] == expected.y_px);
    check_sum(one_window, k, scalar.smoothed_pixel(x_px[k], y_px[k]), 100);
    scalar.set_profile(at.of(k), true);
    const auto of_residuals = scalar.smoothed_residuals(each(at.alpha)[k], each(at.beta)[k]);
    check_sum(residuals.highest, k, of_residuals.highest, 100);
    check_sum(residuals.lowest, k, of_residuals.lowest, 100);
    CHECK(each(above)[k] == scalar.count_above(each(level)[k]));
  }
}

TEST_CASE("Smoothed extremes are those of the pixels loaded last") {
  Rois<float> rois(6);
  rois.load();
  const Point at;
  const auto check = [&](Lane changed) {
    rois.sums.set_profile(at.profile, true);
    const auto pixels = rois.sums.smoothed_pixels();
    const auto residuals = rois.sums.smoothed_residuals(at.alpha, at.beta);
    for (Lane k = 0; k < kLanes; ++k) {
      CAPTURE(changed, k);
      test::ScalarRoi scalar = rois.scalar(k);
      scalar.set_profile(at.of(k), true);
      check_sum(pixels.highest, k, scalar.smoothed_pixels().highest, 100);
      const auto of_residuals = scalar.smoothed_residuals(each(at.alpha)[k], each(at.beta)[k]);
      check_sum(residuals.highest, k, of_residuals.highest, 100);
    }
  };
  check(0);
  for (Lane k = 0; k < kLanes; ++k) {
    rois.images[k][3 * 6 + 3] += 400;
    rois.load();
    check(k);
  }
}

TEST_CASE("Of a pixel that a map calls gone no smoothed extreme tells") {
  Rois<float> rois(6);
  const Point at;
  for (Lane k = 0; k < kLanes; ++k) rois.images[k][3 * 6 + 3] += 400;
  rois.load();
  rois.sums.set_profile(at.profile, true);
  const auto all = each(rois.sums.smoothed_residuals(at.alpha, at.beta).highest);
  const auto pixels = each(rois.sums.smoothed_pixels().highest);
  for (Lane k = 0; k < kLanes; ++k) rois.variances[k][3 * 6 + 3] = INFINITY;
  rois.load_map(Estimator::PoissonLikelihood, 1);
  rois.sums.set_profile(at.profile, true);
  const auto left = each(rois.sums.smoothed_residuals(at.alpha, at.beta).highest);
  const auto pixels_left = each(rois.sums.smoothed_pixels().highest);
  for (Lane k = 0; k < kLanes; ++k) {
    CHECK(left[k] < all[k] - 20);
    CHECK(pixels_left[k] < pixels[k] - 20);
  }
}

TEST_CASE("Of two numbers as one each is what it would be alone") {
  const Real a = by_lane(0.3f, 0.21f), b = by_lane(2.5f, -0.3f), c = by_lane(2, 0.4f);
  const Pair p(a, b), q(b, c);
  const auto check = [](const Pair& found, const Real& of_a, const Real& of_b) {
    CHECK(each(target::part<0>(found)) == each(of_a));
    CHECK(each(target::part<1>(found)) == each(of_b));
  };
  check(p + q, a + b, b + c);
  check(p - q, a - b, b - c);
  check(p * q, a * b, b * c);
  check(Pair(2.0f), 2.0f, 2.0f);
  check(Pair(a), a, a);
  check(where(p < q, p, Pair(7.0f)), where(a < b, a, Real(7.0f)), where(b < c, b, Real(7.0f)));
  check(where(p > q, p, Pair(7.0f)), where(a > b, a, Real(7.0f)), where(b > c, b, Real(7.0f)));
  check(multiply_add(p, q, p), multiply_add(a, b, a), multiply_add(b, c, b));
  check(largest_of(p, q), largest_of(a, b), largest_of(b, c));
  check(exp2_of(q), exp2_of(b), exp2_of(c));
  check(abs_of(p - q), abs_of(a - b), abs_of(b - c));
  check(reciprocal_of(p), reciprocal_of(a), reciprocal_of(b));
  const auto parts = binary_parts(p);
  check(parts.exponent, binary_parts(a).exponent, binary_parts(b).exponent);
  check(parts.rest, binary_parts(a).rest, binary_parts(b).rest);
  Pair sum = p;
  check(sum += q, a + b, b + c);
  check(target::joined<Pair>(a, c), a, c);
  CHECK(each(target::joined<Real>(a, c)) == each(a));
  CHECK(each(target::part<0>(a)) == each(a));
}

TEST_CASE("A profile far from its centre is small, and its cube still a number") {
  Rois<float> rois(32);
  rois.load();
  rois.sums.set_profile({Real(0.0f), Real(0.0f), Real(0.4f), Real(0.4f)}, true);
  const float far = rois.workspace->x[0][31 * kLanes];
  CHECK(far > 0);
  CHECK(far < 1e-12f);
  CHECK(far * far * far >= std::numeric_limits<float>::min());
}

TEST_CASE("Powers of two, parts and reciprocals are those of each lane's number") {
  for (double a = -41; a < 2; a += 0.00731 * static_cast<double>(kLanes)) {
    const Real given = by_lane(test::f32(a), 0.00731f);
    const auto values = each(given), powers = each(exp2_of(given));
    for (Lane k = 0; k < kLanes; ++k)
      CHECK(powers[k] == Approx(std::exp2(double{values[k]})).epsilon(1.75e-7));
  }
  CHECK(each(exp2_of(Real(0.0f)))[0] == 1);
  for (float a = 1e-30f; a < 1e30f; a *= 1.37f) {
    const Real given = by_lane(a, 0.4f * a);
    const auto parts = binary_parts(given);
    const auto values = each(given), reciprocals = each(reciprocal_of(given));
    for (Lane k = 0; k < kLanes; ++k) {
      const float exponent = each(parts.exponent)[k], rest = each(parts.rest)[k];
      CHECK(rest >= std::sqrt(0.5) - 1.0001);
      CHECK(rest <= std::sqrt(2) - 0.9999);
      CHECK(std::ldexp(1.0 + rest, static_cast<int>(exponent)) == values[k]);
      CHECK(double{reciprocals[k]} * values[k] == Approx(1).epsilon(2.5e-7));
    }
  }
}

TEST_CASE("Every lane decides for itself") {
  const Real a = of_lanes(
      {1, -2, NAN, INFINITY, 1, -2, NAN, INFINITY, 1, -2, NAN, INFINITY, 1, -2, NAN, INFINITY});
  const Real b = of_lanes({1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4});
  const auto first = [](const Real::Mask& m) {
    const auto all = each(m);
    return std::vector<bool>(all.begin(), all.begin() + 4);
  };
  using Bits = std::vector<bool>;
  CHECK(first(a < b) == Bits{false, true, false, false});
  CHECK(first(a <= b) == Bits{true, true, false, false});
  CHECK(first(a > b) == Bits{false, false, false, true});
  CHECK(first(a >= b) == Bits{true, false, false, true});
  CHECK(first(is_nan(a)) == Bits{false, false, true, false});
  CHECK(first(is_finite(a)) == Bits{true, true, false, false});
  CHECK(first(!(a < b)) == Bits{true, false, true, true});
  CHECK(first(a < b || is_nan(a)) == Bits{false, true, true, false});
  CHECK(first(a <= b && a >= b) == Bits{true, false, false, false});
  CHECK(first(where(a<b, a <= b, a> b)) == Bits{false, true, false, true});
  CHECK(any(a < b));
  CHECK_FALSE(all(a < b));
  CHECK(all(b > Real(0.0f)));
  CHECK_FALSE(any(b < Real(0.0f)));
  CHECK(all(Real::Mask(true)));
  CHECK_FALSE(any(Real::Mask(false)));
  CHECK(each(fitter::larger(a, b))[1] == 2);
  CHECK(each(fitter::larger(a, b))[2] == 3);  // the second where one is no number
  CHECK(each(fitter::smaller(a, b))[1] == -2);
  CHECK(each(fitter::smaller(a, b))[2] == 3);
  CHECK(each(abs_of(a))[1] == 2);
  CHECK(each(-b)[2] == -3);
  CHECK(each(log_of(b))[2] == Approx(std::log(3)));
  CHECK(each(sqrt_of(b))[3] == 2);
}

}  // namespace
}  // namespace driftd
