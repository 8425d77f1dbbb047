// SPDX-License-Identifier: MIT
#include "daemon/places/places.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/counted.hpp"
#include "base/state_directory.hpp"
#include "control/lock/acquisition_gate.hpp"
#include "control/search/turned_constellation.hpp"
#include "daemon/resume/return_limits.hpp"
#include "daemon/setup/compose.hpp"

namespace driftd::daemon {
namespace {

using control::LockState;
using Level = EventLog::Level;
using nlohmann::json;

constexpr const char* kEvent = "place";
// An older frame does not tell where the sample is now.
control::MarkerReference as_measured(const control::MarkerObservation& o, double pixel_nm) {
  const double sd_nm = 0.5 * (o.x_sd_px + o.y_sd_px) * pixel_nm;
  return {.place_px = {o.x_px, o.y_px},
          .sigma_px = o.sigma_px,
          .amplitude_adu = o.amplitude_adu,
          .variance_nm2 = sd_nm * sd_nm,
          .trusted = true};
}

Outcome refused(const ShelfResult& result) {
  return CommandRefused{Refusal::Refused, result.problem};
}

}  // namespace

void check_place_name(const std::string& name) {
  if (is_place_name(name)) return;
  throw CommandRefused{
      Refusal::BadRequest,
      fmt::format("`{:.40}` is no name of a place: 1 to {} of letters, digits, `-` and `_`", name,
                  kLongestPlaceName)};
}

int tracking_count(const SavedLock& seen) {
  int count = 0;
  for (const SavedMarker& marker : seen.markers)
    if (marker.role == control::MarkerRole::Tracking) ++count;
  return count;
}

std::filesystem::path places_folder() {
  const std::filesystem::path folder = state_directory();
  return folder.empty() ? folder : folder / "places";
}

void Places::save(const std::string& name, const std::string& note, bool replace, Answer answer,
                  std::int64_t now_ns) {
  check_place_name(name);
  if (!is_place_note(note)) {
    throw CommandRefused{Refusal::BadRequest,
                         fmt::format("`note` is one line of at most {} bytes", kLongestPlaceNote)};
  }
  SavedPlace place = place_now(note, now_ns);
  const json told = summary_of(place);
  order(
      {.kind = ShelfOrder::Kind::Save, .name = name, .place = std::move(place), .replace = replace},
      [this, name, told](const ShelfResult& result) -> Outcome {
        if (!result.problem.empty())
          return CommandRefused{Refusal::Refused, "the place is not saved: " + result.problem};
        tell("saved", name,
             fmt::format("the place `{}` is saved: {}", name,
                         counted(told["markers"].get<std::size_t>(), "marker")));
        json saved = told;
        saved["name"] = name;
        return Reply{.fields = {{"place", saved}}};
      },
      std::move(answer), now_ns);
}

/// @throws CommandRefused where it is not known
SavedPlace Places::place_now(const std::string& note, std::int64_t now_ns) const {
  const LoopReport& loop = parts_.loop.report();
  const LockState state = loop.lock.state;
  if (state != LockState::Idle && state != LockState::Locked) {
    throw CommandRefused{Refusal::Refused,
                         fmt::format("the lock is `{}`: a place is saved while it is `locked`, or "
                                     "`idle` with markers",
                                     control::name_of(state))};
  }
  if (!parts_.camera.connected()) throw CameraWatch::away();
  if (!loop.is_current(loop.tracked_ns, now_ns))
    throw CommandRefused{Refusal::NoFrame, "no frame came for a while"};
  if (!loop.drift.valid) {
    throw CommandRefused{Refusal::Refused,
                         "too few markers are measured: nobody knows where the sample is"};
  }
  const bool locked = state == LockState::Locked;
  if (locked && loop.move.moving) {
    throw CommandRefused{Refusal::Refused,
                         "the sample is on its way to another place: wait until it is there"};
  }
  const Vec2 set_nm = locked ? loop.move.set_nm : Vec2{};
  const Vec2 off{loop.drift.drift_nm.x - set_nm.x, loop.drift.drift_nm.y - set_nm.y};
  const double sd_nm =
      std::sqrt(std::max(loop.drift.covariance_nm2.xx, loop.drift.covariance_nm2.yy));
  const double near_nm =
      control::AcquisitionGate::kMovedTolerances * config_.gate.tolerance_nm + kSurely * sd_nm;
  if (locked && std::max(std::abs(off.x), std::abs(off.y)) > near_nm) {
    throw CommandRefused{
        Refusal::Refused,
        fmt::format("the sample is {} from where the lock holds it, and a place is saved within "
                    "{:.1f} nm: wait until it is there",
                    distance_text(off), near_nm)};
  }
  SavedPlace place{.note = note, .seen = parts_.memory.saved()};
  keep_axial(place.seen, now_ns);
  const MarkersReport& markers = parts_.loop.markers();
  std::vector<SavedMarker> kept;
  for (std::size_t i = 0; i < place.seen.markers.size(); ++i) {
    SavedMarker& marker = place.seen.markers[i];
    const MarkersReport::Entry& entry = markers.entries.at(i);
    const bool good = entry.result.health == control::MarkerHealth::Good;
    if (!locked && good) {
      const control::MarkerReference before = marker.reference;
      marker.reference = as_measured(entry.observation, config_.optics.pixel_size_nm);
      marker.reference.z_nm = before.z_nm;
      marker.reference.z_variance_nm2 = before.z_variance_nm2;
    }
    if (!(locked ? marker.reference.trusted : good)) continue;
    // The references are of set-point 0, and it is held elsewhere.
    const double pixel_nm = config_.optics.pixel_size_nm;
    marker.reference.place_px.x += set_nm.x / pixel_nm;
    marker.reference.place_px.y += set_nm.y / pixel_nm;
    kept.push_back(marker);
  }
  place.seen.markers = std::move(kept);
  const int needed = std::max(control::kFewestTurnedMarkers, config_.drift.min_markers);
  if (const int count = tracking_count(place.seen); count < needed) {
    throw CommandRefused{
        Refusal::Refused,
        fmt::format("{} good enough for a place, and {} are needed to find it again",
                    counted(count, "marker is", "markers are"), needed)};
  }
  return place;
}

void Places::remove(const std::string& name, Answer answer, std::int64_t now_ns) {
  check_place_name(name);
  order(
      {.kind = ShelfOrder::Kind::Remove, .name = name},
      [this, name](const ShelfResult& result) -> Outcome {
        if (!result.problem.empty()) return refused(result);
        tell("removed", name, fmt::format("the place `{}` is removed", name));
        return Reply{.fields = {{"removed", name}}};
      },
      std::move(answer), now_ns);
}

void Places::show(const std::string& name, Answer answer, std::int64_t now_ns) {
  check_place_name(name);
  order(
      {.kind = ShelfOrder::Kind::Read, .name = name},
      [name](const ShelfResult& result) -> Outcome {
        if (!result.problem.empty()) return refused(result);
        json shown = details_of(*result.entries.front().place);
        shown["name"] = name;
        return Reply{.fields = {{"place", shown}}};
      },
      std::move(answer), now_ns);
}

void Places::list(Answer answer, std::int64_t now_ns) {
  order(
      {.kind = ShelfOrder::Kind::List},
      [this](const ShelfResult& result) -> Outcome {
        if (!result.problem.empty()) return refused(result);
        json places = json::array();
        for (const ShelfEntry& entry : result.entries) {
          json one = entry.place ? summary_of(*entry.place) : json::object();
          one["name"] = entry.name;
          one["problem"] = entry.place ? not_of_this_instrument(*entry.place)
                                       : entry.problem.substr(0, kLongestPlaceNote);
          places.push_back(std::move(one));
        }
        return Reply{.fields = {{"places", places}}};
      },
      std::move(answer), now_ns);
}

void Places::order(ShelfOrder order, std::function<Outcome(const ShelfResult&)> outcome,
                   Answer answer, std::int64_t now_ns) {
  order.number = ++numbers_;
  if (!shelf_.order(std::move(order))) {
    throw CommandRefused{Refusal::Busy, fmt::format("{} orders for places wait for the disk",
                                                    PlaceShelf::kMostWaiting)};
  }
  waiting_.push_back({numbers_, now_ns + kPatienceNs, std::move(outcome), std::move(answer)});
}

void Places::turn(std::int64_t now_ns) {
  now_ns_ = now_ns;
  while (const auto result = shelf_.take()) {
    const auto waits = std::ranges::find(waiting_, result->number, &Waiting::number);
    if (waits == waiting_.end()) continue;  // answered when the disk was late
    const Waiting one = std::move(*waits);
    waiting_.erase(waits);
    one.answer(one.outcome(*result));
  }
  if (!waiting_.empty() && now_ns > waiting_.front().until_ns) {
    const Waiting late = std::move(waiting_.front());
    waiting_.erase(waiting_.begin());
    late.answer(CommandRefused{
        Refusal::Timeout,
        fmt::format("the disk of {} has not answered in time; the order stands, but for a lock",
                    shelf_.folder().string())});
  }
  if (going_ && now_ns > going_->until_ns) {
    const CommandRefused late{Refusal::Timeout, "the place was not found in time"};
    end_going(late);
    parts_.markers.forget_place(late);
  }
  lock_axial(now_ns);
  keep_for_next_daemon();
  tell_arrival();
}

void Places::refuse_pending(const CommandRefused& refused) {
  end_going(refused);
  end_axial(refused);
  for (const Waiting& one : std::exchange(waiting_, {})) one.answer(refused);
}

void Places::tell(const char* action, const std::string& name, const std::string& text,
                  json fields) const {
  fields["action"] = action;
  fields["place"] = name;
  events_.raise(Level::Info, kEvent, text, fields);
}

}  // namespace driftd::daemon
