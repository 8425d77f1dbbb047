// SPDX-License-Identifier: MIT
#include "tools/driftfit/marker_follower.hpp"

#include <algorithm>
#include <cmath>

#include "tools/driftfit/marker_agreement.hpp"

namespace driftd::tools {
namespace {

/// How far a marker may be from the middle of its ROI; after centring it is up to half a pixel off.
constexpr double kHysteresisPx = 1.0;
/// What is further from where a marker is expected than this share of the ROI is another spot.
constexpr double kStrayShare = 0.25;
/// A marker's place is the mean of its last so many: markers move a little their own way.
constexpr int kPlaceMemory = 8;
/// What is found elsewhere so often, each time within this share of the reach, is there to stay.
constexpr int kTimesElsewhere = 5;
constexpr double kConstantShare = 0.5;
/// Fits of two markers nearer than this are of one spot.
constexpr double kSameSpotPx = 1;
/// A drift that changed by less is not worth another fit of those missing.
constexpr double kSoughtAgainPx = 0.5;

Pick operator+(Pick a, Pick b) noexcept {
  return {a.x_px + b.x_px, a.y_px + b.y_px};
}
Pick operator-(Pick a, Pick b) noexcept {
  return {a.x_px - b.x_px, a.y_px - b.y_px};
}
void approach(Pick& value, Pick target, int times) noexcept {
  value.x_px += (target.x_px - value.x_px) / times;
  value.y_px += (target.y_px - value.y_px) / times;
}

}  // namespace

MarkerFollower::MarkerFollower(const camera::StackShape& shape, int roi_px,
                               std::span<const Pick> picks, SpotFitter& fitter,
                               const CameraMaps& maps)
    : shape_(shape),
      roi_px_(roi_px),
      reach_px_(kStrayShare * roi_px),
      fitter_(fitter),
      rois_(shape, roi_px, maps),
      clipped_(maps.saturation_adu()) {
  for (const Pick& pick : picks) {
    Marker marker;
    marker.pick = marker.place = pick;
    marker.roi_x_px = marker.roi_y_px = -2 * roi_px;  // far off: centred when it is placed
    markers_.push_back(marker);
  }
}

Pick MarkerFollower::expected(const Marker& m) const noexcept {
  return m.place + drift_;
}

/// The ROI's origin for a marker at `position`; it stays inside the frame.
int MarkerFollower::placed(int origin_px, double position_px, int size_px) const noexcept {
  const double half_px = 0.5 * (roi_px_ - 1);
  if (std::abs(position_px - (origin_px + half_px)) <= kHysteresisPx) return origin_px;
  const double last_px = size_px - roi_px_;
  return static_cast<int>(std::clamp(std::floor(position_px - half_px + 0.5), 0.0, last_px));
}

void MarkerFollower::place_roi(Marker& marker, Pick at) const noexcept {
  marker.roi_x_px = placed(marker.roi_x_px, at.x_px, shape_.width_px);
  marker.roi_y_px = placed(marker.roi_y_px, at.y_px, shape_.height_px);
}

bool MarkerFollower::is_inside(Pick at) const noexcept {
  return at.x_px > -0.5 && at.x_px < shape_.width_px - 0.5 && at.y_px > -0.5 &&
         at.y_px < shape_.height_px - 0.5;
}

/// Whether the last fit, converged or not, ended somewhere in its ROI.
bool MarkerFollower::inside_roi(const Marker& m) const noexcept {
  const double last_px = roi_px_ - 1;
  return m.fit.x_px >= 0 && m.fit.x_px <= last_px && m.fit.y_px >= 0 && m.fit.y_px <= last_px;
}

/// @param again  from where the last fit of this frame ended, in a ROI around that
void MarkerFollower::fit(const std::byte* frame, std::span<const std::size_t> which, bool again) {
  rois_.resize(which.size());
  fits_.resize(which.size());
  starts_.clear();
  for (std::size_t i = 0; i < which.size(); ++i) {
    const Marker& m = markers_[which[i]];
    rois_.cut(i, frame, m.roi_x_px, m.roi_y_px);
    const Pick start = again ? m.found : expected(m);
    const bool converged = m.result == Result::Found;
    starts_.push_back({static_cast<float>(start.x_px - m.roi_x_px),
                       static_cast<float>(start.y_px - m.roi_y_px),
                       again ? (converged ? m.fit.sigma_x_px : 0) : m.sigma_x_px,
                       again ? (converged ? m.fit.sigma_y_px : 0) : m.sigma_y_px});
  }
  fitter::Batch batch = rois_.batch();
  batch.starts = starts_.data();
  clipped_.look_at(rois_.recorded());
  fitter_.fit(batch, fits_);
  for (std::size_t i = 0; i < which.size(); ++i) {
    Marker& m = markers_[which[i]];
    m.fit = fits_[i];
    m.top = clipped_.tops()[i];
    const bool bad = m.fit.status == fitter::FitStatus::BadInput;
    m.result = fitter::converged(m.fit.status) ? Result::Found
               : bad                           ? Result::BadPixels
                                               : Result::NotFitted;
    m.found = {m.roi_x_px + static_cast<double>(m.fit.x_px),
               m.roi_y_px + static_cast<double>(m.fit.y_px)};
  }
}

/// Where they are expected, and then around what was found, where that is off the middle.
void MarkerFollower::fit_around(const std::byte* frame, std::span<const std::size_t> which) {
  for (const std::size_t i : which) place_roi(markers_[i], expected(markers_[i]));
  fit(frame, which, false);
  std::vector<std::size_t> moved;
  for (const std::size_t i : which) {
    Marker& m = markers_[i];
    if (!inside_roi(m)) continue;
    const int x_px = m.roi_x_px;
    const int y_px = m.roi_y_px;
    place_roi(m, m.found);
    if (m.roi_x_px != x_px || m.roi_y_px != y_px) moved.push_back(i);
  }
  fit(frame, moved, true);
}

/// False where the markers contradict one another. A single marker is followed wherever it goes.
bool MarkerFollower::find_drift() {
  votes_.clear();
  for (const Marker& m : markers_) {
    if (m.result == Result::Found && m.seen > 0) votes_.push_back(m.found - m.place);
  }
  const bool alone = markers_.size() == 1 && !votes_.empty();
  const auto drift = alone ? votes_.front() : common_drift(votes_, drift_, reach_px_);
  if (drift) drift_ = *drift;
  return drift.has_value();
}

void MarkerFollower::reject_strays() noexcept {
  for (Marker& m : markers_) {
    if (m.result != Result::Found || m.seen == 0) continue;
    if (distance_px(m.found, expected(m)) > reach_px_) m.result = Result::Strayed;
  }
}

/// Those missing, where the drift of this frame says, if that is somewhere else.
void MarkerFollower::seek_again(const std::byte* frame, Pick before) {
  if (distance_px(before, drift_) < kSoughtAgainPx) return;
  again_.clear();
  std::vector<Marker> as_they_were;
  for (const std::size_t i : which_) {
    if (markers_[i].result == Result::Found || !is_inside(expected(markers_[i]))) continue;
    again_.push_back(i);
    as_they_were.push_back(markers_[i]);
  }
  fit_around(frame, again_);
  reject_strays();
  for (std::size_t i = 0; i < again_.size(); ++i) {
    if (markers_[again_[i]].result != Result::Found) markers_[again_[i]] = as_they_were[i];
  }
}

/// Rejects, of two markers that are fits of one spot, the one further from where it is expected.
void MarkerFollower::reject_doubles() noexcept {
  const auto off_px = [this](const Marker& m) { return distance_px(m.found, expected(m)); };
  for (Marker& m : markers_) {
    if (m.result != Result::Found || off_px(m) < 0.5 * kSameSpotPx) continue;
    const bool twice = std::any_of(markers_.begin(), markers_.end(), [&](const Marker& other) {
      return &other != &m && other.result == Result::Found &&
             distance_px(other.found, m.found) < kSameSpotPx && off_px(other) <= off_px(m);
    });
    if (twice) m.result = Result::Strayed;
  }
}

bool MarkerFollower::is_of_another(const Marker& m) const noexcept {
  return std::any_of(markers_.begin(), markers_.end(), [&](const Marker& other) {
    return &other != &m && distance_px(m.found, expected(other)) <= reach_px_;
  });
}

/// Takes a marker back that was found elsewhere, often enough at one place.
void MarkerFollower::look_elsewhere(Marker& m) noexcept {
  const Pick offset = m.found - expected(m);
  if (is_of_another(m)) {
    m.times_elsewhere = 0;
    return;
  }
  if (distance_px(offset, m.elsewhere) > kConstantShare * reach_px_) m.times_elsewhere = 0;
  approach(m.elsewhere, offset, ++m.times_elsewhere);
  if (m.times_elsewhere < kTimesElsewhere) return;
  m.place = m.place + offset;
  m.seen = 0;
  m.confirmed = true;
  ++m.moves;
  m.result = Result::Found;
}

void MarkerFollower::keep(std::size_t index, std::int64_t frame) {
  Marker& m = markers_[index];
  const bool found = m.result == Result::Found;
  m.sigma_x_px = found ? m.fit.sigma_x_px : 0;
  m.sigma_y_px = found ? m.fit.sigma_y_px : 0;
  if (!found) {
    constexpr int Absences::*kReasons[] = {nullptr, &Absences::outside, &Absences::bad_pixels,
                                           &Absences::not_fitted, &Absences::strayed};
    const auto reason = kReasons[static_cast<std::size_t>(m.result)];
    ++(absences_.*reason);
    ++(m.absences.*reason);
    // Noise in the dark, or a speck, that was seen once: the marker is to be sought where it was
    // picked, and has its place there.
    if (m.seen == 1 && !m.confirmed && distance_px(m.place, m.pick) > reach_px_) {
      m.place = m.pick;
      m.seen = 0;
      ++m.moves;
    }
    return;
  }
  m.times_elsewhere = 0;
  m.seen = std::min(m.seen + 1, kPlaceMemory);
  m.confirmed = m.confirmed || m.seen > 1;
  approach(m.place, m.found - drift_, m.seen);
  spots_.push_back({.frame = frame,
                    .marker = static_cast<int>(index),
                    .place = m.moves,
                    .x_px = m.found.x_px,
                    .y_px = m.found.y_px,
                    .fit = m.fit,
                    .top = m.top});
}

std::span<const Spot> MarkerFollower::follow(const std::byte* frame, std::int64_t index) {
  absences_ = {};
  spots_.clear();
  which_.clear();
  for (std::size_t i = 0; i < markers_.size(); ++i) {
    markers_[i].result = Result::Outside;
    if (is_inside(expected(markers_[i]))) which_.push_back(i);
  }
  fit_around(frame, which_);
  const Pick before = drift_;
  if (find_drift()) {
    reject_strays();
    seek_again(frame, before);
    reject_doubles();
  } else {
    for (Marker& m : markers_)
      if (m.result == Result::Found) m.result = Result::Strayed;
  }
  for (Marker& m : markers_)
    if (m.result == Result::Strayed) look_elsewhere(m);
  for (std::size_t i = 0; i < markers_.size(); ++i) keep(i, index);
  return spots_;
}

}  // namespace driftd::tools
