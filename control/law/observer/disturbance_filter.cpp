// SPDX-License-Identifier: MIT
#include "control/law/observer/disturbance_filter.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace driftd::control {
namespace {

constexpr double kStartNm2 = 25, kStartVelocity2 = 100;  ///< nm^2, (nm/s)^2
/// Innovations beyond so many standard deviations are waited with.
constexpr double kJumpSigma = 5;
constexpr double kSurpriseFrames = 64, kMostSurprise = 9;
constexpr double kMostPhaseStep = 0.2;  ///< rad
constexpr double kTrackShare = 0.5;
/// While a filter finds its lines their phases say nothing: tracked at once, they change places.
constexpr double kTrackFromS = 0.5, kTrackFromFrames = 25, kSureSigma = 3;
constexpr double kLeastHz = 0.05, kMostHz = 1e4;
constexpr double kFarthestNm = 1e9;  ///< the square of an absurd place would not be finite

}  // namespace

void DisturbanceFilter::start(const DisturbanceModel& model, double place_nm,
                              double velocity_nm_per_s) noexcept {
  model_ = model;
  model_.line_count = std::min(model.line_count, kMaxLines);
  state_ = {};
  state_[0] = {place_nm, velocity_nm_per_s};
  covariance_ = {};
  covariance_[0][0] = {kStartNm2, 0, 0, kStartVelocity2};
  for (std::size_t i = 1; i < pairs(); ++i) {
    const Line& line = model_.lines[i - 1];
    const double variance_nm2 =
        std::min(kStartNm2, line.kick_nm2_per_s / std::max(2 * line.fade_per_s, 1e-6));
    covariance_[i][i] = {variance_nm2, 0, 0, variance_nm2};
  }
  gains_ = {};
  spread_ = {};
  innovation_nm2_ = kStartNm2 + model_.noise_nm2;
  turned_s_ = 0;
  ignored_nm_ = 0;
  surprise_ = 1;
  frozen_ = false;
  age_s_ = 0;
}

DisturbanceFilter::Block DisturbanceFilter::turn_of(std::size_t pair,
                                                    double seconds) const noexcept {
  if (pair == 0) return {1, seconds, 0, 1};
  const Line& line = model_.lines[pair - 1];
  const double left = std::exp(-line.fade_per_s * seconds);
  const double angle = 2 * std::numbers::pi * line.frequency_hz * seconds;
  const double cosine = left * std::cos(angle), sine = left * std::sin(angle);
  return {cosine, -sine, sine, cosine};
}

void DisturbanceFilter::predict(double seconds) noexcept {
  if (!(seconds > 0) || !std::isfinite(seconds)) return;
  if (seconds != turned_s_ || model_.tracks)
    for (std::size_t i = 0; i < pairs(); ++i) turns_[i] = turn_of(i, seconds);
  turned_s_ = seconds;
  age_s_ += seconds;
  for (std::size_t i = 0; i < pairs(); ++i) {
    const Block& t = turns_[i];
    const Pair p = state_[i];
    state_[i] = {t.a * p.first + t.b * p.second, t.c * p.first + t.d * p.second};
  }
  if (frozen_) return;
  for (std::size_t i = 0; i < pairs(); ++i)
    for (std::size_t j = i; j < pairs(); ++j) {
      const Block &l = turns_[i], &r = turns_[j];
      Block& p = covariance_[i][j];
      const Block h{l.a * p.a + l.b * p.c, l.a * p.b + l.b * p.d, l.c * p.a + l.d * p.c,
                    l.c * p.b + l.d * p.d};
      p = {h.a * r.a + h.b * r.b, h.a * r.c + h.b * r.d, h.c * r.a + h.d * r.b,
           h.c * r.c + h.d * r.d};
    }
  const double velocity2 = kVelocityShare * model_.walk_nm2_per_s * seconds;
  Block& walk = covariance_[0][0];
  walk.a += model_.walk_nm2_per_s * seconds + velocity2 * seconds * seconds / 3;
  walk.b += velocity2 * seconds / 2;
  walk.c = walk.b;
  walk.d += velocity2;
  for (std::size_t i = 1; i < pairs(); ++i) {
    const double kick_nm2 = model_.lines[i - 1].kick_nm2_per_s * seconds;
    covariance_[i][i].a += kick_nm2;
    covariance_[i][i].d += kick_nm2;
  }
}

void DisturbanceFilter::shake(double nm2) noexcept {
  if (!frozen_) covariance_[0][0].a += nm2;
}

/// Into spread_, gains_ and innovation_nm2_.
void DisturbanceFilter::find_gains(double noise_nm2) noexcept {
  const std::size_t n = pairs();
  double place_nm2 = 0;
  for (std::size_t i = 0; i < n; ++i) {
    Pair sum;
    for (std::size_t j = 0; j < n; ++j) {
      const Block& p = j < i ? covariance_[j][i] : covariance_[i][j];
      sum.first += p.a;
      sum.second += j < i ? p.b : p.c;
    }
    spread_[i] = sum;
    place_nm2 += sum.first;
  }
  innovation_nm2_ = std::max(place_nm2, 0.0) + noise_nm2;
  for (std::size_t i = 0; i < n; ++i)
    gains_[i] = {spread_[i].first / innovation_nm2_, spread_[i].second / innovation_nm2_};
}

/// The covariance after a measurement.
void DisturbanceFilter::shrink() noexcept {
  for (std::size_t i = 0; i < pairs(); ++i)
    for (std::size_t j = i; j < pairs(); ++j) {
      Block& p = covariance_[i][j];
      p.a -= gains_[i].first * spread_[j].first;
      p.b -= gains_[i].first * spread_[j].second;
      p.c -= gains_[i].second * spread_[j].first;
      p.d -= gains_[i].second * spread_[j].second;
    }
}

