// SPDX-License-Identifier: MIT
// What becomes of a minimum: the rule that makes it a spot, each clause apart; its uncertainties
// against sums over the pixels; starts and second searches.
#include <algorithm>
#include <array>
#include <cstring>

#include "fitter/circular_gaussian.hpp"
#include "fitter/elliptical_gaussian.hpp"
#include "fitter/fit_details.hpp"
#include "fitter/fit_spot.hpp"
#include "support/catch.hpp"
#include "support/fisher.hpp"
#include "unit/fitter/explicit_sums.hpp"

namespace driftd {
namespace {

using fitter::CircularGaussian;
using fitter::EllipticalGaussian;
using fitter::Estimator;
using fitter::FitInput;
using fitter::FitOptions;
using fitter::FitStatus;
using fitter::FullSearch;
using fitter::ImplicitLeastSquares;
using fitter::Localization;
using test::Image;

constexpr int kSide = 8;

template <class Model>
bool inside(int parameter, float value) {
  auto p = test::as_vec<Model::kShape>(test::some_shape<Model>());
  p[parameter] = value;
  CAPTURE(parameter, value);
  return fitter::inside_limits(Model::profile(p), kSide);
}

TEMPLATE_TEST_CASE("A spot lies within each limit", "", CircularGaussian, EllipticalGaussian) {
  for (const int place : {0, 1}) {
    CHECK_FALSE(inside<TestType>(place, -0.5f));
    CHECK(inside<TestType>(place, -0.49f));
    CHECK(inside<TestType>(place, 7.49f));
    CHECK_FALSE(inside<TestType>(place, 7.5f));
  }
  for (int width = 2; width < TestType::kShape; ++width) {
    CHECK_FALSE(inside<TestType>(width, 0.4f));
    CHECK(inside<TestType>(width, 0.41f));
    CHECK(inside<TestType>(width, 3.99f));
    CHECK_FALSE(inside<TestType>(width, 4));
  }
}

TEST_CASE("A spot explains its pixels, and its amplitude and widths are determined") {
  fitter::LocalizationOf<float> l = {};
  l.amplitude_adu = 100;
  l.sigma_x_px = 2;
  l.sigma_y_px = 3;
  CHECK(fitter::significant(l, 3.0f, 3 * std::exp(0.51f), 50));
  CHECK_FALSE(fitter::significant(l, 3.0f, 3 * std::exp(0.49f), 50));
  for (const auto& [value, sd] : {std::pair{&l.amplitude_adu, &l.amplitude_sd_adu},
                                  {&l.sigma_x_px, &l.sigma_x_sd_px},
                                  {&l.sigma_y_px, &l.sigma_y_sd_px}}) {
    *sd = *value / 3.9f;
    CHECK_FALSE(fitter::significant(l, 3.0f, 100.0f, 50));
    *sd = *value / 4.1f;
    CHECK(fitter::significant(l, 3.0f, 100.0f, 50));
  }
}

TEST_CASE("Residuals have no structure, bright or dark, beyond a third of the amplitude or noise") {
  const auto structureless = [](float highest, float lowest, float amplitude, float sd) {
    return fitter::structureless<float>({highest, lowest, 0, 0}, amplitude, sd);
  };
  for (const auto& [amplitude, sd] : {std::pair{30.0f, 1.0f}, {3.0f, 6.0f}}) {
    CHECK(structureless(9.9f, -1, amplitude, sd));
    CHECK_FALSE(structureless(10.1f, -1, amplitude, sd));
    CHECK(structureless(1, -9.9f, amplitude, sd));
    CHECK_FALSE(structureless(1, -10.1f, amplitude, sd));
  }
}

TEST_CASE("A pixel's variance is read noise and photons, neither ever negative") {
  const fitter::NoiseModel noise = {0.5f, 3, 100};
  const auto of = [&](float amplitude, float background) {
    return fitter::photon_variance(noise, amplitude, background);
  };
  CHECK(of(40, 150).constant == 36 + 100);
  CHECK(of(40, 150).slope == 80);
  CHECK(of(-40, 90).constant == 36);
  CHECK(of(-40, 90).slope == 0);
}

TEST_CASE("At the peak a pixel is as noisy as its light makes it, where the gain is known") {
  const auto of = [](const fitter::NoiseModel& noise, float pooled) {
    return fitter::variance_at_peak(noise, 40.0f, 150.0f, pooled);
  };
  CHECK(of({0.5f, 3, 100}, 20) == 36 + 100 + 80);
  CHECK(of({0.5f, 3, 100}, 300) == 300);  // never less than what the residuals tell
  CHECK(of({0, 3, 100}, 20) == 20);
}

/// What pixels of the variance constant + slope f are expected to give: 100 of them, a profile that
/// adds up to 8, and five parameters.
fitter::VarianceSums sums_of(float constant, float slope) {
  fitter::VarianceSums s = {{60, 2, 0.5f, 0.25f}, {}};
  for (int k = 0; k < 2; ++k)
    s.squares[k] = constant * (0.99f * s.w[k] - 0.5f * s.w[k + 1]) +
                   slope * (0.99f * s.w[k + 1] - 0.5f * s.w[k + 2]);
  return s;
}

TEST_CASE("The residuals tell the pixels' variance, less what the fit took of them") {
  const auto of = [](const fitter::VarianceSums& s, float pooled = 7) {
    return fitter::residual_variance(s, 100, 8.0f, 4, pooled);
  };
  const auto both = of(sums_of(3, 20));
  CHECK(both.constant == Approx(3).epsilon(1e-5));
  CHECK(both.slope == Approx(20).epsilon(1e-5));
  const auto huge = of({{60, 2, 0.5f, 0.25f}, {2e38f, 9e37f}}, 3e36f);
  CHECK(huge.constant >= 0);
  CHECK(huge.slope > 1e38f);
  CHECK(huge.slope < INFINITY);
  const auto even = of(sums_of(3, -1));
  CHECK(even.constant == 7);
  CHECK(even.slope == 0);
  const auto photons = of(sums_of(-0.1f, 20));  // 20 is what the sum with f says of f alone
  CHECK(photons.constant == 0);
  CHECK(photons.slope == Approx(sums_of(-0.1f, 20).squares[1] / (0.99f * 0.5f - 0.5f * 0.25f)));
  CHECK(of(sums_of(0, 0), 0).constant == 0);
  CHECK(of(sums_of(0, 0), 0).slope == 0);
}

TEST_CASE("The peak of a narrow spot tells as much as one pixel can, not more") {
  fitter::VarianceSums s = {{60, 3, 1, 0.2f}, {}};
  for (int k = 0; k < 2; ++k)
    s.squares[k] = 3 * (0.99f * s.w[k] - s.w[k + 1]) + 20 * (0.99f * s.w[k + 1] - s.w[k + 2]);
  const auto v = fitter::residual_variance(s, 100, 2.0f, 4, 7.0f);
  CHECK(v.constant == Approx(3).epsilon(1e-5));
  CHECK(v.slope == Approx(20).epsilon(1e-5));
}

TEST_CASE("A spot so narrow that its peak fits any pixel leaves the common variance") {
  const fitter::VarianceSums s = {{90, 0.1f, 0.0083f, 0.0083f}, {90, 5}};
  const auto v = fitter::residual_variance(s, 100, 1.01f, 4, 7.0f);
  CHECK(v.constant == 7);
  CHECK(v.slope == 0);
}

/// All six parameters of a spot; its pixels have structure that no spot explains.
const std::vector<double> kSpot = {3.3, 4.6, 1.2, 1.7, 400, 90};

Image model(const std::vector<double>& p) {
  return test::scaled(test::gaussian({p[0], p[1], p[2], p[3]}, kSide), p[4], p[5]);
}

Image pixels() {
  return test::difference(model(kSpot), test::scaled(test::uneven(kSide), 0.2, 0));
}

std::vector<double> parameters_of(const Localization& l) {
  return {l.x_px, l.y_px, l.sigma_x_px, l.sigma_y_px, l.amplitude_adu, l.background_adu};
}

using Covariance = std::array<std::array<double, 6>, 6>;

/// Covariance of least squares of weight w where the pixels' variance is v; 0 for what is fixed.
Covariance expected_covariance(const std::vector<double>& p, const Image& w, const Image& v,
                               unsigned fixed) {
  const auto d = test::derivatives(model, p);
  Covariance normal{}, scatter{}, expected{};
  for (int j = 0; j < 6; ++j) {
    for (int k = 0; k < 6; ++k) {
      const bool held = (fixed >> j & 1u) != 0 || (fixed >> k & 1u) != 0;
      normal.begin()[j].begin()[k] = held ? j == k : test::sum(w, d[j], d[k]);
      scatter.begin()[j].begin()[k] = held ? 0 : test::sum(w, w, v, d[j], d[k]);
    }
  }
  const auto c = test::inverse(normal);
  for (std::size_t a = 0; a < 6; ++a)
    for (std::size_t b = 0; b < 6; ++b)
      for (std::size_t j = 0; j < 6; ++j)
        for (std::size_t k = 0; k < 6; ++k) expected[a][b] += c[a][j] * scatter[j][k] * c[k][b];
  return expected;
}

constexpr double kGain = 0.5, kReadNoise = 3, kOffset = 40;

FitOptions options_of(Estimator estimator, bool gain_known) {
  FitOptions options;
  options.model = fitter::Model::EllipticalGaussian;
  options.estimator = estimator;
  if (gain_known) options.noise = {kGain, kReadNoise, kOffset};
  return options;
}

Image map_of_variances() {
  return test::scaled(test::uneven(kSide), 1, 60);
}

/// A whole fit over explicit sums.
template <class Search>
Localization fit_over(test::ScalarRoi& roi, const FitInput& input, const FitOptions& options,
                      fitter::FitDetails* details = nullptr) {
  fitter::CovarianceOf<Search> covariance;
  const Localization l = fitter::as_localization(fitter::fit_spot<Search>(
      roi, input, options, [](bool mask) { return mask; },
      details != nullptr ? &covariance : nullptr));
  if (details != nullptr) fitter::set_details(covariance, l, *details);
  return l;
}

Localization fit(const FitOptions& options, fitter::FitDetails* details = nullptr) {
  const bool mapped = options.estimator == Estimator::WeightedLeastSquares;
  test::ScalarRoi roi(pixels(), kSide, 60, mapped ? map_of_variances() : Image());
  FitInput input;
  input.start = {3.3f, 4.6f, 1.2f, 1.7f};
  input.levels = {400, 90};
  const float some = 0;
  if (mapped) input.variances = &some;  // the ROI has them
  if (options.estimator == Estimator::ImplicitLeastSquares)
    return fit_over<ImplicitLeastSquares<EllipticalGaussian>>(roi, input, options, details);
  return fit_over<FullSearch<EllipticalGaussian>>(roi, input, options, details);
}

/// The variance of each pixel by regression of r^2 / (1 - h) on 1 and f, with its weights.
Image variances_of_residuals(const Localization& l) {
  const Image f = test::gaussian({l.x_px, l.y_px, l.sigma_x_px, l.sigma_y_px}, kSide);
  const Image r = test::difference(pixels(), model(parameters_of(l)));
  double a = 0, b = 0, c = 0, s = 0, t = 0;
  for (std::size_t i = 0; i < f.size(); ++i) {
    const double kept = 1 - 1.0 / (kSide * kSide) - 5 / test::sum(f) * f[i];
    const double w = kept * std::pow(0.1 + f[i], -2), square = r[i] * r[i] / kept;
    a += w;
    b += w * f[i];
    c += w * f[i] * f[i];
    s += w * square;
    t += w * square * f[i];
  }
  const double slope = (t * a - s * b) / (a * c - b * b);
  REQUIRE(slope > 0);  // else the test's image says nothing of it
  REQUIRE(s * c > t * b);
  return test::scaled(f, slope, (s * c - t * b) / (a * c - b * b));
}

/// The variance of each pixel as an estimator knows it.
Image variances_of(const FitOptions& options, const Localization& l) {
  if (options.estimator == Estimator::WeightedLeastSquares) return map_of_variances();
  const Image h = model(parameters_of(l));
  const bool likelihood = options.estimator == Estimator::PoissonLikelihood;
  if (options.noise.gain_e_per_adu > 0)  // (gain (h - offset) + read^2) / gain^2
    return test::scaled(h, 1 / kGain, kReadNoise * kReadNoise / (kGain * kGain) - kOffset / kGain);
  if (likelihood) return h;
  return variances_of_residuals(l);
}

bool weighs(Estimator estimator) {
  return estimator == Estimator::WeightedLeastSquares || estimator == Estimator::PoissonLikelihood;
}

TEST_CASE("A spot is told with the uncertainties and covariances that its pixels give it") {
  const auto estimator = GENERATE(Estimator::ImplicitLeastSquares, Estimator::LeastSquares,
                                  Estimator::WeightedLeastSquares, Estimator::PoissonLikelihood);
  const bool gain_known = GENERATE(false, true);
  const unsigned fixed =
      estimator == Estimator::ImplicitLeastSquares ? 0u : GENERATE(0u, 0b100100u);
  CAPTURE(static_cast<int>(estimator), gain_known, fixed);
  FitOptions options = options_of(estimator, gain_known);
  options.fixed = static_cast<std::uint8_t>(fixed);
  fitter::FitDetails details;
  const Localization l = fit(options, &details);
  REQUIRE(converged(l.status));
  const Localization without = fit(options);
  CHECK(std::memcmp(&l, &without, sizeof l) == 0);
  const auto found = parameters_of(l);
  const float sd[] = {l.x_sd_px,       l.y_sd_px,          l.sigma_x_sd_px,
                      l.sigma_y_sd_px, l.amplitude_sd_adu, l.background_sd_adu};
  const Image v = variances_of(options, l);
  Image w(v.size(), 1);
  if (weighs(estimator))
    std::transform(v.begin(), v.end(), w.begin(), [](double x) { return 1 / x; });
  const Covariance expected = expected_covariance(found, w, v, fixed);
  for (std::size_t j = 0; j < 6; ++j) {
    CAPTURE(j);
    CHECK(found[j] == Approx(kSpot[j]).margin((fixed >> j & 1u) != 0 ? 1e-5 : 4 * sd[j]));
    CHECK(sd[j] == Approx(std::sqrt(expected[j][j])).epsilon(1e-3));
    for (std::size_t k = 0; k < 6; ++k) {
      const double both = std::sqrt(expected[j][j] * expected[k][k]);
      CHECK(details.covariance[j][k] == Approx(expected[j][k]).margin(2e-3 * both));
    }
  }
}

TEST_CASE("What a bound keeps is as uncertain as it would be were all else known") {
  const auto estimator = GENERATE(Estimator::WeightedLeastSquares, Estimator::PoissonLikelihood);
  FitOptions options = options_of(estimator, true);
  options.bounds.upper[3] = 1.5f;
  fitter::FitDetails details;
  const Localization l = fit(options, &details);
  REQUIRE(l.sigma_y_px == 1.5f);
  Image w = variances_of(options, l);
  for (double& x : w) x = 1 / x;
  const auto d = test::derivatives(model, parameters_of(l));
  const double variance = 1 / test::sum(w, d[3], d[3]);
  CHECK(l.sigma_y_sd_px == Approx(std::sqrt(variance)).epsilon(1e-3));
  for (int k = 0; k < 6; ++k)
    CHECK(details.covariance[3][k] == Approx(k == 3 ? variance : 0.0).epsilon(2e-3));
}

TEST_CASE("A spot must explain more than a constant does, where spots are asked for") {
  using Search = ImplicitLeastSquares<CircularGaussian>;
  constexpr int kSmall = 4;
  int spots = 0, others = 0;
  for (double noise = 4; noise < 10; noise += 0.25) {
    CAPTURE(noise);
    Image image = test::scaled(test::gaussian({1.4, 1.7, 0.8}, kSmall), 100, 100);
    for (std::size_t i = 0; i < image.size(); ++i)
      image[i] += (i / 4 + i) % 2 == 0 ? noise : -noise;
    test::ScalarRoi roi(image, kSmall, 60);
    FitOptions options;
    const Localization l = fit_over<Search>(roi, {}, options);
    const Image about_mean = test::scaled(image, 1, -test::sum(image) / 16);
    const double gain = 11 * std::log(test::sum(about_mean, about_mean) / l.chi_square);
    CHECK(converged(l.status) == (gain > 25));
    ++(gain > 25 ? spots : others);
    options.spots_only = false;
    CHECK(converged(fit_over<Search>(roi, {}, options).status));
  }
  CHECK(spots > 0);
  CHECK(others > 0);
}

/// Tells what a cold start asks for. Smoothed, it is a parabola about 2.8, 5.3.
struct AskedPixels {
  float x_px = 3, y_px = 5;  ///< of the peak
  float level = 0;
  float count = 16.0221225f;  ///< (4 + 1.1) pi

