// SPDX-License-Identifier: MIT
#include "daemon/calibration/axial_sweep.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numbers>
#include <system_error>
#include <utility>

#include "base/process/realtime.hpp"
#include "daemon/calibration/sweep_result.hpp"
#include "daemon/orders/stage_limits.hpp"

namespace driftd::daemon {
namespace {

using nlohmann::json;
using Level = EventLog::Level;
using control::AxialMethod;

constexpr double kWidthsRangeNm = 400, kOneSideRangeNm = 300, kDefaultStepNm = 25;
constexpr double kMeasuredS = 0.2;  ///< at each place
constexpr double kFewestByTime = 6, kMostByTime = 40;
constexpr double kRestS = 0.03, kTimeConstants = 5, kDecays = 4;
constexpr double kMostSeconds = 600;
constexpr int kFewestBadFramesToEnd = 10;

/// How long the stage takes to come to rest, as the configuration tells it.
double settle_s(const config::AxialStage& stage, double frames_hz) {
  double answers_s = kTimeConstants * 1e-6 * stage.time_constant_us;
  if (stage.resonance_hz > 0 && stage.damping > 0)
    answers_s = kDecays / (2 * std::numbers::pi * stage.resonance_hz * stage.damping);
  return 1e-6 * stage.delay_us + answers_s + kRestS + 1 / frames_hz;
}

std::string why_ended(const SweepRun& run, const config::Config& config) {
  switch (run.end()) {
    case CalibrationEnd::Complete:
      return {};
    case CalibrationEnd::Stopped:
      return "it was stopped by command";
    case CalibrationEnd::Unlocked:
      return "it was ended by `unlock`";
    case CalibrationEnd::MarkersLost: {
      const auto& places = run.record().plan().places();
      const double at_nm = places[std::min(run.places_done(), places.size() - 1)].z_nm;
      return fmt::format(
          "{} not seen for several frames in a row, near {:+.0f} nm: sweep less far "
          "(--range-nm), or give more light",
          config.axial.method == AxialMethod::Reflection ? "the spot was" : "most markers were",
          at_nm);
    }
    case CalibrationEnd::MarkersChanged:
      return "the markers were replaced by others";
    case CalibrationEnd::TooOld:
      return "frames came too old: is the machine or the network too busy?";
    case CalibrationEnd::NotBack:
      return "the stage could not be brought back: corrections did not leave";
    case CalibrationEnd::NotSent:
      return "corrections did not leave in time: is the machine too busy?";
    case CalibrationEnd::StageReports:
      return run.stage_says() == control::StageSays::Silent ? "the driver of z went silent"
             : run.stage_says() == control::StageSays::Limit
                 ? "the driver of z reported that the stage is at a limit"
                 : "the driver of z reported an error";
    case CalibrationEnd::NoFrames:
      return "no frames came";
    case CalibrationEnd::NoRoom:
      return fmt::format(
          "axial.range_limit_nm ({} nm) or axial.travel_limit_nm ({} nm, from the stage's place at "
          "the first start) leaves no room to move",
          config.axial.range_limit_nm, config.axial.travel_limit_nm);
    case CalibrationEnd::Fault:
      return "the lock of z went to `fault`";
    case CalibrationEnd::MovedTooFar:
    case CalibrationEnd::SampleMoved:
    case CalibrationEnd::TooManyFrames:
      break;
  }
  return "it ended early";
}

std::string place_of(const SweepRun& run) {
  const double left_nm = run.left_at_nm().x;
  if (left_nm != 0)
    return fmt::format("the stage of z was left at {:+.1f} nm from its start", left_nm);
  return run.end() == CalibrationEnd::StageReports
             ? "the stage of z was told to go back to its start"
             : "the stage of z is back at its start";
}

/// How far the limits let the sample go, to the nearer side.
double room_beside_nm(const config::Config& config, const LoopReport& loop) {
  const config::Axial& limits = config.axial;
  const double at_nm = loop.z.travelled_nm.x + loop.z.total_nm.x;
  const double travel_nm = limits.travel_limit_nm - std::abs(at_nm);
  return std::min(limits.range_limit_nm, travel_nm) / std::abs(config.axial_stage.gain);
}

}  // namespace

AxialSweep::AxialSweep(const config::Config& config, LockOrders& lock, const CameraWatch& camera,
                       LoopControl& loop, EventLog& events,
                       std::function<std::string()> nothing_to_see)
    : config_(config),
      lock_(lock),
      camera_(camera),
      loop_(loop),
      events_(events),
      nothing_to_see_(std::move(nothing_to_see)) {}

void AxialSweep::check_may_begin() const {
  if (config_.camera.source == config::Source::Replay)
    throw CommandRefused{Refusal::Refused, "a recording has no stage"};
  const LoopReport& loop = loop_.report();
  if (phase_ == Phase::Moving || phase_ == Phase::Fitting ||
      loop.lock.state == control::LockState::Calibrating)
    throw CommandRefused{Refusal::Busy, "a calibration is under way"};
  if (!camera_.connected()) throw CameraWatch::away();
  if (!loop.has_frames()) throw CameraWatch::no_frames();
  if (!(loop.frame_rate_hz > 0))
    throw CommandRefused{Refusal::NoFrame, "the frame rate is not known yet"};
  if (config_.axial.method == AxialMethod::Reflection) return;
  if (const std::string why = nothing_to_see_(); !why.empty())
    throw CommandRefused{Refusal::Refused, why};
  if (!loop.sees_drift())
    throw CommandRefused{Refusal::Refused,
                         "no markers are measured now: see light and focus, "
                         "`driftctl markers`"};
}

control::SweepSettings AxialSweep::settings_for(const SweepRequest& request) const {
  const double hz = loop_.report().frame_rate_hz;
  control::SweepSettings settings;
  settings.step_nm = request.step_nm.value_or(kDefaultStepNm);
  const double usual_nm =
      config_.axial.method == AxialMethod::Astigmatic ? kWidthsRangeNm : kOneSideRangeNm;
  const double fits_nm =
      room_beside_nm(config_, loop_.report()) - control::SweepPlan::approach_nm(settings.step_nm);
  settings.range_nm = request.range_nm.value_or(std::min(usual_nm, fits_nm));
  settings.frames_per_place = request.frames.value_or(
      static_cast<int>(std::clamp(std::ceil(kMeasuredS * hz), kFewestByTime, kMostByTime)));
  settings.settle_s = request.settle_s.value_or(settle_s(config_.axial_stage, hz));
  settings.check_nm = std::min(settings.check_nm, settings.range_nm);
  return settings;
}

void AxialSweep::check_suits(const control::SweepPlan& plan) const {
  const LoopReport& loop = loop_.report();
  const double stage_nm = std::abs(config_.axial_stage.gain) * plan.farthest_nm();
  for (const double nm : {stage_nm, -stage_nm}) {
    const auto passed =
        limit_passed(config_.axial, nm, loop.z.travelled_nm.x + loop.z.total_nm.x + nm);
    if (passed)
      throw CommandRefused{Refusal::Refused,
                           fmt::format("a sweep of {:g} nm each way would take the stage {}",
                                       plan.settings().range_nm, in_words(*passed))};
  }
  const double speed_nm_per_s =
      std::min(config_.axial.rate_limit_nm_per_s, config_.axial.step_limit_nm * loop.frame_rate_hz);
  const double seconds =
      plan.seconds(loop.frame_rate_hz, speed_nm_per_s / std::abs(config_.axial_stage.gain));
  if (seconds > kMostSeconds)
    throw CommandRefused{
        Refusal::Refused,
        fmt::format("that would take {:.0f} s, allowed are {:.0f}: larger steps, fewer frames, or "
                    "a smaller range (or a larger axial.rate_limit_nm_per_s)",
                    seconds, kMostSeconds)};
}

void AxialSweep::begin(const SweepRequest& request, Answer answer, std::int64_t now_ns) {
  check_may_begin();
  const control::SweepSettings settings = settings_for(request);
  const double places = settings.range_nm / settings.step_nm;
  constexpr std::size_t kFewest = control::SweepPlan::kFewestSteps / 2;
  constexpr std::size_t kMost = control::SweepPlan::kMostSteps / 2;
  if (settings.range_nm < control::SweepPlan::kLeastRangeNm)
    throw CommandRefused{
        Refusal::Refused,
        fmt::format("axial.range_limit_nm ({:g} nm) and axial.travel_limit_nm ({:g} nm) leave no "
                    "room for a sweep of {:g} nm each way",
                    config_.axial.range_limit_nm, config_.axial.travel_limit_nm,
                    control::SweepPlan::kLeastRangeNm)};
  if (places < static_cast<double>(kFewest) || places > static_cast<double>(kMost))
    throw CommandRefused{
        Refusal::BadRequest,
        fmt::format("a range of {:g} nm has {:.0f} steps of {:g} nm each way, allowed are {} to {}",
                    settings.range_nm, places, settings.step_nm, kFewest, kMost)};
  control::SweepPlan plan(settings);
  check_suits(plan);
  const LoopReport& loop = loop_.report();
  const double speed_nm_per_s =
      std::min(config_.axial.rate_limit_nm_per_s, config_.axial.step_limit_nm * loop.frame_rate_hz);
  const double seconds =
      plan.seconds(loop.frame_rate_hz, speed_nm_per_s / std::abs(config_.axial_stage.gain));
  const double farthest_nm = std::abs(config_.axial_stage.gain) * plan.farthest_nm();
  const bool by_spot = config_.axial.method == AxialMethod::Reflection;
  auto run = std::make_unique<SweepRun>(
      std::move(plan), by_spot ? 0 : loop_.markers().count,
      SweepRunSettings{
          .stage_gain = config_.axial_stage.gain,
          .by_spot = by_spot,
          .bad_frames_to_end = std::max(config_.lock.bad_frames_to_hold, kFewestBadFramesToEnd)});
  const StageRun* ordered = run.get();
  lock_.calibrate(
      std::move(run),
      [this, answer = std::move(answer), ordered, settings, seconds,
       farthest_nm](const Outcome& outcome) {
        if (std::holds_alternative<CommandRefused>(outcome)) return answer(outcome);
        ++number_;
        phase_ = Phase::Moving;
        awaited_ = ordered;
        text_ = fmt::format("the stage of z goes {:g} nm up and down in steps of {:g} nm",
                            settings.range_nm, settings.step_nm);
        result_ = nullptr;
        events_.raise(Level::Info, "calibration", text_, {{"run", number_}, {"axes", "z"}});
        answer(Reply{.fields = {{"run", number_},
                                {"excursion_nm", farthest_nm},
                                {"seconds", std::round(seconds)},
                                {"range_nm", settings.range_nm},
                                {"step_nm", settings.step_nm},
                                {"frames", settings.frames_per_place},
                                {"settle_s", settings.settle_s}}});
      },
      now_ns);
}

void AxialSweep::stop(const Answer& answer) {
  if (phase_ != Phase::Moving)
    throw CommandRefused{Refusal::Refused, "no calibration moves the stage of z"};
  LoopCommand command{.kind = LoopCommand::Kind::StopCalibration};
  command.group = AxisGroup::Axial;
  if (!loop_.send(std::move(command)))
    throw CommandRefused{Refusal::Timeout, "the tracking loop does not take commands"};
  answer(Reply{});
}

void AxialSweep::turn() {
  while (auto run = loop_.next_calibration(AxisGroup::Axial)) collect(std::move(run));
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

void AxialSweep::collect(std::unique_ptr<StageRun> given_back) {
  if (phase_ != Phase::Moving || given_back.get() != awaited_) return;  // its order was refused
  std::shared_ptr<const SweepRun> run(static_cast<SweepRun*>(given_back.release()));
  if (const std::string reason = why_ended(*run, config_); !reason.empty()) {
    const bool by_command =
        run->end() == CalibrationEnd::Stopped || run->end() == CalibrationEnd::Unlocked;
    return conclude(by_command ? Phase::Stopped : Phase::Failed, reason + "; " + place_of(*run));
  }
  phase_ = Phase::Fitting;
  text_ = place_of(*run) + "; what was seen is being evaluated";
  try {
    evaluation_ = std::async(std::launch::async, [run = std::move(run), config = config_,
                                                  roi_px = loop_.report().roi_px] {
      schedule_as_ordinary("driftd-evaluate");
      return evaluate(*run, config, roi_px);
    });
  } catch (const std::system_error& error) {
    conclude(Phase::Failed, std::string("no thread for the evaluation: ") + error.what());
  }
}

void AxialSweep::conclude(Phase phase, std::string text) {
  phase_ = phase;
  text_ = std::move(text);
  const bool done = phase == Phase::Done;
  events_.raise(done || phase == Phase::Stopped ? Level::Info : Level::Warning, "calibration",
                std::string("calibration of z ") + phase_name() + ": " + text_,
                {{"run", number_}, {"phase", phase_name()}, {"axes", "z"}});
}

const char* AxialSweep::phase_name() const {
  switch (phase_) {
    case Phase::None:
      return "none";
    case Phase::Moving:
      return loop_.report().z.calibration == CalibrationPhase::Returning ? "returning" : "moving";
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

json AxialSweep::progress() const {
  const double share = phase_ == Phase::Moving ? loop_.report().z.calibration_progress
                                               : (phase_ == Phase::None ? 0.0 : 1.0);
  return {{"axes", "z"},       {"run", number_}, {"phase", phase_name()},
          {"progress", share}, {"text", text_},  {"result", result_}};
}

}  // namespace driftd::daemon