/// A first innovation that is far off may be a wrong measurement; a second on the same side is a
/// jump of the sample.
bool DisturbanceFilter::is_jump(double innovation_nm, double sure_nm) noexcept {
  const double limit_nm = kJumpSigma * std::sqrt(innovation_nm2_ * std::max(1.0, surprise_));
  if (std::abs(innovation_nm) <= limit_nm) {
    ignored_nm_ = 0;
    return false;
  }
  const bool again = std::abs(innovation_nm) > sure_nm || ignored_nm_ * innovation_nm > 0;
  ignored_nm_ = again ? 0 : innovation_nm;
  return again;
}

/// Turns the frequencies by how far the phases had to be corrected, as a phase-locked loop does; by
/// less where an amplitude is within three standard deviations of nothing, and the phase uncertain.
void DisturbanceFilter::track(double innovation_nm) noexcept {
  if (!(turned_s_ > 0) || age_s_ < std::max(kTrackFromS, kTrackFromFrames * turned_s_)) return;
  for (std::size_t i = 1; i < pairs(); ++i) {
    const Pair &p = state_[i], &k = gains_[i];
    const double power_nm2 = p.first * p.first + p.second * p.second;
    if (!(power_nm2 > 0)) continue;
    const Block& unsure = covariance_[i][i];
    const double doubt_nm2 = kSureSigma * kSureSigma * std::max(unsure.a + unsure.d, 0.0);
    const double sure = power_nm2 < doubt_nm2 ? power_nm2 / doubt_nm2 : 1;
    const double step =
        sure * std::clamp((p.first * k.second - p.second * k.first) * innovation_nm / power_nm2,
                          -kMostPhaseStep, kMostPhaseStep);
    const double pull = kTrackShare * 0.5 * std::hypot(k.first, k.second);
    double& hz = model_.lines[i - 1].frequency_hz;
    hz = std::clamp(hz + pull * step / (2 * std::numbers::pi * turned_s_), kLeastHz, kMostHz);
  }
}

Innovation DisturbanceFilter::update(double place_nm, double more_noise_nm2,
                                     double sure_nm) noexcept {
  const double more_nm2 = std::isfinite(more_noise_nm2) ? more_noise_nm2 : 0;
  Innovation seen{.nm = 0, .nm2 = innovation_nm2_, .heeded = false};
  if (!(std::abs(place_nm) < kFarthestNm)) return seen;
  if (!frozen_) find_gains(std::max(model_.noise_nm2 + more_nm2, 0.25 * model_.noise_nm2));
  seen = {.nm = place_nm - this->place_nm(), .nm2 = innovation_nm2_, .heeded = true};
  const double ratio = std::min(seen.nm * seen.nm / seen.nm2, kMostSurprise);
  const bool jump = is_jump(seen.nm, sure_nm);
  surprise_ += (ratio - surprise_) / kSurpriseFrames;
  heeded_ = ignored_nm_ == 0;
  if (!heeded_) {
    seen.heeded = false;
    return seen;
  }
  if (jump && frozen_) {
    state_[0].first += seen.nm;
    return seen;
  }
  if (jump) {
    covariance_[0][0].a += 4 * seen.nm * seen.nm;
    find_gains(model_.noise_nm2);
  }
  for (std::size_t i = 0; i < pairs(); ++i) {
    state_[i].first += gains_[i].first * seen.nm;
    state_[i].second += gains_[i].second * seen.nm;
  }
  if (!frozen_) shrink();
  if (model_.tracks) track(seen.nm);
  return seen;
}

double DisturbanceFilter::echo(State& state, double input_nm) const noexcept {
  double expected_nm = 0;
  for (std::size_t i = 0; i < pairs(); ++i) {
    const Block& t = turns_[i];
    const Pair p = state[i];
    state[i] = {t.a * p.first + t.b * p.second, t.c * p.first + t.d * p.second};
    expected_nm += state[i].first;
  }
  const double innovation_nm = input_nm - expected_nm;
  for (std::size_t i = 0; heeded_ && i < pairs(); ++i) {
    state[i].first += gains_[i].first * innovation_nm;
    state[i].second += gains_[i].second * innovation_nm;
  }
  return innovation_nm;
}

DisturbanceFilter::State DisturbanceFilter::ahead(double seconds) const noexcept {
  State then{};
  for (std::size_t i = 0; i < pairs(); ++i) {
    const Block t = turn_of(i, seconds);
    const Pair& p = state_[i];
    then[i] = {t.a * p.first + t.b * p.second, t.c * p.first + t.d * p.second};
  }
  return then;
}

double DisturbanceFilter::place_nm() const noexcept {
  double sum = 0;
  for (std::size_t i = 0; i < pairs(); ++i) sum += state_[i].first;
  return sum;
}

double DisturbanceFilter::variance_nm2() const noexcept {
  double sum = 0;
  for (std::size_t i = 0; i < pairs(); ++i) {
    sum += covariance_[i][i].a;
    for (std::size_t j = i + 1; j < pairs(); ++j) sum += 2 * covariance_[i][j].a;
  }
  return std::max(sum, 0.0);
}

double weighted(const DisturbanceFilter::State& weights, const DisturbanceFilter::State& state,
                std::size_t pairs) noexcept {
  double sum = 0;
  for (std::size_t i = 0; i < pairs; ++i)
    sum += weights[i].first * state[i].first + weights[i].second * state[i].second;
  return sum;
}

}  // namespace driftd::control