  static int side() { return 9; }
  fitter::SmoothedExtremes smoothed_pixels() const {
    return {smoothed_pixel(std::clamp(x_px, 1.0f, 7.0f), std::clamp(y_px, 1.0f, 7.0f)), -4, x_px,
            y_px};
  }
  float smoothed_pixel(float x, float y) const {
    for (const float place : {x, y}) CHECK((place >= 1 && place <= 7));
    return 10 - (x - 2.8f) * (x - 2.8f) - 3 * (y - 5.3f) * (y - 5.3f);
  }
  float count_above(float asked) {
    level = asked;
    return count;
  }
};

TEST_CASE("A cold start is at the peak, as wide as what is above one sigma's level") {
  AskedPixels pixels;
  const fitter::Start start = fitter::cold_start(pixels);
  CHECK(start.x_px == Approx(2.8));
  CHECK(start.y_px == Approx(5.3));
  CHECK(start.sigma_x_px == Approx(2));
  CHECK(start.sigma_y_px == Approx(2));
  const float highest = pixels.smoothed_pixels().highest;
  CHECK(pixels.level == Approx(-4 + (highest + 4) * std::exp(-0.5)));
  pixels.count = 1;
  CHECK(fitter::cold_start(pixels).sigma_x_px == 0.5f);
}

TEST_CASE("A cold start is where a spot is, and on the average about as wide") {
  constexpr int kWide = 15, kPlaces = 7;  // of the spot in a pixel, along each axis
  for (const double sigma : {1.0, 1.3, 1.7, 2.0}) {
    double widths = 0;  // pixels are counted, which one alone is too coarse for
    for (int i = 0; i < kPlaces * kPlaces; ++i) {
      const double x = 7 + (i % kPlaces - 3) / 7.0, y = 7 + (i / kPlaces - 3) / 7.0;
      test::ScalarRoi roi(test::scaled(test::gaussian({x, y, sigma}, kWide), 500, 30), kWide, 0);
      const fitter::Start start = fitter::cold_start(roi);
      CAPTURE(sigma, x, y);
      CHECK(start.x_px == Approx(x).margin(0.05));
      CHECK(start.y_px == Approx(y).margin(0.05));
      widths += start.sigma_x_px;
    }
    CHECK(widths / (kPlaces * kPlaces) == Approx(sigma).epsilon(0.12));
  }
}

TEST_CASE("A cold start beside no pixels is at the peak, and within the ROI whatever is there") {
  AskedPixels pixels;
  for (const float edge : {1.0f, 7.0f}) {
    pixels.x_px = edge;
    pixels.y_px = 5;
    CHECK(fitter::cold_start(pixels).x_px == edge);
    CHECK(fitter::cold_start(pixels).y_px == Approx(5.3));
    pixels.x_px = 3;
    pixels.y_px = edge;
    CHECK(fitter::cold_start(pixels).x_px == Approx(2.8));
    CHECK(fitter::cold_start(pixels).y_px == edge);
  }
  for (const float nowhere : {0.0f, 127.0f, 1.6e7f}) {  // pixels that are no numbers put it there
    pixels.x_px = pixels.y_px = nowhere;
    const fitter::Start start = fitter::cold_start(pixels);
    CHECK(start.x_px == std::clamp(nowhere, 1.0f, 7.0f));
    CHECK(start.y_px == std::clamp(nowhere, 1.0f, 7.0f));
  }
}

/// A plain, or a ridge: no place is above its neighbours.
struct FlatPixels : AskedPixels {
  float slope;
  explicit FlatPixels(float s) : slope(s) {}
  fitter::SmoothedExtremes smoothed_pixels() const { return {8, 8, 4, 4}; }
  float smoothed_pixel(float x, float) const {
    return 8 - 1e-7f * std::fabs(slope) + slope * (x - 4);
  }
};

TEST_CASE(
    "A cold start on a plain, or where rounding has a neighbour above the peak, stays there") {
  for (const float slope : {0.0f, 1.0f, -50.0f, 1e4f, NAN}) {
    FlatPixels pixels(slope);
    const fitter::Start start = fitter::cold_start(pixels);
    CHECK(start.x_px >= 3.5f);
    CHECK(start.x_px <= 4.5f);
    CHECK(start.y_px == 4);
  }
}

TEST_CASE("A start is used if it has a width and all of it are numbers") {
  CHECK(fitter::usable_start<float>({3, 4, 1, 0}));
  CHECK_FALSE(fitter::usable_start<float>({3, 4, 0, 1}));
  for (const float bad : {NAN, INFINITY}) {
    CHECK_FALSE(fitter::usable_start<float>({bad, 4, 1, 1}));
    CHECK_FALSE(fitter::usable_start<float>({3, bad, 1, 1}));
    CHECK_FALSE(fitter::usable_start<float>({3, 4, bad, 1}));
    CHECK_FALSE(fitter::usable_start<float>({3, 4, 1, bad}));
  }
}

TEST_CASE("A warm start that leads nowhere is tried again cold, once, where spots are asked for") {
  using Search = ImplicitLeastSquares<CircularGaussian>;
  fitter::SpotFit<Search> fit{};
  FitOptions options;
  options.min_chi_square = 1;
  FitInput input;
  input.start = {3, 4, 1, 1};
  const auto begin = [&](bool is_next) {
    fit.begin(true, {100, 0, 1, true}, input, kSide, options, is_next);
  };
  /// To its end, at once, and what is said of that.
  const auto found = [&](FitStatus status) {
    REQUIRE(fit.searching());
    fit.advance(Search::Evaluation{}, options);
    REQUIRE(fit.at_minimum());
    fitter::LocalizationOf<float> l = {};
    l.status = fitter::code_of(status);
    CHECK(fit.finish(l, options).status == l.status);
  };
  begin(false);
  found(FitStatus::ConvergedStep);
  CHECK_FALSE(fit.tries_again());
  begin(false);
  found(FitStatus::NotConverged);
  CHECK(fit.tries_again());
  begin(true);
  CHECK(fit.needs_start());
  fit.start({5, 6, 1, 1}, options);
  CHECK(fit.trial()[1] == 6);
  found(FitStatus::NotConverged);
  CHECK_FALSE(fit.tries_again());
  options.spots_only = false;
  begin(false);
  found(FitStatus::NotConverged);
  CHECK_FALSE(fit.tries_again());
}

}  // namespace
}  // namespace driftd
