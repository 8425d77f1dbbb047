// SPDX-License-Identifier: MIT
#include "control/law/pi_law.hpp"

#include <cmath>

namespace driftd::control {
namespace {

double finite_or_zero(double value) noexcept {
  return std::isfinite(value) ? value : 0;
}

}  // namespace

void PiLaw::change_settings(const PiSettings& settings) noexcept {
  settings_ = {.proportional = finite_or_zero(settings.proportional),
               .integral = finite_or_zero(settings.integral)};
}

void PiLaw::reset(Vec2 total_nm) noexcept {
  sum_nm_ = total_nm;
  error_nm_ = {};
}

Vec2 PiLaw::wanted_nm(Vec2 target_nm, Vec2 total_nm) noexcept {
  error_nm_ = {target_nm.x - total_nm.x, target_nm.y - total_nm.y};
  sum_nm_ = {sum_nm_.x + settings_.integral * error_nm_.x,
             sum_nm_.y + settings_.integral * error_nm_.y};
  return {sum_nm_.x + settings_.proportional * error_nm_.x,
          sum_nm_.y + settings_.proportional * error_nm_.y};
}

void PiLaw::told(Vec2 total_nm, bool x_held_back, bool y_held_back) noexcept {
  if (x_held_back) sum_nm_.x = total_nm.x - settings_.proportional * error_nm_.x;
  if (y_held_back) sum_nm_.y = total_nm.y - settings_.proportional * error_nm_.y;
}

}  // namespace driftd::control
