// SPDX-License-Identifier: MIT
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <random>

#include "control/law/observer/disturbance_filter.hpp"
#include "support/catch.hpp"
#include "unit/control/observer_world.hpp"

namespace driftd::control {
namespace {

using test::kPeriodS;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

DisturbanceModel walk_only() {
  return {.walk_nm2_per_s = 5, .noise_nm2 = 0.1};
}

void settle(DisturbanceFilter& filter, int frames = 50'000) {
  for (int i = 0; i < frames; ++i) {
    filter.predict(kPeriodS);
    filter.update(0);
  }
}

TEST_CASE("disturbance filter: the settled gain solves Riccati's equation") {
  DisturbanceFilter filter(walk_only());
  settle(filter);
  // The two states' equation, iterated by itself.
  const double r = walk_only().noise_nm2, q = walk_only().walk_nm2_per_s * kPeriodS;
  const double v = kVelocityShare * q;
  double a = 1, b = 0, d = 1, gain = 0, gain_v = 0;
  for (int i = 0; i < 100'000; ++i) {
    const double a1 =
        a + 2 * kPeriodS * b + kPeriodS * kPeriodS * d + q + v * kPeriodS * kPeriodS / 3;
    const double b1 = b + kPeriodS * d + v * kPeriodS / 2;
    const double d1 = d + v;
    gain = a1 / (a1 + r);
    gain_v = b1 / (a1 + r);
    a = a1 * (1 - gain);
    b = b1 * (1 - gain);
    d = d1 - gain_v * b1;
  }
  CHECK(filter.gains()[0].first == Approx(gain).epsilon(1e-6));
  CHECK(filter.gains()[0].second == Approx(gain_v).epsilon(1e-3));
  // A velocity that hardly changes leaves the scalar equation's solution.
  const double scalar = (q + std::sqrt(q * q + 4 * q * r)) / 2;
  CHECK(filter.gains()[0].first == Approx(scalar / (scalar + r)).epsilon(0.02));
}

TEST_CASE("disturbance filter: errors are as large as it says") {
  const DisturbanceModel model = test::shaken();
  double errors = 0, innovations = 0, count = 0;
  for (unsigned seed = 1; seed <= 8; ++seed) {
    test::RandomMotion sample(model, seed);
    DisturbanceFilter filter(model);
    for (int i = 0; i < 5000; ++i) {
      const double place = sample.advance();
      filter.predict(kPeriodS);
      const Innovation seen = filter.update(sample.measured(place));
      if (i < 1000) continue;
      const double error = filter.place_nm() - place;
      errors += error * error / filter.variance_nm2();
      innovations += seen.nm * seen.nm / seen.nm2;
      ++count;
    }
  }
  CHECK(errors / count == Approx(1).epsilon(0.1));
  CHECK(innovations / count == Approx(1).epsilon(0.03));
}

TEST_CASE("disturbance filter: a gap is bridged along the line") {
  DisturbanceModel model = test::shaken();
  model.walk_nm2_per_s = 0.01;
  model.lines[0] = {.frequency_hz = 30, .fade_per_s = 0.01, .kick_nm2_per_s = 0.001};
  DisturbanceFilter filter(model);
  const auto place = [](int i) {
    return std::sin(2 * std::numbers::pi * 30 * kPeriodS * static_cast<double>(i));
  };
  int i = 0;
  for (; i < 3000; ++i) {
    filter.predict(kPeriodS);
    filter.update(place(i));
  }
  const double variance_nm2 = filter.variance_nm2();
  for (const int end = i + 100; i < end; ++i) {
    filter.predict(kPeriodS);
    CHECK(filter.place_nm() == Approx(place(i)).margin(0.1));
  }
  CHECK(filter.variance_nm2() > variance_nm2);
  // One long step is as good as many.
  DisturbanceFilter once = filter, twice = filter;
  once.predict(2 * kPeriodS);
  twice.predict(kPeriodS);
  twice.predict(kPeriodS);
  CHECK(once.place_nm() == Approx(twice.place_nm()).margin(1e-9));
  CHECK(once.variance_nm2() == Approx(twice.variance_nm2()).epsilon(1e-3));
}

TEST_CASE("disturbance filter: a wrong place is ignored once, a jump is followed at once") {
  DisturbanceFilter filter(walk_only());
  settle(filter);
  filter.predict(kPeriodS);
  CHECK_FALSE(filter.update(60).heeded);
  CHECK(std::abs(filter.place_nm()) < 0.01);
  filter.predict(kPeriodS);
  CHECK(filter.update(0).heeded);
  CHECK(std::abs(filter.place_nm()) < 0.01);
  for (int i = 0; i < 2; ++i) {
    filter.predict(kPeriodS);
    filter.update(60);
  }
  CHECK(filter.place_nm() == Approx(60).margin(0.5));
}

TEST_CASE("disturbance filter: a jump that is sure is followed in its first frame") {
  DisturbanceFilter filter(walk_only());
  settle(filter);
  filter.predict(kPeriodS);
  CHECK_FALSE(filter.update(-59, 0, 59.5).heeded);
  filter.predict(kPeriodS);
  CHECK(filter.update(60, 0, 59.5).heeded);
  CHECK(filter.place_nm() == Approx(60).margin(0.5));
  filter.predict(kPeriodS);
  CHECK(filter.update(0, 0, 0).heeded);  // were it wrong, the next one takes it back
  CHECK(filter.place_nm() == Approx(0).margin(0.5));
}

TEST_CASE("disturbance filter: what is not finite, or absurd, changes nothing") {
  DisturbanceFilter filter(test::shaken());
  settle(filter, 100);
  filter.update(1);
  const double place_nm = filter.place_nm(), variance_nm2 = filter.variance_nm2();
  for (const double bad : {kNan, kInfinity, -kInfinity}) {
    filter.predict(bad);
    CHECK_FALSE(filter.update(bad).heeded);
  }
  for (const double absurd : {1e200, -1e300}) {  // its square would be infinite
    CHECK_FALSE(filter.update(absurd).heeded);
    CHECK_FALSE(filter.update(absurd).heeded);
  }
  filter.predict(-1);
  CHECK(filter.place_nm() == place_nm);
  CHECK(filter.variance_nm2() == variance_nm2);
  CHECK(std::isfinite(filter.update(1, kNan).nm));
  CHECK(std::isfinite(filter.place_nm()));
}

TEST_CASE("disturbance filter: gains of a noisier place are smaller") {
  DisturbanceFilter plain(test::shaken());
  settle(plain);
  DisturbanceFilter noisy = plain;
  plain.predict(kPeriodS);
  noisy.predict(kPeriodS);
  plain.update(0.1);
  noisy.update(0.1, 9 * test::shaken().noise_nm2);
  CHECK(noisy.gains()[0].first < 0.2 * plain.gains()[0].first);
}

TEST_CASE("disturbance filter: a frozen filter goes on with the gains that it had") {
  DisturbanceFilter filter(test::shaken());
  settle(filter);
  DisturbanceFilter frozen = filter;
  frozen.freeze();
  test::RandomMotion sample(test::shaken(), 1);
  for (int i = 0; i < 500; ++i) {
    const double place = sample.measured(sample.advance());
    filter.predict(kPeriodS);
    frozen.predict(kPeriodS);
    CHECK(frozen.update(place).nm == Approx(filter.update(place).nm).margin(1e-3));
  }
}

TEST_CASE("disturbance filter: a tracked line's frequency is found") {
  DisturbanceModel model = test::shaken();
  model.lines[0].frequency_hz = 29.5;
  model.tracks = true;
  DisturbanceFilter filter(model);
  for (int i = 0; i < 5000; ++i) {
    filter.predict(kPeriodS);
    filter.update(std::sin(2 * std::numbers::pi * 30 * kPeriodS * i));
  }
  CHECK(filter.model().lines[0].frequency_hz == Approx(30).margin(0.05));
}

TEST_CASE("disturbance filter: tracked lines do not change places while they are found") {
  const double period_s = GENERATE(0.001, 0.002), larger = GENERATE(1, 3, 10),
               kick = GENERATE(0.01, 0.1, 0.3);
  CAPTURE(period_s, larger, kick);
  DisturbanceModel model{.walk_nm2_per_s = 1, .noise_nm2 = 0.08, .lines = {}, .tracks = true};
  constexpr std::array<double, 4> kHz = {2.1, 17.3, 29.7, 50}, kAmplitudes = {2, 1, 1, 0.6};
  model.line_count = kHz.size();
  for (std::size_t i = 0; i < kHz.size(); ++i)
    model.lines[i] = {.frequency_hz = kHz[i] + 0.1, .fade_per_s = 0.05, .kick_nm2_per_s = kick};
  for (unsigned seed = 1; seed <= 10; ++seed) {
    std::mt19937 random(seed);
    std::normal_distribution<double> noise(0, std::sqrt(model.noise_nm2));
    DisturbanceFilter filter(model);
    for (double t = 0; t < 3; t += period_s) {
      double place = noise(random);
      for (std::size_t i = 0; i < kHz.size(); ++i)
        place += larger * kAmplitudes[i] * std::sin(2 * std::numbers::pi * kHz[i] * t + seed);
      filter.predict(period_s);
      filter.update(place);
    }
    CAPTURE(seed);
    for (std::size_t i = 0; i < kHz.size(); ++i)
      CHECK(filter.model().lines[i].frequency_hz == Approx(kHz[i]).margin(0.8));
  }
}

TEST_CASE("disturbance filter: noise does not carry a line about that is not there") {
  DisturbanceModel model{.walk_nm2_per_s = 1, .noise_nm2 = 0.08, .lines = {}, .tracks = true};
  model.lines[0] = {.frequency_hz = 30, .fade_per_s = 0.05, .kick_nm2_per_s = 0.03};
  model.line_count = 1;
  for (unsigned seed = 1; seed <= 10; ++seed) {
    std::mt19937 random(seed);
    std::normal_distribution<double> noise(0, std::sqrt(model.noise_nm2));
    DisturbanceFilter filter(model);
    for (int i = 0; i < 5000; ++i) {
      filter.predict(kPeriodS);
      filter.update(noise(random));
    }
    CHECK(filter.model().lines[0].frequency_hz == Approx(30).margin(2));
  }
}

}  // namespace
}  // namespace driftd::control
