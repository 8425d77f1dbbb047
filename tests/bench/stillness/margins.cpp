// SPDX-License-Identifier: MIT
#include "tests/bench/stillness/margins.hpp"

#include <algorithm>
#include <cmath>

#include "tests/bench/stillness/run.hpp"

namespace driftd::stillness {
namespace {

constexpr double kLearnS = 12, kSettleS = 2, kStrainedS = 6, kJudgedS = 2;
/// A swing grows until the limits stop it; the noise alone is amplified less.
constexpr double kSwings = 6;
constexpr int kHalvings = 7;
constexpr double kLeastLateMs = 0.5;  ///< so much is taken as stable

/// The rms over the last seconds is that of a lock that does not swing.
bool is_stable(const World& world, const std::string& law, std::uint64_t seed, const Strain& strain,
               double limit_nm) {
  const Flight flight = fly_strained(world, law, seed, strain);
  const std::size_t count = flight.residual_nm[0].size();
  const std::size_t last = std::min(count, static_cast<std::size_t>(kJudgedS * flight.rate_hz));
  for (const auto& axis : flight.residual_nm) {
    double sum = 0, square = 0;
    for (std::size_t i = count - last; i < count; ++i) {
      const auto value = static_cast<double>(axis[i]);
      sum += value / static_cast<double>(last);
      square += value * value / static_cast<double>(last);
    }
    if (!(square - sum * sum < limit_nm * limit_nm)) return false;
  }
  return last > 0;
}

/// The largest value between `low`, stable, and `high` that `stable` allows.
template <typename Stable>
double largest(double low, double high, const Stable& stable) {
  if (stable(high)) return high;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = std::sqrt(low * high);
    (stable(middle) ? low : high) = middle;
  }
  return low;
}

}  // namespace

Margins find_margins(const World& world, const std::string& law, std::uint64_t seed,
                     const std::function<double(double)>& bound_nm) {
  World shorter = world;
  shorter.judgement.left_out_at_s.clear();
  shorter.judgement.seconds = kLearnS;
  shorter.judgement.learn_s = kLearnS / 2;
  const Flight learning = fly(shorter, law, seed);
  Strain strain{.learnt = learning.learnt, .from_s = kSettleS};
  shorter.judgement.seconds = kSettleS + kStrainedS;
  shorter.judgement.learn_s = 0;
  const double limit_nm = kSwings * bound_nm(learning.noise_nm);
  Margins m;
  m.gain = largest(1, kMostGain, [&](double gain) {
    Strain farther = strain;
    farther.gain = gain;
    return is_stable(shorter, law, seed, farther, limit_nm);
  });
  m.late_ms = largest(kLeastLateMs, kMostLateMs, [&](double late_ms) {
    Strain later = strain;
    later.late_ms = late_ms;
    return is_stable(shorter, law, seed, later, limit_nm);
  });
  return m;
}

}  // namespace driftd::stillness
