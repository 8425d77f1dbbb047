// SPDX-License-Identifier: MIT
#include "control/controller.hpp"

#include <algorithm>
#include <cmath>

namespace driftd::control {
namespace {

double or_zero(double value) noexcept {
  return value > 0 ? value : 0;
}
bool is_finite(Vec2 v) noexcept {
  return std::isfinite(v.x) && std::isfinite(v.y);
}

/// Never negative; times that no clock gives do not overflow.
double seconds_between(std::int64_t earlier_ns, std::int64_t later_ns) noexcept {
  return std::max(0.0, 1e-9 * (static_cast<double>(later_ns) - static_cast<double>(earlier_ns)));
}

ServoSettings servo_of(const ControllerSettings& settings) noexcept {
  return {.proportional = settings.proportional, .integral = settings.integral};
}

}  // namespace

Controller::Controller(const ControllerSettings& settings)
    : settings_(settings),
      stage_(stage_settings()),
      servo_(std::make_unique<PiServo>(servo_of(settings))),
      observed_(kMostAveraged) {
  change_settings(settings);
}

void Controller::change_settings(const ControllerSettings& settings) noexcept {
  settings_ = settings;
  settings_.step_limit_nm = or_zero(settings.step_limit_nm);
  settings_.rate_limit_nm_per_s = or_zero(settings.rate_limit_nm_per_s);
  settings_.range_limit_nm = or_zero(settings.range_limit_nm);
  settings_.travel_limit_nm = or_zero(settings.travel_limit_nm);
  stage_.change_settings(stage_settings());
  servo_->change_settings(servo_of(settings));
}

void Controller::set_waiting_us(double waiting_us) noexcept {
  waiting_us_ = or_zero(waiting_us);
  stage_.change_settings(stage_settings());
}

StageModelSettings Controller::stage_settings() const noexcept {
  return {.image_to_stage = settings_.image_to_stage,
          .delay_us = or_zero(settings_.stage_delay_us) + waiting_us_,
          .time_constant_us = settings_.stage_time_constant_us};
}

void Controller::reset(Vec2 carried_nm) noexcept {
  carried_nm_ = is_finite(carried_nm) ? carried_nm : Vec2{};
  travelled_nm_ = {travelled_nm_.x + total_nm_.x, travelled_nm_.y + total_nm_.y};
  total_nm_ = {};
  servo_->reset({});
  stage_.reset();
  started_ = false;
  observed_count_ = 0;
}

void Controller::take_back(Vec2 sent_total_nm, std::int64_t sent_ns) noexcept {
  if (!is_finite(sent_total_nm)) return;
  stage_.take_back(sent_total_nm, sent_ns);
  total_nm_ = sent_total_nm;
  servo_->reset(sent_total_nm);
  started_ = sent_ns > 0;
  sent_ns_ = sent_ns;
}

void Controller::observe(std::int64_t taken_ns) noexcept {
  newest_ = (newest_ + 1) % kMostAveraged;
  observed_[newest_] = stage_.at(taken_ns);
  observed_count_ = std::min(observed_count_ + 1, kMostAveraged);
}

Vec2 Controller::mean_stage(std::size_t frames) const noexcept {
  Vec2 sum;
  for (std::size_t back = 0; back < frames; ++back) {
    const Vec2 place = observed_[(newest_ + kMostAveraged - back) % kMostAveraged];
    sum = {sum.x + place.x, sum.y + place.y};
  }
  const auto n = static_cast<double>(frames);
  return {sum.x / n, sum.y / n};
}

CorrectionLimits Controller::limits() const noexcept {
  const double range_nm = settings_.range_limit_nm;
  const double travel_nm = settings_.travel_limit_nm;
  // A total of 0 is always allowed: it is where the stage stands when a lock engages.
  const auto low = [&](double travelled_nm, double carried_nm) {
    return std::min(0.0, std::max(-range_nm - carried_nm, -travel_nm - travelled_nm));
  };
  const auto high = [&](double travelled_nm, double carried_nm) {
    return std::max(0.0, std::min(range_nm - carried_nm, travel_nm - travelled_nm));
  };
  return {.step_nm = settings_.step_limit_nm,
          .low_nm = {low(travelled_nm_.x, carried_nm_.x), low(travelled_nm_.y, carried_nm_.y)},
          .high_nm = {high(travelled_nm_.x, carried_nm_.x), high(travelled_nm_.y, carried_nm_.y)}};
}

Correction Controller::update(Vec2 drift_nm, std::int64_t taken_ns, std::int64_t now_ns,
                              int averaged) noexcept {
  const auto frames = std::min(static_cast<std::size_t>(std::max(averaged, 1)), observed_count_);
  const Vec2 stage = frames > 1 ? mean_stage(frames) : stage_.at(std::min(taken_ns, now_ns));
  const Vec2 moved = settings_.image_to_stage.apply(drift_nm);
  const Vec2 target{stage.x - moved.x, stage.y - moved.y};
  const std::int64_t last_ns = started_ ? sent_ns_ : std::min(taken_ns, now_ns);
  if ((started_ && now_ns <= sent_ns_) || !is_finite(target))
    return {.total_nm = total_nm_, .delta_nm = {}};

  const Vec2 wanted = servo_->wanted_nm(target, total_nm_, seconds_between(last_ns, now_ns));
  if (!is_finite(wanted)) {
    servo_->reset(total_nm_);
    return {.total_nm = total_nm_, .delta_nm = {}};
  }
  return send(wanted, last_ns, now_ns);
}

Correction Controller::go_to(Vec2 wanted_nm, std::int64_t now_ns) noexcept {
  if ((started_ && now_ns <= sent_ns_) || !is_finite(wanted_nm))
    return {.total_nm = total_nm_, .delta_nm = {}};
  if (!started_) return send(total_nm_, now_ns, now_ns);
  const Correction correction = send(wanted_nm, sent_ns_, now_ns);
  servo_->reset(total_nm_);
  return correction;
}

Correction Controller::send(Vec2 wanted_nm, std::int64_t last_ns, std::int64_t now_ns) noexcept {
  const CorrectionLimits limit = limits();
  const double rate_step_nm = settings_.rate_limit_nm_per_s * seconds_between(last_ns, now_ns);
  const LimitedAxis x = limit_axis(wanted_nm.x, total_nm_.x, limit.low_nm.x, limit.high_nm.x,
                                   limit.step_nm, rate_step_nm);
  const LimitedAxis y = limit_axis(wanted_nm.y, total_nm_.y, limit.low_nm.y, limit.high_nm.y,
                                   limit.step_nm, rate_step_nm);
  const Vec2 before = total_nm_;
  total_nm_ = {x.total_nm, y.total_nm};
  servo_->told(total_nm_, x.limited != kLimitNone, y.limited != kLimitNone);
  started_ = true;
  sent_ns_ = now_ns;
  stage_.command(total_nm_, now_ns);
  return {.total_nm = total_nm_,
          .delta_nm = {total_nm_.x - before.x, total_nm_.y - before.y},
          .limited = static_cast<std::uint8_t>(x.limited | y.limited)};
}

}  // namespace driftd::control
