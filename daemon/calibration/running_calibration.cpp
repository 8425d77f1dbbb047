// SPDX-License-Identifier: MIT
#include "daemon/calibration/running_calibration.hpp"

#include <spdlog/fmt/fmt.h>

#include <chrono>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "base/process/realtime.hpp"
#include "daemon/status/cure.hpp"

namespace driftd::daemon {

using nlohmann::json;
using Level = EventLog::Level;

RunningCalibration::~RunningCalibration() {
  if (cancelled_) cancelled_->store(true);
}

void RunningCalibration::check_may_begin(bool by_markers) const {
  if (config_.camera.source == config::Source::Replay)
    throw CommandRefused{Refusal::Refused, "a recording has no stage"};
  const LoopReport& loop = loop_.report();
  const LockReport& other = loop.of(is_axial() ? AxisGroup::Lateral : AxisGroup::Axial);
  if (under_way() || other.lock.state == control::LockState::Calibrating)
    throw CommandRefused{Refusal::Busy, "a calibration is under way"};
  if (!camera_.connected()) throw CameraWatch::away();
  if (!loop.has_frames()) throw CameraWatch::no_frames();
  if (by_markers) {
    if (const std::string why = parts_.nothing_to_see(); !why.empty())
      throw CommandRefused{Refusal::Refused, why};
    if (!loop.sees_drift())
      throw CommandRefused{Refusal::Refused,
                           "no markers are measured now: see light and focus, "
                           "`driftctl markers`"};
  }
  if (!(loop.frame_rate_hz > 0))
    throw CommandRefused{Refusal::NoFrame, "the frame rate is not known yet"};
}

void RunningCalibration::order(std::unique_ptr<StageRun> run, std::string text, json fields,
                               Answer answer, std::int64_t now_ns) {
  const StageRun* ordered = run.get();
  parts_.lock.calibrate(
      std::move(run),
      [this, answer = std::move(answer), ordered, text = std::move(text),
       fields = std::move(fields)](const Outcome& outcome) {
        if (std::holds_alternative<CommandRefused>(outcome)) return answer(outcome);
        ++number_;
        phase_ = Phase::Moving;
        awaited_ = ordered;
        text_ = text;
        result_ = nullptr;
        begun();
        parts_.events.raise(Level::Info, "calibration", text_, with_axes({{"run", number_}}));
        json told = fields;
        told["run"] = number_;
        answer(Reply{.fields = std::move(told)});
      },
      now_ns);
}

void RunningCalibration::stop(const Answer& answer) {
  if (phase_ != Phase::Moving)
    throw CommandRefused{Refusal::Refused, fmt::format("no calibration moves the stage{}",
                                                       is_axial() ? " of z" : "")};
  if (!send_stop())
    throw CommandRefused{Refusal::Timeout, "the tracking loop does not take commands"};
  answer(Reply{});
}

bool RunningCalibration::send_stop() {
  LoopCommand command{.kind = LoopCommand::Kind::StopCalibration};
  command.group = group_;
  return loop_.send(std::move(command)).has_value();
}

void RunningCalibration::bring_back() {
  ends_with_daemon_ = is_moving() && send_stop();
}

void RunningCalibration::end_with_daemon() {
  if (!under_way()) return;
  if (phase_ == Phase::Fitting)
    return conclude(Phase::Failed, "driftd ended before it was evaluated; " + place_);
  const control::Vec2 at_nm = report().total_nm;
  conclude(Phase::Failed,
           is_axial()
               ? fmt::format("driftd ended before the stage of z was back: it was left at {:+.1f} "
                             "nm from its start",
                             at_nm.x)
               : fmt::format("driftd ended before the stage was back: it was left at ({:+.1f}, "
                             "{:+.1f}) nm from its start",
                             at_nm.x, at_nm.y));
}

void RunningCalibration::turn() {
  while (auto run = loop_.next_calibration(group_)) collect(std::move(run));
  if (phase_ != Phase::Fitting ||
      evaluation_.wait_for(std::chrono::seconds(0)) != std::future_status::ready)
    return;
  try {
    CalibrationResult found = evaluation_.get();
    if (!found.refusal.empty())
      return conclude(Phase::Refused, is_axial() ? found.refusal + "; " + place_ : found.refusal);
    result_ = std::move(found.result);
    conclude(Phase::Done, found.summary);
  } catch (const std::exception& error) {
    conclude(Phase::Failed, std::string("the evaluation failed: ") + error.what());
  }
}

std::string RunningCalibration::reason_of(const StageRun& run) const {
  if (std::string own = own_reason(run); !own.empty()) return own;
  const char* driver = is_axial() ? "the driver of z" : "the stage's driver";
  switch (run.end()) {
    case CalibrationEnd::Complete:
      return {};
    case CalibrationEnd::Stopped:
      return ends_with_daemon_ ? "driftd was told to end" : "it was stopped by command";
    case CalibrationEnd::Unlocked:
      return "it was ended by `unlock`";
    case CalibrationEnd::MarkersChanged:
      return "the markers were replaced by others meanwhile: calibrate again";
    case CalibrationEnd::TooOld:
      return "frames came too old: is the machine or the network too busy?";
    case CalibrationEnd::NotBack:
      return "the stage could not be brought back: corrections did not leave";
    case CalibrationEnd::NotSent:
      return "corrections did not leave in time: is the machine too busy?";
    case CalibrationEnd::StageReports:
      return fmt::format("{} {}", driver,
                         run.stage_says() == control::StageSays::Silent
                             ? "went silent: has it ended?"
                         : run.stage_says() == control::StageSays::Limit
                             ? "reported that the stage is at a limit: begin farther from its end"
                             : "reported an error: `driftctl status` shows it");
    case CalibrationEnd::NoFrames:
      return std::string("no frames came: ") + kSeeCamera;
    case CalibrationEnd::NoRoom: {
      const double range_nm =
          is_axial() ? config_.axial.range_limit_nm : config_.control.range_limit_nm;
      const double travel_nm =
          is_axial() ? config_.axial.travel_limit_nm : config_.control.travel_limit_nm;
      const char* section = is_axial() ? "axial" : "control";
      return fmt::format(
          "{}.range_limit_nm ({} nm) or {}.travel_limit_nm ({} nm, from the stage's place at the "
          "first start) leaves no room to move",
          section, range_nm, section, travel_nm);
    }
    case CalibrationEnd::Fault:
      return is_axial() ? "the lock of z went to `fault`: the log says why, then `driftctl reset`"
                        : "the daemon went to `fault`: the log says why, then `driftctl reset`";
    case CalibrationEnd::MarkersLost:
    case CalibrationEnd::MovedTooFar:
    case CalibrationEnd::SampleMoved:
    case CalibrationEnd::TooManyFrames:
      break;
  }
  return "it ended early";
}

void RunningCalibration::collect(std::unique_ptr<StageRun> given_back) {
  if (phase_ != Phase::Moving || given_back.get() != awaited_) return;  // its order was refused
  place_ = place_of(*given_back);
  if (const std::string reason = reason_of(*given_back); !reason.empty()) {
    const CalibrationEnd end = given_back->end();
    const bool by_command = end == CalibrationEnd::Stopped || end == CalibrationEnd::Unlocked;
    return conclude(by_command ? Phase::Stopped : Phase::Failed, reason + "; " + place_);
  }
  std::string why;
  Evaluation evaluation = evaluation_of(std::move(given_back), why);
  if (!evaluation) return conclude(Phase::Failed, why + "; " + place_);
  phase_ = Phase::Fitting;
  text_ =
      place_ + (is_axial() ? "; what was seen is being evaluated" : "; its answer is being fitted");
  cancelled_ = std::make_shared<std::atomic<bool>>(false);
  try {
    evaluation_ = std::async(std::launch::async,
                             [evaluation = std::move(evaluation), cancelled = cancelled_] {
                               schedule_as_ordinary("driftd-evaluate");
                               return evaluation(*cancelled);
                             });
  } catch (const std::system_error& error) {
    conclude(Phase::Failed, std::string("no thread for the evaluation: ") + error.what());
  }
}

void RunningCalibration::conclude(Phase phase, std::string text) {
  phase_ = phase;
  text_ = std::move(text);
  const bool calm = phase == Phase::Done || phase == Phase::Stopped;
  parts_.events.raise(
      calm ? Level::Info : Level::Warning, "calibration",
      fmt::format("calibration {}{}: {}", is_axial() ? "of z " : "", phase_name(), text_),
      with_axes({{"run", number_}, {"phase", phase_name()}}));
}

const char* RunningCalibration::moving_name() const {
  return report().calibration == CalibrationPhase::Returning ? "returning" : "moving";
}

const char* RunningCalibration::phase_name() const {
  switch (phase_) {
    case Phase::None:
      return "none";
    case Phase::Moving:
      return moving_name();
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

json RunningCalibration::with_axes(json fields) const {
  if (is_axial()) fields["axes"] = "z";
  return fields;
}

json RunningCalibration::progress() const {
  const double share =
      phase_ == Phase::Moving ? report().calibration_progress : (phase_ == Phase::None ? 0.0 : 1.0);
  return with_axes({{"run", number_},
                    {"phase", phase_name()},
                    {"progress", share},
                    {"text", text_},
                    {"result", result_}});
}

}  // namespace driftd::daemon
