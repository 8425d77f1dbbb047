// SPDX-License-Identifier: MIT
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "control/axial/calibration/sweep_course.hpp"
#include "control/axial/calibration/sweep_following.hpp"
#include "control/axial/calibration/sweep_stage.hpp"

namespace driftd::control {
namespace {

constexpr double kSpotSeenShare = 0.5;  ///< of the frames of a place
constexpr double kSpotStillPx = 0.02, kSpotStillSds = 8;
constexpr double kMostOffLineNm = 10;

/// In the second half of the time there less the first.
Vec2 moved_at(const SweepVisit& visit) {
  const int early = visit.spot_frames - visit.late_spot_frames;
  if (visit.late_spot_frames == 0 || early == 0) return {};
  const auto along = [&](double Vec2::*axis) {
    const double late = visit.late_spot_px.*axis;
    return late / visit.late_spot_frames - (visit.spot_px.*axis - late) / early;
  };
  return {along(&Vec2::x), along(&Vec2::y)};
}

/// How far the stage still moved along its way.
void judge_settling(const SweepStage& stage, const std::vector<SweepPlace>& places,
                    const PlaceLooks& looks, Vec2 px_per_nm) {
  const double squared = px_per_nm.x * px_per_nm.x + px_per_nm.y * px_per_nm.y;
  double sum = 0, squares = 0, count = 0;
  for (std::size_t p = 0; p < places.size(); ++p) {
    const SweepPart part = places[p].part;
    if (!looks[p] || (part != SweepPart::Up && part != SweepPart::Down)) continue;
    const Vec2 px = looks[p]->moved_px;
    const double here =
        (part == SweepPart::Up ? 1 : -1) * (px.x * px_per_nm.x + px.y * px_per_nm.y) / squared;
    sum += here, squares += here * here, ++count;
  }
  if (count < 4) return;
  const double mean = sum / count;
  stage.check_settling(mean, std::sqrt(std::max(squares / count - mean * mean, 0.0) / count));
}

}  // namespace

void measure_spot(const SweepRecord& record, const SweepStage& stage, SweepFindings& findings) {
  const std::vector<SweepPlace>& places = record.plan().places();
  const auto seen = [&](std::size_t p) {
    return places[p].is_measured() &&
           record.visit(p).spot_frames >= kSpotSeenShare * record.visit(p).frames;
  };
  const auto along = [&](double Vec2::*axis) {
    return stage.line_of([&, axis](std::size_t p) -> std::optional<double> {
      if (!seen(p)) return std::nullopt;
      return record.visit(p).spot_px.*axis / record.visit(p).spot_frames;
    });
  };
  const auto x = along(&Vec2::x), y = along(&Vec2::y);
  std::size_t missed = 0, measured = 0;
  double noise_px2 = 0, frames = 0;
  for (std::size_t p = 0; p < places.size(); ++p) {
    if (!places[p].is_measured()) continue;
    ++measured;
    missed += seen(p) ? 0U : 1U;
    noise_px2 += record.visit(p).spot_variance, frames += record.visit(p).spot_frames;
  }
  if (!x || !y || 10 * missed > measured)
    fail_sweep(CalibrationFault::FewBeads,
               fmt::format("the reflected spot was not seen at {} of {} places: sweep less far "
                           "(--range-nm), or make its region larger (axial.reflection.roi_px)",
                           missed, measured));
  const double per_nm = std::hypot(x->per_nm, y->per_nm);
  const double sd = std::hypot(x->per_nm_sd, y->per_nm_sd);
  const double moved_px = per_nm * 2 * record.plan().settings().range_nm;
  if (moved_px < std::max(kSpotStillPx, kSpotStillSds * sd * 2 * record.plan().settings().range_nm))
    fail_sweep(
        CalibrationFault::Still,
        fmt::format("the reflected spot moved by {:.3f} px over {:g} nm, no more than noise: the "
                    "stage of z does not move the sample, or the spot is none that moves with "
                    "it. Does the stage's driver run, follow the topic `axial`, and have the "
                    "right axis?",
                    moved_px, 2 * record.plan().settings().range_nm));
  const double angle = std::atan2(y->per_nm, x->per_nm);
  const double noise_nm = std::sqrt(noise_px2 / std::max(frames, 1.0)) / per_nm;
  PlaceReadings read(places.size());
  double squares = 0, used = 0;
  for (std::size_t p = 0; p < places.size(); ++p) {
    if (!seen(p)) continue;
    const SweepVisit& visit = record.visit(p);
    const double z = (visit.spot_px.x * std::cos(angle) + visit.spot_px.y * std::sin(angle)) /
                     visit.spot_frames / per_nm;
    read[p] = PlaceReading{z, std::hypot(noise_nm / std::sqrt(visit.spot_frames), kLeastPlaceSdNm)};
  }
  PlaceLooks looks(places.size());
  for (std::size_t p = 0; p < places.size(); ++p)
    if (seen(p)) {
      const SweepVisit& visit = record.visit(p);
      const double n = visit.spot_frames;
      looks[p] = PlaceLook{.px = {visit.spot_px.x / n, visit.spot_px.y / n},
                           .sd_px = std::sqrt(visit.spot_variance) / n,
                           .moved_px = moved_at(visit)};
    }
  check_followed(record, stage, looks, 0);
  check_unbroken(record, stage, "z", [&](std::size_t p) -> std::optional<double> {
    if (!read[p]) return std::nullopt;
    return read[p]->z_nm - places[p].z_nm;
  });
  judge_settling(stage, places, looks, {x->per_nm, y->per_nm});
  stage.judge(read);
  // What is left of the places about the line, less hysteresis and drift.
  const std::vector<double> drift = stage.drift_of(read);
  double mean = 0;
  std::vector<double> off;
  for (std::size_t p = 0; p < places.size(); ++p) {
    if (!read[p]) continue;
    off.push_back(read[p]->z_nm - places[p].z_nm - drift[p] -
                  direction_of(places[p]) * findings.hysteresis_nm);
    mean += off.back(), ++used;
  }
  for (const double o : off) squares += std::pow(o - mean / used, 2);
  findings.spot = SpotSlope{.nm_per_px = 1 / per_nm,
                            .angle_deg = angle * 180 / std::numbers::pi,
                            .relative_sd = sd / per_nm,
                            .off_line_nm = std::sqrt(squares / used),
                            .noise_nm = noise_nm};
  findings.predicted_sd_nm = noise_nm;
  if (findings.spot->off_line_nm > kMostOffLineNm)
    fail_sweep(
        CalibrationFault::Uneven,
        fmt::format("the spot's places lie {:.1f} nm rms about a straight line, allowed are "
                    "{:g}: it is not one spot, it leaves its region, or the stage did not make "
                    "even steps; sweep less far (--range-nm)",
                    findings.spot->off_line_nm, kMostOffLineNm));
  stage.check_steps(read);
  stage.check_noise();
}

}  // namespace driftd::control
