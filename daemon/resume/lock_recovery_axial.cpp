// SPDX-License-Identifier: MIT
// The part of lock recovery that is of z: beside x and y, after which it goes back, or alone.
// Housekeeping thread, as all of lock_recovery.hpp.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>
#include <variant>

#include "daemon/orders/stage_limits.hpp"
#include "daemon/resume/lock_recovery.hpp"

namespace driftd::daemon {
namespace {

using Level = EventLog::Level;

constexpr std::int64_t kZeroAgainNs = 50'000'000;

CommandRefused refusal(const std::string& text) {
  return {Refusal::Refused, text};
}

}  // namespace

/// The lock of z to be gone back to; none: there is none.
const std::optional<SavedAxial>& LockRecovery::axial() const noexcept {
  static const std::optional<SavedAxial> none;
  if (axial_) return axial_;
  return phase_ != Phase::None ? saved_->z : none;
}

/// Of another curve, or another region, the references would be another z.
void LockRecovery::forget_other_z() {
  if (!z_reading_.empty() && z_reading_ == axial_reading(config_)) return;
  if (saved_->z && !saved_->of_z_alone)  // of one alone ignore() tells
    raise(Level::Warning, "state_ignored",
          fmt::format("z of {} is ignored: {}", headline(), kReadOtherwise));
  saved_->z.reset();
  for (SavedMarker& marker : saved_->markers)
    marker.reference.z_nm = std::numeric_limits<double>::quiet_NaN();
}

std::string LockRecovery::axial_name() const {
  if (is_of_z_alone()) return name();
  return has_axial() ? "z of " + headline() : "";
}

std::string LockRecovery::forget_axial() {
  std::string forgotten = axial_name();
  axial_.reset();
  if (!saved_ || !saved_->z) return forgotten;
  if (is_of_z_alone()) {
    phase_ = Phase::None;
    memory_.forget();
    return forgotten;
  }
  saved_->z.reset();
  if (phase_ != Phase::None) memory_.keep(*saved_);  // nor may a later daemon find it
  return forgotten;
}

std::string LockRecovery::end_axial() {
  std::string forgotten = forget_axial();
  memory_.end_axial();
  return forgotten;
}

/// z may be held while x and y wait to be gone back to: it then goes back to where it is held now.
void LockRecovery::follow_axial() {
  if (saved_->of_z_alone) return;
  std::optional<SavedAxial> now = memory_.axial_now();
  if (!now) return;
  const bool in_use = is_ours_ && phase_ == Phase::Found && !replaced_ && loop_.has_taken(adopted_);
  const bool is_followed = followed_z_id_ == now->lock_id;
  if (!is_followed && !in_use && !(now->spot && is_ours_)) {
    // Of other markers it knows no way back there, and the one of before leads elsewhere.
    if (saved_->z) forget_axial();
    return;
  }
  followed_z_id_ = now->lock_id;
  z_reading_ = now->reading;
  if (in_use) keep_zeros();
  now->time = SavedTime::now();
  saved_->z = std::move(now);
}

/// The markers to go back to get the references of z that they have now.
void LockRecovery::keep_zeros() noexcept {
  const MarkersReport& now = loop_.markers();
  const auto entries = std::span(now.entries).first(now.count);
  for (SavedMarker& saved : saved_->markers) {
    const auto entry = std::ranges::find_if(
        entries, [&](const MarkersReport::Entry& e) { return e.marker.id == saved.id; });
    const bool is_there = entry != entries.end();
    saved.reference.z_nm =
        is_there ? entry->reference.z_nm : std::numeric_limits<double>::quiet_NaN();
    saved.reference.z_variance_nm2 = is_there ? entry->reference.z_variance_nm2 : 0;
  }
}

/// Once x and y went back by themselves, z does, too, within a while in which it has to be
/// measured. Where a command had them go back, z waits for its own.
void LockRecovery::resume_axial(LockOrders* z, std::int64_t now_ns) {
  constexpr std::int64_t kPatienceNs = 5'000'000'000;
  if (!axial_) return;
  if (!loop_.report().holds() || z == nullptr) return axial_.reset();
  const control::LockState state = z->lock_now().lock.state;
  // Its place is kept until it holds, and while it is calibrated.
  if (state == control::LockState::Referencing || state == control::LockState::Calibrating) return;
  if (state != control::LockState::Idle) return axial_.reset();
  if (!axial_goes_ || z->pending()) return;
  if (axial_tried_) return offer_axial("it was not measured near enough to where it was");
  if (const std::string waits = axial_waits_for(); !waits.empty()) {
    axial_until_ns_ = 0;
    if (std::exchange(axial_why_, waits) != waits)
      raise(Level::Warning, "lock_interrupted", axial_offer());
    return;
  }
  axial_why_.clear();
  if (axial_until_ns_ == 0) axial_until_ns_ = now_ns + kPatienceNs;
  const bool is_late = now_ns >= axial_until_ns_;
  try {
    const LockResumption resumption = axial_resumption();
    if (is_late) return offer_axial("the tracking loop does not take the order");
    if (const std::string why = axial_not_by_itself(); !why.empty()) return offer_axial(why);
    const auto taken = [this](const Outcome& outcome) {
      axial_tried_ = std::holds_alternative<Reply>(outcome);
    };
    z->lock(taken, now_ns, resumption);
  } catch (const CommandRefused& refused) {
    if (is_late) offer_axial(refused.text);
  }
}

/// Why only a command may have z go back; "" where it may by itself. It has not_by_itself()'s rule.
std::string LockRecovery::axial_not_by_itself() const {
  const auto age = age_s(axial()->time.value_or(saved_->time));
  if (!age) return "the clock does not tell how long ago that was";
  const double moved_nm = moved_z_nm();
  // Whether it is the same sample at all x and y have told, where they went back.
  const bool is_surely_it = !is_of_z_alone() || !needs_markers() || matched_ >= kFewestToTell;
  const double allowed_nm =
      config_.axial.max_jump_nm + (is_surely_it ? config_.axial.max_drift_nm_per_s * *age : 0);
  if (std::abs(moved_nm) <= allowed_nm) return {};
  return fmt::format(
      "the sample is {:+.0f} nm from {}, and axial.max_jump_nm and axial.max_drift_nm_per_s allow "
      "{:.0f} nm",
      moved_nm, axial_goal(), allowed_nm);
}

/// "where it was held", "the place `a`"
std::string LockRecovery::axial_goal() const {
  const std::string& place = axial()->place;
  return place.empty() ? "where it was held" : fmt::format("the place `{}`", place);
}

/// From now on z goes back by command alone. @param why  a part of a sentence
void LockRecovery::offer_axial(const std::string& why) {
  axial_goes_ = false;
  axial_why_ = why;
  raise(Level::Warning, "lock_interrupted", axial_offer());
}

std::string LockRecovery::axial_offer() const {
  if (!axial_) return {};
  const bool at_place = !axial_->place.empty();
  if (axial_goes_ && !axial_why_.empty())
    return fmt::format("z goes {} as soon as it is heard: {}",
                       at_place ? "to " + axial_goal() : "back", axial_why_);
  if (axial_goes_)
    return at_place ? fmt::format("z is locked at {} once it is measured there", axial_goal()) : "";
  const bool waits_at_start = config_.lock.at_start && config_.axial.hold;
  std::string is_not = at_place ? "z was to be locked at " + axial_goal() + ", and is not"
                       : axial_why_.empty() ? "z was held, too, and is not held again"
                                            : "z is not held again";
  return (axial_why_.empty() ? is_not : is_not + ": " + axial_why_) + ". " + axial_ways() +
         (waits_at_start ? ". Until that is decided lock.at_start waits with z" : "");
}

/// What to do about z that waits, in commands that are taken now.
std::string LockRecovery::axial_ways() const {
  constexpr const char* kOthers =
      "`driftctl lock --axes z` holds it where it is, `driftctl unlock --axes z` forgets the place";
  if (!sees_axial())
    return std::string(
               "Once it is measured from there, `driftctl lock --resume --axes z` may go "
               "back there, ") +
           kOthers;
  const bool may_go = axial_reading(config_) == axial()->reading && axial_limit_passed().empty();
  return (may_go ? "`driftctl lock --resume --axes z` goes back there, " : "") +
         std::string(kOthers);
}

/// Of z beside x and y that may be gone back to, what is not said by where_text().
std::string LockRecovery::axial_where() const {
  if (saved_->of_z_alone || !saved_->z) return {};
  const std::string at_place =
      saved_->z->place.empty() ? "" : "; z was to be locked at " + axial_goal();
  if (!sees_axial()) return at_place + "; z is not measured from there now";
  const std::string passed = axial_limit_passed();
  return at_place + (passed.empty() ? "" : "; z does not go back: " + passed);
}

/// Whether z is measured, from where it was held.
bool LockRecovery::sees_axial() const noexcept {
  return axial() && has_zero() && loop_.report().sees_drift(AxisGroup::Axial);
}

/// What is missing before the stage of z hears of a return, as waits_for() of x and y; "" where
/// nothing is.
std::string LockRecovery::axial_waits_for() const {
  if (axial()->driver_reported || config_.stage.require_driver) return z_stage_.problem();
  return is_heard_(AxisGroup::Axial) ? "" : "nobody listens to corrections of z yet";
}

LockResumption LockRecovery::axial_resumption() const {
  const std::optional<SavedAxial>& z = axial();
  if (!z)
    throw refusal(
        "no lock of z was interrupted whose references are known: a new one takes a new "
        "zero");
  const LoopReport& loop = loop_.report();
  if (!axial_ && saved_->of_z_alone) check_found();
  if (!axial_ && !saved_->of_z_alone)
    resumption();  // throws where x and y could not go back either
  if (axial_reading(config_) != z->reading)
    throw refusal("z is read by another curve or spot than when it was held");
  if (!loop.sees_drift(AxisGroup::Axial)) throw refusal("z is not measured now");
  if (!has_zero())
    throw refusal(z->spot ? "the reflected spot's zero of then is not in use yet"
                          : "too few markers have the reference of z now that they had when it was "
                            "held");
  if (const std::string why = axial_limit_passed(); !why.empty())
    throw refusal("the stage of z may not go back: " + why);
  return {.carried_nm = {z->carried_nm + z->total_nm, 0},
          .drift_nm = loop.z.drift.drift_nm,
          .largest_move_nm = config_.axial.max_jump_nm,
          .set_nm = {z->set_nm, 0}};
}

/// Why the limits do not allow the way back of z; "" where they do.
std::string LockRecovery::axial_limit_passed() const {
  const SavedAxial& z = *axial();
  const double way_nm = -config_.axial_stage.gain * moved_z_nm();
  const auto passed = limit_passed(config_.axial, z.carried_nm + z.total_nm + way_nm,
                                   z.travelled_nm + z.total_nm + way_nm);
  return passed ? "it would be " + in_words(*passed) : "";
}

/// Whether z counts from where it did when it was held.
bool LockRecovery::has_zero() const noexcept {
  const std::optional<SavedAxial>& z = axial();
  if (!z) return false;
  if (config_.axial.method != control::AxialMethod::Reflection)
    return same_zeros(loop_.markers(), saved_->markers) >= config_.drift.min_markers;
  const std::optional<control::SpotZero>& now = loop_.report().spot_zero;
  return z->spot && now && now->is_at(*z->spot);
}

/// Tells the loop where the reflected spot was when z was held, until z counts from there: x and y,
/// and the first frames, give it other zeros meanwhile.
void LockRecovery::tell_spot_zero(std::int64_t now_ns) {
  const LoopReport& loop = loop_.report();
  const std::optional<SavedAxial>& z = axial();
  if (!z || !z->spot || has_zero() || !loop.z.is_idle() || now_ns < next_zero_ns_) return;
  const bool settled = loop.holds() ? axial_.has_value()
                                    : phase_ == Phase::Found && loop_.has_taken(adopted_) &&
                                          loop.lock.state != control::LockState::Referencing;
  if (!settled || axial_reading(config_) != z->reading || !otherwise().empty()) return;
  next_zero_ns_ = now_ns + kZeroAgainNs;
  LoopCommand command{.kind = LoopCommand::Kind::SpotZero, .group = AxisGroup::Axial};
  command.spot_zero = *z->spot;
  (void)loop_.send(std::move(command));  // again soon, where the queue is full
}

/// As tell_travel(), of the stage of z.
void LockRecovery::tell_axial_travel() {
  if (!axial_travelled_nm_ || loop_.report().z.lock_id != 0) return;
  LoopCommand command{.kind = LoopCommand::Kind::Travelled, .group = AxisGroup::Axial};
  command.travelled_nm = {*axial_travelled_nm_, 0};
  if (loop_.send(std::move(command))) axial_travelled_nm_.reset();
}

}  // namespace driftd::daemon
