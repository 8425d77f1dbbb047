// SPDX-License-Identifier: MIT
#include "control/controller.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace driftd::control {
namespace {

double or_zero(double value) noexcept {
  return value > 0 ? value : 0;
}
double finite_or_zero(double value) noexcept {
  return std::isfinite(value) ? value : 0;
}
bool is_finite(Vec2 v) noexcept {
  return std::isfinite(v.x) && std::isfinite(v.y);
}

/// Wraps instead of overflowing on times no clock gives.
double difference_us(std::int64_t later_ns, std::int64_t earlier_ns) noexcept {
  return 1e-3 * static_cast<double>(static_cast<std::int64_t>(
                    static_cast<std::uint64_t>(later_ns) - static_cast<std::uint64_t>(earlier_ns)));
}

}  // namespace

Vec2 ImageToStage::invert(Vec2 stage) const noexcept {
  const double det = determinant();
  assert(det != 0);
  return {(d * stage.x - b * stage.y) / det, (a * stage.y - c * stage.x) / det};
}

Controller::Controller(const ControllerSettings& settings) noexcept {
  change_settings(settings);
}

void Controller::change_settings(const ControllerSettings& settings) noexcept {
  settings_ = settings;
  settings_.proportional = finite_or_zero(settings.proportional);
  settings_.integral = finite_or_zero(settings.integral);
  settings_.step_limit_nm = or_zero(settings.step_limit_nm);
  settings_.rate_limit_nm_per_s = or_zero(settings.rate_limit_nm_per_s);
  settings_.range_limit_nm = or_zero(settings.range_limit_nm);
  settings_.stage_delay_us = or_zero(settings.stage_delay_us);
  settings_.stage_time_constant_us = or_zero(settings.stage_time_constant_us);
}

void Controller::reset() noexcept {
  total_nm_ = {};
  integral_nm_ = {};
  started_ = false;
  newest_ = 0;
  count_ = 0;
}

void Controller::resync(Vec2 sent_total_nm) noexcept {
  if (!is_finite(sent_total_nm)) return;
  const auto is_sent = [&] {
    const Vec2 t = history_[newest_].total_nm;
    return t.x == sent_total_nm.x && t.y == sent_total_nm.y;
  };
  while (count_ > 0 && !is_sent()) {
    newest_ = (newest_ + kHistory - 1) % kHistory;
    --count_;
  }
  total_nm_ = integral_nm_ = sent_total_nm;
  if (count_ > 0) return;
  history_[newest_] = {.sent_ns = sent_ns_, .total_nm = total_nm_, .stage_nm = total_nm_};
  count_ = 1;
}

Vec2 Controller::respond(const Command& command, double after_us) const noexcept {
  const double tau_us = settings_.stage_time_constant_us;
  const double left = tau_us > 0 ? std::exp(-std::max(after_us, 0.0) / tau_us) : 0.0;
  return {command.total_nm.x + (command.stage_nm.x - command.total_nm.x) * left,
          command.total_nm.y + (command.stage_nm.y - command.total_nm.y) * left};
}

Vec2 Controller::stage_at(std::int64_t time_ns) const noexcept {
  for (std::size_t back = 0; back < count_; ++back) {
    const Command& command = history_[(newest_ + kHistory - back) % kHistory];
    const double after_us = difference_us(time_ns, command.sent_ns) - settings_.stage_delay_us;
    if (after_us >= 0) return respond(command, after_us);
    if (back + 1 == count_) return command.stage_nm;
  }
  return {};
}

void Controller::remember(std::int64_t now_ns) noexcept {
  Command command{.sent_ns = now_ns, .total_nm = total_nm_, .stage_nm = {}};
  if (count_ > 0) {
    const Command& before = history_[newest_];
    command.stage_nm = respond(before, difference_us(now_ns, before.sent_ns));
    newest_ = (newest_ + 1) % kHistory;
  }
  history_[newest_] = command;
  count_ = std::min(count_ + 1, kHistory);
}

Controller::Axis Controller::update_axis(double target_nm, double total_nm, double integral_nm,
                                         double interval_s) const noexcept {
  const double error_nm = target_nm - total_nm;
  const double step_nm = settings_.step_limit_nm;
  const double rate_nm = settings_.rate_limit_nm_per_s * interval_s;
  const double range_nm = settings_.range_limit_nm;

  Axis axis;
  axis.integral_nm = integral_nm + settings_.integral * error_nm;
  const double wanted_nm = axis.integral_nm + settings_.proportional * error_nm;
  const auto limit = [&](double value_nm, double largest_nm, LimitFlag flag) {
    if (std::abs(value_nm) <= largest_nm) return value_nm;
    axis.limited = static_cast<std::uint8_t>(axis.limited | flag);
    return std::clamp(value_nm, -largest_nm, largest_nm);
  };
  double delta_nm = limit(wanted_nm, range_nm, kLimitRange) - total_nm;
  delta_nm = limit(delta_nm, step_nm, kLimitStep);
  delta_nm = limit(delta_nm, rate_nm, kLimitRate);
  // Rounding must not pass the range; a range just made narrower is entered at step and rate.
  const double widest_nm = std::max(range_nm, std::abs(total_nm));
  axis.total_nm = std::clamp(total_nm + delta_nm, -widest_nm, widest_nm);
  if (axis.limited != kLimitNone)
    axis.integral_nm = axis.total_nm - settings_.proportional * error_nm;
  return axis;
}

Correction Controller::update(Vec2 drift_nm, std::int64_t taken_ns, std::int64_t now_ns) noexcept {
  const Vec2 repeated = total_nm_;
  const std::int64_t last_ns = started_ ? sent_ns_ : std::min(taken_ns, now_ns);
  const bool in_order = !started_ || now_ns > sent_ns_;
  const Vec2 stage = stage_at(std::min(taken_ns, now_ns));
  const Vec2 moved = settings_.image_to_stage.apply(drift_nm);
  const Vec2 target{stage.x - moved.x, stage.y - moved.y};
  if (!in_order || !is_finite(target)) return {.total_nm = repeated, .delta_nm = {}};

  const double interval_s = std::max(0.0, 1e-6 * difference_us(now_ns, last_ns));
  const Axis x = update_axis(target.x, total_nm_.x, integral_nm_.x, interval_s);
  const Axis y = update_axis(target.y, total_nm_.y, integral_nm_.y, interval_s);
  if (!is_finite({x.total_nm, y.total_nm}) || !is_finite({x.integral_nm, y.integral_nm}))
    return {.total_nm = repeated, .delta_nm = {}};

  total_nm_ = {x.total_nm, y.total_nm};
  integral_nm_ = {x.integral_nm, y.integral_nm};
  started_ = true;
  sent_ns_ = now_ns;
  remember(now_ns);
  return {.total_nm = total_nm_,
          .delta_nm = {total_nm_.x - repeated.x, total_nm_.y - repeated.y},
          .limited = static_cast<std::uint8_t>(x.limited | y.limited)};
}

}  // namespace driftd::control
