// SPDX-License-Identifier: MIT
#include "simulator/motion.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace driftd::simulator {
namespace {

using Matrix = TickMatrix;

Matrix multiply(const Matrix& a, const Matrix& b) {
  Matrix c{};
  for (std::size_t i = 0; i < 2; ++i) {
    for (std::size_t j = 0; j < 2; ++j) c[i][j] = a[i][0] * b[0][j] + a[i][1] * b[1][j];
  }
  return c;
}

/// exp(m) by its series after halving m often enough for it to converge at once.
Matrix exponential(Matrix m) {
  constexpr int kHalvings = 8;
  for (auto& row : m) {
    for (double& value : row) value = std::ldexp(value, -kHalvings);
  }
  Matrix sum = {{{1, 0}, {0, 1}}};
  Matrix term = sum;
  for (int n = 1; n <= 12; ++n) {
    term = multiply(term, m);
    for (auto& row : term) {
      for (double& value : row) value /= n;
    }
    for (std::size_t i = 0; i < 2; ++i) {
      for (std::size_t j = 0; j < 2; ++j) sum[i][j] += term[i][j];
    }
  }
  for (int i = 0; i < kHalvings; ++i) sum = multiply(sum, sum);
  return sum;
}

/// Integral of a frequency that grows and falls by turns, over its growth.
double drifted_s2(double time_s, double turn_s) noexcept {
  const double whole = std::floor(time_s / (2 * turn_s));
  const double rest = time_s - 2 * turn_s * whole;
  const double back = std::max(0.0, rest - turn_s);
  return whole * turn_s * turn_s + rest * rest / 2 - back * back;
}

/// The share of a step that has been made, where the step takes a while.
double step_share(double since_s, double seconds) noexcept {
  if (since_s < 0) return 0;
  if (since_s >= seconds) return 1;
  return 0.5 - 0.5 * std::cos(std::numbers::pi * since_s / seconds);
}

}  // namespace

TickMatrix second_order(double frequency_hz, double damping) noexcept {
  const double omega = 2 * std::numbers::pi * frequency_hz;
  return exponential({{{0, kTickS}, {-omega * omega * kTickS, -2 * damping * omega * kTickS}}});
}

BroadbandTick broadband_tick(const BroadbandModel& model) noexcept {
  const Matrix memory = second_order(model.frequency_hz, model.damping);
  // Variance of the place for kicks of 1: sum of memory^i kick kick' memory'^i, by doubling.
  Matrix sum = {{{0, 0}, {0, 1}}};
  Matrix power = memory;
  for (int i = 0; i < 40; ++i) {
    const Matrix turned = {{{power[0][0], power[1][0]}, {power[0][1], power[1][1]}}};
    const Matrix more = multiply(multiply(power, sum), turned);
    for (std::size_t j = 0; j < 2; ++j)
      for (std::size_t k = 0; k < 2; ++k) sum[j][k] += more[j][k];
    power = multiply(power, power);
  }
  return {.memory = memory, .kick = model.rms_nm / std::sqrt(sum[0][0])};
}

double value_of(const Sine& sine, double time_s) noexcept {
  if (time_s < sine.from_s || time_s >= sine.until_s) return 0;
  constexpr double kTurn = 2 * std::numbers::pi;
  double angle = kTurn * sine.frequency_hz * time_s;
  if (sine.drift_share_per_s != 0)
    angle +=
        kTurn * sine.frequency_hz * sine.drift_share_per_s * drifted_s2(time_s, sine.drift_turn_s);
  double amplitude_nm = sine.amplitude_nm;
  if (sine.modulation_share != 0)
    amplitude_nm *= 1 + sine.modulation_share * std::sin(kTurn * sine.modulation_hz * time_s);
  return amplitude_nm * std::sin(angle + sine.phase_deg * std::numbers::pi / 180);
}

DisturbanceAxis::DisturbanceAxis(const AxisDisturbance& model, std::uint64_t seed,
                                 std::uint64_t stream) noexcept
    : model_(model),
      random_(seed, stream),
      broadband_random_(seed, stream + 60),
      broadband_(broadband_tick(model.broadband)) {}

double DisturbanceAxis::step(double time_s) noexcept {
  if (model_.random_walk_nm_per_sqrt_s > 0) {
    walk_nm_ += model_.random_walk_nm_per_sqrt_s * std::sqrt(kTickS) * random_.normal();
  }
  double sum = walk_nm_ + model_.linear_nm_per_s * time_s +
               model_.settling_nm * -std::expm1(-time_s / model_.settling_tau_s);
  sum += model_.step_nm * step_share(time_s - model_.step_at_s, model_.step_seconds);
  for (const Sine& sine : model_.sines) sum += value_of(sine, time_s);
  if (model_.broadband.rms_nm > 0) {
    const auto& m = broadband_.memory;
    const auto [place, speed] = vibration_;
    vibration_ = {m[0][0] * place + m[0][1] * speed,
                  m[1][0] * place + m[1][1] * speed + broadband_.kick * broadband_random_.normal()};
    sum += vibration_[0];
  }
  return sum;
}

