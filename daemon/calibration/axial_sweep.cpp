// SPDX-License-Identifier: MIT
#include "daemon/calibration/axial_sweep.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "control/axial/calibration/sweep_course.hpp"
#include "daemon/calibration/sweep_result.hpp"
#include "daemon/orders/stage_limits.hpp"

namespace driftd::daemon {
namespace {

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

}  // namespace

AxialSweep::AxialSweep(const config::Config& config, LockOrders& lock, const CameraWatch& camera,
                       LoopControl& loop, EventLog& events,
                       std::function<std::string()> nothing_to_see, SweepMemory& memory,
                       std::function<std::optional<AxialTravel>()> travel)
    : RunningCalibration({config, lock, camera, loop, events, std::move(nothing_to_see)},
                         AxisGroup::Axial),
      memory_(memory),
      travel_(std::move(travel)) {}

void AxialSweep::begun() {
  at_first_ = travel();
}

std::string AxialSweep::own_reason(const StageRun& run) const {
  if (run.end() != CalibrationEnd::MarkersLost) return {};
  const auto& own = static_cast<const SweepRun&>(run);
  const auto& places = own.record().plan().places();
  return fmt::format(
      "{} not seen for several frames in a row, told to be near {:+.0f} nm: sweep less far "
      "(--range-nm), or give more light; or the stage is elsewhere, see its driver",
      config_.axial.method == AxialMethod::Reflection ? "the spot was" : "most markers were",
      places[std::min(own.places_done(), places.size() - 1)].z_nm);
}

/// It is back where its driver reads it there or, without a driver that tells, where it looks so.
std::string AxialSweep::place_of(const StageRun& run) const {
  const double left_nm = run.left_at_nm().x;
  if (left_nm != 0)
    return fmt::format("the stage of z was left at {:+.1f} nm from its start", left_nm);
  std::string told = "the stage of z was told to go back to its start";
  std::string back = "the stage of z is back at its start";
  const auto now = travel();
  if (at_first_ && now) {
    const double off_nm = now->position_nm - at_first_->position_nm;
    return now->is_at(at_first_->position_nm)
               ? back
               : fmt::format("{}, and its driver reads it {:+.1f} nm from there", told, off_nm);
  }
  if (run.end() == CalibrationEnd::StageReports) return told;
  const auto seen = control::start_again(static_cast<const SweepRun&>(run).record());
  if (!seen) return told;
  if (seen->looks_the_same()) return back;
  return fmt::format(
      "{}, and what is seen there is {:.2f} px off what was seen at first: the "
      "sample drifted, or the stage did not come back",
      told, seen->off_px);
}

/// How far the limits, and the stage itself, let the sample go, to the nearer side.
double AxialSweep::room_beside_nm() const {
  const LoopReport& loop = loop_.report();
  const config::Axial& limits = config_.axial;
  const double at_nm = loop.z.travelled_nm.x + loop.z.total_nm.x;
  double room_nm = std::min(limits.range_limit_nm, limits.travel_limit_nm - std::abs(at_nm));
  if (const auto own = travel(); own)
    room_nm = std::min({room_nm, own->position_nm - own->min_nm, own->max_nm - own->position_nm});
  return room_nm / std::abs(config_.axial_stage.gain);
}

control::SweepSettings AxialSweep::settings_for(const SweepRequest& request) const {
  const double hz = loop_.report().frame_rate_hz;
  control::SweepSettings settings;
  settings.step_nm = request.step_nm.value_or(kDefaultStepNm);
  const double usual_nm =
      config_.axial.method == AxialMethod::Astigmatic ? kWidthsRangeNm : kOneSideRangeNm;
  const double fits_nm = room_beside_nm() - control::SweepPlan::approach_nm(settings.step_nm);
  settings.range_nm = request.range_nm.value_or(std::min(usual_nm, fits_nm));
  settings.frames_per_place = request.frames.value_or(
      static_cast<int>(std::clamp(std::ceil(kMeasuredS * hz), kFewestByTime, kMostByTime)));
  settings.settle_s = request.settle_s.value_or(settle_s(config_.axial_stage, hz));
  settings.check_nm = std::min(settings.check_nm, settings.range_nm);
  return settings;
}

double AxialSweep::seconds_of(const control::SweepPlan& plan) const {
  const double hz = loop_.report().frame_rate_hz;
  const double stage_nm_per_s =
      std::min(config_.axial.rate_limit_nm_per_s, config_.axial.step_limit_nm * hz);
  return plan.seconds(hz, stage_nm_per_s / std::abs(config_.axial_stage.gain));
}

/// A smaller sweep can give no curve that a lock may go by.
double AxialSweep::least_range_nm() const {
  using Plan = control::SweepPlan;
  switch (config_.axial.method) {
    case AxialMethod::Astigmatic:
      return Plan::kBesideAstigmaticNm;
    case AxialMethod::Defocus:
      return Plan::kBesideDefocusNm;
    default:
      return Plan::kLeastRangeNm;
  }
}

/// Room for the least sweep, and steps that are neither too few nor too many.
void AxialSweep::check_room(const SweepRequest& request,
                            const control::SweepSettings& settings) const {
  using Plan = control::SweepPlan;
  constexpr std::size_t kFewest = Plan::kFewestSteps / 2, kMost = Plan::kMostSteps / 2;
  const double fewest = kFewest, most = kMost;
  const double least_nm = std::max(least_range_nm(), fewest * settings.step_nm);
  if (settings.range_nm < least_nm && !request.range_nm) {
    const double room_nm = std::max(0.0, room_beside_nm());
    const double shortest_nm = Plan::approach_nm(0), most_nm = room_nm - least_range_nm();
    const double smaller_nm = std::floor(
        std::min((room_nm - shortest_nm) / fewest,
                 std::max(shortest_nm / 2, std::min(room_nm / (fewest + 2), most_nm / 2))));
    const bool helps = most_nm >= shortest_nm && smaller_nm < settings.step_nm;
    throw CommandRefused{
        Refusal::Refused,
        fmt::format(
            "in steps of {:g} nm a sweep takes the sample {:g} nm each way at least, {:g} "
            "nm with the way to its first place; {:.0f} nm are left by "
            "axial.range_limit_nm ({:g} nm), axial.travel_limit_nm ({:g} nm){}: {}a larger "
            "limit, or the stage nearer to the middle of its travel",
            settings.step_nm, least_nm, least_nm + Plan::approach_nm(settings.step_nm), room_nm,
            config_.axial.range_limit_nm, config_.axial.travel_limit_nm,
            travel() ? " and what the stage's driver tells of its travel" : "",
            helps ? fmt::format("steps of {:.0f} nm or less (--step-nm), ", smaller_nm) : "")};
  }
  const double places = settings.range_nm / settings.step_nm;
  if (places < fewest || places > most)
    throw CommandRefused{
        Refusal::BadRequest,
        fmt::format("a range of {:g} nm (--range-nm) has {:.0f} steps of {:g} nm (--step-nm) each "
                    "way, allowed are {} to {}: steps of {:.3g} to {:.3g} nm",
                    settings.range_nm, places, settings.step_nm, kFewest, kMost,
                    std::max(Plan::kLeastStepNm, settings.range_nm / most),
                    std::min(Plan::kMostStepNm, settings.range_nm / fewest))};
}

void AxialSweep::check_suits(const control::SweepPlan& plan) const {
  const LoopReport& loop = loop_.report();
  const double stage_nm = std::abs(config_.axial_stage.gain) * plan.farthest_nm();
  const double range_nm = plan.settings().range_nm;
  const double allowed_nm =
      room_beside_nm() - control::SweepPlan::approach_nm(plan.settings().step_nm);
  const std::string helps =
      allowed_nm < least_range_nm()
          ? ""
          : fmt::format("; {:.0f} nm each way are possible (--range-nm)", allowed_nm);
  for (const double nm : {stage_nm, -stage_nm}) {
    const auto passed =
        limit_passed(config_.axial, nm, loop.z.travelled_nm.x + loop.z.total_nm.x + nm);
    if (passed)
      throw CommandRefused{Refusal::Refused,
                           fmt::format("a sweep of {:g} nm each way would take the stage {}{}",
                                       range_nm, in_words(*passed), helps)};
  }
  const auto own = travel();
  if (own &&
      (own->position_nm - stage_nm < own->min_nm || own->position_nm + stage_nm > own->max_nm))
    throw CommandRefused{
        Refusal::Refused,
        fmt::format("a sweep of {:g} nm each way would take the stage {:.0f} nm each way from "
                    "where it is, {:.0f} nm, and its driver says that it goes from {:.0f} to "
                    "{:.0f} nm{}",
                    range_nm, stage_nm, own->position_nm, own->min_nm, own->max_nm, helps)};
  const double seconds = seconds_of(plan);
  if (seconds > kMostSeconds)
    throw CommandRefused{
        Refusal::Refused,
        fmt::format("that would take {:.0f} s, allowed are {:.0f}: larger steps, fewer frames, or "
                    "a smaller range (or a larger axial.rate_limit_nm_per_s)",
                    seconds, kMostSeconds)};
}

AxialSweep::Sweep AxialSweep::sweep_now(const SweepRequest& request) const {
  const bool by_spot = config_.axial.method == AxialMethod::Reflection;
  check_may_begin(!by_spot);
  const control::SweepSettings settings = settings_for(request);
  check_room(request, settings);
  control::SweepPlan plan(settings);
  check_suits(plan);
  const double seconds = std::round(seconds_of(plan));
  const double farthest_nm = std::abs(config_.axial_stage.gain) * plan.farthest_nm();
  Sweep sweep;
  sweep.run = std::make_unique<SweepRun>(
      std::move(plan), by_spot ? 0 : loop_.markers().count,
      SweepRunSettings{
          .stage_gain = config_.axial_stage.gain,
          .by_spot = by_spot,
          .bad_frames_to_end = std::max(config_.lock.bad_frames_to_hold, kFewestBadFramesToEnd)});
  sweep.text = fmt::format("the stage of z goes {:g} nm up and down in steps of {:g} nm",
                           settings.range_nm, settings.step_nm);
  sweep.fields = {{"excursion_nm", farthest_nm},         {"seconds", seconds},
                  {"range_nm", settings.range_nm},       {"step_nm", settings.step_nm},
                  {"frames", settings.frames_per_place}, {"settle_s", settings.settle_s}};
  if (const std::string& why = memory_.keeps_nothing(); !why.empty())
    sweep.fields["warning"] =
        "where the stage of z begins is not written down, and were driftd killed meanwhile, nobody "
        "could tell how far it is from there: " +
        why;
  return sweep;
}

void AxialSweep::begin(const SweepRequest& request, Answer answer, std::int64_t now_ns) {
  if (prepared_) throw CommandRefused{Refusal::Busy, "a calibration is about to begin"};
  sweep_now(request);
  check_lock_is_idle();
  memory_.expect(now_ns);
  prepared_ = {.request = request,
               .at = travel(),
               .answer = std::move(answer),
               .until_ns = now_ns + kDiskNs};
}

void AxialSweep::turn(std::int64_t now_ns) {
  RunningCalibration::turn();
  if (!prepared_) return;
  const bool is_busy = memory_.is_busy();
  if (is_busy && now_ns < prepared_->until_ns) return;
  const std::string problem = is_busy ? "the disk has not answered in time" : memory_.problem();
  if (!problem.empty())
    return refuse_pending(
        {Refusal::Refused,
         fmt::format("where the stage of z begins cannot be written down, and were driftd killed "
                     "meanwhile, nobody could tell how far it is from there: {}",
                     problem)});
  const Prepared prepared = *std::exchange(prepared_, std::nullopt);
  try {
    check_is_there(prepared.at);
    Sweep sweep = sweep_now(prepared.request);  // much may have changed since
    order(std::move(sweep.run), std::move(sweep.text), std::move(sweep.fields), prepared.answer,
          now_ns);
  } catch (const CommandRefused& refused) {
    memory_.unexpect();
    prepared.answer(refused);
  }
}

void AxialSweep::check_is_there(const std::optional<AxialTravel>& written) const {
  const auto now = travel();
  if (!written || !now || now->is_at(written->position_nm)) return;
  throw CommandRefused{Refusal::Refused,
                       fmt::format("the stage of z was moved from {:.1f} to {:.1f} nm on its own "
                                   "axis while that was written down as the beginning",
                                   written->position_nm, now->position_nm)};
}

void AxialSweep::stop(const Answer& answer) {
  if (!prepared_) return RunningCalibration::stop(answer);
  refuse_pending({Refusal::Refused, "it was stopped by command before it began"});
  answer(Reply{});
}

void AxialSweep::give_up() {
  refuse_pending({Refusal::Refused, "`unlock` or `reset` came before"});
}

void AxialSweep::refuse_pending(const CommandRefused& refused) {
  if (!prepared_) return;
  memory_.unexpect();
  std::exchange(prepared_, std::nullopt)->answer(refused);
}

RunningCalibration::Evaluation AxialSweep::evaluation_of(std::unique_ptr<StageRun> run,
                                                         std::string& /*why*/) {
  return [run = std::shared_ptr<const SweepRun>(static_cast<SweepRun*>(run.release())),
          config = config_, roi_px = loop_.report().roi_px](
             const std::atomic<bool>& /*cancelled*/) { return evaluate(*run, config, roi_px); };
}

}  // namespace driftd::daemon
