// SPDX-License-Identifier: MIT
// The part of marker keeping that looks for markers of before: those of an interrupted lock, and
// those of a saved place. Housekeeping thread, as all of marker_keeper.hpp.
#include <spdlog/fmt/fmt.h>

#include "base/counted.hpp"
#include "control/search/turned_constellation.hpp"
#include "daemon/markers/marker_keeper.hpp"
#include "daemon/setup/compose.hpp"

namespace driftd::daemon {

/// The lock to go back to, while its markers are to be looked for.
const SavedLock* MarkerKeeper::before(bool anew) const {
  const SavedLock* lock = interrupted_ != nullptr ? interrupted_->wanted(anew) : nullptr;
  if (lock == nullptr) return nullptr;
  const std::string why = no_fitter_for(*lock);
  if (why.empty()) return lock;
  interrupted_->ignore(why);
  return nullptr;
}

/// Why there can be none that holds its markers; "" where there can.
std::string MarkerKeeper::no_fitter_for(const SavedLock& lock) const {
  const std::size_t held = fitter_.fitter->capacity(), markers = lock.markers.size();
  if (markers <= held || may_make_fitter()) return {};
  return fmt::format(
      "it has {}, and the resident kernel was made for {}; set fitter.cuda.mode to "
      "`graph`, or markers.max_count to {} at least, and start driftd again",
      counted(markers, "marker"), held, markers);
}

/// Its camera may be another one: to be known before anything else is looked for.
bool MarkerKeeper::awaits_camera() const {
  return interrupted_ != nullptr && interrupted_->asks() && camera_.info().width_px <= 0;
}

/// @param of_place  they may lie anywhere, turned and darker, and no others will do
SearchForBefore MarkerKeeper::search_for(const SavedLock& lock, camera::PixelFormat format,
                                         bool of_place) const {
  config::Config config = with_range(config_, camera_.info());
  config = config::with_sizes(config, lock.spot_sigma_px, lock.roi_px);
  if (lock.saturation_adu > 0) config.camera.saturation_adu = lock.saturation_adu;
  auto markers = std::make_unique<MarkersReport>();
  for (const SavedMarker& marker : lock.markers) {
    MarkersReport::Entry& entry = markers->entries.at(markers->count++);
    entry.marker.role = marker.role;
    entry.reference = marker.reference;
  }
  return {.markers = std::move(markers),
          .detection = detection_settings(config, format),
          .options = fit_options(config, format, fitter_.estimator),
          .constellation = of_place ? place_settings(config) : constellation_settings(config),
          .no_others = of_place || config_.markers.mode == config::MarkerMode::List,
          .of_place = of_place};
}

/// Which of both is the lock's: what is configured by now goes first.
control::SpotSize MarkerKeeper::size_of(const SavedLock& lock, const char* whose) const {
  const config::Config sized = config::with_sizes(config_, lock.spot_sigma_px, lock.roi_px);
  const double sigma_px = sized.optics.spot_sigma_px;
  const int roi_px = sized.fitter.roi_px;
  const bool sigma_set = config_.optics.spot_sigma_px > 0, roi_set = config_.fitter.roi_px > 0;
  std::string reason =
      fmt::format("sigma {:.2f} px and a ROI of {} px, as {} had them", sigma_px, roi_px, whose);
  if (sigma_set || roi_set)
    reason = fmt::format("sigma {:.2f} px, as {}; a ROI of {} px, as {}", sigma_px,
                         sigma_set ? "configured" : fmt::format("{} had it", whose), roi_px,
                         roi_set ? "configured" : fmt::format("{} had it", whose));
  return {.sigma_px = sigma_px, .roi_px = roi_px, .reason = reason};
}

/// Hands them to the loop with their references, and with ROIs where they were found.
/// @param whose  "the interrupted lock"
bool MarkerKeeper::adopt_saved(const SavedLock& lock, const MarkerSearchResult& result,
                               const char* whose) {
  std::vector<control::Marker> markers;
  std::vector<control::MarkerReference> references;
  for (const SavedMarker& marker : lock.markers) {
    control::MarkerReference reference = marker.reference;
    reference.place_px =
        control::turned(reference.place_px, result.match.turn_rad, result.match.centre_px);
    markers.push_back({marker.id, marker.role, reference.place_px.x, reference.place_px.y});
    references.push_back(reference);
  }
  MarkerSearchResult as_before;
  as_before.fitter = result.fitter;
  as_before.chosen = lock.chosen;
  const bool are_open = config_.optics.spot_sigma_px == 0 || config_.fitter.roi_px == 0;
  if (are_open && lock.spot_sigma_px > 0 && lock.roi_px > 0) as_before.size = size_of(lock, whose);
  as_before.clip.level_adu = static_cast<std::uint32_t>(lock.saturation_adu);
  return adopt(markers, as_before, references, result.match.displacement_px);
}

/// The markers of the lock to go back to are there.
void MarkerKeeper::finish_before(const MarkerSearchResult& result, std::int64_t now_ns) {
  if (engaged_meanwhile()) return;
  const SavedLock* lock = before(true);  // none: forgotten meanwhile
  const char* whose = lock != nullptr && lock->lost ? "the lost lock" : "the interrupted lock";
  if (lock == nullptr || !adopt_saved(*lock, result, whose)) {
    return end_find(CommandRefused{Refusal::Timeout, "the tracking loop does not take commands"});
  }
  interrupted_->found(adopted_, result.match.matched);
  tell_saved(result, whose);
  if (find_ && find_->stage == Find::Stage::Begun) {
    await_measurement(
        {{"rejected", nlohmann::json::array()}, {"spots_left_out", result.spots_left_out}}, now_ns);
  }
}

void MarkerKeeper::tell_saved(const MarkerSearchResult& result, const char* whose) {
  events_.raise(EventLog::Level::Info, "markers_found",
                fmt::format("{} of {}{}", counted(result.match.matched, "marker"), whose,
                            spots_left_out_text(result.spots_left_out)),
                {{"found", result.match.matched},
                 {"rejected", 0},
                 {"spots_left_out", result.spots_left_out}});
}

void MarkerKeeper::find_place(WantedPlace place, Answer answer, std::int64_t now_ns) {
  if (const std::string why = no_fitter_for(place.markers); !why.empty())
    throw CommandRefused{Refusal::Refused, "the place cannot be used: " + why};
  begin_find(std::move(answer), now_ns);
  find_->place = std::move(place);
}

void MarkerKeeper::forget_place(const CommandRefused& refused) {
  if (find_ && find_->place) end_find(refused);
}

/// Nothing changes where they are not there, or where that is refused.
void MarkerKeeper::finish_place(const MarkerSearchResult& result, std::int64_t now_ns) {
  if (!result.match.found) {
    return end_find(CommandRefused{
        Refusal::NotFound, result.match.reason + spots_left_out_text(result.spots_left_out)});
  }
  const WantedPlace& place = *find_->place;
  if (const std::string why = place.refuses(result.match); !why.empty())
    return end_find(CommandRefused{Refusal::Refused, why});
  if (engaged_meanwhile()) return;
  if (!adopt_saved(place.markers, result, "the place")) {
    return end_find(CommandRefused{Refusal::Timeout, "the tracking loop does not take commands"});
  }
  if (interrupted_ != nullptr && interrupted_->asks())
    interrupted_->put_aside("a place was looked for since, and its markers are followed now");
  tell_saved(result, "the place");
  await_measurement(nlohmann::json::object(), now_ns);
}

}  // namespace driftd::daemon
