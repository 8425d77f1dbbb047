// SPDX-License-Identifier: MIT
#include "tests/bench/stillness/bound.hpp"

#include <cmath>
#include <complex>
#include <functional>
#include <numbers>
#include <stdexcept>

#include "simulator/motion.hpp"

namespace driftd::stillness {
namespace {

using simulator::kTickS;
using Complex = std::complex<double>;

constexpr double kLeastPenalty = 1e-6, kMostPenalty = 1e6;
/// A ramp is a sine so slow that it has the same mean square of slope.
constexpr double kRampHz = 1e-3;

/// Iterates until it stands still.
Matrix fixed_point(Matrix start, const std::function<Matrix(const Matrix&)>& next) {
  constexpr int kMost = 200'000;
  constexpr double kStill = 1e-11;
  for (int i = 0; i < kMost; ++i) {
    Matrix after = next(start);
    const double change = (after - start).largest();
    const bool still = change <= kStill * after.largest();
    start = std::move(after);
    if (still) return start;
  }
  throw std::runtime_error("a Riccati equation of the bound did not converge");
}

struct Filter {
  Matrix predicted, kept;  ///< covariances before and after the measurement
  Matrix gain;
  double innovation_nm2 = 0;
};

Filter best_filter(const AxisModel& axis) {
  const LiftedAxis& l = axis.lifted();
  const Matrix to = l.from_state, back = l.from_state.transposed();
  const double noise_nm2 = axis.physics().noise_nm * axis.physics().noise_nm;
  Filter f;
  const auto keep = [&](const Matrix& predicted) {
    f.innovation_nm2 = predicted(l.mean, l.mean) + noise_nm2;
    f.gain = (1 / f.innovation_nm2) * predicted.block(0, l.mean, l.states, 1);
    return predicted - f.gain * predicted.block(l.mean, 0, 1, l.states);
  };
  f.predicted = fixed_point(
      l.noise, [&](const Matrix& predicted) { return to * keep(predicted) * back + l.noise; });
  f.kept = keep(f.predicted);
  return f;
}

struct Regulator {
  Matrix gains;
  Matrix worth;  ///< of a state: what it costs from now on
};

Regulator best_regulator(const LiftedAxis& l, double penalty) {
  const std::size_t n = l.states, newest = l.states - l.commands;
  // Cost of a frame over (state, command).
  Matrix cost(n + 1, n + 1);
  for (const Matrix& place : l.place)
    cost = cost + (1.0 / kInstants) * (place.transposed() * place);
  cost(n, n) += penalty;
  cost(newest, newest) += penalty;
  cost(n, newest) -= penalty;
  cost(newest, n) -= penalty;
  Matrix onwards(n, n + 1);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) onwards(i, j) = l.from_state(i, j);
    onwards(i, n) = l.from_command(i, 0);
  }
  const Matrix onwards_t = onwards.transposed();
  Regulator r;
  r.worth = fixed_point(Matrix(n, n), [&](const Matrix& worth) {
    const Matrix all = cost + onwards_t * (worth * onwards);
    r.gains = (1 / all(n, n)) * all.block(n, 0, 1, n);
    return all.block(0, 0, n, n) - all.block(0, n, n, 1) * r.gains;
  });
  return r;
}

/// Mean square per frame of `row` over (state, command), under the regulator and the filter.
double mean_square(const LiftedAxis& l, const Regulator& r, const Filter& f,
                   const std::vector<Matrix>& rows) {
  const std::size_t n = l.states;
  const Matrix closed = l.from_state - l.from_command * r.gains;
  const Matrix closed_t = closed.transposed();
  Matrix cost(n, n);
  for (const Matrix& row : rows) {
    const Matrix seen = row.block(0, 0, 1, n) - row(0, n) * r.gains;
    cost = cost + seen.transposed() * seen;
  }
  const Matrix worth =
      fixed_point(cost, [&](const Matrix& after) { return cost + closed_t * (after * closed); });
  return f.innovation_nm2 * (f.gain.transposed() * (worth * f.gain))(0, 0);
}

struct Shares {
  double residual_nm2 = 0, change_nm2 = 0, blind_nm2 = 0, lines_nm2 = 0;
};

Shares shares_of(const AxisModel& axis, const Filter& f, double penalty) {
  const LiftedAxis& l = axis.lifted();
  const Regulator r = best_regulator(l, penalty);
  Shares s;
  std::vector<Matrix> places;
  for (std::size_t j = 0; j < kInstants; ++j) {
    places.push_back(std::sqrt(1.0 / kInstants) * l.place[j]);
    const Matrix unknown = l.place[j].block(0, 0, 1, l.states);
    s.blind_nm2 += (l.place_noise[j] + (unknown * f.kept * unknown.transposed())(0, 0)) / kInstants;
  }
  Matrix change(1, l.states + 1);
  change(0, l.states) = 1;
  change(0, l.states - l.commands) = -1;
  s.residual_nm2 = s.blind_nm2 + mean_square(l, r, f, places);
  s.change_nm2 = mean_square(l, r, f, {change});
  for (const LineAnswer& line : answers_to_lines(axis, penalty)) {
    s.lines_nm2 += line.left_nm2;
    s.change_nm2 += line.change_nm2;
  }
  s.residual_nm2 += s.lines_nm2;
  return s;
}

