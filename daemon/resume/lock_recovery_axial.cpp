// SPDX-License-Identifier: MIT
// The part of lock recovery that is of z: beside x and y, after which it goes back, or alone.
// Housekeeping thread, as all of lock_recovery.hpp.
#include <spdlog/fmt/fmt.h>

#include <cmath>
#include <limits>

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
  saved_->z.reset();
  for (SavedMarker& marker : saved_->markers)
    marker.reference.z_nm = std::numeric_limits<double>::quiet_NaN();
}

void LockRecovery::forget_axial() {
  axial_.reset();
  if (!saved_ || !saved_->z) return;
  if (is_of_z_alone()) {
    phase_ = Phase::None;
    memory_.forget();
    return;
  }
  saved_->z.reset();
  if (phase_ != Phase::None) memory_.keep(*saved_);  // nor may a later daemon find it
}

void LockRecovery::end_axial() {
  forget_axial();
  memory_.end_axial();
}

/// z may be held on where x and y were lost.
void LockRecovery::follow_axial() noexcept {
  const LockReport& z = loop_.report().z;
  if (!saved_->z || !z.holds() || z.lock_id != saved_->z->lock_id) return;
  saved_->z->total_nm = z.total_nm.x;
  saved_->z->set_nm = z.move.set_nm.x;
}

/// Once x and y went back by themselves, z does, too, within a while in which it has to be
/// measured. Where a command had them go back, z waits for its own.
void LockRecovery::resume_axial(LockOrders* z, std::int64_t now_ns) {
  constexpr std::int64_t kPatienceNs = 5'000'000'000;
  if (!axial_) return;
  if (!loop_.report().holds()) return axial_.reset();
  if (z == nullptr || !z->lock_now().is_idle()) return axial_.reset();  // somebody ordered it
  if (!axial_goes_ || z->pending()) return;
  if (axial_until_ns_ == 0) axial_until_ns_ = now_ns + kPatienceNs;
  const bool is_late = now_ns >= axial_until_ns_;
  try {
    const LockResumption resumption = axial_resumption();
    if (is_late) return offer_axial("the tracking loop does not take the order");
    if (const std::string why = axial_not_by_itself(); !why.empty()) return offer_axial(why);
    z->lock([](const Outcome&) {}, now_ns, resumption);
  } catch (const CommandRefused& refused) {
    if (is_late) offer_axial(refused.text);
  }
}

/// Why only a command may have z go back; "" where it may by itself. It has not_by_itself()'s rule.
std::string LockRecovery::axial_not_by_itself() const {
  const auto age = age_s();
  if (!age) return "the clock does not tell how long ago that was";
  const double moved_nm = moved_z_nm();
  // Whether it is the same sample at all x and y have told, where they went back.
  const bool is_surely_it = !is_of_z_alone() || !needs_markers() || matched_ >= kFewestToTell;
  const double allowed_nm =
      config_.axial.max_jump_nm + (is_surely_it ? config_.axial.max_drift_nm_per_s * *age : 0);
  if (std::abs(moved_nm) <= allowed_nm) return {};
  return fmt::format(
      "the sample is {:+.0f} nm from where it was held, and axial.max_jump_nm and "
      "axial.max_drift_nm_per_s allow {:.0f} nm",
      moved_nm, allowed_nm);
}

/// From now on z goes back by command alone. @param why  a part of a sentence
void LockRecovery::offer_axial(const std::string& why) {
  axial_goes_ = false;
  const bool waits_at_start = config_.lock.at_start && config_.axial.hold;
  events_.raise(Level::Warning, "lock_interrupted",
                "z is not held again: " + why +
                    ". `driftctl lock --resume --axes z` goes back there, `driftctl lock --axes z` "
                    "holds it where it is, `driftctl unlock --axes z` forgets the place" +
                    (waits_at_start ? ". Until that is decided lock.at_start waits with z" : ""),
                nlohmann::json::object());
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
