// SPDX-License-Identifier: MIT
#include "control/axial/calibration/sweep_plan.hpp"

#include <algorithm>
#include <cmath>

namespace driftd::control {
namespace {

/// A stage's backlash is taken up in so much of a way.
constexpr double kApproachNm = 60, kApproachSteps = 2;

}  // namespace

SweepPlan::SweepPlan(const SweepSettings& settings) : settings_(settings) {
  const double step = settings.step_nm;
  const int half = static_cast<int>(std::floor(settings.range_nm / step + 1e-9));
  const double before = std::max(kApproachNm, kApproachSteps * step);
  const auto place = [&](double z_nm, SweepPart part, int at = 0) {
    places_.push_back({z_nm, part, static_cast<std::size_t>(at)});
    farthest_nm_ = std::max(farthest_nm_, std::abs(z_nm));
  };
  place(-before, SweepPart::Approach);
  place(0, SweepPart::Start);
  place(-half * step - before, SweepPart::Approach);
  for (int i = -half; i <= half; ++i) place(i * step, SweepPart::Up, i + half);
  place(half * step + before, SweepPart::Approach);
  for (int i = half; i >= -half; --i) place(i * step, SweepPart::Down, i + half);
  place(-half * step - before, SweepPart::Approach);
  place(0, SweepPart::Start);
  place(settings.check_nm, SweepPart::Check);
  place(-settings.check_nm - before, SweepPart::Approach);
  place(-settings.check_nm, SweepPart::Check);
  place(0, SweepPart::Start);
  steps_ = static_cast<std::size_t>(2 * half + 1);
}

double SweepPlan::seconds(double frames_hz, double nm_per_s) const noexcept {
  double way_nm = 0, at_nm = 0, measured = 0;
  for (const SweepPlace& place : places_) {
    way_nm += std::abs(place.z_nm - at_nm);
    at_nm = place.z_nm;
    measured += place.is_measured() ? 1 : 0;
  }
  // A move is told with a frame, and the next place with the one after the last.
  return way_nm / nm_per_s + static_cast<double>(places_.size()) * settings_.settle_s +
         (measured * settings_.frames_per_place + static_cast<double>(places_.size())) / frames_hz;
}

}  // namespace driftd::control
