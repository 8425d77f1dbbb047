// SPDX-License-Identifier: MIT
// z of a place: what is kept of it, and its lock after that of x and y. Housekeeping thread, as all
// of places.hpp.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "control/lock/acquisition_gate.hpp"
#include "daemon/orders/stage_limits.hpp"
#include "daemon/places/places.hpp"

namespace driftd::daemon {
namespace {

using control::AxialMethod;
using nlohmann::json;

constexpr std::int64_t kSpotAgainNs = 50'000'000;
constexpr const char* kWhereItIs = "`driftctl lock --axes z` holds it where it is";

}  // namespace

/// Makes of the references of z those of where z is now: where its lock holds it or, while there is
/// none, where it is measured. Keeps none where that is not known.
/// @throws CommandRefused where its lock has not brought it there yet
void Places::keep_axial(SavedLock& seen, std::int64_t now_ns) const {
  const LoopReport& loop = parts_.loop.report();
  const LockReport& z = loop.z;
  const bool held = z.lock.state == control::LockState::Locked;
  const double off_nm = z.drift.drift_nm.x - z.move.set_nm.x;
  const double near_nm = control::AcquisitionGate::kMovedTolerances * config_.gate.z_tolerance_nm +
                         kSurely * std::sqrt(std::max(0.0, z.drift.covariance_nm2.xx));
  if (held && (z.move.moving || (z.drift.valid && std::abs(off_nm) > near_nm)))
    throw CommandRefused{
        Refusal::Refused,
        fmt::format("z is {:+.1f} nm from where its lock holds it, and a place is saved within "
                    "{:.1f} nm: wait until it is there",
                    off_nm, near_nm)};
  const bool is_known = (held || z.is_idle()) && z.drift.valid &&
                        loop.is_current(loop.tracked_ns, now_ns) && !axial_reading(config_).empty();
  const double place_nm = held ? z.move.set_nm.x : z.drift.drift_nm.x;
  seen.of_z_alone = false;
  seen.z.reset();
  int known = 0;
  for (SavedMarker& marker : seen.markers) {
    double& z_nm = marker.reference.z_nm;
    z_nm = is_known ? z_nm + place_nm : std::numeric_limits<double>::quiet_NaN();
    if (marker.role == control::MarkerRole::Tracking && std::isfinite(z_nm)) ++known;
  }
  const bool by_spot = config_.axial.method == AxialMethod::Reflection;
  if (!is_known || (by_spot ? !loop.spot_zero : known < config_.drift.min_markers)) return;
  seen.z = SavedAxial{.reading = axial_reading(config_)};
  if (!by_spot) return;
  seen.z->spot = loop.spot_zero;
  seen.z->spot->along_px += place_nm / config_.reflection.nm_per_px;
}

/// Why z is not to be locked at the place; "" where it is.
std::string Places::no_axial(const SavedPlace& place) const {
  if (!place.seen.z) return fmt::format("the place was saved without z; {}", kWhereItIs);
  if (place.seen.z->reading != axial_reading(config_))
    return fmt::format("z is read by another curve or spot than at the place; {}", kWhereItIs);
  return {};
}

/// Whether z counts from the place.
bool Places::has_zero(const SavedPlace& place) const {
  if (config_.axial.method != AxialMethod::Reflection)
    return same_zeros(parts_.loop.markers(), place.seen.markers) >= config_.drift.min_markers;
  const auto& now = parts_.loop.report().spot_zero;
  return place.seen.z->spot && now && now->is_at(*place.seen.z->spot);
}

/// Orders the lock of z, once it is measured from the place and x and y are held there.
void Places::lock_axial(std::int64_t now_ns) {
  if (!parts_.loop.report().z.is_idle()) axial_left_.clear();
  if (!z_part_ || z_part_->ordered) return;
  const LoopReport& loop = parts_.loop.report();
  const auto refuse = [this](const std::string& why) {
    end_axial(CommandRefused{Refusal::Refused, why});
  };
  if (!config_.axial.hold) return refuse("axial.hold is false");
  if (now_ns >= z_part_->answer_ns) answer_axial({{"waits", axial_waits()}});
  if (!loop.holds()) {
    if (loop.lock.state != control::LockState::Referencing) refuse("x and y are not held there");
    return;
  }
  if (z_part_->until_ns == 0) z_part_->until_ns = now_ns + kAxialPatienceNs;
  const SavedPlace& place = z_part_->place;
  if (!has_zero(place) || !loop.sees_drift(AxisGroup::Axial)) {
    if (now_ns >= z_part_->until_ns)
      return refuse("z is not measured from the place: `driftctl status` says why");
    if (!place.seen.z->spot || has_zero(place) || now_ns < z_part_->next_zero_ns) return;
    z_part_->next_zero_ns = now_ns + kSpotAgainNs;
    LoopCommand command{.kind = LoopCommand::Kind::SpotZero, .group = AxisGroup::Axial};
    command.spot_zero = *place.seen.z->spot;
    (void)parts_.loop.send(std::move(command));  // again soon, where the queue is full
    return;
  }
  const double moved_nm = loop.z.drift.drift_nm.x;
  const double way_nm = -config_.axial_stage.gain * moved_nm;
  // The range counts from where the stage is.
  if (const auto passed =
          limit_passed(config_.axial, way_nm, loop.z.travelled_nm.x + loop.z.total_nm.x + way_nm))
    return refuse(
        fmt::format("z is {:+.1f} nm from the place, and its stage may not go there: it "
                    "would be {}; focus nearer to the place, or allow more ({}); {}",
                    moved_nm, in_words(*passed), passed->key, kWhereItIs));
  z_part_->ordered = true;
  z_part_->moved_nm = moved_nm;
  try {
    parts_.z_lock->lock([this](const Outcome& outcome) { end_axial(outcome); }, now_ns,
                        LockResumption{.carried_nm = {},
                                       .drift_nm = loop.z.drift.drift_nm,
                                       .largest_move_nm = config_.axial.max_jump_nm});
  } catch (const CommandRefused& refused) {
    end_axial(refused);
  }
}

/// z that is still to be locked at the place outlives the daemon with x and y. Its range counts
/// from where the stage is.
void Places::keep_for_next_daemon() {
  const LockReport& z = parts_.loop.report().z;
  if (z_part_) {
    z_to_keep_ = z_part_->place.seen.z;
    z_to_keep_->total_nm = z.total_nm.x;
    z_to_keep_->carried_nm = -z.total_nm.x;
    z_to_keep_->travelled_nm = z.travelled_nm.x;
    z_to_keep_->place = z_part_->name;
  } else if (z.lock.state != control::LockState::Referencing) {
    z_to_keep_.reset();
  }
  parts_.interrupted.set_axial_at_place(z_to_keep_);
}

std::string Places::axial_waits() const {
  if (!z_part_) return {};
  return fmt::format("z is locked once x and y hold at the place `{}`, and z is measured there",
                     z_part_->name);
}

/// Answers for both, once.
void Places::answer_axial(const json& of_z) {
  if (!z_part_->answer) return;
  Reply told = z_part_->told;
  told.fields["z"] = of_z;
  std::exchange(z_part_->answer, nullptr)(told);
}

/// Tells what came of the lock of z, where it was still to be ordered or answered.
void Places::end_axial(const Outcome& outcome) {
  if (!z_part_) return;
  const std::string name = z_part_->name;
  if (const auto* refused = std::get_if<CommandRefused>(&outcome)) {
    answer_axial({{"refused", refused->text}});
    axial_left_ = fmt::format("z is not locked at the place `{}`: {}", name, refused->text);
    if (way_) way_->without_z = true;
    tell("z_refused", name, axial_left_);
  } else {
    json of_z = std::get<Reply>(outcome).fields;
    if (way_) way_->z_lock_id = of_z.at("lock_id").get<std::uint64_t>();
    of_z["moved_z_nm"] = z_part_->moved_nm;
    answer_axial(of_z);
    tell("z_going", name,
         fmt::format("z is {:+.1f} nm from the place `{}`. Its stage goes back", z_part_->moved_nm,
                     name),
         {{"moved_z_nm", z_part_->moved_nm}});
  }
  z_part_.reset();
}

}  // namespace driftd::daemon
