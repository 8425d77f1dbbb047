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
/// Lines of a smaller share of the noise's variance move the sample by little, aliases or not.
constexpr double kFaintLineShare = 0.05;

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

/// By how much a line has to be beyond a bound to be on its other side.
double margin_of(const Line& line, const DisturbanceModel& before) noexcept {
  const Line* known = same_line(line, before);
  if (known == nullptr) return 1;
  return known->followed ? kClearlyBeyond : 1 / kClearlyBeyond;
}

bool is_sharp(const Line& line, double beyond) noexcept {
  return std::numbers::pi * line.frequency_hz > kSharpQ * beyond * line.fade_per_s;
}

bool passes_for_walk(const Line& line, double period_s, double beyond) noexcept {
  return line.frequency_hz * period_s * kFewestOfWalk < beyond;
}

}  // namespace

void decide_followed(DisturbanceModel& model, const DisturbanceModel& before,
                     double period_s) noexcept {
  const bool all = period_s * kLeastRateForLinesHz <= 1;
  for (Line& line : std::span(model.lines).first(model.line_count)) {
    const double beyond = margin_of(line, before);
    line.followed = line.origin != LineOrigin::Alias &&
                    (all || !is_sharp(line, beyond) || passes_for_walk(line, period_s, beyond));
  }
}

void decide_verified(DisturbanceModel& model, const DisturbanceModel& before,
                     double period_s) noexcept {
  for (Line& line : std::span(model.lines).first(model.line_count)) {
    const double beyond = margin_of(line, before);
    const bool unclear = is_sharp(line, beyond) && !passes_for_walk(line, period_s, beyond) &&
                         needs_verdict(line, model);
    line.followed =
        line.origin == LineOrigin::Own || (line.origin == LineOrigin::Unknown && !unclear);
  }
}

bool needs_verdict(const Line& line, const DisturbanceModel& model) noexcept {
  return is_sharp(line, 1) &&
         line.kick_nm2_per_s > kFaintLineShare * model.noise_nm2 * 2 * line.fade_per_s;
}

bool follows_all(const DisturbanceModel& model) noexcept {
  return std::ranges::all_of(lines_of(model), &Line::followed);
}

}  // namespace driftd::control
