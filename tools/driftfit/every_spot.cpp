// SPDX-License-Identifier: MIT
#include "tools/driftfit/every_spot.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <thread>
#include <utility>

#include "fitter/spots/spot_rules.hpp"

namespace driftd::tools {
EverySpot::EverySpot(const camera::StackShape& shape, int roi_px, double min_net_gradient,
                     SpotFitter& fitter, const CameraMaps& maps)
    : shape_(shape),
      roi_px_(roi_px),
      fitter_(fitter),
      maps_(maps),
      hot_(maps.hot()),
      search_({.box_px = fitter::box_of(roi_px),
               .min_net_gradient = min_net_gradient,
               .least_noise = maps.rounding_noise()}),
      rois_(shape, roi_px, maps),
      clipped_(maps.saturation_adu()) {}

void EverySpot::search(const std::byte* frames, std::size_t count) {
  candidates_.resize(count);
  std::atomic<std::size_t> next = 0;
  const std::size_t workers = std::min(count, static_cast<std::size_t>(fitter_.threads()));
  std::vector<std::exception_ptr> failures(workers);
  const auto work = [&](std::size_t worker) {
    try {
      std::vector<std::byte> copy;
      for (std::size_t i = next++; i < count; i = next++) {
        candidates_[i] =
            search_.find(shape_, hot_.filled(shape_, frames + i * shape_.frame_bytes(), copy));
      }
    } catch (...) {
      failures[worker] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t worker = 1; worker < workers; ++worker) threads.emplace_back(work, worker);
    work(0);
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

/// Where the ROI of a spot not yet fitted begins.
Pick EverySpot::roi_of(const Spot& spot) const noexcept {
  return {.x_px = static_cast<double>(
              fitter::roi_origin(static_cast<int>(spot.x_px), roi_px_, shape_.width_px)),
          .y_px = static_cast<double>(
              fitter::roi_origin(static_cast<int>(spot.y_px), roi_px_, shape_.height_px))};
}

void EverySpot::cut(const std::byte* frames, std::int64_t first) {
  rois_.resize(spots_.size());
  for (std::size_t i = 0; i < spots_.size(); ++i) {
    const auto frame = static_cast<std::size_t>(spots_[i].frame - first);
    const Pick roi = roi_of(spots_[i]);
    rois_.cut(i, frames + frame * shape_.frame_bytes(), static_cast<int>(roi.x_px),
              static_cast<int>(roi.y_px));
  }
}

void EverySpot::add(std::int64_t frame, const FoundSpot& found) {
  spots_.push_back({.frame = frame,
                    .x_px = static_cast<double>(found.x_px),
                    .y_px = static_cast<double>(found.y_px),
                    .net_gradient = found.net_gradient});
}

/// Leaves those of spots_ that fits_ found to be spots, near where they were sought.
void EverySpot::keep_fitted() {
  const double reach_px = fitter::reach_px(roi_px_);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < spots_.size(); ++i) {
    if (!fitter::converged(fits_[i].status)) continue;
    Spot spot = spots_[i];
    const Pick roi = roi_of(spot);
    const double x_px = roi.x_px + static_cast<double>(fits_[i].x_px);
    const double y_px = roi.y_px + static_cast<double>(fits_[i].y_px);
    if (std::hypot(x_px - spot.x_px, y_px - spot.y_px) > reach_px) continue;
    spot.x_px = x_px;
    spot.y_px = y_px;
    spot.fit = fits_[i];
    spots_[kept++] = spot;
  }
  spots_.resize(kept);
}

std::span<const Spot> EverySpot::localize(const std::byte* frames, std::int64_t first,
                                          std::int64_t count) {
  fitter::FoundInFrames found;
  spots_.clear();
  const bool on_gpu = fitter_.find_spots({.shape = frame_shape(shape_),
                                          .count = static_cast<std::size_t>(count),
                                          .frames = frames,
                                          .bring = {},
                                          .search = &search_,
                                          .hot = &hot_,
                                          .roi_px = roi_px_,
                                          .options = {},
                                          .variances = maps_.variances()},
                                         found);
  if (on_gpu) {
    for (const fitter::FrameSpot& spot : found.spots)
      add(first + spot.frame, {spot.x_px, spot.y_px, spot.net_gradient});
  } else {
    search(frames, static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < candidates_.size(); ++i)
      for (const FoundSpot& spot : candidates_[i]) add(first + static_cast<std::int64_t>(i), spot);
  }
  found_ += static_cast<std::int64_t>(spots_.size());
  cut(frames, first);
  clipped_.look_at(rois_.recorded());
  if (found.fits.empty()) {
    fits_.resize(spots_.size());
    fitter_.fit(rois_.batch(), fits_);
  } else {
    fits_ = std::move(found.fits);
  }
  keep_fitted();
  return spots_;
}

}  // namespace driftd::tools
