// SPDX-License-Identifier: MIT
#include "daemon/calibration/calibration.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/counted.hpp"
#include "daemon/orders/stage_limits.hpp"

namespace driftd::daemon {
namespace {

using nlohmann::json;

constexpr double kDefaultExcursionNm = 100;
constexpr double kDefaultSeconds = 20;
/// Stages of 0.25 to 4 times what the pixel size says are looked at; what is farther off is
/// mistaken by more than a calibration should find out by moving.
constexpr double kMostMoved = 6;
constexpr int kLeastBadFramesToEnd = 10;
constexpr std::size_t kLeastSamples = 200;
/// Frames of a run: fewer tell nothing, more take the evaluation longer than anybody waits.
constexpr double kFewestFrames = 400;
constexpr double kMostFrames = 60'000;
/// A driver that had a move done only after so long, and so many times its usual time, was held up.
constexpr double kLateUs = 20'000, kLateTimes = 5;
/// The excursion, one way, may take so much of the run.
constexpr double kShareOfTheWay = 0.15;

/// Refuses an excursion for which the limits leave no room, on either side of where the stage is.
void check_reach(double excursion_nm, const config::Control& limits, const LoopReport& loop) {
  const control::Vec2 start_nm = {loop.travelled_nm.x + loop.total_nm.x,
                                  loop.travelled_nm.y + loop.total_nm.y};
  for (const double nm : {excursion_nm, -excursion_nm}) {
    const auto passed = limit_passed(limits, {nm, nm}, {start_nm.x + nm, start_nm.y + nm});
    if (!passed) continue;
    throw CommandRefused{Refusal::Refused,
                         fmt::format("an excursion of {} nm would take the stage {}", excursion_nm,
                                     in_words(*passed))};
  }
}

}  // namespace

Calibration::Calibration(const config::Config& config, LockOrders& lock, const CameraWatch& camera,
                         LoopControl& loop, EventLog& events,
                         std::function<std::string()> nothing_to_see,
                         std::function<DriverTiming()> timing)
    : RunningCalibration({config, lock, camera, loop, events, std::move(nothing_to_see)},
                         AxisGroup::Lateral),
      timing_(std::move(timing)) {}

std::string Calibration::own_reason(const StageRun& run) const {
  const auto& own = static_cast<const CalibrationRun&>(run);
  switch (run.end()) {
    case CalibrationEnd::MarkersLost:
      return "too few markers were seen for several frames in a row";
    case CalibrationEnd::MarkersChanged:
      return "it ended early";
    case CalibrationEnd::SampleMoved:
      return fmt::format(
          "the sample moved by {:.0f} nm while the stage rested: was it knocked, or does it drift "
          "faster than lock.max_drift_nm_per_s ({} nm/s)?",
          own.farthest_nm(), config_.lock.max_drift_nm_per_s);
    case CalibrationEnd::TooManyFrames:
      return "frames came faster than when it began";
    case CalibrationEnd::MovedTooFar:
      return fmt::format(
          "the sample moved by {:.0f} nm, many times as far as the stage had been told to go: is "
          "optics.pixel_size_nm right, and does something else move the stage?",
          own.farthest_nm());
    default:
      return {};
  }
}

std::string Calibration::place_of(const StageRun& run) const {
  const control::Vec2 left_nm = run.left_at_nm();
  if (left_nm.x == 0 && left_nm.y == 0) {
    // It did not obey, or nobody knows whether it did.
    return run.end() == CalibrationEnd::StageReports ? "the stage was told to go back to its start"
                                                     : "the stage is back at its start";
  }
  return fmt::format("the stage was left at ({:+.1f}, {:+.1f}) nm from its start", left_nm.x,
                     left_nm.y);
}

void Calibration::check_suits(double excursion_nm, double seconds) const {
  const LoopReport& loop = loop_.report();
  check_reach(excursion_nm, config_.control, loop);
  check_limits_suit(excursion_nm, seconds, loop.frame_rate_hz);
}

/// Frames enough and not too many, and time enough for the way.
void Calibration::check_limits_suit(double excursion_nm, double seconds, double frames_hz) const {
  const double least_s = std::max(Limits::kLeastSeconds, std::ceil(kFewestFrames / frames_hz));
  const double most_s = std::min(Limits::kMostSeconds, std::floor(kMostFrames / frames_hz));
  if (least_s > most_s) {
    throw CommandRefused{Refusal::Refused,
                         fmt::format("no stage can be calibrated at {:.1f} frames/s: the camera is "
                                     "too {}",
                                     frames_hz, frames_hz > 100 ? "fast" : "slow")};
  }
  if (seconds < least_s || seconds > most_s) {
    throw CommandRefused{Refusal::Refused,
                         fmt::format("at {:.1f} frames/s a calibration takes {:.0f} to {:.0f} s",
                                     frames_hz, least_s, most_s)};
  }
  const double speed_nm_per_s =
      std::min(config_.control.rate_limit_nm_per_s, config_.control.step_limit_nm * frames_hz);
  const double way_s = excursion_nm / speed_nm_per_s;
  if (way_s > kShareOfTheWay * seconds) {
    throw CommandRefused{
        Refusal::Refused,
        fmt::format("control.rate_limit_nm_per_s ({} nm/s) and control.step_limit_nm ({} nm) make "
                    "{:.2g} s of {} nm, too long a way for {} s: a smaller excursion, or more time",
                    config_.control.rate_limit_nm_per_s, config_.control.step_limit_nm, way_s,
                    excursion_nm, seconds)};
  }
}

void Calibration::begin(std::optional<double> excursion, std::optional<double> duration,
                        Answer answer, std::int64_t now_ns) {
  const double excursion_nm = excursion.value_or(kDefaultExcursionNm);
  const double seconds = duration.value_or(kDefaultSeconds);
  check_may_begin(true);
  check_suits(excursion_nm, seconds);
  const auto period_ns = std::llround(1e9 / loop_.report().frame_rate_hz);
  const control::StageExcitation excitation(
      {.excursion_nm = excursion_nm,
       .seconds = seconds,
       .rate_limit_nm_per_s = config_.control.rate_limit_nm_per_s,
       .step_limit_nm = config_.control.step_limit_nm,
       .frame_period_ns = period_ns});
  auto run = std::make_unique<CalibrationRun>(
      excitation, CalibrationSettings{.excursion_nm = excursion_nm,
                                      .most_moved = kMostMoved,
                                      .most_drift_nm_per_s = config_.lock.max_drift_nm_per_s,
                                      .bad_frames_to_end = std::max(config_.lock.bad_frames_to_hold,
                                                                    kLeastBadFramesToEnd),
                                      .exposure_ns = std::llround(camera_.info().exposure_us * 1e3),
                                      .frame_period_ns = period_ns});
  order(std::move(run),
        fmt::format("the stage is moved by at most {} nm for {} s", excursion_nm, seconds),
        {{"excursion_nm", excursion_nm}, {"seconds", seconds}}, std::move(answer), now_ns);
}

RunningCalibration::Evaluation Calibration::evaluation_of(std::unique_ptr<StageRun> given_back,
                                                          std::string& why) {
  const std::shared_ptr<const CalibrationRun> run(
      static_cast<CalibrationRun*>(given_back.release()));
  if (run->record().samples.size() < kLeastSamples) {
    why = fmt::format("only {} showed the markers", counted(run->record().samples.size(), "frame"));
    return {};
  }
  const DriverTiming timing = timing_();
  const bool was_late = timing.longest_us > at_first_.longest_us &&
                        timing.longest_us > std::max(kLateUs, kLateTimes * timing.usual_us);
  CalibrationContext context{
      .config = config_,
      .marker_ids = {},
      .waiting_us = timing.waiting_us,
      .driver_late_us = was_late ? timing.longest_us : 0,
      .driver_ignored = timing.ignored - std::min(timing.ignored, at_first_.ignored)};
  const MarkersReport& markers = loop_.markers();
  for (std::size_t i = 0; i < markers.count; ++i)
    context.marker_ids.push_back(markers.entries[i].marker.id);
  return [run, context = std::move(context)](const std::atomic<bool>& cancelled) {
    return evaluate(*run, context, cancelled);
  };
}

std::string Calibration::lost_with(const config::Config& after) const {
  if (phase() == Phase::Fitting) return "the calibration whose answer is being fitted";
  if (phase() != Phase::Done || !proposes_else(result(), config_, after)) return {};
  return "what the calibration found (`driftctl calibrate --write` makes another and keeps it, the "
         "page keeps this one)";
}

const char* Calibration::moving_name() const {
  return report().calibration == CalibrationPhase::Quiet    ? "quiet"
         : report().calibration == CalibrationPhase::Moving ? "moving"
                                                            : "returning";
}

}  // namespace driftd::daemon
