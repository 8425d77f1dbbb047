// SPDX-License-Identifier: MIT
// The service's search for markers: the first ones, and those that have left their ROIs.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "daemon/clock.hpp"
#include "daemon/compose.hpp"
#include "daemon/marker_finder.hpp"
#include "daemon/service.hpp"

namespace driftd::daemon {

void Service::look_for_markers() {
  const std::int64_t now_ns = monotonic_ns();
  if (has_markers_) engage_at_start();
  if (!search_pending_) {
    if (has_markers_ && !are_markers_gone(now_ns)) return;
    if (now_ns < next_search_ns_ || source_info_.width_px == 0) return;
    ports_.frame_copy.ask(static_cast<std::size_t>(source_info_.width_px) *
                          static_cast<std::size_t>(source_info_.height_px));
    search_pending_ = true;
    next_search_ns_ = now_ns + config_.markers.find_interval_ms * kMillisecond;
    return;
  }
  if (!ports_.frame_copy.filled()) return;
  search_pending_ = false;
  if (has_markers_) {
    find_markers_again();
  } else {
    adopt_markers();
    ports_.markers_settled.store(true, std::memory_order_release);
  }
}

void Service::engage_at_start() {
  if (!config_.lock.at_start || locked_at_start_ || recording_) return;
  locked_at_start_ = true;
  Json ignored;
  lock(ignored);
}

bool Service::are_markers_gone(std::int64_t now_ns) {
  const std::int64_t since_ns = ports_.report.reading().markers_gone_since_ns;
  if (since_ns == 0) told_search_ = ToldSearch::Nothing;
  const std::int64_t after_ns = config_.markers.find_again_after_ms * kMillisecond;
  return since_ns != 0 && after_ns > 0 && now_ns - since_ns >= after_ns;
}

/// The markers known, in the frame copied: tells the loop where their ROIs have to be.
void Service::find_markers_again() {
  ports_.report.refresh();
  ports_.markers.refresh();
  // The frame may be one in which they were in their ROIs again.
  if (!ports_.frame_copy.fits() || !are_markers_gone(monotonic_ns())) return;
  const camera::Frame& frame = ports_.frame_copy.frame();
  const MarkersReport& known = ports_.markers.reading();
  const auto match = daemon::find_markers_again(
      known, frame, ports_.frame_copy.pixels(), detection_settings(config_, frame.format),
      fit_options(config_, frame.format, estimator_), constellation_settings(config_));
  marker_searches_++;
  if (match.found) {
    LoopCommand move{.kind = LoopCommand::Kind::MoveRois};
    move.displacement_px = match.displacement_px;
    command(std::move(move));
    markers_found_again_++;
  }
  tell_search(match, ports_.report.reading().drift.markers_total);
}

/// Each outcome once for each time that the markers were gone.
void Service::tell_search(const control::ConstellationMatch& match, int total) {
  const ToldSearch outcome = match.found ? ToldSearch::Found : ToldSearch::NotFound;
  if (outcome == told_search_) return;
  told_search_ = outcome;
  if (!match.found) {
    events_.raise(EventLog::Level::Warning, "markers_not_found_again", match.reason,
                  {{"found", match.matched}, {"markers", total}});
    return;
  }
  const control::Vec2 px = match.displacement_px;
  const double nm = config_.optics.pixel_size_nm;
  events_.raise(
      EventLog::Level::Info, "markers_found_again",
      fmt::format("{} of {} markers, {:.2f} px ({:.0f} nm) from their references", match.matched,
                  total, std::hypot(px.x, px.y), std::hypot(px.x, px.y) * nm),
      {{"found", match.matched},
       {"markers", total},
       {"displacement_x_px", px.x},
       {"displacement_y_px", px.y},
       {"displacement_x_nm", px.x * nm},
       {"displacement_y_nm", px.y * nm}});
}

/// Markers from the frame copied: hands them to the loop when there are enough. Returns how many.
std::size_t Service::adopt_markers() {
  if (!ports_.frame_copy.fits()) return 0;
  const camera::Frame& frame = ports_.frame_copy.frame();
  const auto found =
      find_markers(frame, ports_.frame_copy.pixels(), detection_settings(config_, frame.format),
                   fit_options(config_, frame.format, estimator_));
  rejected_ = found.rejected;
  const auto tracking =
      static_cast<int>(std::count_if(found.markers.begin(), found.markers.end(), [](const auto& m) {
        return m.role == control::MarkerRole::Tracking;
      }));
  if (tracking < config_.drift.min_markers) {
    if (!told_none_found_) {
      events_.raise(
          EventLog::Level::Warning, "markers_not_found",
          fmt::format("found {} markers, need {} (drift.min_markers); {} spots rejected{}",
                      tracking, config_.drift.min_markers, rejected_.size(),
                      rejected_.empty() ? "" : ", the first for " + rejected_[0].reason),
          {{"found", tracking}, {"rejected", rejected_.size()}});
    }
    told_none_found_ = true;
    return found.markers.size();
  }
  LoopCommand markers{.kind = LoopCommand::Kind::Markers};
  markers.markers = make_marker_set(config_, found.markers);
  command(std::move(markers));
  has_markers_ = true;
  told_none_found_ = false;
  events_.raise(EventLog::Level::Info, "markers_found",
                fmt::format("{} markers, {} of them witnesses", found.markers.size(),
                            found.markers.size() - static_cast<std::size_t>(tracking)),
                {{"found", found.markers.size()}, {"rejected", rejected_.size()}});
  return found.markers.size();
}

}  // namespace driftd::daemon
