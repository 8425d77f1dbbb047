// SPDX-License-Identifier: MIT
#include "simulator/reflected_spot.hpp"

#include <cmath>
#include <numbers>

#include "simulator/motion.hpp"

namespace driftd::simulator {

ReflectedSpot::ReflectedSpot(const ReflectionModel& model, std::uint64_t seed) noexcept
    : model_(model), random_(seed, 33) {
  const double angle = model.direction_deg * std::numbers::pi / 180;
  px_per_nm_ = {model.px_per_um / 1000 * std::cos(angle), model.px_per_um / 1000 * std::sin(angle)};
}

void ReflectedSpot::step() noexcept {
  if (!(model_.pointing_px_per_sqrt_s > 0)) return;
  const double kick = model_.pointing_px_per_sqrt_s * std::sqrt(kTickS);
  pointing_px_.x += kick * random_.normal();
  pointing_px_.y += kick * random_.normal();
}

std::optional<Spot> ReflectedSpot::at(double z_nm) const noexcept {
  if (!(model_.photons > 0)) return std::nullopt;
  Spot spot;
  spot.x_px = model_.place_px.x + px_per_nm_.x * z_nm + pointing_px_.x;
  spot.y_px = model_.place_px.y + px_per_nm_.y * z_nm + pointing_px_.y;
  spot.electrons = model_.photons;
  spot.sigma_px = model_.sigma_px;
  return spot;
}

}  // namespace driftd::simulator
