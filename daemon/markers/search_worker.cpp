// SPDX-License-Identifier: MIT
#include "daemon/markers/search_worker.hpp"

#include <algorithm>
#include <exception>

#include "base/process/realtime.hpp"

namespace driftd::daemon {
namespace {

bool wants_another_fitter(const MarkerSearch& search, const control::DetectionSettings& detection,
                          std::size_t markers) {
  const bool another = detection.roi_px != search.fitter_roi_px ||
                       detection.saturation_adu != search.fitter_saturation_adu ||
                       markers > search.fitter_capacity;
  return another && search.make_fitter;
}

/// What the image itself tells: its saturation, and the size of its spots.
/// @returns false where that was to be chosen and cannot be
bool learn_of_image(const MarkerSearch& search, control::SearchBounds& bounds,
                    control::DetectionSettings& detection, fitter::FitOptions& options,
                    MarkerSearchResult& result) {
  const FrameImage& image = *search.image;
  const control::ClipLevel clip = control::clip_level(image.pixels);
  const bool clipped = clip.level_adu > 0 && clip.level_adu < detection.saturation_adu;
  if (search.finds_saturation && clipped) {
    result.clip = clip;
    detection.saturation_adu = clip.level_adu;
    options.saturation_adu = static_cast<float>(clip.level_adu);
  }
  if (!search.chooses_size) return true;
  result.size = control::choose_spot_size(image.pixels, image.frame.width_px, image.frame.height_px,
                                          detection, bounds.stop);
  if (!result.size->chosen()) return false;
  detection = control::settings_for(*result.size, detection);
  return true;
}

/// Spots where somebody pointed at.
void find_pointed(const MarkerSearch& search, control::SearchBounds& bounds,
                  MarkerSearchResult& result) {
  const FrameImage& image = *search.image;
  control::DetectionSettings detection = search.detection;
  fitter::FitOptions options = search.options;
  if (!learn_of_image(search, bounds, detection, options, result)) {
    result.no_spot = result.size->reason;
    return;
  }
  for (const PointedPlace& place : *search.pointed) {
    const SpotAt spot = find_spot_at(place.place_px, image.frame, image.pixels, detection, options);
    if (!spot.problem.empty()) {
      result.no_spot = spot.problem;
      return;
    }
    result.pointed_px.push_back(spot.place_px);
  }
  const std::size_t count = search.beside + result.pointed_px.size();
  if (wants_another_fitter(search, detection, count))
    result.fitter = search.make_fitter(detection, count);
}

/// Any markers, once saturation and the size of the spots are known.
void find_new(const MarkerSearch& search, control::SearchBounds& bounds,
              MarkerSearchResult& result) {
  const FrameImage& image = *search.image;
  control::DetectionSettings detection = search.detection;
  fitter::FitOptions options = search.options;
  if (!learn_of_image(search, bounds, detection, options, result)) return;
  result.found = find_markers(image.frame, image.pixels, detection, options, &bounds);
  const auto tracking = std::count_if(
      result.found.markers.begin(), result.found.markers.end(),
      [](const control::Marker& m) { return m.role == control::MarkerRole::Tracking; });
  const std::size_t count = result.found.markers.size();
  if (tracking >= search.min_markers && wants_another_fitter(search, detection, count) &&
      !bounds.stop.stop_requested())
    result.fitter = search.make_fitter(detection, count);
}

/// @returns false where they are not there
bool find_those_of_before(const MarkerSearch& search, control::SearchBounds& bounds,
                          MarkerSearchResult& result) {
  const FrameImage& image = *search.image;
  const SearchForBefore& before = *search.before;
  const control::DetectionSettings& detection = before.detection;
  result.before = true;
  result.of_place = before.of_place;
  result.match = find_markers_again(*before.markers, image.frame, image.pixels, detection,
                                    before.options, before.constellation, &bounds);
  if (!result.match.found) return false;
  const std::size_t count = before.markers->count;
  if (wants_another_fitter(search, detection, count))
    result.fitter = search.make_fitter(detection, count);
  return true;
}

MarkerSearchResult carry_out(const MarkerSearch& search, const std::stop_token& stop) {
  MarkerSearchResult result;
  result.again = search.known != nullptr;
  try {
    control::SearchBounds bounds{.stop = stop};
    const FrameImage& image = *search.image;
    if (result.again) {
      result.match = find_markers_again(*search.known, image.frame, image.pixels, search.detection,
                                        search.options, search.constellation, &bounds);
    } else if (search.pointed) {
      find_pointed(search, bounds, result);
    } else if (!search.before || !find_those_of_before(search, bounds, result)) {
      if (!search.before || !search.before->no_others) find_new(search, bounds, result);
    }
    result.spots_left_out = bounds.spots_left_out;
  } catch (const std::exception& error) {  // no memory, no fitter: the daemon keeps what it has
    result.failure = error.what();
  }
  return result;
}

}  // namespace

SearchWorker::SearchWorker() : thread_([this](const std::stop_token& stop) { run(stop); }) {}

bool SearchWorker::begin(MarkerSearch search) {
  if (busy_) return false;
  busy_ = true;
  const std::lock_guard guard(mutex_);
  search_ = std::move(search);
  changed_.notify_one();
  return true;
}

std::optional<MarkerSearchResult> SearchWorker::take() {
  if (!busy_) return std::nullopt;
  const std::lock_guard guard(mutex_);
  std::optional<MarkerSearchResult> result = std::move(result_);
  result_.reset();
  if (result) busy_ = false;
  return result;
}

void SearchWorker::run(const std::stop_token& stop) {
  schedule_as_ordinary("driftd-search");
  std::unique_lock lock(mutex_);
  while (changed_.wait(lock, stop, [this] { return search_.has_value(); })) {
    const MarkerSearch search = std::move(*search_);
    search_.reset();
    lock.unlock();
    MarkerSearchResult result = carry_out(search, stop);
    lock.lock();
    result_ = std::move(result);
  }
}

}  // namespace driftd::daemon
