// SPDX-License-Identifier: MIT
#include "tests/bench/stillness/axis_model.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "simulator/motion.hpp"

namespace driftd::stillness {
namespace {

using simulator::kTickS;

Matrix from(const simulator::TickMatrix& two) {
  Matrix m(2, 2);
  for (std::size_t i = 0; i < 2; ++i)
    for (std::size_t j = 0; j < 2; ++j) m(i, j) = two[i][j];
  return m;
}

void put(Matrix& into, const Matrix& block, std::size_t at) {
  for (std::size_t i = 0; i < block.rows(); ++i)
    for (std::size_t j = 0; j < block.columns(); ++j) into(at + i, at + j) = block(i, j);
}

}  // namespace

FrameTicks frame_ticks(const AxisPhysics& physics) {
  const auto ticks = [](double seconds) { return seconds / kTickS; };
  FrameTicks t;
  t.period = static_cast<std::size_t>(std::lround(ticks(1 / physics.rate_hz)));
  t.exposure = static_cast<std::size_t>(std::ceil(ticks(1e-6 * physics.exposure_us) - 1e-6));
  t.exposure = std::clamp<std::size_t>(t.exposure, 1, t.period);
  const double effect_s = 1e-6 * (physics.exposure_us / 2 + physics.latency_us) +
                          1e-3 * (physics.stage.delay_ms + physics.stage.delay_jitter_ms);
  t.effect = static_cast<std::size_t>(std::ceil(ticks(effect_s) - 1e-6));
  for (std::size_t j = 0; j < kInstants; ++j)
    t.judged[j] = std::max<std::size_t>(1, (t.period * (j + 1) + kInstants / 2) / kInstants);
  return t;
}

AxisModel::AxisModel(const AxisPhysics& physics) : physics_(physics), ticks_(frame_ticks(physics)) {
  make_stage();
  make_tick();
  lift();
}

void AxisModel::make_stage() {
  const simulator::StageModel& stage = physics_.stage;
  const bool two = stage.second_mode_share != 0;
  const std::size_t n = two ? 4 : 2;
  stage_tick_ = Matrix(n, n);
  stage_input_ = Matrix(n, 1);
  stage_row_ = Matrix(1, n);
  const auto mode = [&](std::size_t at, double hz, double damping, double share) {
    const Matrix response = from(simulator::second_order(hz, damping));
    put(stage_tick_, response, at);
    stage_input_(at, 0) = 1 - response(0, 0);
    stage_input_(at + 1, 0) = -response(1, 0);
    stage_row_(0, at) = physics_.gain * share;
  };
  mode(0, stage.frequency_hz, stage.damping, 1 - stage.second_mode_share);
  if (two) mode(2, stage.second_mode_hz, stage.second_mode_damping, stage.second_mode_share);
}

/// States: stage, its noise, walk, broadband vibration (2), mean of the exposure.
void AxisModel::make_tick() {
  const std::size_t stage = stage_tick_.rows();
  const std::size_t n = stage + 5;
  const simulator::AxisDisturbance& d = physics_.disturbance;
  tick_ = Matrix::identity(n);
  input_ = Matrix(n, 1);
  noise_ = Matrix(n, n);
  row_ = Matrix(1, n);
  put(tick_, stage_tick_, 0);
  for (std::size_t i = 0; i < stage; ++i) {
    input_(i, 0) = stage_input_(i, 0);
    row_(0, i) = stage_row_(0, i);
  }
  const double memory =
      std::exp(-2 * std::numbers::pi * physics_.stage.noise_bandwidth_hz * kTickS);
  tick_(stage, stage) = memory;
  noise_(stage, stage) = (1 - memory * memory) * physics_.stage.noise_nm * physics_.stage.noise_nm;
  noise_(stage + 1, stage + 1) = d.random_walk_nm_per_sqrt_s * d.random_walk_nm_per_sqrt_s * kTickS;
  const simulator::BroadbandTick broadband = simulator::broadband_tick(d.broadband);
  for (std::size_t i = 0; i < 2; ++i)
    for (std::size_t j = 0; j < 2; ++j)
      tick_(stage + 2 + i, stage + 2 + j) = broadband.memory[i][j];
  noise_(stage + 3, stage + 3) = broadband.kick * broadband.kick;
  for (std::size_t i = 0; i < 3; ++i) row_(0, stage + i) = 1;
  tick_(n - 1, n - 1) = 1;
}

void AxisModel::lift() {
  const std::size_t n = tick_.rows();
  const std::size_t mean = n - 1;
  const FrameTicks& t = ticks_;
  const std::size_t last = t.exposure - 1;  // of the exposure, where frames meet
  const std::size_t effect = t.effect > last ? t.effect - last : 0;
  const std::size_t whole = effect / t.period, rest = effect % t.period;
  LiftedAxis& l = lifted_;
  l.mean = mean;
  l.commands = whole + 1;
  l.states = n + l.commands;
  // Columns of `way`: the states at the frame's beginning, then the command given there.
  Matrix way(n, l.states + 1);
  for (std::size_t i = 0; i < n; ++i) way(i, i) = 1;
  Matrix spread(n, n);
  // The command of `back` frames ago; 0: the one given at the beginning.
  const auto column = [&](std::size_t back) { return back == 0 ? l.states : n + back - 1; };
  for (std::size_t i = 1; i <= t.period; ++i) {
    const std::size_t obeyed = column(i <= rest ? whole + 1 : whole);
    way = tick_ * way;
    for (std::size_t s = 0; s < n; ++s) way(s, obeyed) += input_(s, 0);
    spread = tick_ * spread * tick_.transposed() + noise_;
    if (i + last >= t.period) {
      Matrix add = Matrix::identity(n);
      if (i + last == t.period) add(mean, mean) = 0;
      for (std::size_t s = 0; s < mean; ++s)
        add(mean, s) = row_(0, s) / static_cast<double>(t.exposure);
      way = add * way;
      spread = add * spread * add.transposed();
    }
    for (std::size_t j = 0; j < kInstants; ++j) {
      // judged[j] counts from the exposure's first tick, i from its last.
      if ((t.judged[j] + t.period - last % t.period) % t.period != i % t.period) continue;
      l.place[j] = row_ * way;
      l.place_noise[j] = (row_ * spread * row_.transposed())(0, 0);
    }
  }
  l.from_state = Matrix(l.states, l.states);
  l.from_command = Matrix(l.states, 1);
  l.noise = Matrix(l.states, l.states);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < l.states; ++j) l.from_state(i, j) = way(i, j);
    l.from_command(i, 0) = way(i, l.states);
  }
  l.from_command(n, 0) = 1;
  for (std::size_t i = 1; i < l.commands; ++i) l.from_state(n + i, n + i - 1) = 1;
  put(l.noise, spread, 0);
}

}  // namespace driftd::stillness
