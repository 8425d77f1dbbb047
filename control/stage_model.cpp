// SPDX-License-Identifier: MIT
#include "control/stage_model.hpp"

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

StageModel::StageModel(const StageModelSettings& settings) : history_(kHistory) {
  change_settings(settings);
}

void StageModel::change_settings(const StageModelSettings& settings) noexcept {
  settings_ = {.image_to_stage = settings.image_to_stage,
               .delay_us = or_zero(settings.delay_us),
               .time_constant_us = or_zero(settings.time_constant_us)};
}

void StageModel::reset() noexcept {
  newest_ = 0;
  count_ = 0;
}

Vec2 StageModel::respond(const Command& command, double after_us) const noexcept {
  const double tau_us = settings_.time_constant_us;
  const double left = tau_us > 0 ? std::exp(-std::max(after_us, 0.0) / tau_us) : 0.0;
  return {command.total_nm.x + (command.stage_nm.x - command.total_nm.x) * left,
          command.total_nm.y + (command.stage_nm.y - command.total_nm.y) * left};
}

void StageModel::command(Vec2 total_nm, std::int64_t sent_ns) noexcept {
  Command command{.sent_ns = sent_ns, .total_nm = total_nm, .stage_nm = {}};
  if (count_ > 0) {
    const Command& before = history_[newest_];
    command.stage_nm = respond(before, difference_us(sent_ns, before.sent_ns));
    newest_ = (newest_ + 1) % kHistory;
  }
  history_[newest_] = command;
  count_ = std::min(count_ + 1, kHistory);
}

void StageModel::take_back(Vec2 total_nm, std::int64_t sent_ns) noexcept {
  while (count_ > 0 && difference_us(history_[newest_].sent_ns, sent_ns) > 0) {
    newest_ = (newest_ + kHistory - 1) % kHistory;
    --count_;
  }
  if (count_ > 0) return;
  history_[newest_] = {.sent_ns = sent_ns, .total_nm = total_nm, .stage_nm = total_nm};
  count_ = 1;
}

Vec2 StageModel::at(std::int64_t time_ns) const noexcept {
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
  if (low == count_) return before_newest(count_ - 1).stage_nm;
  return respond(before_newest(low), after_us(low));
}

}  // namespace driftd::control
