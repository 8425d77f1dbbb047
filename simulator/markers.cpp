// SPDX-License-Identifier: MIT
#include "simulator/markers.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "simulator/motion.hpp"

namespace driftd::simulator {

MarkerField::MarkerField(const Scenario& scenario, std::uint64_t seed)
    : model_(scenario.markers),
      field_(scenario.field),
      centre_px_{(scenario.camera.width_px - 1) / 2.0, (scenario.camera.height_px - 1) / 2.0},
      pixel_size_nm_(scenario.optics.pixel_size_nm),
      random_(seed, 30) {
  if (model_.positions_px.empty()) {
    place_at_random(scenario.camera);
  } else {
    for (const Vec2& place : model_.positions_px) {
      Marker marker;
      marker.place_px = place;
      markers_.push_back(marker);
    }
  }
  for (Marker& marker : markers_) {
    marker.electrons = model_.photons * std::exp(model_.photons_spread * random_.normal());
    marker.blinks = random_.uniform() < model_.blink.share;
    marker.next_change_s = random_.exponential(model_.blink.on_s);
  }
  raise(seed);
}

/// Heights and bleaching draw from generators of their own, so that the rest stays as it is.
void MarkerField::raise(std::uint64_t seed) {
  Random heights(seed, 31);
  Random bleaching(seed, 32);
  for (std::size_t i = 0; i < markers_.size(); ++i) {
    Marker& marker = markers_[i];
    const double own_nm = model_.height_spread_nm * heights.normal();
    const Vec2 arm_um = {(marker.place_px.x - centre_px_.x) * pixel_size_nm_ / 1000,
                         (marker.place_px.y - centre_px_.y) * pixel_size_nm_ / 1000};
    marker.z_nm = (i < model_.heights_nm.size() ? model_.heights_nm[i] : own_nm) +
                  model_.tilt_x_nm_per_um * arm_um.x + model_.tilt_y_nm_per_um * arm_um.y;
    marker.bleach_tau_s = model_.bleach_tau_s * std::exp(model_.bleach_spread * bleaching.normal());
  }
}

void MarkerField::place_at_random(const CameraModel& camera) {
  const double width = camera.width_px - 1 - 2 * model_.border_px;
  const double height = camera.height_px - 1 - 2 * model_.border_px;
  const auto far_from_all = [this](Vec2 place) {
    return std::all_of(markers_.begin(), markers_.end(), [&](const Marker& other) {
      return std::hypot(place.x - other.place_px.x, place.y - other.place_px.y) >=
             model_.min_distance_px;
    });
  };
  constexpr int kAttempts = 20000;
  for (int i = 0; i < kAttempts && markers_.size() < static_cast<std::size_t>(model_.count); ++i) {
    const Vec2 place = {model_.border_px + width * random_.uniform(),
                        model_.border_px + height * random_.uniform()};
    if (!far_from_all(place)) continue;
    Marker marker;
    marker.place_px = place;
    markers_.push_back(marker);
  }
  if (markers_.size() < static_cast<std::size_t>(model_.count)) {
    throw ScenarioError("markers: only " + std::to_string(markers_.size()) + " of " +
                        std::to_string(model_.count) +
                        " fit on the sensor; lower count, min_distance_px or border_px");
  }
}

void MarkerField::step(double time_s) {
  time_s_ = time_s;
  constexpr double step_s = static_cast<double>(kTickNs) * 1e-9;
  const double wander = model_.wander_nm_per_sqrt_s * std::sqrt(step_s);
  for (Marker& marker : markers_) {
    while (marker.blinks && time_s >= marker.next_change_s) {
      marker.dark = !marker.dark;
      marker.next_change_s +=
          random_.exponential(marker.dark ? model_.blink.off_s : model_.blink.on_s);
    }
    if (marker.detached) {
      marker.wander_nm.x += wander * random_.normal();
      marker.wander_nm.y += wander * random_.normal();
    }
    if (time_s <= marker.walks_until_s) {
      marker.wander_nm.x += marker.walk_nm_per_s.x * step_s;
      marker.wander_nm.y += marker.walk_nm_per_s.y * step_s;
      marker.z_nm += marker.rise_nm_per_s * step_s;
    }
  }
}

bool MarkerField::detach(int index) {
  if (index < 0 || static_cast<std::size_t>(index) >= markers_.size()) return false;
  markers_[static_cast<std::size_t>(index)].detached = true;
  return true;
}

bool MarkerField::walk(int index, Vec2 by_nm, double rise_nm, double seconds) {
  if (index < 0 || static_cast<std::size_t>(index) >= markers_.size()) return false;
  Marker& marker = markers_[static_cast<std::size_t>(index)];
  if (!(seconds > 0)) {
    marker.wander_nm = {marker.wander_nm.x + by_nm.x, marker.wander_nm.y + by_nm.y};
    marker.z_nm += rise_nm;
    return true;
  }
  marker.walk_nm_per_s = {by_nm.x / seconds, by_nm.y / seconds};
  marker.rise_nm_per_s = rise_nm / seconds;
  marker.walks_until_s = time_s_ + seconds;
  return true;
}

bool MarkerField::pass_intruder(int index, double time_s, double seconds) {
  if (index < 0 || static_cast<std::size_t>(index) >= markers_.size()) return false;
  intruder_ = Intruder{markers_[static_cast<std::size_t>(index)].place_px, time_s + seconds / 2,
                       time_s + seconds};
  return true;
}

Vec2 MarkerField::turned(Vec2 place_px) const noexcept {
  if (field_.rotation_urad_per_s == 0 && field_.scale_ppm_per_s == 0) return place_px;
  const double angle = field_.rotation_urad_per_s * 1e-6 * time_s_;
  const double scale = 1 + field_.scale_ppm_per_s * 1e-6 * time_s_;
  const Vec2 arm = {place_px.x - centre_px_.x, place_px.y - centre_px_.y};
  return {centre_px_.x + scale * (std::cos(angle) * arm.x - std::sin(angle) * arm.y),
          centre_px_.y + scale * (std::sin(angle) * arm.x + std::cos(angle) * arm.y)};
}

void MarkerField::spots(const SampleState& sample, std::vector<Spot>& out) const {
  out.clear();
  const Vec2 sample_nm = sample.place_nm;
  for (const Marker& marker : markers_) {
    if (sample.hidden || marker.dark) continue;
    const Vec2 place_px = turned(marker.place_px);
    const double bleached =
        marker.bleach_tau_s > 0 ? std::exp(-time_s_ / marker.bleach_tau_s) : 1.0;
    out.push_back({place_px.x + (sample_nm.x + marker.wander_nm.x) / pixel_size_nm_,
                   place_px.y + (sample_nm.y + marker.wander_nm.y) / pixel_size_nm_,
                   marker.electrons * bleached * light_, sample.z_nm + marker.z_nm});
  }
  if (intruder_ && time_s_ < intruder_->until_s) {
    const double travelled_nm =
        model_.intruder_speed_nm_per_s * (time_s_ - intruder_->meeting_s) + sample_nm.x;
    out.push_back({intruder_->meeting_px.x + travelled_nm / pixel_size_nm_,
                   intruder_->meeting_px.y + sample_nm.y / pixel_size_nm_, model_.intruder_photons,
                   sample.z_nm});
  }
}

}  // namespace driftd::simulator
