// SPDX-License-Identifier: MIT
#include "control/law/observer/stage_preview.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>

namespace driftd::control {
namespace {

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
/// Upper triangular, root' root = m.
Matrix root_of(const Matrix& m) {
  Matrix root{};
  for (std::size_t i = 0; i < kStates; ++i) {
    for (std::size_t j = i; j < kStates; ++j) {
      double rest = m[i][j];
      for (std::size_t k = 0; k < i; ++k) rest -= root[k][i] * root[k][j];
      // Rounding leaves less than nothing where a stage is damped beyond measure.
      root[i][j] = i == j ? std::sqrt(std::max(rest, kStill * m[i][i])) : rest / root[i][i];
    }
  }
  return root;
}
/// The inverse of an upper triangular matrix.
Matrix inverse(const Matrix& m) {
  Matrix inverse{};
  for (std::size_t j = 0; j < kStates; ++j) {
    inverse[j][j] = 1 / m[j][j];
    for (std::size_t i = j; i-- > 0;) {
      for (std::size_t k = i + 1; k <= j; ++k) inverse[i][j] -= m[i][k] * inverse[k][j];
      inverse[i][j] /= m[i][i];
    }
  }
  return inverse;
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
  worth_ = worth;
  whole_ = whole;
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

/// Sum of z^i (A - B K)^i `from` over all i.
StagePreview::ComplexStates StagePreview::summed(std::complex<double> z,
                                                 const ComplexStates& from) const noexcept {
  std::array<ComplexStates, kStates> m{};
  for (std::size_t i = 0; i < kStates; ++i)
    for (std::size_t j = 0; j < kStates; ++j) m[i][j] = (i == j ? 1.0 : 0.0) - z * closed_[i][j];
  const auto determinant = [](const auto& c) {
    return c[0][0] * (c[1][1] * c[2][2] - c[1][2] * c[2][1]) -
           c[0][1] * (c[1][0] * c[2][2] - c[1][2] * c[2][0]) +
           c[0][2] * (c[1][0] * c[2][1] - c[1][1] * c[2][0]);
  };
  const std::complex<double> whole = determinant(m);
  ComplexStates x{};
  for (std::size_t n = 0; n < kStates; ++n) {  // Cramer's rule
    auto other = m;
    for (std::size_t i = 0; i < kStates; ++i) other[i][n] = from[i];
    x[n] = determinant(other) / whole;
  }
  return x;
}

/// Weights of the course's states, where its place at instant j of this frame weighs now[j], and i
/// frames later later_[j]' (A - B K)^(i - 1) `from`: summed over all frames to come in closed form.
/// A sum that is broken off would leave the stage short of its place.
DisturbanceFilter::State StagePreview::course(const std::array<double, kInstants>& now,
                                              const States& from,
                                              const DisturbanceModel& model) const noexcept {
  using Complex = std::complex<double>;
  const auto weigh = [](const States& weights, const ComplexStates& x) {
    return weights[0] * x[0] + weights[1] * x[1] + weights[2] * x[2];
  };
  const ComplexStates begin{from[0], from[1], from[2]};
  DisturbanceFilter::State course{};
  // A place that stays, and one that goes evenly: the derivative by the rate, at 0.
  const ComplexStates stays = summed(1, begin), goes = summed(1, stays);
  for (std::size_t j = 0; j < kInstants; ++j) {
    const double at_s = instant_s(settings_.period_s, j);
    const double weight = now[j] + weigh(later_[j], stays).real();
    course[0].first += weight;
    course[0].second += at_s * weight + settings_.period_s * weigh(later_[j], goes).real();
  }
  for (std::size_t l = 0; l < model.line_count; ++l) {
    const Line& line = model.lines[l];
    if (!line.followed) continue;  // it weighs nothing
    const Complex rate{-line.fade_per_s, 2 * std::numbers::pi * line.frequency_hz};
    const Complex z = std::exp(rate * settings_.period_s);
    const ComplexStates x = summed(z, begin);
    Complex sum = 0;
    for (std::size_t j = 0; j < kInstants; ++j)
      sum += std::exp(rate * instant_s(settings_.period_s, j)) * (now[j] + z * weigh(later_[j], x));
    course[l + 1] = {sum.real(), -sum.imag()};
  }
  return course;
}

PreviewGains StagePreview::gains(const DisturbanceModel& model) const noexcept {
  PreviewGains g = stage_gains_;
  g.course = course(now_, to_command_, model);
  return g;
}

/// The cost to come is (x - c)' P (x - c) and a rest that no command changes: c is the best state
/// for the course, P c the sum of what its places weigh. It never grows by the gains K, and with it
/// |K (x - c)| is at most the root of K P^-1 K' times it.
ToDo StagePreview::to_do(const DisturbanceModel& model) const noexcept {
  const Matrix root = root_of(worth_), inverted = inverse(root);
  const States change{stage_gains_.from_place, stage_gains_.from_speed,
                      1 + stage_gains_.from_command};
  double most = 0;  // the root of K~ P^-1 K~'
  for (std::size_t m = 0; m < kStates; ++m) {
    double sum = 0;
    for (std::size_t n = 0; n < kStates; ++n) sum += change[n] * inverted[n][m];
    most += sum * sum;
  }
  most = std::sqrt(most);
  ToDo to_do;
  for (std::size_t m = 0; m < kStates; ++m) {
    States from{};
    for (std::size_t n = 0; n < kStates; ++n) from[n] = most * whole_ * inverted[n][m];
    std::array<double, kInstants> now{};
    for (std::size_t j = 0; j < kInstants; ++j) now[j] = dot(later_[j], from);
    to_do.parts[m] = {.from_place = most * root[m][0],
                      .from_speed = most * root[m][1],
                      .from_command = most * root[m][2],
                      .course = course(now, product(closed_, from), model)};
  }
  return to_do;
}

double ToDo::length_nm(const StageAhead& ahead) const noexcept {
  double square_nm2 = 0;
  for (const PreviewGains& part : parts) {
    const double part_nm = part.command_nm(ahead);
    square_nm2 += part_nm * part_nm;
  }
  return std::sqrt(square_nm2);
}

double share_of_a_frame(const PreviewSettings& settings) noexcept {
  return 1 - transition(settings.response, settings.period_s).zz;
}

}  // namespace driftd::control
