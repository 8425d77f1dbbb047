// SPDX-License-Identifier: MIT
#include "clients/driftctl/camera/quantised_noise.hpp"

#include <cmath>
#include <random>

#include "support/catch.hpp"

using namespace driftd::clients;

TEST_CASE("Rounding leaves the variance that its formula says, and it can be undone") {
  const double sd = GENERATE(0.02, 0.1, 0.149, 0.151, 0.3, 0.6, 2.0);
  CAPTURE(sd);
  std::mt19937_64 random(3);
  std::normal_distribution<double> noise(0, sd);
  std::uniform_real_distribution<double> place(0, 1);
  double sum = 0;
  constexpr int kPairs = 400'000;
  for (int i = 0; i < kPairs; ++i) {
    const double at = place(random);
    const double step = std::round(at + noise(random)) - std::round(at + noise(random));
    sum += step * step / 2;
  }
  CHECK(rounded_variance(sd) == Approx(sum / kPairs).epsilon(0.03));
  CHECK(sd_before_rounding(rounded_variance(sd)) == Approx(sd).epsilon(1e-6));
}

TEST_CASE("Noise and pattern below a level are found from three moments") {
  const double noise_sd = GENERATE(0.1, 0.3);
  const double pattern_sd = GENERATE(0.2, 0.4);
  const double mean = GENERATE(100.0, 100.3);
  CAPTURE(noise_sd, pattern_sd, mean);
  std::mt19937_64 random(4);
  std::normal_distribution<double> normal;
  double sum = 0;
  double squares = 0;
  double within = 0;
  constexpr int kPixels = 20'000;
  constexpr int kFrames = 50;
  for (int pixel = 0; pixel < kPixels; ++pixel) {
    const double at = mean + pattern_sd * normal(random);
    double own = 0;
    double own_squares = 0;
    for (int i = 0; i < kFrames; ++i) {
      const double level = std::round(at + noise_sd * normal(random));
      own += level / kFrames;
      own_squares += level * level / kFrames;
    }
    sum += own / kPixels;
    squares += own_squares / kPixels;
    within += (own_squares - own * own) * kFrames / (kFrames - 1) / kPixels;
  }
  const RoundedPixels found = before_rounding(sum, squares - sum * sum, within);
  CHECK(found.noise_sd == Approx(noise_sd).epsilon(0.06));
  CHECK(found.pattern_sd == Approx(pattern_sd).epsilon(0.06));
  CHECK(found.mean == Approx(mean).margin(0.02));
}

TEST_CASE("A normal distribution is found from its part above a limit") {
  const double mean = GENERATE(-0.5, 0.0, 1.5);
  CAPTURE(mean);
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal(mean, 2);
  CensoredSample sample;
  double squares = 0;
  for (int i = 0; i < 200'000; ++i) {
    const double value = normal(random);
    if (value < 0.5) {
      ++sample.below;
    } else {
      ++sample.above;
      sample.mean_above += value;
      squares += value * value;
    }
  }
  sample.mean_above /= sample.above;
  sample.var_above = squares / sample.above - sample.mean_above * sample.mean_above;
  const Normal fit = fit_censored(sample, 0.5);
  CHECK(fit.mean == Approx(mean).margin(0.03));
  CHECK(std::sqrt(fit.variance) == Approx(2).epsilon(0.01));
}
