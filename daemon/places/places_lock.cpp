// SPDX-License-Identifier: MIT
// The lock at a saved place, from the command to the arrival. Housekeeping thread, as all of
// places.hpp.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include "base/counted.hpp"
#include "daemon/orders/engaged_lock.hpp"
#include "daemon/places/places.hpp"
#include "daemon/resume/return_limits.hpp"
#include "daemon/setup/compose.hpp"

namespace driftd::daemon {
namespace {

using control::LockState;
using nlohmann::json;

/// What has to be the same for a pixel of the place to be one of the image. The stage's matrix and
/// the listed markers may change: the place is in the image.
constexpr std::array kSameNeeded = {"camera", "image", "camera.pixel_format",
                                    "optics.pixel_size_nm"};

/// Ends the refusal of a place after its markers were found.
constexpr const char* kInUse = ". Its markers are in use now; `markers --find` looks for others";

double degrees(double rad) {
  return rad * 180 / std::numbers::pi;
}

}  // namespace

void Places::lock(const std::string& name, Answer answer, std::int64_t now_ns) {
  check_place_name(name);
  if (is_recording(config_))
    throw CommandRefused{Refusal::Refused, "a recording cannot be held still"};
  if (going_)
    throw CommandRefused{Refusal::Busy,
                         fmt::format("the place `{}` is being looked for", going_->name)};
  if (z_part_) throw CommandRefused{Refusal::Busy, "z is on its way to a place"};
  if (const auto lock = engaged_lock(parts_.loop.report())) {
    throw CommandRefused{Refusal::Refused,
                         fmt::format("{} is `{}`: a place is looked for while it is `idle` or "
                                     "`lost` (`{}` first)",
                                     lock->name, lock->state, lock->unlock)};
  }
  if (!parts_.camera.connected()) throw CameraWatch::away();
  order(
      {.kind = ShelfOrder::Kind::Read, .name = name},
      [this](const ShelfResult& result) -> Outcome {
        if (!going_ || going_->number != result.number) return Reply{};
        if (!result.problem.empty())
          end_going(CommandRefused{Refusal::Refused, result.problem});
        else
          look_for(*result.entries.front().place);
        return Reply{};
      },
      [this, number = numbers_ + 1](const Outcome& outcome) {
        const bool failed = std::holds_alternative<CommandRefused>(outcome);
        if (failed && going_ && going_->number == number) end_going(outcome);
      },
      now_ns);
  was_asked_ = true;
  axial_left_.clear();
  going_ = Going{.name = name,
                 .answer = std::move(answer),
                 .until_ns = now_ns + kMostSearchNs,
                 .number = numbers_};
}

/// Nothing where none is under way.
void Places::end_going(const Outcome& outcome) {
  if (!going_) return;
  const Answer answer = std::move(going_->answer);
  going_.reset();
  answer(outcome);
}

void Places::give_up_axial() {
  end_axial(CommandRefused{Refusal::Refused, "`unlock` or `reset` came before"});
  axial_left_.clear();
  if (going_) going_->leaves_z = true;
}

void Places::give_up() {
  give_up_axial();
  if (!going_) return;
  const CommandRefused ended{Refusal::Refused,
                             fmt::format("`unlock` or `reset` came while the place `{}` was looked "
                                         "for: it is not locked at",
                                         going_->name)};
  end_going(ended);
  parts_.markers.forget_place(ended);
}

void Places::look_for(const SavedPlace& saved) {
  going_->place = saved;
  SavedPlace& place = going_->place;
  if (place.seen.z && place.seen.z->reading != axial_reading(config_))  // another z
    for (SavedMarker& marker : place.seen.markers)
      marker.reference.z_nm = std::numeric_limits<double>::quiet_NaN();
  if (const std::string why = not_of_this_instrument(place); !why.empty()) {
    return end_going(
        CommandRefused{Refusal::Refused,
                       fmt::format("the place `{}` is not of this image: {}", going_->name, why)});
  }
  const auto refuses = [this](const control::ConstellationMatch& match) -> std::string {
    if (!going_) return "nobody asks for it any more";
    going_->match = match;
    const double nm = config_.optics.pixel_size_nm;
    return too_far({match.displacement_px.x * nm, match.displacement_px.y * nm});
  };
  const auto answer = [this](const Outcome& outcome) {
    if (!going_) return;
    const auto* why = std::get_if<CommandRefused>(&outcome);
    if (why == nullptr) return begin_lock();
    CommandRefused told = *why;
    if (told.code == Refusal::NotFound)
      told.text =
          fmt::format("the place `{}` was not found in the image: {}", going_->name, told.text);
    end_going(told);
  };
  try {
    parts_.markers.find_place({place.seen, refuses}, answer, now_ns_);
  } catch (const CommandRefused& busy) {
    end_going(busy);
  }
}

/// Which value is another one, as a sentence; "" where pixels mean the same.
std::string Places::not_of_this_instrument(const SavedPlace& place) const {
  const auto now = meaning_of(config_, parts_.camera.info());
  for (const char* name : kSameNeeded) {
    const auto before = place.seen.meaning.find(name);
    const std::string was = before == place.seen.meaning.end() ? "" : before->second;
    if (was != now.at(name))
      return fmt::format("{} was {:.100}, and is {:.100}", name, was, now.at(name));
  }
  return {};
}

/// Why the stage may not bring the sample back from there; "" where it may.
std::string Places::too_far(Vec2 moved_nm) const {
  const LoopReport& loop = parts_.loop.report();
  const Vec2 start_nm = {loop.travelled_nm.x + loop.total_nm.x,
                         loop.travelled_nm.y + loop.total_nm.y};
  // The range counts from where the stage is.
  const std::string why =
      beyond_limits(config_, {.moved_nm = moved_nm, .from_lock_nm = {}, .from_start_nm = start_nm});
  if (why.empty()) return {};
  return fmt::format("{}. The stage may not go there: {}", how_far(*going_, moved_nm), why);
}

std::string Places::how_far(const Going& going, Vec2 moved_nm) const {
  const double turn = degrees(going.match.turn_rad);
  return fmt::format("the sample is {} from the place `{}`{}; {} of {} {} there",
                     distance_text(moved_nm), going.name,
                     turn == 0 ? "" : fmt::format(" and turned by {:.2f} degrees", turn),
                     going.match.matched, counted(tracking_count(going.place.seen), "marker"),
                     going.match.matched == 1 ? "is" : "are");
}

/// The place's markers are in use and measured.
void Places::begin_lock() {
  const LoopReport& loop = parts_.loop.report();
  if (!loop.sees_drift()) {
    return end_going(CommandRefused{
        Refusal::Refused,
        fmt::format("the markers of the place `{}` were found, and are not measured: too few of "
                    "them agree{}",
                    going_->name, kInUse)});
  }
  const Vec2 moved_nm = loop.drift.drift_nm;
  const double nm = config_.optics.pixel_size_nm;
  const Vec2 found_nm = {going_->match.displacement_px.x * nm,
                         going_->match.displacement_px.y * nm};
  const double near_nm = nm + config_.lock.max_jump_nm;
  std::string why = too_far(moved_nm);
  if (std::max(std::abs(moved_nm.x - found_nm.x), std::abs(moved_nm.y - found_nm.y)) > near_nm)
    why = fmt::format("the place `{}` was found {} away, and its markers are measured {} away",
                      going_->name, distance_text(found_nm), distance_text(moved_nm));
  if (!why.empty()) return end_going(CommandRefused{Refusal::Refused, why + kInUse});
  const Going going = *std::exchange(going_, std::nullopt);
  try {
    parts_.lock.lock(
        [this, going, moved_nm](const Outcome& outcome) { begun(going, moved_nm, outcome); },
        now_ns_,
        LockResumption{
            .carried_nm = {}, .drift_nm = moved_nm, .largest_move_nm = config_.lock.max_jump_nm},
        going.leaves_z);
  } catch (const CommandRefused& refused) {
    going.answer(refused);
  }
}

/// The loop has taken the order.
void Places::begun(const Going& going, Vec2 moved_nm, const Outcome& outcome) {
  const auto* reply = std::get_if<Reply>(&outcome);
  if (reply == nullptr) return going.answer(outcome);
  parts_.interrupted.give_way();
  way_ = Way{going.name, reply->fields.at("lock_id").get<std::uint64_t>()};
  const json fields = {{"moved_x_nm", moved_nm.x},
                       {"moved_y_nm", moved_nm.y},
                       {"turned_deg", degrees(going.match.turn_rad)},
                       {"found", going.match.matched},
                       {"markers", tracking_count(going.place.seen)}};
  tell("going", going.name, how_far(going, moved_nm) + ". The stage goes back", fields);
  Reply told = *reply;
  told.fields.update(fields);
  told.fields["place"] = going.name;
  if (parts_.z_lock == nullptr && !going.place.seen.z) return going.answer(told);
  if (!config_.axial.hold || going.leaves_z) {
    const char* const why = parts_.z_lock == nullptr ? "axial.method is `none`"
                            : going.leaves_z         ? "`unlock` or `reset` of z came before"
                                                     : "axial.hold is false";
    way_->without_z = going.place.seen.z.has_value();
    told.fields["z"] = {{"left", std::string("z stays as it is: ") + why}};
    return going.answer(told);
  }
  z_part_ = AxialPart{.name = going.name,
                      .place = going.place,
                      .answer = going.answer,
                      .told = told,
                      .answer_ns = now_ns_ + kAxialAnswerNs};
  if (const std::string why = no_axial(going.place); !why.empty())
    end_axial(CommandRefused{Refusal::Refused, why});
}

/// Once; a lock that ends before tells of itself.
void Places::tell_arrival() {
  if (!way_) return;
  const LoopReport& loop = parts_.loop.report();
  const LockState state = loop.lock.state;
  const bool over = state == LockState::Idle || state == LockState::Lost ||
                    state == LockState::Fault || loop.lock_id != way_->lock_id;
  const bool z_is_over = way_->z_lock_id == 0 || loop.z.lock_id != way_->z_lock_id ||
                         (!loop.z.holds() && loop.z.lock.state != LockState::Referencing);
  const bool is_there = loop.gate.in_lock && !z_part_ && (z_is_over || loop.z.gate.in_lock);
  if (!over && !is_there) return;
  const Way way = *std::exchange(way_, std::nullopt);
  if (over) return;
  const bool without_z = way.without_z || (way.z_lock_id != 0 && z_is_over);
  tell("reached", way.name,
       fmt::format("{} at the place `{}`{}", without_z ? "x and y are" : "the sample is", way.name,
                   without_z ? ", z is not locked there" : ""));
}

}  // namespace driftd::daemon
