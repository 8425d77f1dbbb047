// SPDX-License-Identifier: MIT
#include "simulator/random.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "support/catch.hpp"
#include "unit/simulator/statistics.hpp"

using namespace driftd::simulator;
using driftd::test::Moments;

namespace {

/// Chi-square of counted events against expected ones, cells with few expected events joined; and
/// the degrees of freedom.
struct ChiSquare {
  double value = 0;
  double degrees = -1;
};

ChiSquare chi_square(const std::vector<double>& counted, const std::vector<double>& expected) {
  ChiSquare result;
  double joined_counted = 0;
  double joined_expected = 0;
  for (std::size_t i = 0; i < counted.size(); ++i) {
    joined_counted += counted[i];
    joined_expected += expected[i];
    if (joined_expected < 20 && i + 1 < counted.size()) continue;
    if (joined_expected < 1) continue;
    const double difference = joined_counted - joined_expected;
    result.value += difference * difference / joined_expected;
    result.degrees += 1;
    joined_counted = joined_expected = 0;
  }
  return result;
}

double poisson_probability(double k, double mean) {
  return std::exp(k * std::log(mean) - mean - std::lgamma(k + 1));
}

}  // namespace

TEST_CASE("Tabulated Poisson numbers have their distribution") {
  // On the grid of means, between its points, in its first cell, and beyond it.
  const double mean = GENERATE(0.02, 0.249, 0.25, 3.0, 7.13, 23.99, 24.0, 60.0);
  constexpr int kSamples = 400000;
  const PoissonTables tables;
  Random random(6, 1);
  std::vector<double> counted(static_cast<std::size_t>(mean + 12 * std::sqrt(mean) + 20), 0.0);
  for (int i = 0; i < kSamples; ++i) {
    counted[std::min<std::size_t>(tables.draw(mean, random), counted.size() - 1)] += 1;
  }
  std::vector<double> expected;
  for (std::size_t k = 0; k < counted.size(); ++k) {
    expected.push_back(kSamples * poisson_probability(static_cast<double>(k), mean));
  }
  const ChiSquare fit = chi_square(counted, expected);
  INFO("mean " << mean << ", chi-square " << fit.value << " of " << fit.degrees);
  CHECK(fit.value < fit.degrees + 4 * std::sqrt(2 * fit.degrees) + 4);
  CHECK(tables.draw(0, random) == 0);
  CHECK(tables.draw(-1, random) == 0);
}

TEST_CASE("Poisson numbers have their distribution at low and high means") {
  // Both algorithms and the change between them at 10.
  const double mean = GENERATE(0.05, 1.0, 9.9, 10.1, 47.0, 3000.0);
  constexpr int kSamples = 400000;
  Random random(5, 1);
  Moments moments;
  std::vector<double> counted(static_cast<std::size_t>(mean + 12 * std::sqrt(mean) + 20), 0.0);
  for (int i = 0; i < kSamples; ++i) {
    const std::uint32_t k = random.poisson(mean);
    moments.add(k);
    counted[std::min<std::size_t>(k, counted.size() - 1)] += 1;
  }
  CHECK(std::abs(moments.mean() - mean) < 4 * std::sqrt(mean / kSamples));
  // The variance of a Poisson sample's variance is (mean + 2 mean^2) / n.
  CHECK(std::abs(moments.variance() - mean) < 4 * std::sqrt((mean + 2 * mean * mean) / kSamples));
  std::vector<double> expected;
  for (std::size_t k = 0; k < counted.size(); ++k) {
    expected.push_back(kSamples * poisson_probability(static_cast<double>(k), mean));
  }
  const ChiSquare chi = chi_square(counted, expected);
  CHECK(std::abs(chi.value - chi.degrees) < 4 * std::sqrt(2 * chi.degrees));
}

TEST_CASE("A Poisson number of no photons is none") {
  Random random(1, 1);
  CHECK(random.poisson(0) == 0);
  CHECK(random.poisson(-1) == 0);
}

