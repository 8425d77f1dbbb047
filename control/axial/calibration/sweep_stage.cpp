// SPDX-License-Identifier: MIT
#include "control/axial/calibration/sweep_stage.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/dense_solver.hpp"

namespace driftd::control {
namespace {

constexpr double kMostHysteresisNm = 10, kMostStageTiltNmPerUm = 50, kMostLockSdNm = 10,
                 kMostSettlingNm = 3;
/// Steps at the end are read within so much, and such a share, and noise.
constexpr double kCheckNm = 2, kCheckShare = 0.04, kSds = 4;

}  // namespace

void fail_sweep(CalibrationFault fault, const std::string& text) {
  throw CalibrationError(fault, text);
}

double direction_of(const SweepPlace& place) noexcept {
  return place.part == SweepPart::Down ? 0.5 : -0.5;
}

double SweepStage::seconds(std::size_t place) const {
  const SweepVisit& visit = record_.visit(place);
  return visit.frames > 0 ? visit.seconds / visit.frames : 0;
}

std::vector<std::size_t> SweepStage::places_of(SweepPart part) const {
  std::vector<std::size_t> found;
  for (std::size_t p = 0; p < places_.size(); ++p)
    if (places_[p].part == part) found.push_back(p);
  return found;
}

std::vector<std::size_t> SweepStage::steps_of(SweepPart part) const {
  std::vector<std::size_t> steps(record_.plan().steps(), 0);
  for (const std::size_t p : places_of(part)) steps[places_[p].step] = p;
  return steps;
}

void SweepStage::check_recorded() const {
  std::size_t measured = 0, seen = 0;
  for (std::size_t p = 0; p < places_.size(); ++p) {
    if (!places_[p].is_measured()) continue;
    ++measured;
    seen += record_.visit(p).frames > 0 ? 1U : 0U;
  }
  if (seen < measured)
    fail_sweep(CalibrationFault::Stopped,
               fmt::format("{} of {} places were measured", seen, measured));
}

std::optional<PlaceLine> SweepStage::line_of(
    const std::function<std::optional<double>(std::size_t)>& value) const {
  NormalEquations equations(4);
  std::size_t count = 0;
  const double range = record_.plan().settings().range_nm;
  const double last_s = std::max(seconds(places_.size() - 1), 1e-9);
  const auto row = [&](std::size_t p) {
    return std::array<double, 4>{1, places_[p].z_nm / range, seconds(p) / last_s,
                                 direction_of(places_[p])};
  };
  for (std::size_t p = 0; p < places_.size(); ++p) {
    const auto y = value(p);
    if (!y) continue;
    equations.add(row(p), *y);
    ++count;
  }
  std::vector<double> c, inverse;
  if (count < 8 || !equations.solve(1e-12, c) || !equations.invert(inverse)) return std::nullopt;
  const double variance =
      std::max(equations.remaining(c), 0.0) / static_cast<double>(count - c.size());
  return PlaceLine{.value = c[0],
                   .per_nm = c[1] / range,
                   .per_s = c[2] / last_s,
                   .down_less_up = c[3],
                   .per_nm_sd = std::sqrt(std::max(inverse[5], 0.0) * variance) / range,
                   .rms = std::sqrt(variance)};
}

void SweepStage::find_tilt() const {
  const auto along = [&](double Vec2::*axis) {
    return line_of([&, axis](std::size_t p) -> std::optional<double> {
      const SweepVisit& visit = record_.visit(p);
      if (!places_[p].is_measured() || visit.lateral_frames == 0) return std::nullopt;
      return visit.lateral_nm.*axis / visit.lateral_frames;
    });
  };
  const auto x = along(&Vec2::x), y = along(&Vec2::y);
  if (!x || !y) return;
  findings_.tilt_nm_per_um = Vec2{1000 * x->per_nm, 1000 * y->per_nm};
  const double tilt = std::hypot(findings_.tilt_nm_per_um->x, findings_.tilt_nm_per_um->y);
  if (tilt > kMostStageTiltNmPerUm)
    fail_sweep(
        CalibrationFault::StageTilt,
        fmt::format("the stage moves the sample sideways by {:.0f} nm for each micrometre of z, "
                    "allowed are {:g}: is it the z axis that moves, and does it stand along "
                    "the optical axis?",
                    tilt, kMostStageTiltNmPerUm));
}

/// Each step's difference is the hysteresis and the drift since.
void SweepStage::judge(const PlaceReadings& read) const {
  NormalEquations equations(2);
  std::size_t count = 0;
  const auto add = [&](double hysteresis, double drift_s, double value, double sd) {
    equations.add(std::array<double, 2>{hysteresis / sd, drift_s / sd}, value / sd);
    ++count;
  };
  const std::vector<std::size_t> of_step = steps_of(SweepPart::Up);
  for (const std::size_t p : places_of(SweepPart::Down)) {
    const std::size_t up = of_step[places_[p].step];
    if (!read[p] || !read[up]) continue;
    add(1, seconds(p) - seconds(up), read[p]->z_nm - read[up]->z_nm,
        std::hypot(read[p]->sd_nm, read[up]->sd_nm));
  }
  const std::vector<std::size_t> starts = places_of(SweepPart::Start);
  for (std::size_t i = 1; i < starts.size(); ++i) {
    const auto &one = read[starts[i - 1]], &other = read[starts[i]];
    if (!one || !other) continue;
    add(0, seconds(starts[i]) - seconds(starts[i - 1]), other->z_nm - one->z_nm,
        std::hypot(one->sd_nm, other->sd_nm));
  }
  std::vector<double> c, inverse;
  if (count < 5 || !equations.solve(1e-12, c) || !equations.invert(inverse))
    fail_sweep(CalibrationFault::Stopped, "too few places were read both upwards and downwards");
  const double squares = std::max(1.0, equations.remaining(c) / static_cast<double>(count - 2));
  findings_.hysteresis_nm = c[0];
  findings_.drift_nm_per_s = c[1];
  findings_.hysteresis_sd_nm = std::sqrt(inverse[0] * squares);
  findings_.drift_sd_nm_per_s = std::sqrt(inverse[3] * squares);
  if (std::abs(c[1]) > context_.max_drift_nm_per_s)
    fail_sweep(CalibrationFault::Drift,
               fmt::format("the sample drifts by {:+.1f} nm/s, allowed are {:g} "
                           "(axial.max_drift_nm_per_s): wait until it has settled",
                           c[1], context_.max_drift_nm_per_s));
  if (std::abs(c[0]) > kMostHysteresisNm)
    fail_sweep(
        CalibrationFault::Hysteresis,
        fmt::format("the same place is read {:.1f} nm {} on the way down than on the way up, "
                    "allowed are {:g}: the stage has hysteresis. Switch its closed loop (servo) "
                    "on, or see what rubs",
                    std::abs(c[0]), c[0] > 0 ? "higher" : "lower", kMostHysteresisNm));
}

void SweepStage::check_steps(const PlaceReadings& read) const {
  const std::vector<std::size_t> checks = places_of(SweepPart::Check);
  const std::vector<std::size_t> starts = places_of(SweepPart::Start);
  for (const std::size_t p : checks) {
    const double told = places_[p].z_nm;
    // From the visits of the start before and after all of them.
    double from = 0, weight = 0, sd = 0;
    for (std::size_t i = starts.size() - 2; i < starts.size(); ++i) {
      const std::size_t s = starts[i];
      if (!read[s]) continue;
      from += read[s]->z_nm + findings_.drift_nm_per_s * (seconds(p) - seconds(s));
      sd = std::max(sd, read[s]->sd_nm);
      ++weight;
    }
    if (weight == 0 || !read[p])
      fail_sweep(
          CalibrationFault::Check,
          fmt::format("the step of {:+g} nm at the end was not read: the markers or the spot "
                      "were not seen well enough",
                      told));
    const double z = read[p]->z_nm - from / weight;
    (told > 0 ? findings_.check_up_nm : findings_.check_down_nm) = z;
    const double allowed =
        kCheckNm + kCheckShare * std::abs(told) + kSds * std::hypot(sd, read[p]->sd_nm);
    if (std::abs(z - told) > allowed)
      fail_sweep(
          CalibrationFault::Check,
          fmt::format("a step of {:+g} nm at the end was read as {:+.1f} nm, allowed are {:.1f} "
                      "nm off: the stage did not repeat its steps, or the sample moved by "
                      "itself. Try again when it is calm",
                      told, z, allowed));
  }
}

void SweepStage::check_settling(double moved_nm, double sd_nm) const {
  findings_.settling_nm = moved_nm;
  if (std::abs(moved_nm) > kMostSettlingNm + kSds * sd_nm)
    fail_sweep(
        CalibrationFault::Moving,
        fmt::format("at its places the stage still moved on, by {:+.1f} nm while it was "
                    "measured, allowed are {:g}: axial.stage.delay_us, time_constant_us, "
                    "resonance_hz and damping tell how long it takes; a longer --settle helps",
                    moved_nm, kMostSettlingNm));
}

void SweepStage::check_noise() const {
  if (findings_.predicted_sd_nm > kMostLockSdNm)
    fail_sweep(
        CalibrationFault::Dim,
        fmt::format("z would have a standard deviation of {:.1f} nm in one frame, allowed are "
                    "{:g}: more light, a longer exposure, or more markers",
                    findings_.predicted_sd_nm, kMostLockSdNm));
}

}  // namespace driftd::control
