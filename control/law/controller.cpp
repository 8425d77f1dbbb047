// SPDX-License-Identifier: MIT
#include "control/law/controller.hpp"

#include <algorithm>
#include <cmath>

#include "control/values/arithmetic.hpp"

namespace driftd::control {
namespace {

/// No stage moves exactly as its model does. This share of what a move does from frame to frame is
/// taken to be wrong, and to ring on for some frames.
constexpr double kMoveWrong = 0.05, kMoveRings = 0.85;

double or_zero(double value) noexcept {
  return value > 0 ? value : 0;
}

}  // namespace

Controller::Controller(const ControllerSettings& settings)
    : settings_(settings),
      stage_(stage_settings()),
      moved_(stage_settings()),
      law_(law_settings()),
      observed_(kMostAveraged),
      observed_moved_(kMostAveraged),
      observed_noise_(kMostAveraged) {
  change_settings(settings);
}

void Controller::change_settings(const ControllerSettings& settings) noexcept {
  settings_ = settings;
  settings_.step_limit_nm = or_zero(settings.step_limit_nm);
  settings_.rate_limit_nm_per_s = or_zero(settings.rate_limit_nm_per_s);
  settings_.range_limit_nm = or_zero(settings.range_limit_nm);
  settings_.travel_limit_nm = or_zero(settings.travel_limit_nm);
  stage_.change_settings(stage_settings());
  moved_.change_settings(stage_settings());
  law_.change_settings(law_settings());
}

/// A small change is ignored: the mean differs a little from lock to lock, and each other value
/// makes the law forget what it learnt of the stage.
void Controller::set_waiting_us(double waiting_us) noexcept {
  constexpr double kSameShare = 0.15;
  const double told_us = or_zero(waiting_us);
  if (std::abs(told_us - waiting_us_) <= kSameShare * std::min(told_us, waiting_us_)) return;
  waiting_us_ = told_us;
  stage_.change_settings(stage_settings());
  moved_.change_settings(stage_settings());
  law_.change_settings(law_settings());
}

StageModelSettings Controller::stage_settings() const noexcept {
  return {.image_to_stage = settings_.image_to_stage,
          .delay_us = or_zero(settings_.stage_delay_us) + waiting_us_,
          .time_constant_us = or_zero(settings_.stage_time_constant_us),
          .resonance_hz = settings_.stage_resonance_hz,
          .damping = settings_.stage_damping};
}

LawSettings Controller::law_settings() const noexcept {
  return {.law = settings_.law,
          .pi = {.proportional = settings_.proportional, .integral = settings_.integral},
          .stage = stage_settings(),
          .step_limit_nm = or_zero(settings_.step_limit_nm),
          .rate_limit_nm_per_s = or_zero(settings_.rate_limit_nm_per_s),
          .axes = settings_.axes,
          .verifies_lines = settings_.verifies_lines};
}

ObserverSettings Controller::observer_wish(double period_s) const noexcept {
  const double rate_step_nm = settings_.rate_limit_nm_per_s * period_s;
  return law_.wish(period_s, std::min(settings_.step_limit_nm, rate_step_nm));
}

void Controller::reset(Vec2 carried_nm) noexcept {
  carried_nm_ = is_finite(carried_nm) ? carried_nm : Vec2{};
  travelled_nm_ = {travelled_nm_.x + total_nm_.x, travelled_nm_.y + total_nm_.y};
  total_nm_ = {};
  move_nm_ = wanted_move_nm_ = {};
  move_share_ = 1;
  seen_move_nm_ = {};
  shaken_nm2_ = 0;
  law_.reset({});
  stage_.reset();
  moved_.reset();
  started_ = false;
  observed_count_ = 0;
}

void Controller::begin_moved(Vec2 move_nm) noexcept {
  if (!is_finite(move_nm)) return;
  move_nm_ = wanted_move_nm_ = move_nm;
  moved_.take_back(move_nm, 0);
  seen_move_nm_ = move_nm;
  law_.take_back(difference(total_nm_, move_nm_), 0);
}

void Controller::count_moved_as(Vec2 move_nm) noexcept {
  const Vec2 by_nm = difference(move_nm, move_nm_);
  if (!is_finite(by_nm) || (by_nm.x == 0 && by_nm.y == 0)) return;
  move_nm_ = wanted_move_nm_ = move_nm;
  moved_.shift(by_nm);
  seen_move_nm_ = {seen_move_nm_.x + by_nm.x, seen_move_nm_.y + by_nm.y};
  for (Vec2& moved_nm : observed_moved_) moved_nm = {moved_nm.x + by_nm.x, moved_nm.y + by_nm.y};
  law_.shift({-by_nm.x, -by_nm.y});
}

void Controller::set_move(Vec2 wanted_nm) noexcept {
  if (is_finite(wanted_nm)) wanted_move_nm_ = wanted_nm;
}

void Controller::take_back(Vec2 sent_total_nm, std::int64_t sent_ns) noexcept {
  if (!is_finite(sent_total_nm)) return;
  stage_.take_back(sent_total_nm, sent_ns);
  moved_.take_back({}, sent_ns);
  total_nm_ = sent_total_nm;
  move_nm_ = moved_.told_nm();
  law_.take_back(difference(total_nm_, move_nm_), sent_ns);
  started_ = sent_ns > 0;
  sent_ns_ = sent_ns;
}

void Controller::left_at(std::int64_t sent_ns) noexcept {
  if (!started_ || sent_ns <= sent_ns_) return;
  // Also after take_back(), which goes by when it was handed over.
  const bool moves = moved_.told_ns() == stage_.told_ns();
  stage_.left_at(sent_ns);
  if (moves) moved_.left_at(sent_ns);
  law_.left_at(sent_ns_, sent_ns);
  sent_ns_ = sent_ns;
}

void Controller::remember_stage(std::int64_t taken_ns) noexcept {
  newest_ = (newest_ + 1) % kMostAveraged;
  observed_[newest_] = stage_.at(taken_ns);
  observed_moved_[newest_] = moved_.at(taken_ns);
  observed_noise_[newest_] = law_.unfollowed_nm(taken_ns);
  observed_count_ = std::min(observed_count_ + 1, kMostAveraged);
}

Vec2 Controller::mean_of(const std::vector<Vec2>& ring, std::size_t frames) const noexcept {
  Vec2 sum;
  for (std::size_t back = 0; back < frames; ++back) {
    const Vec2 place = ring[(newest_ + kMostAveraged - back) % kMostAveraged];
    sum = {sum.x + place.x, sum.y + place.y};
  }
  const auto n = static_cast<double>(frames);
  return {sum.x / n, sum.y / n};
}

Vec2 Controller::mean_moved(int frames) const noexcept {
  const auto known = std::min(static_cast<std::size_t>(std::max(frames, 0)), observed_count_);
  return known > 0 ? mean_of(observed_moved_, known) : Vec2{};
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
  const Vec2 stage =
      frames > 1 ? mean_of(observed_, frames) : stage_.at(std::min(taken_ns, now_ns));
  const Vec2 moved = settings_.image_to_stage.apply(drift_nm);
  const std::int64_t seen_ns = std::min(taken_ns, now_ns);
  const Vec2 noise = frames > 1 ? mean_of(observed_noise_, frames) : law_.unfollowed_nm(seen_ns);
  const Vec2 target{stage.x - moved.x - noise.x, stage.y - moved.y - noise.y};
  const std::int64_t last_ns = started_ ? sent_ns_ : seen_ns;
  move_share_ = 0;
  if ((started_ && now_ns <= sent_ns_) || !is_finite(target))
    return {.total_nm = total_nm_, .delta_nm = {}, .move_nm = move_nm_};

  const Vec2 by_law = difference(total_nm_, move_nm_);
  const Vec2 wanted = law_.wanted_nm(target, by_law, seen_ns);
  if (!is_finite(wanted)) {
    law_.interrupted(by_law);
    return {.total_nm = total_nm_, .delta_nm = {}, .move_nm = move_nm_};
  }
  go_on_with_move(wanted, last_ns, now_ns);
  return send({wanted.x + move_nm_.x, wanted.y + move_nm_.y}, last_ns, now_ns);
}

/// Makes as much of the move as the correction leaves room for, both axes alike: the sample stays
/// on its way, and nothing winds up.
void Controller::go_on_with_move(Vec2 servo_nm, std::int64_t last_ns,
                                 std::int64_t now_ns) noexcept {
  const CorrectionLimits limit = limits();
  const double largest_nm =
      std::min(limit.step_nm, settings_.rate_limit_nm_per_s * seconds_between(last_ns, now_ns));
  const Vec2 step = difference(wanted_move_nm_, move_nm_);
  move_share_ = std::min(room_for_move(servo_nm.x + move_nm_.x, step.x, total_nm_.x, limit.low_nm.x,
                                       limit.high_nm.x, largest_nm),
                         room_for_move(servo_nm.y + move_nm_.y, step.y, total_nm_.y, limit.low_nm.y,
                                       limit.high_nm.y, largest_nm));
  if (step.x == 0 && step.y == 0) return;
  move_nm_ = move_share_ < 1
                 ? Vec2{move_nm_.x + move_share_ * step.x, move_nm_.y + move_share_ * step.y}
                 : wanted_move_nm_;
  moved_.command(move_nm_, now_ns);
}

Correction Controller::go_to(Vec2 wanted_nm, std::int64_t now_ns) noexcept {
  if ((started_ && now_ns <= sent_ns_) || !is_finite(wanted_nm))
    return {.total_nm = total_nm_, .delta_nm = {}, .move_nm = move_nm_};
  if (!started_) return send(total_nm_, now_ns, now_ns);
  const Correction correction = send(wanted_nm, sent_ns_, now_ns);
  law_.interrupted(difference(total_nm_, move_nm_));
  return correction;
}

/// Without what moves have done: neither the law nor the sample has to do with them.
void Controller::feed_law(const DriftEstimate& drift, std::int64_t taken_ns,
                          std::int64_t now_ns) noexcept {
  const ImageToStage& m = settings_.image_to_stage;
  const Covariance2 spread_nm2 = m.spread(drift.frame_covariance_nm2);
  const Covariance2 fits_nm2 =
      m.spread({drift.frame_fit_noise_nm2.x, 0, drift.frame_fit_noise_nm2.y});
  const std::int64_t then_ns = std::min(taken_ns, now_ns);
  const Vec2 by_move = moved_.at(then_ns);
  const Vec2 step = difference(by_move, seen_move_nm_);
  seen_move_nm_ = by_move;
  const double wrong_nm = kMoveWrong * std::hypot(step.x, step.y);
  shaken_nm2_ = std::max(wrong_nm * wrong_nm, kMoveRings * shaken_nm2_);
  law_.see({.moved_nm = difference(m.apply(drift.frame_drift_nm), by_move),
            .variance_nm2 = {spread_nm2.xx, spread_nm2.yy},
            .taken_ns = then_ns,
            .now_ns = now_ns,
            .sure = drift.markers_used >= kSureMarkers && !sees_move(),
            .shaken_nm2 = shaken_nm2_,
            .fit_noise_nm2 = {fits_nm2.xx, fits_nm2.yy}},
           difference(stage_.at(then_ns), by_move));
}

bool Controller::may_coast(std::int64_t now_ns) const noexcept {
  return started_ && now_ns > sent_ns_ && law_.may_coast(now_ns, settings_.coast_nm);
}

Correction Controller::coast(std::int64_t now_ns) noexcept {
  const Vec2 wanted = law_.coast(now_ns);
  return send({wanted.x + move_nm_.x, wanted.y + move_nm_.y}, sent_ns_, now_ns);
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
  law_.told(difference(total_nm_, move_nm_), x.limited != kLimitNone, y.limited != kLimitNone,
            ((x.limited | y.limited) & kLimitRange) != 0, now_ns);
  started_ = true;
  sent_ns_ = now_ns;
  stage_.command(total_nm_, now_ns);
  return {.total_nm = total_nm_,
          .delta_nm = {total_nm_.x - before.x, total_nm_.y - before.y},
          .limited = static_cast<std::uint8_t>(x.limited | y.limited),
          .move_nm = move_nm_};
}

}  // namespace driftd::control