Stage::Stage(const StageModel& model, std::uint64_t seed, std::uint64_t stream)
    : model_(model), random_(seed, stream), jitter_(seed, stream + 1) {
  response_ = second_order(model.frequency_hz, model.damping);
  second_response_ = second_order(model.second_mode_hz, model.second_mode_damping);
  noise_memory_ = std::exp(-2 * std::numbers::pi * model.noise_bandwidth_hz * kTickS);
  const auto& m = model.image_to_stage;
  const double determinant = m[0][0] * m[1][1] - m[0][1] * m[1][0];
  stage_to_image_ = {{{m[1][1] / determinant, -m[0][1] / determinant},
                      {-m[1][0] / determinant, m[0][0] / determinant}}};
  const double angle = model.turn_deg * std::numbers::pi / 180;
  axes_to_platform_ = multiply(
      {{{std::cos(angle), -std::sin(angle)}, {std::sin(angle), std::cos(angle)}}},
      {{{model.axis_gain[0], model.coupling[0]}, {model.coupling[1], model.axis_gain[1]}}});
  for (Axis& axis : axes_) {
    axis.noise_nm = model.noise_nm * random_.normal();
    axis.hysteresis = Hysteresis(model.hysteresis_share, model.hysteresis_reach_nm);
    axis.creep = Creep(model.creep_share_per_decade, kTickS);
  }
}

void Stage::command(std::int64_t time_ns, Vec2 target_nm) {
  newest_ = target_nm;
  double delay_ms = model_.delay_ms;
  if (model_.delay_jitter_ms > 0) delay_ms += jitter_.exponential(model_.delay_jitter_ms);
  waiting_.push_back({time_ns + std::llround(delay_ms * 1e6), target_nm});
}

void Stage::answer_wrongly(double gain, double degrees) noexcept {
  const double angle = degrees * std::numbers::pi / 180;
  answer_ = {{{gain * std::cos(angle), -gain * std::sin(angle)},
              {gain * std::sin(angle), gain * std::cos(angle)}}};
  obeyed_then_ = obeyed_;
  aim_then_ = aim_;
}

Vec2 Stage::aim_of(Vec2 command_nm) const noexcept {
  const Vec2 asked = {command_nm.x - obeyed_then_.x, command_nm.y - obeyed_then_.y};
  return {aim_then_.x + answer_[0][0] * asked.x + answer_[0][1] * asked.y,
          aim_then_.y + answer_[1][0] * asked.x + answer_[1][1] * asked.y};
}

double Stage::accepted(double target_nm) const noexcept {
  const double clipped = std::clamp(target_nm, -model_.range_nm, model_.range_nm);
  if (model_.quantisation_nm <= 0) return clipped;
  return std::round(clipped / model_.quantisation_nm) * model_.quantisation_nm;
}

void Stage::head_for_aim(Axis& axis) const noexcept {
  const double farthest = model_.slew_nm_per_s * kTickS;
  axis.slewed_nm =
      farthest > 0 ? std::clamp(axis.aim_nm, axis.slewed_nm - farthest, axis.slewed_nm + farthest)
                   : axis.aim_nm;
  const double bent = axis.hysteresis.step(axis.slewed_nm);
  axis.target_nm = bent + axis.creep.step(bent);
}

void Stage::step(std::int64_t time_ns, bool stuck) {
  // Over the tick that ends now, the targets set by then are followed: exact for a constant target.
  const double fresh = std::sqrt(1 - noise_memory_ * noise_memory_) * model_.noise_nm;
  for (Axis& axis : axes_) {
    const double offset = axis.position_nm - axis.target_nm;
    const double velocity = axis.velocity_nm_per_s;
    axis.position_nm = axis.target_nm + response_[0][0] * offset + response_[0][1] * velocity;
    axis.velocity_nm_per_s = response_[1][0] * offset + response_[1][1] * velocity;
    if (model_.second_mode_share != 0) {
      const auto& m = second_response_;
      const auto [place, speed] = axis.second;
      const double off = place - axis.target_nm;
      axis.second = {axis.target_nm + m[0][0] * off + m[0][1] * speed,
                     m[1][0] * off + m[1][1] * speed};
    }
    axis.noise_nm = noise_memory_ * axis.noise_nm + fresh * random_.normal();
  }
  while (!waiting_.empty() && waiting_.front().due_ns <= time_ns) {
    if (!stuck && !model_.stuck && !dead_) {
      obeyed_ = waiting_.front().target_nm;
      aim_ = aim_of(obeyed_);
      axes_[0].aim_nm = model_.axis_sign[0] * accepted(aim_.x);
      axes_[1].aim_nm = model_.axis_sign[1] * accepted(aim_.y);
    }
    waiting_.pop_front();
  }
  for (Axis& axis : axes_) head_for_aim(axis);
}

double Stage::place_of(const Axis& axis) const noexcept {
  if (model_.second_mode_share == 0) return axis.position_nm;
  return axis.position_nm + model_.second_mode_share * (axis.second[0] - axis.position_nm);
}

Vec2 Stage::position_nm() const noexcept {
  const auto& m = axes_to_platform_;
  const double x = place_of(axes_[0]);
  const double y = place_of(axes_[1]);
  return {m[0][0] * x + m[0][1] * y + axes_[0].noise_nm,
          m[1][0] * x + m[1][1] * y + axes_[1].noise_nm};
}

Vec2 Stage::image_displacement(Vec2 stage_nm) const noexcept {
  return {stage_to_image_[0][0] * stage_nm.x + stage_to_image_[0][1] * stage_nm.y,
          stage_to_image_[1][0] * stage_nm.x + stage_to_image_[1][1] * stage_nm.y};
}

}  // namespace driftd::simulator
