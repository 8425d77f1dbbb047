// SPDX-License-Identifier: MIT
#include "control/observer/stage_preview.hpp"

#include <array>
#include <cmath>
#include <complex>
#include <numbers>

namespace driftd::control {
namespace {

constexpr std::size_t kMostFrames = 512;
constexpr double kStill = 1e-12;
constexpr double kLeastWeight = 1e-6;

double instant_s(double period_s, std::size_t i) {
  const std::size_t period = i / StagePreview::kInstants;
  const std::size_t within = i % StagePreview::kInstants;
  return period_s * ((static_cast<double>(within) + 0.5) / StagePreview::kInstants +
                     static_cast<double>(period));
}

}  // namespace

StagePreview::StagePreview(const PreviewSettings& settings) : settings_(settings) {
  const auto left = [&](double seconds) {
    return settings.time_constant_s > 0 ? std::exp(-seconds / settings.time_constant_s) : 0.0;
  };
  constexpr double kWeight = 1.0 / kInstants;
  const double rho = settings.penalty;
  const double a = left(settings.period_s);
  std::array<double, kInstants> stays{};
  double ss = 0, su = 0, uu = 0;  // of a frame's cost, over place and command
  for (std::size_t j = 0; j < kInstants; ++j) {
    stays[j] = left(instant_s(settings.period_s, j));
    ss += kWeight * stays[j] * stays[j];
    su += kWeight * stays[j] * (1 - stays[j]);
    uu += kWeight * (1 - stays[j]) * (1 - stays[j]);
  }
  // Worth of (place, command before): [[p, q], [q, r]]. Riccati's equation, iterated.
  double p = 0, q = 0, r = 0, whole = 1;
  for (int i = 0; i < 100'000; ++i) {
    const double on_place = (1 - a) * p + q, on_command = (1 - a) * q + r;
    whole = uu + rho + (1 - a) * on_place + on_command;
    from_place_ = (su + a * on_place) / whole;
    from_command_ = -rho / whole;
    const double p_new = ss + a * a * p - from_place_ * from_place_ * whole;
    const double q_new = -from_place_ * from_command_ * whole;
    const double r_new = rho - from_command_ * from_command_ * whole;
    const double change = std::abs(p_new - p) + std::abs(q_new - q) + std::abs(r_new - r);
    p = p_new;
    q = q_new;
    r = r_new;
    if (change < kStill) break;
  }
  for (std::size_t j = 0; j < kInstants; ++j) weights_.push_back(kWeight * (1 - stays[j]) / whole);
  // (1 - a, 1)' through the closed loop, frame after frame.
  double x = (1 - a) / whole, y = 1 / whole;
  for (std::size_t i = 1; i < kMostFrames; ++i) {
    double sum = 0;
    for (std::size_t j = 0; j < kInstants; ++j) {
      const double rest = 1 - stays[j];
      const double w = kWeight * (x * (stays[j] - from_place_ * rest) - y * from_command_ * rest);
      weights_.push_back(w);
      sum += std::abs(w);
    }
    if (sum < kLeastWeight) break;
    const double x_new = x * (a - (1 - a) * from_place_) - y * (1 - a) * from_command_;
    const double y_new = -x * from_place_ - y * from_command_;
    x = x_new;
    y = y_new;
  }
}

PreviewGains StagePreview::gains(const DisturbanceModel& model) const noexcept {
  PreviewGains g{.from_place = from_place_, .from_command = from_command_};
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    g.course[0].first += weights_[i];
    g.course[0].second += weights_[i] * instant_s(settings_.period_s, i);
  }
  for (std::size_t l = 0; l < model.line_count; ++l) {
    const Line& line = model.lines[l];
    const std::complex<double> rate{-line.fade_per_s, 2 * std::numbers::pi * line.frequency_hz};
    std::complex<double> sum = 0;
    for (std::size_t i = 0; i < weights_.size(); ++i)
      sum += weights_[i] * std::exp(rate * instant_s(settings_.period_s, i));
    g.course[l + 1] = {sum.real(), -sum.imag()};
  }
  return g;
}

}  // namespace driftd::control
