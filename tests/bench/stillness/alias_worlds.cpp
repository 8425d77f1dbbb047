// SPDX-License-Identifier: MIT
#include "tests/bench/stillness/alias_worlds.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "simulator/random.hpp"

namespace driftd::stillness {
namespace {

constexpr double kHighestHz = 200;
/// A lock has learnt after 192 frames; then a record of 256 frames may be looked at twice.
constexpr double kLearnS = 20, kLearnFrames = 700, kJudgedS = 40;

double between(simulator::Random& random, double low, double high) {
  return low + (high - low) * random.uniform();
}

double log_between(simulator::Random& random, double low, double high) {
  return std::exp(between(random, std::log(low), std::log(high)));
}

simulator::AxisDisturbance disturbance(simulator::Random& random, double rate_hz,
                                       const AliasKind& kind) {
  simulator::AxisDisturbance axis;
  const int lines = 1 + static_cast<int>(3 * random.uniform());
  const double highest_hz = std::max(kHighestHz, 2 * rate_hz);
  for (int i = 0; i < lines; ++i) {
    const simulator::Sine line{.amplitude_nm = log_between(random, 0.3, 2),
                               .frequency_hz = between(random, 0.5 * rate_hz, highest_hz)};
    if (kind.aliases) axis.sines.push_back(line);
  }
  const double slow_nm = between(random, 0.5, 2), slow_share = between(random, 0.03, 0.2);
  if (kind.slow_line)
    axis.sines.push_back({.amplitude_nm = slow_nm, .frequency_hz = slow_share * rate_hz});
  const double speed = between(random, -5, 5), walk = between(random, 0.2, 1);
  if (kind.drift == AliasDrift::Ramp) {
    axis.linear_nm_per_s = speed;
    axis.random_walk_nm_per_sqrt_s = walk;
  }
  return axis;
}

/// Sum of squares about the mean, or about the line that fits best.
double scatter_nm2(const std::vector<double>& means, bool straight) {
  const auto n = static_cast<double>(means.size());
  const double middle = (n - 1) / 2;
  double sum = 0, along = 0, square = 0, times = 0;
  for (std::size_t i = 0; i < means.size(); ++i) {
    const double time = static_cast<double>(i) - middle;
    sum += means[i];
    along += time * means[i];
    times += time * time;
  }
  const double mean = sum / n, slope = straight && times > 0 ? along / times : 0;
  for (std::size_t i = 0; i < means.size(); ++i) {
    const double off = means[i] - mean - slope * (static_cast<double>(i) - middle);
    square += off * off;
  }
  return square;
}

}  // namespace

World make_alias_world(std::uint64_t seed, const AliasKind& kind) {
  simulator::Random random(seed, 310);
  World world;
  world.name = world.title = "alias " + std::to_string(seed);
  simulator::Scenario& s = world.scenario;
  s.camera.rate_hz = log_between(random, 5, 100);
  if (kind.rate_hz > 0) s.camera.rate_hz = kind.rate_hz;
  const double period_us = 1e6 / s.camera.rate_hz;
  s.camera.exposure_us = between(random, 0.01, 0.9) * period_us;
  s.camera.background_e = 20;
  s.camera.read_noise_e = 3;
  s.optics.pixel_size_nm = 100;
  s.optics.sigma_px = 1.3;
  s.markers.count = 4 + static_cast<int>(22 * random.uniform());
  s.markers.photons = log_between(random, 3e3, 1e5);
  s.markers.photons_spread = 0;
  s.disturbance_x = disturbance(random, s.camera.rate_hz, kind);
  s.disturbance_y = disturbance(random, s.camera.rate_hz, kind);
  s.stage = {.frequency_hz = 150,
             .damping = 0.7,
             .delay_ms = 2.5,
             .noise_nm = 0.2,
             .noise_bandwidth_hz = 200,
             .quantisation_nm = 0.05};
  world.belief.latency_us = s.camera.exposure_us / 2 + 1500;
  world.judgement.learn_s = std::max(kLearnS, kLearnFrames / s.camera.rate_hz);
  world.judgement.seconds = world.judgement.learn_s + kJudgedS;
  return world;
}

std::array<double, kAliasScalesMs.size()> means_nm(const Flight& flight, bool straight) {
  std::array<double, kAliasScalesMs.size()> found{};
  for (std::size_t scale = 0; scale < found.size(); ++scale) {
    const auto length = static_cast<std::size_t>(kAliasScalesMs[scale]);
    double square = 0, count = 0;
    for (const std::vector<float>& axis : flight.millisecond_nm) {
      std::vector<double> means;
      for (std::size_t from = 0; from + length <= axis.size(); from += length) {
        double sum = 0;
        for (std::size_t i = from; i < from + length; ++i) sum += static_cast<double>(axis[i]);
        means.push_back(sum / static_cast<double>(length));
      }
      if (means.size() < 2) continue;
      square += scatter_nm2(means, straight);
      count += static_cast<double>(means.size());
    }
    found[scale] = count > 0 ? std::sqrt(square / count) : std::nan("");
  }
  return found;
}

}  // namespace driftd::stillness
