// SPDX-License-Identifier: MIT
#include "control/stage/stage_model.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace driftd::control {
namespace {

double or_zero(double value) noexcept {
  return value > 0 ? value : 0;
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

ResponseShape response_of(const StageModelSettings& s) noexcept {
  const bool second = or_zero(s.resonance_hz) > 0;
  return {.order = second ? 2 : 1,
          .delay_s = 0,
          .time_constant_s = second ? 0 : 1e-6 * or_zero(s.time_constant_us),
          .frequency_hz = second ? s.resonance_hz : 0,
          .damping = second && s.damping > 0 ? s.damping : 1};
}

bool is_same_stage(const StageModelSettings& a, const StageModelSettings& b) noexcept {
  return a.delay_us == b.delay_us && response_of(a) == response_of(b);
}

StageModel::StageModel(const StageModelSettings& settings) : history_(kHistory) {
  change_settings(settings);
}

void StageModel::change_settings(const StageModelSettings& settings) noexcept {
  settings_ = settings;
  settings_.delay_us = or_zero(settings.delay_us);
  const ResponseShape before = response_;
  response_ = response_of(settings);
  if (!(response_ == before)) replay();
}

void StageModel::replay() noexcept {
  const std::size_t replayed = std::min(count_, kReplayed);
  for (std::size_t back = replayed; back-- > 0;) {
    Command& command = history_[(newest_ + kHistory - back) % kHistory];
    if (back + 1 == count_) continue;  // the oldest there is: where it began
    const Command& before = before_newest(back + 1);
    command.stage = back + 1 == replayed
                        ? StageMotion{.place_nm = before.total_nm, .speed_nm_per_s = {}}
                        : respond(before, difference_us(command.sent_ns, before.sent_ns));
  }
}

void StageModel::reset() noexcept {
  newest_ = 0;
  count_ = 0;
}

StageMotion StageModel::respond(const Command& command, double after_us) const noexcept {
  const Transition t = transition(response_, 1e-6 * std::max(after_us, 0.0));
  const auto& [place, speed] = command.stage;
  const Vec2 off{place.x - command.total_nm.x, place.y - command.total_nm.y};
  return {.place_nm = {command.total_nm.x + t.zz * off.x + t.zv * speed.x,
                       command.total_nm.y + t.zz * off.y + t.zv * speed.y},
          .speed_nm_per_s = {t.vz * off.x + t.vv * speed.x, t.vz * off.y + t.vv * speed.y}};
}

void StageModel::command(Vec2 total_nm, std::int64_t sent_ns) noexcept {
  const Command& before = history_[newest_];
  command(total_nm, sent_ns,
          count_ > 0 ? respond(before, difference_us(sent_ns, before.sent_ns)) : StageMotion{});
}

void StageModel::command(Vec2 total_nm, std::int64_t sent_ns, const StageMotion& then) noexcept {
  if (count_ > 0) newest_ = (newest_ + 1) % kHistory;
  history_[newest_] = {.sent_ns = sent_ns, .total_nm = total_nm, .stage = then};
  count_ = std::min(count_ + 1, kHistory);
}

void StageModel::left_at(std::int64_t sent_ns) noexcept {
  Command& newest = history_[newest_];
  if (count_ == 0 || difference_us(sent_ns, newest.sent_ns) <= 0) return;
  newest.sent_ns = sent_ns;
  if (count_ == 1) return;  // the stage stood until then
  const Command& before = before_newest(1);
  newest.stage = respond(before, difference_us(sent_ns, before.sent_ns));
}

void StageModel::take_back(Vec2 total_nm, std::int64_t sent_ns) noexcept {
  while (count_ > 0 && difference_us(history_[newest_].sent_ns, sent_ns) > 0) {
    newest_ = (newest_ + kHistory - 1) % kHistory;
    --count_;
  }
  if (count_ > 0) return;
  history_[newest_] = {.sent_ns = sent_ns,
                       .total_nm = total_nm,
                       .stage = {.place_nm = total_nm, .speed_nm_per_s = {}}};
  count_ = 1;
}

void StageModel::shift(Vec2 by_nm) noexcept {
  for (std::size_t back = 0; back < count_; ++back) {
    Command& command = history_[(newest_ + kHistory - back) % kHistory];
    command.total_nm = {command.total_nm.x + by_nm.x, command.total_nm.y + by_nm.y};
    command.stage.place_nm = {command.stage.place_nm.x + by_nm.x,
                              command.stage.place_nm.y + by_nm.y};
  }
}

StageMotion StageModel::motion_at(std::int64_t time_ns) const noexcept {
  if (count_ == 0) return {};
  const auto after_us = [&](std::size_t back) {
    return difference_us(time_ns, before_newest(back).sent_ns) - settings_.delay_us;
  };
  // The newest command that had taken effect by then: their times fall with `back`.
  std::size_t low = 0;
  std::size_t high = count_;
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    if (after_us(middle) >= 0)
      high = middle;
    else
      low = middle + 1;
  }
  if (low == count_) return before_newest(count_ - 1).stage;
  return respond(before_newest(low), after_us(low));
}

}  // namespace driftd::control
