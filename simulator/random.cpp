// SPDX-License-Identifier: MIT
#include "simulator/random.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

namespace driftd::simulator {
namespace {

/// SplitMix64 (Steele, Lea and Flood 2014): spreads a seed over a generator's state.
std::uint64_t split_mix(std::uint64_t& state) noexcept {
  state += 0x9e3779b97f4a7c15U;
  std::uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

std::uint64_t mix_seed(std::uint64_t seed, std::uint64_t stream) noexcept {
  std::uint64_t state = seed;
  const std::uint64_t first = split_mix(state);
  state = first ^ (stream * 0xd1342543de82ef95U);
  return split_mix(state);
}

/// ln(k!): a table for small k, else Stirling's series to 1/k^5 (error below 1e-12 for k >= 16).
double log_factorial(double k) noexcept {
  static constexpr int kTable = 16;
  if (k < kTable) {
    double product = 1;
    for (int i = 2; i <= static_cast<int>(k); ++i) product *= i;
    return std::log(product);
  }
  const double inverse = 1 / k;
  const double square = inverse * inverse;
  return (k + 0.5) * std::log(k) - k + 0.5 * std::log(2 * std::numbers::pi) +
         inverse * (1.0 / 12 - square * (1.0 / 360 - square / 1260));
}

double normal_cdf(double x) {
  return 0.5 * std::erfc(-x / std::numbers::sqrt2);
}

}  // namespace

Random::Random(std::uint64_t seed, std::uint64_t stream) noexcept : state_{} {
  std::uint64_t state = mix_seed(seed, stream);
  for (auto& word : state_) word = split_mix(state);
}

std::uint64_t Random::next() noexcept {
  const std::uint64_t result = std::rotl(state_[0] + state_[3], 23) + state_[0];
  const std::uint64_t shifted = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

double Random::uniform() noexcept {
  return static_cast<double>(next() >> 11) * 0x1p-53;
}

double Random::normal() noexcept {
  if (has_spare_) {
    has_spare_ = false;
    return spare_normal_;
  }
  double u = 0, v = 0, s = 0;
  do {
    u = 2 * uniform() - 1;
    v = 2 * uniform() - 1;
    s = u * u + v * v;
  } while (s >= 1 || s == 0);
  const double factor = std::sqrt(-2 * std::log(s) / s);
  spare_normal_ = v * factor;
  has_spare_ = true;
  return u * factor;
}

double Random::exponential(double mean) noexcept {
  return -mean * std::log1p(-uniform());
}

std::uint32_t Random::poisson(double mean) noexcept {
  if (!(mean > 0)) return 0;
  if (mean >= 10) return poisson_rejection(mean);
  double probability = std::exp(-mean);
  double u = uniform();
  std::uint32_t k = 0;
  // A mean below 10 reaches 200 with a probability below 1e-150: the bound only stops rounding.
  while (u > probability && k < 200) {
    u -= probability;
    ++k;
    probability *= mean / k;
  }
  return k;
}

std::uint32_t Random::poisson_rejection(double mean) noexcept {
  const double b = 0.931 + 2.53 * std::sqrt(mean);
  const double a = -0.059 + 0.02483 * b;
  const double quick_accept = 0.9277 - 3.6224 / (b - 2);
  while (true) {
    const double u = uniform() - 0.5;
    const double v = uniform();
    const double us = 0.5 - std::abs(u);
    const double k = std::floor((2 * a / us + b) * u + mean + 0.43);
    if (us >= 0.07 && v <= quick_accept) return static_cast<std::uint32_t>(k);
    if (k < 0 || k > 4e9 || (us < 0.013 && v > us)) continue;
    const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
    if (std::log(v * inverse_alpha / (a / (us * us) + b)) <=
        k * std::log(mean) - mean - log_factorial(k)) {
      return static_cast<std::uint32_t>(k);
    }
  }
}

PoissonTables::PoissonTables() : tables_(static_cast<std::size_t>(kLargestMean * kSteps)) {
  for (std::size_t step = 0; step < tables_.size(); ++step) {
    const double mean = static_cast<double>(step) / kSteps;
    Table& table = tables_[step];
    double probability = std::exp(-mean);
    double sum = 0;
    for (std::size_t k = 0; k < kNumbers; ++k) {
      sum += probability;
      table.cumulative[k] = k + 1 == kNumbers ? 1 : sum;
      probability *= mean / static_cast<double>(k + 1);
    }
    std::size_t k = 0;
    for (std::size_t share = 0; share < kGuides; ++share) {
      while (table.cumulative[k] * kGuides <= static_cast<double>(share)) ++k;
      table.guide[share] = static_cast<std::uint8_t>(k);
    }
  }
}

std::uint32_t PoissonTables::draw(double mean, Random& random) const noexcept {
  if (!(mean > 0)) return 0;
  if (mean >= kLargestMean) return random.poisson(mean);
  const auto step = static_cast<std::size_t>(mean * kSteps);
  std::uint32_t number = 0;
  if (step > 0) {
    const double u = random.uniform();
    const Table& table = tables_[step];
    std::size_t k = table.guide[static_cast<std::size_t>(u * kGuides)];
    while (u >= table.cumulative[k]) ++k;
    number = static_cast<std::uint32_t>(k);
  }
  const double rest = mean - static_cast<double>(step) / kSteps;
  const double u = random.uniform();
  if (u < 1 - rest) return number;  // exp(-rest) is larger
  double probability = std::exp(-rest);
  double below = probability;
  for (int k = 1; u >= below && k < 40; ++k) {
    ++number;
    probability *= rest / k;
    below += probability;
  }
  return number;
}

BulkRandom::BulkRandom(std::uint64_t seed, std::uint64_t stream) noexcept : state_{} {
  std::uint64_t state = mix_seed(seed, stream);
  for (auto& word : state_) {
    for (auto& lane : word) lane = static_cast<std::uint32_t>(split_mix(state) >> 32);
  }
}

void BulkRandom::fill(std::uint32_t* out, std::size_t count) noexcept {
  auto [s0, s1, s2, s3] = state_;
  for (std::size_t done = 0; done < count; done += kLanes) {
    for (std::size_t i = 0; i < kLanes; ++i) {
      const std::uint32_t sum = s0[i] + s3[i];
      out[done + i] = ((sum << 7) | (sum >> 25)) + s0[i];
      const std::uint32_t shifted = s1[i] << 9;
      s2[i] ^= s0[i];
      s3[i] ^= s1[i];
      s1[i] ^= s2[i];
      s0[i] ^= s3[i];
      s2[i] ^= shifted;
      s3[i] = (s3[i] << 11) | (s3[i] >> 21);
    }
  }
  state_ = {s0, s1, s2, s3};
}

QuantileTable::QuantileTable(const std::function<double(double)>& cdf, double low, double high)
    : body_(kCells + 1), lower_(kTailCells + 1), upper_(kTailCells + 1) {
  // The distribution on a grid fine enough that it is straight between the points.
  constexpr std::size_t kGrid = 8192;
  std::vector<double> cumulative(kGrid + 1);
  const double spacing = (high - low) / kGrid;
  for (std::size_t i = 0; i <= kGrid; ++i) {
    cumulative[i] = cdf(low + spacing * static_cast<double>(i));
  }
  const auto quantile = [&](double probability) {
    const auto above = std::upper_bound(cumulative.begin(), cumulative.end(), probability);
    if (above == cumulative.begin()) return static_cast<float>(low);
    if (above == cumulative.end()) return static_cast<float>(high);
    const auto i = static_cast<double>(above - cumulative.begin() - 1);
    const double before = *(above - 1);
    return static_cast<float>(low + spacing * (i + (probability - before) / (*above - before)));
  };
  // The last piece of each tail ends where one number in 2^36 would lie.
  constexpr double kEnd = 0x1p-36;
  for (std::size_t i = 0; i <= kCells; ++i) {
    body_[i] = quantile(static_cast<double>(i) / kCells);
  }
  for (std::size_t i = 0; i <= kTailCells; ++i) {
    const double share = static_cast<double>(i) / kTailCells / kCells;
    lower_[i] = quantile(std::max(share, kEnd));
    upper_[i] = quantile(std::min(1 - 1.0 / kCells + share, 1 - kEnd));
  }
}

float QuantileTable::tail_value(const std::vector<float>& tail, std::uint32_t rest) noexcept {
  const std::uint32_t cell = rest >> kTailShift;
  const float fraction =
      static_cast<float>(rest & ((1U << kTailShift) - 1)) / static_cast<float>(1U << kTailShift);
  return tail[cell] + (tail[cell + 1] - tail[cell]) * fraction;
}

PoissonGaussCdf::PoissonGaussCdf(double mean, double sigma) : sigma_(sigma) {
  const double reach = 10 * std::sqrt(mean) + 20;
  first_ = std::max(0, static_cast<int>(mean - reach));
  const int last = static_cast<int>(mean + reach);
  double sum = 0;
  for (int k = first_; k <= last; ++k) {
    const double p =
        mean > 0 ? std::exp(k * std::log(mean) - mean - log_factorial(k)) : (k == 0 ? 1.0 : 0.0);
    below_.push_back(sum);
    probability_.push_back(p);
    sum += p;
  }
  below_.push_back(sum);
  const double spread = std::sqrt(mean + sigma * sigma);
  low_ = std::max(mean - 8 * spread, static_cast<double>(first_) - 8 * sigma);
  high_ = mean + 9 * spread + 4;
}

double PoissonGaussCdf::operator()(double x) const {
  const double window = 8 * sigma_;
  const int size = static_cast<int>(probability_.size());
  const int from = std::clamp(static_cast<int>(std::floor(x - window)) - first_, 0, size);
  const int to = std::clamp(static_cast<int>(std::ceil(x + window)) - first_, 0, size);
  double sum = below_[static_cast<std::size_t>(from)];
  for (int i = from; i < to; ++i) {
    sum += probability_[static_cast<std::size_t>(i)] * normal_cdf((x - (first_ + i)) / sigma_);
  }
  return sum;
}

}  // namespace driftd::simulator