/// The stage's place at the judged instants for commands e^(i omega k T), k = 0 given so that it is
/// obeyed from the first tick of the frame on; of full preview only that matters.
std::array<Complex, kInstants> places_of(const AxisModel& axis, double omega) {
  const FrameTicks& t = axis.ticks();
  const std::size_t n = axis.stage_tick().rows();
  const std::size_t rest = t.effect % t.period;
  const Complex turn = std::polar(1.0, omega * kTickS * static_cast<double>(t.period));
  // s(end of frame) = way s + commands; the command of this frame is obeyed after `rest` ticks.
  const auto ticked = [&](std::vector<Complex> s, std::size_t tick) {
    const Complex command = tick < rest ? 1.0 / turn : Complex(1.0);
    std::vector<Complex> after(n);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) after[i] += axis.stage_tick()(i, j) * s[j];
      after[i] += axis.stage_input()(i, 0) * command;
    }
    return after;
  };
  Matrix way = Matrix::identity(n);
  std::vector<Complex> forced(n);
  for (std::size_t i = 0; i < t.period; ++i) {
    forced = ticked(forced, i);
    way = axis.stage_tick() * way;
  }
  std::vector<std::vector<Complex>> equations(n, std::vector<Complex>(n));
  for (std::size_t i = 0; i < n; ++i)
    for (std::size_t j = 0; j < n; ++j) equations[i][j] = (i == j ? turn : 0.0) - way(i, j);
  std::vector<Complex> state = solve(equations, forced);
  std::array<Complex, kInstants> places{};
  for (std::size_t i = 1; i <= t.period; ++i) {
    state = ticked(state, i - 1);
    for (std::size_t j = 0; j < kInstants; ++j) {
      if (t.judged[j] != i) continue;
      for (std::size_t k = 0; k < n; ++k) places[j] += axis.stage_row()(0, k) * state[k];
    }
  }
  return places;
}

LineAnswer answer_to(const AxisModel& axis, double frequency_hz, double amplitude_nm,
                     double penalty) {
  LineAnswer answer{.omega = 2 * std::numbers::pi * frequency_hz, .amplitude_nm = amplitude_nm};
  const std::array<Complex, kInstants> places = places_of(axis, answer.omega);
  const FrameTicks& t = axis.ticks();
  const double period_s = kTickS * static_cast<double>(t.period);
  const double change = std::norm(1.0 - std::polar(1.0, -answer.omega * period_s));
  Complex along = 0;
  double power = penalty * change;
  for (std::size_t j = 0; j < kInstants; ++j) {
    const Complex line = std::polar(1.0, answer.omega * kTickS * static_cast<double>(t.judged[j]));
    along += std::conj(places[j]) * line / double{kInstants};
    power += std::norm(places[j]) / kInstants;
  }
  const Complex command = -along / power;
  const double half = 0.5 * amplitude_nm * amplitude_nm;
  for (std::size_t j = 0; j < kInstants; ++j) {
    const Complex line = std::polar(1.0, answer.omega * kTickS * static_cast<double>(t.judged[j]));
    answer.left_nm2 += half * std::norm(line + places[j] * command) / kInstants;
  }
  answer.change_nm2 = half * change * std::norm(command);
  answer.command_re = command.real();
  answer.command_im = command.imag();
  return answer;
}

}  // namespace

std::vector<LineAnswer> answers_to_lines(const AxisModel& axis, double penalty) {
  const simulator::AxisDisturbance& d = axis.physics().disturbance;
  std::vector<LineAnswer> answers;
  for (const simulator::Sine& sine : d.sines) {
    // The modulated amplitude's root mean square.
    const double swell = std::sqrt(1 + 0.5 * sine.modulation_share * sine.modulation_share);
    answers.push_back(answer_to(axis, sine.frequency_hz, swell * sine.amplitude_nm, penalty));
  }
  if (d.linear_nm_per_s != 0) {
    const double amplitude_nm =
        std::numbers::sqrt2 * d.linear_nm_per_s / (2 * std::numbers::pi * kRampHz);
    answers.push_back(answer_to(axis, kRampHz, amplitude_nm, penalty));
  }
  return answers;
}

BestLaw best_law(const AxisModel& axis, double penalty) {
  return {.gains = best_regulator(axis.lifted(), penalty).gains, .filter = best_filter(axis).gain};
}

Bound find_bound(const AxisModel& axis, double change_limit_nm) {
  const Filter filter = best_filter(axis);
  double penalty = kLeastPenalty;
  Shares s = shares_of(axis, filter, penalty);
  const double limit_nm2 = change_limit_nm * change_limit_nm;
  if (s.change_nm2 > limit_nm2) {
    double low = std::log(penalty), high = std::log(kMostPenalty);
    constexpr int kHalvings = 24;
    for (int i = 0; i < kHalvings; ++i) {
      const double middle = (low + high) / 2;
      (shares_of(axis, filter, std::exp(middle)).change_nm2 > limit_nm2 ? low : high) = middle;
    }
    penalty = std::exp(high);
    s = shares_of(axis, filter, penalty);
  }
  return {.residual_nm = std::sqrt(s.residual_nm2),
          .change_nm = std::sqrt(s.change_nm2),
          .penalty = penalty,
          .lines_nm = std::sqrt(s.lines_nm2),
          .blind_nm = std::sqrt(s.blind_nm2)};
}

}  // namespace driftd::stillness
