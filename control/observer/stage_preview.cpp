// SPDX-License-Identifier: MIT
#include "control/observer/stage_preview.hpp"

#include <cmath>
#include <complex>
#include <numbers>

namespace driftd::control {
namespace {

/// Penalties of CalmerPreviews: 0.03 to 500,000.
constexpr double kLeastCalmer = 0.03, kCalmerStep = 8;

constexpr std::size_t kStates = StagePreview::kStates;
using States = StagePreview::States;
using Matrix = StagePreview::Matrix;
constexpr double kStill = 1e-12;

double instant_s(double period_s, std::size_t i) {
  return period_s * (static_cast<double>(i) + 0.5) / StagePreview::kInstants;
}

double dot(const States& x, const States& y) {
  return x[0] * y[0] + x[1] * y[1] + x[2] * y[2];
}
States product(const Matrix& m, const States& x) {
  return {dot(m[0], x), dot(m[1], x), dot(m[2], x)};
}
Matrix product(const Matrix& m, const Matrix& n) {
  Matrix p{};
  for (std::size_t i = 0; i < kStates; ++i)
    for (std::size_t j = 0; j < kStates; ++j)
      for (std::size_t k = 0; k < kStates; ++k) p[i][j] += m[i][k] * n[k][j];
  return p;
}

}  // namespace

StagePreview::StagePreview(const PreviewSettings& settings) : settings_(settings) {
  // States of the stage when a command takes effect: place, speed, the command before. Under the
  // command u they become A states + B u a frame later, and the place at each instant is H states +
  // g u.
  constexpr double kWeight = 1.0 / kInstants;
  const double rho = settings.penalty;
  const Transition frame = transition(settings.response, settings.period_s);
  const Matrix a{{{frame.zz, frame.zv, 0}, {frame.vz, frame.vv, 0}, {0, 0, 0}}};
  const States b{1 - frame.zz, -frame.vz, 1};
  std::array<States, kInstants> h{};
  std::array<double, kInstants> g{};
  Matrix worth{}, cost{};
  States both{0, 0, -rho};  // of a frame's cost, over states and command
  double over_command = rho;
  cost[2][2] = rho;
  for (std::size_t j = 0; j < kInstants; ++j) {
    const Transition t = transition(settings.response, instant_s(settings.period_s, j));
    h[j] = {t.zz, t.zv, 0};
    g[j] = 1 - t.zz;
    over_command += kWeight * g[j] * g[j];
    for (std::size_t m = 0; m < kStates; ++m) {
      both[m] += kWeight * g[j] * h[j][m];
      for (std::size_t n = 0; n < kStates; ++n) cost[m][n] += kWeight * h[j][m] * h[j][n];
    }
  }
  // Riccati's equation, iterated.
  States gains{};
  double whole = 1;
  for (int i = 0; i < 100'000; ++i) {
    const Matrix pa = product(worth, a);
    const States pb = product(worth, b);
    whole = over_command + dot(b, pb);
    for (std::size_t n = 0; n < kStates; ++n)
      gains[n] = (both[n] + b[0] * pa[0][n] + b[1] * pa[1][n] + b[2] * pa[2][n]) / whole;
    double change = 0, size = 0;
    Matrix next{};
    for (std::size_t m = 0; m < kStates; ++m) {
      for (std::size_t n = 0; n < kStates; ++n) {
        next[m][n] = cost[m][n] - gains[m] * gains[n] * whole;
        for (std::size_t k = 0; k < kStates; ++k) next[m][n] += a[k][m] * pa[k][n];
        change += std::abs(next[m][n] - worth[m][n]);
        size += std::abs(next[m][n]);
      }
    }
    worth = next;
    if (change < kStill * size) break;
  }
  stage_gains_.from_place = gains[0];
  stage_gains_.from_speed = gains[1];
  stage_gains_.from_command = gains[2];
  for (std::size_t m = 0; m < kStates; ++m) {
    to_command_[m] = b[m];
    for (std::size_t n = 0; n < kStates; ++n) closed_[m][n] = a[m][n] - b[m] * gains[n];
  }
  for (std::size_t j = 0; j < kInstants; ++j) {
    now_[j] = kWeight * g[j] / whole;
    for (std::size_t n = 0; n < kStates; ++n)
      later_[j][n] = kWeight * (h[j][n] - g[j] * gains[n]) / whole;
  }
}

/// What comes in i frames weighs by B' (A - B K)'^(i - 1): summed over all frames to come, for a
/// course that grows by `z` each frame, in closed form. A sum that is broken off would leave the
/// stage short of its place.
std::array<std::complex<double>, StagePreview::kStates> StagePreview::summed(
    std::complex<double> z, const std::array<std::complex<double>, kStates>& from) const noexcept {
  std::array<std::array<std::complex<double>, kStates>, kStates> m{};
  for (std::size_t i = 0; i < kStates; ++i)
    for (std::size_t j = 0; j < kStates; ++j) m[i][j] = (i == j ? 1.0 : 0.0) - z * closed_[i][j];
  const auto determinant = [](const auto& c) {
    return c[0][0] * (c[1][1] * c[2][2] - c[1][2] * c[2][1]) -
           c[0][1] * (c[1][0] * c[2][2] - c[1][2] * c[2][0]) +
           c[0][2] * (c[1][0] * c[2][1] - c[1][1] * c[2][0]);
  };
  const std::complex<double> whole = determinant(m);
  std::array<std::complex<double>, kStates> x{};
  for (std::size_t n = 0; n < kStates; ++n) {  // Cramer's rule
    auto other = m;
    for (std::size_t i = 0; i < kStates; ++i) other[i][n] = from[i];
    x[n] = determinant(other) / whole;
  }
  return x;
}

PreviewGains StagePreview::gains(const DisturbanceModel& model) const noexcept {
  using Complex = std::complex<double>;
  const auto weigh = [](const States& weights, const std::array<Complex, kStates>& x) {
    return weights[0] * x[0] + weights[1] * x[1] + weights[2] * x[2];
  };
  const std::array<Complex, kStates> b{to_command_[0], to_command_[1], to_command_[2]};
  PreviewGains g = stage_gains_;
  // A place that stays, and one that goes evenly: the derivative by the rate, at 0.
  const auto stays = summed(1, b), goes = summed(1, stays);
  for (std::size_t j = 0; j < kInstants; ++j) {
    const double at_s = instant_s(settings_.period_s, j);
    const double weight = now_[j] + weigh(later_[j], stays).real();
    g.course[0].first += weight;
    g.course[0].second += at_s * weight + settings_.period_s * weigh(later_[j], goes).real();
  }
  for (std::size_t l = 0; l < model.line_count; ++l) {
    const Line& line = model.lines[l];
    const Complex rate{-line.fade_per_s, 2 * std::numbers::pi * line.frequency_hz};
    const Complex z = std::exp(rate * settings_.period_s);
    const auto x = summed(z, b);
    Complex sum = 0;
    for (std::size_t j = 0; j < kInstants; ++j)
      sum +=
          std::exp(rate * instant_s(settings_.period_s, j)) * (now_[j] + z * weigh(later_[j], x));
    g.course[l + 1] = {sum.real(), -sum.imag()};
  }
  return g;
}

double share_of_a_frame(const PreviewSettings& settings) noexcept {
  return 1 - transition(settings.response, settings.period_s).zz;
}

CalmerPreviews::CalmerPreviews(const PreviewSettings& settings) {
  if (settings.response.order != 2 || share_of_a_frame(settings) >= kFastShare) return;
  PreviewSettings calmer = settings;
  calmer.penalty = kLeastCalmer;
  for (std::size_t i = 0; i < CalmerGains::kMost; ++i, calmer.penalty *= kCalmerStep)
    previews_.emplace_back(calmer);
}

CalmerGains CalmerPreviews::gains(const DisturbanceModel& model, double penalty) const noexcept {
  CalmerGains calmer;
  for (const StagePreview& preview : previews_)
    if (preview.settings().penalty > penalty) calmer.gains[calmer.count++] = preview.gains(model);
  return calmer;
}

}  // namespace driftd::control