TEST_CASE("The quantile table samples photons plus read noise") {
  const double mean = GENERATE(0.0, 2.0, 20.0, 5000.0);
  const double sigma = 3;
  const PoissonGaussCdf cdf(mean, sigma);
  const QuantileTable table(cdf, cdf.low(), cdf.high());
  constexpr std::size_t kSamples = 1 << 20;
  BulkRandom bits(9, 2);
  std::vector<std::uint32_t> random(kSamples);
  bits.fill(random.data(), kSamples);
  Moments moments;
  const double spread = std::sqrt(mean + sigma * sigma);
  constexpr int kCells = 60;
  std::vector<double> counted(kCells, 0.0);
  for (const std::uint32_t r : random) {
    const double value = static_cast<double>(table.value(r));
    moments.add(value);
    const double cell = (value - mean) / spread * 6 + kCells / 2.0;
    counted[static_cast<std::size_t>(std::clamp(cell, 0.0, kCells - 1.0))] += 1;
  }
  const double variance = mean + sigma * sigma;
  CHECK(std::abs(moments.mean() - mean) < 4 * std::sqrt(variance / kSamples));
  // Kurtosis of the sum: 3 + mean / variance^2.
  CHECK(std::abs(moments.variance() - variance) <
        4 * std::sqrt((2 * variance * variance + mean) / kSamples));
  std::vector<double> expected;
  for (int i = 0; i < kCells; ++i) {
    const auto edge = [&](int cell) { return mean + (cell - kCells / 2.0) / 6 * spread; };
    const double from = i == 0 ? 0 : cdf(edge(i));
    const double to = i == kCells - 1 ? 1 : cdf(edge(i + 1));
    expected.push_back((to - from) * kSamples);
  }
  const ChiSquare chi = chi_square(counted, expected);
  CHECK(std::abs(chi.value - chi.degrees) < 4 * std::sqrt(2 * chi.degrees));
}

TEST_CASE("The quantile table reaches into the tails") {
  const PoissonGaussCdf cdf(0, 1);
  const QuantileTable table(cdf, -8, 8);
  // The value of the bits r is the quantile of r / 2^32: four and five standard deviations.
  const auto at = [&](double sigma) {
    const double probability = 0.5 * std::erfc(-sigma / std::numbers::sqrt2);
    return static_cast<double>(table.value(static_cast<std::uint32_t>(probability * 0x1p32)));
  };
  for (const double sigma : {-5.0, -4.0, -2.0, 0.0, 1.0, 3.0, 4.0, 5.0}) {
    CHECK(at(sigma) == Approx(sigma).margin(0.01));
  }
}

TEST_CASE("Normal numbers are normal") {
  Random random(3, 4);
  Moments moments;
  Moments fourth;
  for (int i = 0; i < 400000; ++i) {
    const double value = random.normal();
    moments.add(value);
    fourth.add(value * value * value * value);
  }
  CHECK(std::abs(moments.mean()) < 4 * moments.standard_error());
  CHECK(moments.variance() == Approx(1).margin(4 * std::sqrt(2.0 / 400000)));
  CHECK(std::abs(fourth.mean() - 3) < 4 * fourth.standard_error());
}

TEST_CASE("A seed gives the same numbers, another seed or stream others") {
  const auto sequence = [](std::uint64_t seed, std::uint64_t stream) {
    Random random(seed, stream);
    std::vector<std::uint64_t> numbers;
    for (int i = 0; i < 8; ++i) numbers.push_back(random.next());
    return numbers;
  };
  CHECK(sequence(1, 2) == sequence(1, 2));
  CHECK(sequence(1, 2) != sequence(2, 2));
  CHECK(sequence(1, 2) != sequence(1, 3));
  CHECK(sequence(1, 2) != sequence(2, 1));
}

TEST_CASE("The lanes of the bulk generator are uncorrelated, and so are fills in a row") {
  BulkRandom bits(11, 1);
  constexpr std::size_t kCount = 1 << 16;
  std::vector<std::uint32_t> first(kCount);
  std::vector<std::uint32_t> second(kCount);
  bits.fill(first.data(), kCount);
  bits.fill(second.data(), kCount);
  const auto uniform = [](std::uint32_t r) { return r * 0x1p-32 - 0.5; };
  const auto correlation = [&](const auto& a, const auto& b, std::size_t lag) {
    double sum = 0;
    for (std::size_t i = 0; i + lag < kCount; ++i) sum += uniform(a[i]) * uniform(b[i + lag]);
    return sum * 12 / static_cast<double>(kCount - lag);
  };
  const double bound = 4.5 / std::sqrt(static_cast<double>(kCount));
  for (const std::size_t lag : {1U, 2U, 8U, 16U, 256U}) {
    CHECK(std::abs(correlation(first, first, lag)) < bound);
  }
  CHECK(std::abs(correlation(first, second, 0)) < bound);
}
