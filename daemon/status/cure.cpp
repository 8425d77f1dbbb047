// SPDX-License-Identifier: MIT
#include "daemon/status/cure.hpp"

#include <spdlog/fmt/fmt.h>

#include <cmath>

#include "base/in_words.hpp"

namespace driftd::daemon {
namespace {

using control::LockReason;
using control::LockState;
using control::StageLooks;

/// What makes a stage of z known as `driftctl calibrate --write` does that of x and y.
std::string of_axial_stage(const LockTrouble& t) {
  if (t.stage == StageLooks::Reversed)
    return "the stage of z looks reversed: another sign of axial.stage.gain, or the curve is of a "
           "lens turned by 90 degrees (axial.curve)";
  if (t.stage == StageLooks::WrongGain || t.stage == StageLooks::Unexplained)
    return "the stage of z answers farther, later or otherwise than axial.stage.* says, or the "
           "curve's z is not the sample's (axial.curve)";
  if (!t.driver_reports)
    return "no driver of z is connected, or one that tells nothing of itself: start driftd-stage "
           "with its axis z (`motion.axes: xyz`, or `z` for a driver of z alone)";
  return "see the power, servo and travel of the stage of z";
}

std::string of_stage(const LockTrouble& t) {
  if (t.of_z) return of_axial_stage(t);
  if (t.stage == StageLooks::Reversed || t.stage == StageLooks::TurnedOrSwapped)
    return "the stage " + looks_in_words(control::name_of(t.stage)) +
           ": `driftctl unlock`, `driftctl calibrate --write` and a reload find how it stands to "
           "the image";
  if (t.stage == StageLooks::WrongGain || t.stage == StageLooks::Unexplained)
    return "the stage answers farther, later or otherwise than `stage.*` says: `driftctl unlock`, "
           "`driftctl calibrate --write` and a reload measure how";
  if (!t.driver_reports)
    return "no driver is connected, or one that tells nothing of itself: start driftd-stage";
  return "see the stage's power, servo and travel; `driftctl calibrate` measures how it answers";
}

/// " (E-727: servo off)"
std::string in_its_words(const LockTrouble& t) {
  return t.driver_says.empty() ? "" : " (" + t.driver_says + ")";
}

/// What helps against that which holds a lock, or held it until it was lost. A held lock goes on by
/// itself once that is over.
std::string of_hold(const LockTrouble& t, LockReason reason) {
  const bool lost = t.lock.state != LockState::Holding;
  switch (reason) {
    case LockReason::TooFewMarkers:
      if (t.of_z)
        return (t.no_z.empty() ? "z was not measured" : t.no_z) +
               std::string(lost ? "" : ": it goes on once z is measured again");
      return "see light, focus and exposure: `driftctl snapshot`; `driftctl markers` tells of each";
    case LockReason::StaleFrame:
      return "frames come later than lock.max_frame_age_ms: `driftctl doctor` looks at computer "
             "and network";
    case LockReason::NoFrames:
      return kSeeCamera;
    case LockReason::ImplausibleJump:
      return fmt::format(
          "the sample is {:.1f} nm from its last plausible place, and {}.max_jump_nm is {:g}{}",
          std::hypot(t.jumped_nm.x, t.jumped_nm.y), t.of_z ? "axial" : "lock", t.max_jump_nm,
          lost     ? ""
          : t.of_z ? ": it goes on when the focus is back; `driftctl unlock --axes z` and `lock "
                     "--axes z` hold it where it is"
                   : ": it goes on when the sample is back; `driftctl unlock` and `lock` hold it "
                     "where it is");
    case LockReason::RangeExceeded:
      return fmt::format(
          "the correction is at its limit ({}.range_limit_nm or travel_limit_nm){}",
          t.of_z ? "axial" : "control",
          lost     ? ""
          : t.of_z ? ": `driftctl unlock --axes z` and `lock --axes z` hold the sample where it is"
                   : ": `driftctl unlock` and `lock` hold the sample where it is");
    case LockReason::CorrectionsNotSent:
      return "this computer is too busy to send in time: `driftctl doctor`";
    case LockReason::StageNotFollowing:
      return of_stage(t);
    case LockReason::StageError:
      return "mend what the stage's driver tells" + in_its_words(t) +
             (lost ? "" : "; the lock then goes on");
    case LockReason::StageLimit:
      return "the stage is at the end of its travel" + in_its_words(t) +
             (t.of_z
                  ? ": `driftctl unlock --axes z`, bring it to the middle, `driftctl lock --axes z`"
                  : ": `driftctl unlock`, bring it to the middle, lock");
    case LockReason::StageSilent:
      return "the stage's driver has ended or hangs: start driftd-stage again";
    default:
      return "";
  }
}

/// Good frames do not end a hold that began for the stage or the range: that is left to do.
std::string of_first(const LockTrouble& t) {
  const LockReason first = control::held_before(t.lock);
  const bool stays = first == LockReason::RangeExceeded || first == LockReason::StageNotFollowing;
  return stays ? ". Then: " + of_hold(t, first) : "";
}

/// Frames do not come in time: nothing is known of light and focus.
bool is_of_frames(LockReason reason) {
  return reason == LockReason::NoFrames || reason == LockReason::StaleFrame ||
         reason == LockReason::CorrectionsNotSent;
}

/// Says that what ended a lock is over by now, where that is known; "" where it is not.
std::string over(const LockTrouble& t, LockReason reason) {
  switch (reason) {
    case LockReason::NoFrames:
      return t.has_frames ? "frames come again" : "";
    case LockReason::TooFewMarkers:
      return t.sees_markers ? "the markers are seen again" : "";
    case LockReason::StageError:
    case LockReason::StageLimit:
    case LockReason::StageSilent:
      return t.driver_ready ? "the stage's driver is ready again" : "";
    default:
      return "";
  }
}

/// The way back is part of it, where it is not told of beside it.
std::string of_loss(const LockTrouble& t) {
  std::string text;
  const auto add = [&text](const std::string& more) {
    if (!more.empty()) text += (text.empty() ? "" : "; ") + more;
  };
  if (t.lock.reason == LockReason::HeldTooLong)
    add("it was held for longer than lock.hold_timeout_s");
  const std::string now = over(t, t.lock.held_for);
  add((now.empty() ? of_hold(t, t.lock.held_for) : now) + of_first(t));
  if (t.of_z)
    add("once the reason is gone, `driftctl lock --axes z` holds z where it is");
  else if (!t.offered)
    add("once the reason is gone, `driftctl lock --resume` takes the sample back");
  return text;
}

/// What helps a reference that was not had in time.
std::string of_reference(const LockTrouble& t) {
  const bool frames = is_of_frames(t.lock.held_for) && over(t, t.lock.held_for).empty();
  if (frames) return of_hold(t, t.lock.held_for) + "; then lock again";
  // What was wrong with its last frames is over.
  const bool seen = t.lock.held_for != LockReason::None && t.sees_markers;
  if (t.resumed)
    return fmt::format(
        "within lock.reference_timeout_s the sample was not seen, or not near enough "
        "({}.max_jump_nm) to where it was when the way back was ordered: {}go back again; "
        "`driftctl "
        "lock{}` gives the place up",
        t.of_z ? "axial" : "lock",
        seen ? "it is seen now, " : "see light and focus, `driftctl markers`, then ",
        t.of_z ? " --axes z" : "");
  if (t.of_z && !seen)
    return "z was not measured in enough frames within lock.reference_timeout_s" +
           (t.no_z.empty() ? "" : ": " + t.no_z) + "; then lock again";
  return std::string("too few good frames within lock.reference_timeout_s: ") +
         (seen ? "the markers are seen now, " : "see light and focus, `driftctl markers`, then ") +
         "lock again";
}

}  // namespace

std::string cure_of(const LockTrouble& t) {
  switch (t.lock.state) {
    case LockState::Holding:
      return of_hold(t, t.lock.reason) + of_first(t);
    case LockState::Lost:
      return of_loss(t);
    case LockState::Fault:
      return t.of_z ? "the log says what failed; `driftctl reset`, then `driftctl lock --axes z`"
                    : "the log says what failed; `driftctl reset`, then lock again";
    case LockState::Idle:
      if (!t.while_idle.empty()) return t.while_idle;
      if (!t.at_start.empty()) return "lock.at_start waits: " + t.at_start;
      return t.lock.reason == LockReason::ReferenceTimeout ? of_reference(t) : "";
    default:
      return "";
  }
}

}  // namespace driftd::daemon
