// SPDX-License-Identifier: MIT
#include "control/law/observer/disturbance_model.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>

namespace driftd::control {
namespace {

constexpr double kSharpQ = 5, kFewestOfWalk = 32;
/// So far beyond a bound a line that was known on its other side is a line of this side.
constexpr double kClearlyBeyond = 1.25;
/// Two fits find the same line within such a share of its frequency.
constexpr double kSameLineShare = 0.2;

std::span<const Line> lines_of(const DisturbanceModel& model) noexcept {
  return std::span(model.lines).first(model.line_count);
}

/// The line of that model nearest to it; null where none is near.
const Line* same_line(const Line& line, const DisturbanceModel& model) noexcept {
  const auto far_hz = [&](const Line& other) {
    return std::abs(other.frequency_hz - line.frequency_hz);
  };
  const Line* nearest = nullptr;
  for (const Line& other : lines_of(model))
    if (far_hz(other) < kSameLineShare * line.frequency_hz &&
        (nearest == nullptr || far_hz(other) < far_hz(*nearest)))
      nearest = &other;
  return nearest;
}

}  // namespace

void decide_followed(DisturbanceModel& model, const DisturbanceModel& before,
                     double period_s) noexcept {
  const bool all = period_s * kLeastRateForLinesHz <= 1;
  for (Line& line : std::span(model.lines).first(model.line_count)) {
    const Line* known = same_line(line, before);
    const double beyond = known == nullptr  ? 1
                          : known->followed ? kClearlyBeyond
                                            : 1 / kClearlyBeyond;
    const bool sharp = std::numbers::pi * line.frequency_hz > kSharpQ * beyond * line.fade_per_s;
    line.followed = all || !sharp || line.frequency_hz * period_s * kFewestOfWalk < beyond;
  }
}

bool follows_all(const DisturbanceModel& model) noexcept {
  return std::ranges::all_of(lines_of(model), &Line::followed);
}

}  // namespace driftd::control
