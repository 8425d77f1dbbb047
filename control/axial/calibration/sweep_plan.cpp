// SPDX-License-Identifier: MIT
#include "control/axial/calibration/sweep_plan.hpp"

#include <algorithm>
#include <cmath>

namespace driftd::control {
namespace {

/// The last part of a way to a place, and how far beyond its range a sweep begins.
constexpr double kApproachNm = 60, kApproachSteps = 2;
/// The start is visited twice on each way, and at least and at most after so many steps.
constexpr int kLeastStepsToReturn = 10, kMostStepsToReturn = 20, kParts = 3;
constexpr int kTimesAtStart = 3;

}  // namespace

double SweepPlan::approach_nm(double step_nm) noexcept {
  return std::max(kApproachNm, kApproachSteps * step_nm);
}

SweepPlan::SweepPlan(const SweepSettings& settings) : settings_(settings) {
  const double step = settings.step_nm;
  const int half = static_cast<int>(std::floor(settings.range_nm / step + 1e-9));
  const int to_return =
      std::clamp((2 * half + kParts) / kParts, kLeastStepsToReturn, kMostStepsToReturn);
  const double before = approach_nm(step);
  const double end_nm = std::max(half * step, settings.check_nm) + before;
  const auto place = [&](double z_nm, SweepPart part, int at = 0) {
    const bool is_step = part == SweepPart::Up || part == SweepPart::Down;
    const int times = part == SweepPart::Approach ? 0 : is_step ? 1 : kTimesAtStart;
    places_.push_back(
        {z_nm, part, static_cast<std::size_t>(at), times * settings.frames_per_place});
    farthest_nm_ = std::max(farthest_nm_, std::abs(z_nm));
  };
  // From the end of the way, and the last of it by itself, so that the stage has settled.
  const auto approach = [&](double z_nm, double side) {
    place(side * end_nm, SweepPart::Approach);
    if (std::abs(z_nm + side * before) < end_nm) place(z_nm + side * before, SweepPart::Approach);
  };
  const auto visit_start = [&] {
    approach(0, -1);
    place(0, SweepPart::Start);
  };
  visit_start();
  for (int i = -half; i <= half; ++i) {
    const int done = i + half;
    if (done > 0 && done % to_return == 0) visit_start();
    if (done % to_return == 0) {
      // The start was reached from below, and so is what lies above it.
      if (i <= 0)
        approach(i * step, -1);
      else if (i * step > before)
        place(i * step - before, SweepPart::Approach);
    }
    place(i * step, SweepPart::Up, done);
  }
  visit_start();
  for (int i = half; i >= -half; --i) {
    const int done = half - i;
    if (done > 0 && done % to_return == 0) visit_start();
    if (done % to_return == 0) approach(i * step, 1);
    place(i * step, SweepPart::Down, i + half);
  }
  visit_start();
  place(settings.check_nm, SweepPart::Check);
  approach(-settings.check_nm, -1);
  place(-settings.check_nm, SweepPart::Check);
  place(0, SweepPart::Start);
  steps_ = 2 * static_cast<std::size_t>(half) + 1;
}

double SweepPlan::seconds(double frames_hz, double nm_per_s) const noexcept {
  double way_nm = 0, at_nm = 0, frames = 0;
  for (const SweepPlace& place : places_) {
    way_nm += std::abs(place.z_nm - at_nm);
    at_nm = place.z_nm;
    frames += place.frames + 1;
  }
  // A move is told with a frame, and the next place with the one after the last.
  return way_nm / nm_per_s + static_cast<double>(places_.size()) * settings_.settle_s +
         frames / frames_hz;
}

}  // namespace driftd::control
