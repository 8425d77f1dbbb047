// SPDX-License-Identifier: MIT
#include "daemon/calibration/calibration.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <system_error>
#include <utility>

#include "base/counted.hpp"
#include "base/process/realtime.hpp"
#include "daemon/orders/stage_limits.hpp"

namespace driftd::daemon {
namespace {

using nlohmann::json;
using Level = EventLog::Level;

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

/// What ended it before its time, for people. Empty: nothing did.
std::string reason_of(const CalibrationRun& run, const config::Config& config) {
  switch (run.end()) {
    case CalibrationEnd::Complete:
      return {};
    case CalibrationEnd::Stopped:
      return "it was stopped by command";
    case CalibrationEnd::Unlocked:
      return "it was ended by `unlock`";
    case CalibrationEnd::MarkersLost:
      return "too few markers were seen for several frames in a row";
    case CalibrationEnd::TooOld:
      return "frames came too old: is the machine or the network too busy?";
    case CalibrationEnd::SampleMoved:
      return fmt::format(
          "the sample moved by {:.0f} nm while the stage rested: was it knocked, or does it drift "
          "faster than lock.max_drift_nm_per_s ({} nm/s)?",
          run.farthest_nm(), config.lock.max_drift_nm_per_s);
    case CalibrationEnd::TooManyFrames:
      return "frames came faster than when it began";
    case CalibrationEnd::NotBack:
      return "the stage could not be brought back: corrections did not leave";
    case CalibrationEnd::MovedTooFar:
      return fmt::format(
          "the sample moved by {:.0f} nm, many times as far as the stage had been told to go: is "
          "optics.pixel_size_nm right, and does something else move the stage?",
          run.farthest_nm());
    case CalibrationEnd::NotSent:
      return "corrections did not leave in time: is the machine too busy?";
    case CalibrationEnd::StageReports:
      return run.stage_says() == control::StageSays::Silent ? "the stage's driver went silent"
             : run.stage_says() == control::StageSays::Limit
                 ? "the stage's driver reported that the stage is at a limit"
                 : "the stage's driver reported an error";
    case CalibrationEnd::NoFrames:
      return "no frames came";
    case CalibrationEnd::NoRoom:
      return fmt::format(
          "control.range_limit_nm ({} nm) or control.travel_limit_nm ({} nm, from the stage's "
          "place at the first start) leaves no room to move",
          config.control.range_limit_nm, config.control.travel_limit_nm);
    case CalibrationEnd::MarkersChanged:
      break;
    case CalibrationEnd::Fault:
      return "the daemon went to `fault`";
  }
  return "it ended early";
}

/// Where the stage is now, for people.
std::string place_of(const CalibrationRun& run) {
  const control::Vec2 left_nm = run.left_at_nm();
  if (left_nm.x == 0 && left_nm.y == 0) {
    // It did not obey, or nobody knows whether it did.
    return run.end() == CalibrationEnd::StageReports ? "the stage was told to go back to its start"
                                                     : "the stage is back at its start";
  }
  return fmt::format("the stage was left at ({:+.1f}, {:+.1f}) nm from its start", left_nm.x,
                     left_nm.y);
}

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
    : config_(config),
      lock_(lock),
      camera_(camera),
      loop_(loop),
      events_(events),
      nothing_to_see_(std::move(nothing_to_see)),
      timing_(std::move(timing)) {}

Calibration::~Calibration() {
  if (cancelled_) cancelled_->store(true);
}

void Calibration::check_may_begin(double excursion_nm, double seconds) const {
  if (config_.camera.source == config::Source::Replay)
    throw CommandRefused{Refusal::Refused, "a recording has no stage"};
  if (under_way() || loop_.report().z.lock.state == control::LockState::Calibrating)
    throw CommandRefused{Refusal::Busy, "a calibration is under way"};
  if (!camera_.connected()) throw CameraWatch::away();
  const LoopReport& loop = loop_.report();
  if (!loop.has_frames()) throw CameraWatch::no_frames();
  if (const std::string why = nothing_to_see_(); !why.empty())
    throw CommandRefused{Refusal::Refused, why};
  if (!loop.sees_drift())
    throw CommandRefused{Refusal::Refused,
                         "no markers are measured now: see light and focus, "
                         "`driftctl markers`"};
  if (!(loop.frame_rate_hz > 0))
    throw CommandRefused{Refusal::NoFrame, "the frame rate is not known yet"};
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
  check_may_begin(excursion_nm, seconds);
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
  const StageRun* ordered = run.get();
  lock_.calibrate(
      std::move(run),
      [this, answer = std::move(answer), ordered, excursion_nm, seconds](const Outcome& outcome) {
        begun(outcome, answer, ordered, excursion_nm, seconds);
      },
      now_ns);
}

void Calibration::begun(const Outcome& outcome, const Answer& answer, const StageRun* ordered,
                        double excursion_nm, double seconds) {
  if (std::holds_alternative<CommandRefused>(outcome)) return answer(outcome);
  ++number_;
  phase_ = Phase::Moving;
  awaited_ = ordered;
  at_first_ = timing_();
  text_ = fmt::format("the stage is moved by at most {} nm for {} s", excursion_nm, seconds);
  result_ = nullptr;
  events_.raise(Level::Info, "calibration", text_, {{"run", number_}});
  answer(Reply{.fields = {{"run", number_}, {"excursion_nm", excursion_nm}, {"seconds", seconds}}});
}

void Calibration::stop(const Answer& answer) {
  if (phase_ != Phase::Moving)
    throw CommandRefused{Refusal::Refused, "no calibration moves the stage"};
  if (!loop_.send(LoopCommand{.kind = LoopCommand::Kind::StopCalibration}))
    throw CommandRefused{Refusal::Timeout, "the tracking loop does not take commands"};
  answer(Reply{});
}

void Calibration::turn() {
  while (auto run = loop_.next_calibration(AxisGroup::Lateral)) collect(std::move(run));
  if (phase_ != Phase::Fitting ||
      evaluation_.wait_for(std::chrono::seconds(0)) != std::future_status::ready)
    return;
  try {
    CalibrationResult found = evaluation_.get();
    if (!found.refusal.empty()) return conclude(Phase::Refused, found.refusal);
    result_ = std::move(found.result);
    conclude(Phase::Done, found.summary);
  } catch (const std::exception& error) {
    conclude(Phase::Failed, std::string("the evaluation failed: ") + error.what());
  }
}

void Calibration::collect(std::unique_ptr<StageRun> given_back) {
  if (phase_ != Phase::Moving || given_back.get() != awaited_) return;  // its order was refused
  std::unique_ptr<CalibrationRun> run(static_cast<CalibrationRun*>(given_back.release()));
  const std::string reason = reason_of(*run, config_);
  if (!reason.empty()) {
    const bool by_command =
        run->end() == CalibrationEnd::Stopped || run->end() == CalibrationEnd::Unlocked;
    return conclude(by_command ? Phase::Stopped : Phase::Failed, reason + "; " + place_of(*run));
  }
  if (run->record().samples.size() < kLeastSamples) {
    return conclude(Phase::Failed,
                    fmt::format("only {} showed the markers; {}",
                                counted(run->record().samples.size(), "frame"), place_of(*run)));
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
  phase_ = Phase::Fitting;
  text_ = place_of(*run) + "; its answer is being fitted";
  cancelled_ = std::make_shared<std::atomic<bool>>(false);
  try {
    evaluation_ =
        std::async(std::launch::async, [run = std::shared_ptr<const CalibrationRun>(std::move(run)),
                                        context = std::move(context), cancelled = cancelled_] {
          schedule_as_ordinary("driftd-evaluate");
          return evaluate(*run, context, *cancelled);
        });
  } catch (const std::system_error& error) {
    conclude(Phase::Failed, std::string("no thread for the evaluation: ") + error.what());
  }
}

void Calibration::conclude(Phase phase, std::string text) {
  phase_ = phase;
  text_ = std::move(text);
  const bool done = phase == Phase::Done;
  events_.raise(done || phase == Phase::Stopped ? Level::Info : Level::Warning, "calibration",
                std::string("calibration ") + phase_name() + ": " + text_,
                {{"run", number_}, {"phase", phase_name()}});
}

std::string Calibration::lost_with(const config::Config& after) const {
  if (phase_ == Phase::Fitting) return "the calibration whose answer is being fitted";
  if (phase_ != Phase::Done || !proposes_else(result_, config_, after)) return {};
  return "what the calibration found (`driftctl calibrate --write` makes another and keeps it, the "
         "page keeps this one)";
}

const char* Calibration::phase_name() const {
  switch (phase_) {
    case Phase::None:
      return "none";
    case Phase::Moving:
      switch (loop_.report().calibration) {
        case CalibrationPhase::Quiet:
          return "quiet";
        case CalibrationPhase::Moving:
          return "moving";
        default:
          return "returning";
      }
    case Phase::Fitting:
      return "fitting";
    case Phase::Done:
      return "done";
    case Phase::Refused:
      return "refused";
    case Phase::Stopped:
      return "stopped";
    case Phase::Failed:
      return "failed";
  }
  return "none";
}

json Calibration::progress() const {
  const bool moving = phase_ == Phase::Moving;
  const double share =
      moving ? loop_.report().calibration_progress : (phase_ == Phase::None ? 0.0 : 1.0);
  return {{"run", number_},
          {"phase", phase_name()},
          {"progress", share},
          {"text", text_},
          {"result", result_}};
}

}  // namespace driftd::daemon
