// SPDX-License-Identifier: MIT
#include "camera/simulator/motion.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace driftd::simulator {
namespace {

constexpr double kTickS = static_cast<double>(kTickNs) * 1e-9;
using Matrix = std::array<std::array<double, 2>, 2>;

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

}  // namespace

DisturbanceAxis::DisturbanceAxis(const AxisDisturbance& model, std::uint64_t seed,
                                 std::uint64_t stream) noexcept
    : model_(model), random_(seed, stream) {}

double DisturbanceAxis::step(double time_s) noexcept {
  if (model_.random_walk_nm_per_sqrt_s > 0) {
    walk_nm_ += model_.random_walk_nm_per_sqrt_s * std::sqrt(kTickS) * random_.normal();
  }
  double sum = walk_nm_ + model_.linear_nm_per_s * time_s +
               model_.settling_nm * -std::expm1(-time_s / model_.settling_tau_s);
  if (time_s >= model_.step_at_s) sum += model_.step_nm;
  for (const Sine& sine : model_.sines) {
    sum += sine.amplitude_nm * std::sin(2 * std::numbers::pi * sine.frequency_hz * time_s +
                                        sine.phase_deg * std::numbers::pi / 180);
  }
  return sum;
}

Stage::Stage(const StageModel& model, std::uint64_t seed)
    : model_(model), random_(seed, 20), jitter_(seed, 21) {
  const double omega = 2 * std::numbers::pi * model.frequency_hz;
  response_ =
      exponential({{{0, kTickS}, {-omega * omega * kTickS, -2 * model.damping * omega * kTickS}}});
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

Vec2 Stage::position_nm() const noexcept {
  const auto& m = axes_to_platform_;
  const double x = axes_[0].position_nm;
  const double y = axes_[1].position_nm;
  return {m[0][0] * x + m[0][1] * y + axes_[0].noise_nm,
          m[1][0] * x + m[1][1] * y + axes_[1].noise_nm};
}

Vec2 Stage::image_displacement(Vec2 stage_nm) const noexcept {
  return {stage_to_image_[0][0] * stage_nm.x + stage_to_image_[0][1] * stage_nm.y,
          stage_to_image_[1][0] * stage_nm.x + stage_to_image_[1][1] * stage_nm.y};
}

}  // namespace driftd::simulator
