// SPDX-License-Identifier: MIT
#include "control/law/limits.hpp"

#include <algorithm>
#include <cmath>

namespace driftd::control {
namespace {

constexpr double kRoundingNm = 1e-6;

bool keeps_axis(double step_nm, double low_nm, double high_nm, double from_nm,
                double to_nm) noexcept {
  return std::isfinite(to_nm) && std::abs(to_nm - from_nm) <= step_nm + kRoundingNm &&
         to_nm >= std::min(low_nm, from_nm) - kRoundingNm &&
         to_nm <= std::max(high_nm, from_nm) + kRoundingNm;
}

}  // namespace

bool keeps(const CorrectionLimits& limits, Vec2 from_nm, Vec2 to_nm) noexcept {
  return keeps_axis(limits.step_nm, limits.low_nm.x, limits.high_nm.x, from_nm.x, to_nm.x) &&
         keeps_axis(limits.step_nm, limits.low_nm.y, limits.high_nm.y, from_nm.y, to_nm.y);
}

double room_for_move(double wanted_nm, double move_nm, double from_nm, double low_nm,
                     double high_nm, double largest_step_nm) noexcept {
  if (move_nm == 0) return 1;
  const double end_nm = move_nm > 0 ? std::min(high_nm, from_nm + largest_step_nm) - kRoundingNm
                                    : std::max(low_nm, from_nm - largest_step_nm) + kRoundingNm;
  return std::clamp((end_nm - wanted_nm) / move_nm, 0.0, 1.0);
}

LimitedAxis limit_axis(double wanted_nm, double from_nm, double low_nm, double high_nm,
                       double step_nm, double rate_step_nm) noexcept {
  LimitedAxis axis{.total_nm = from_nm, .limited = kLimitNone};
  const auto clamped = [&](double value, double low, double high, LimitFlag flag) {
    if (value >= low && value <= high) return value;
    axis.limited = static_cast<std::uint8_t>(axis.limited | flag);
    return std::clamp(value, low, high);
  };
  double delta_nm = clamped(wanted_nm, low_nm, high_nm, kLimitRange) - from_nm;
  delta_nm = clamped(delta_nm, -step_nm, step_nm, kLimitStep);
  delta_nm = clamped(delta_nm, -rate_step_nm, rate_step_nm, kLimitRate);
  // Rounding must not pass the range; a range just made narrower is entered at step and rate.
  axis.total_nm =
      std::clamp(from_nm + delta_nm, std::min(low_nm, from_nm), std::max(high_nm, from_nm));
  return axis;
}

}  // namespace driftd::control
