// SPDX-License-Identifier: MIT
// The part of marker keeping that changes markers as somebody chose, and takes that back where they
// are listed. Housekeeping thread, as all of marker_keeper.hpp.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "base/counted.hpp"
#include "daemon/markers/marker_keeper.hpp"
#include "daemon/setup/compose.hpp"

namespace driftd::daemon {

void MarkerKeeper::choose(MarkerChoice choice, Answer answer, std::int64_t now_ns) {
  begin_find(std::move(answer), now_ns);
  try {
    // What is not measured yet is seen to when it is.
    if (!has_markers_ || are_measured()) check_choice(choice);
  } catch (const CommandRefused&) {
    find_.reset();
    throw;
  }
  find_->choice = std::move(choice);
  find_->of = adopted_;
}

bool MarkerKeeper::renew(bool gain_changed, Answer answer, std::int64_t now_ns) {
  if (gain_changed) saturation_adu_ = 0;
  const bool keeps = interrupted_ != nullptr && interrupted_->asks();
  if (!has_markers_ || keeps) return false;
  begin_find(std::move(answer), now_ns);
  find_->choice = MarkerChoice{};
  find_->renews = true;
  find_->of = adopted_;
  return true;
}

bool MarkerKeeper::are_listed(const config::Config& after) const {
  const std::vector<control::Marker> now = kept({});
  const std::vector<config::ListedMarker>& list = after.markers.list;
  if (after.markers.mode != config::MarkerMode::List || list.size() != now.size()) return false;
  const double near_px = 0.5 * fitter_.fitter->roi_px();  // as far as they may have drifted since
  return std::ranges::all_of(now, [&](const control::Marker& marker) {
    return std::ranges::any_of(list, [&](const config::ListedMarker& listed) {
      return listed.id == marker.id && listed.role == marker.role &&
             std::hypot(listed.x_px - marker.x_px, listed.y_px - marker.y_px) <= near_px;
    });
  });
}

/// Those in use that stay; all of them are measured, or there are none.
std::vector<control::Marker> MarkerKeeper::kept(const MarkerChoice& choice) const {
  static const MarkersReport none = {};
  return kept_markers(has_markers_ ? loop_.markers() : none, fitter_.fitter->roi_px(), choice);
}

/// What the loop may be given.
std::size_t MarkerKeeper::most_markers() const noexcept {
  const bool listed = config_.markers.mode == config::MarkerMode::List;
  const std::size_t most = listed ? control::kMaxMarkers : marker_capacity(config_);
  return may_make_fitter() ? most : std::min(most, fitter_.fitter->capacity());
}

/// @throws CommandRefused where others took the place of those that somebody saw: an id may be
/// another's now
void MarkerKeeper::check_same_markers() const {
  if (find_->of != adopted_)
    throw CommandRefused{
        Refusal::Refused,
        "other markers were taken into use meanwhile: see which, and choose again"};
}

/// @throws CommandRefused where nothing can come of it
void MarkerKeeper::check_choice(const MarkerChoice& choice) const {
  const std::size_t count = kept(choice).size() + choice.add.size();
  if (count == 0)
    throw CommandRefused{Refusal::Refused,
                         "no marker would be left: add one first, or let driftd choose "
                         "(`driftctl markers --find`)"};
  const std::size_t before = has_markers_ ? loop_.markers().count : 0;
  if (const std::size_t most = most_markers(); count > most && count > before)
    throw CommandRefused{
        Refusal::Refused,
        fmt::format("that were {}, and at most {} are followed{}: take one out first",
                    counted(count, "marker"), most,
                    most == static_cast<std::size_t>(config_.markers.max_count)
                        ? " (markers.max_count)"
                        : "")};
  for (const PointedPlace& place : choice.add) {
    if (const std::string why = outside(place.place_px); !why.empty())
      throw CommandRefused{Refusal::Refused, why};
  }
}

/// Why there is no picture at that place; "" where there is one, or no camera is known.
std::string MarkerKeeper::outside(control::Vec2 place_px) const {
  const camera::SourceInfo& camera = camera_.info();
  if (camera.width_px <= 0) return {};
  const double x = place_px.x - camera.offset_x_px, y = place_px.y - camera.offset_y_px;
  const bool inside = x >= 0 && y >= 0 && x <= camera.width_px - 1 && y <= camera.height_px - 1;
  if (inside) return {};
  return fmt::format("{} is not in the picture, which has x {} to {} and y {} to {}",
                     place_text(place_px), camera.offset_x_px,
                     camera.offset_x_px + camera.width_px - 1, camera.offset_y_px,
                     camera.offset_y_px + camera.height_px - 1);
}

/// What was asked for and needs no picture, or has to wait for one of the markers in use.
/// @returns false where a frame is to be asked for
bool MarkerKeeper::go_on_without_frame(std::int64_t now_ns) {
  if (find_->place) return false;
  if (!find_->choice) {
    if (config_.markers.mode != config::MarkerMode::List) return false;
    if (loop_.has_taken_all()) relist(now_ns);
    return true;
  }
  if (has_markers_ && !are_measured() && find_->of == adopted_) return true;
  try {
    check_same_markers();
    check_choice(*find_->choice);
    if (!find_->choice->add.empty() || find_->renews) return false;
    // What was ordered meanwhile, a lock above all, decides.
    if (loop_.has_taken_all()) finish_choice({}, now_ns);
  } catch (const CommandRefused& refused) {
    end_find(refused);
  }
  return true;
}

/// Those of markers.list, in place of what somebody chose.
void MarkerKeeper::relist(std::int64_t now_ns) {
  if (engaged_meanwhile()) return;
  if (!adopt(listed_markers(config_)))
    return end_find(CommandRefused{Refusal::Timeout, "the tracking loop does not take commands"});
  await_measurement({{"rejected", nlohmann::json::array()}, {"spots_left_out", 0}}, now_ns);
}

void MarkerKeeper::finish_choice(const MarkerSearchResult& result, std::int64_t now_ns) {
  const MarkerChoice& choice = *find_->choice;
  if (!result.no_spot.empty()) return end_find(CommandRefused{Refusal::NotFound, result.no_spot});
  if (engaged_meanwhile()) return;
  if (has_markers_ && !are_measured() && find_->of == adopted_)
    return end_find(
        CommandRefused{Refusal::NoFrame, "no frame has shown the markers in use yet: ask again"});
  std::vector<control::Marker> markers;
  MarkerSearchResult as_chosen;
  as_chosen.fitter = result.fitter;
  as_chosen.size = result.size ? result.size : size_;
  as_chosen.clip = result.clip;
  as_chosen.chosen = chosen_ || !find_->renews;
  const int roi_px = (result.fitter ? *result.fitter : fitter_).fitter->roi_px();
  try {
    check_same_markers();
    check_choice(choice);
    markers = kept(choice);
    add_spots(markers, has_markers_ ? loop_.markers() : MarkersReport{}, roi_px, choice,
              result.pointed_px);
  } catch (const CommandRefused& refused) {
    return end_find(refused);
  }
  if (!adopt(markers, as_chosen))
    return end_find(CommandRefused{Refusal::Timeout, "the tracking loop does not take commands"});
  if (interrupted_ != nullptr && interrupted_->asks() && !find_->renews)
    interrupted_->put_aside("markers were chosen since, and those are followed now");
  if (find_->renews) return await_measurement(nlohmann::json::object(), now_ns);
  nlohmann::json added = nlohmann::json::array();
  for (std::size_t i = markers.size() - result.pointed_px.size(); i < markers.size(); ++i)
    added.push_back(markers[i].id);
  const std::size_t witnesses = markers.size() - static_cast<std::size_t>(tracking_);
  events_.raise(EventLog::Level::Info, "markers_chosen",
                fmt::format("by command: {}, {} of them {}", counted(markers.size(), "marker"),
                            witnesses, witnesses == 1 ? "a witness" : "witnesses"),
                {{"markers", markers.size()},
                 {"witnesses", witnesses},
                 {"added", added},
                 {"removed", choice.remove}});
  await_measurement({{"added", added}, {"too_few", too_few()}}, now_ns);
}

}  // namespace driftd::daemon
