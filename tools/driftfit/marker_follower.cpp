// SPDX-License-Identifier: MIT
#include "tools/driftfit/marker_follower.hpp"

#include <algorithm>
#include <cmath>

namespace driftd::tools {
namespace {

/// How far a marker may be from the middle of its ROI; after centring it is up to half a pixel off.
constexpr double kHysteresisPx = 1.0;
/// A step that differs from the common one by more than this share of the ROI is another spot's.
constexpr double kStrayShare = 0.25;
/// Fewer cannot say which of them is the stray.
constexpr std::size_t kMinForStrays = 3;

double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

MarkerFollower::MarkerFollower(const camera::StackShape& shape, int roi_px,
                               std::span<const Pick> picks, SpotFitter& fitter,
                               const float* variances)
    : shape_(shape), roi_px_(roi_px), fitter_(fitter), rois_(shape, roi_px, variances) {
  for (const Pick& pick : picks) {
    Marker marker{.x_px = pick.x_px, .y_px = pick.y_px};
    marker.roi_x_px = marker.roi_y_px = -2 * roi_px;  // far off: centred by the next line
    place_roi(marker, pick.x_px, pick.y_px);
    markers_.push_back(marker);
  }
}

/// The ROI's origin for a marker at `position`; it stays inside the frame.
int MarkerFollower::placed(int origin_px, double position_px, int size_px) const noexcept {
  const double half_px = 0.5 * (roi_px_ - 1);
  if (std::abs(position_px - (origin_px + half_px)) <= kHysteresisPx) return origin_px;
  const double last_px = size_px - roi_px_;
  return static_cast<int>(std::clamp(std::floor(position_px - half_px + 0.5), 0.0, last_px));
}

void MarkerFollower::place_roi(Marker& marker, double x_px, double y_px) const noexcept {
  marker.roi_x_px = placed(marker.roi_x_px, x_px, shape_.width_px);
  marker.roi_y_px = placed(marker.roi_y_px, y_px, shape_.height_px);
}

/// Whether the last fit, converged or not, ended somewhere in its ROI.
bool MarkerFollower::inside_roi(const Marker& m) const noexcept {
  const double last_px = roi_px_ - 1;
  return m.fit.x_px >= 0 && m.fit.x_px <= last_px && m.fit.y_px >= 0 && m.fit.y_px <= last_px;
}

void MarkerFollower::fit(const std::byte* frame, std::span<const std::size_t> which, bool again) {
  rois_.resize(which.size());
  fits_.resize(which.size());
  starts_.clear();
  for (std::size_t i = 0; i < which.size(); ++i) {
    const Marker& m = markers_[which[i]];
    rois_.cut(i, frame, m.roi_x_px, m.roi_y_px);
    const double x_px = again ? m.found_x_px : m.x_px;
    const double y_px = again ? m.found_y_px : m.y_px;
    starts_.push_back({static_cast<float>(x_px - m.roi_x_px), static_cast<float>(y_px - m.roi_y_px),
                       again ? (m.found ? m.fit.sigma_x_px : 0) : m.sigma_x_px,
                       again ? (m.found ? m.fit.sigma_y_px : 0) : m.sigma_y_px});
  }
  fitter::Batch batch = rois_.batch();
  batch.starts = starts_.data();
  fitter_.fit(batch, fits_);
  for (std::size_t i = 0; i < which.size(); ++i) {
    Marker& m = markers_[which[i]];
    m.fit = fits_[i];
    m.found = fitter::converged(m.fit.status);
    m.found_x_px = m.roi_x_px + static_cast<double>(m.fit.x_px);
    m.found_y_px = m.roi_y_px + static_cast<double>(m.fit.y_px);
  }
}

/// Median step of the markers found that were seen before.
Pick MarkerFollower::common_step() {
  std::vector<double> x;
  std::vector<double> y;
  for (const Marker& m : markers_) {
    if (!m.found || !m.seen) continue;
    x.push_back(m.found_x_px - m.x_px);
    y.push_back(m.found_y_px - m.y_px);
  }
  if (x.empty()) return {};
  const Pick step{.x_px = median(x), .y_px = median(y)};
  if (x.size() >= kMinForStrays) reject_strays(step);
  return step;
}

void MarkerFollower::reject_strays(Pick step) noexcept {
  for (Marker& m : markers_) {
    if (!m.found || !m.seen) continue;
    const double off_px =
        std::hypot(m.found_x_px - m.x_px - step.x_px, m.found_y_px - m.y_px - step.y_px);
    if (off_px <= kStrayShare * roi_px_) continue;
    m.found = false;
    ++absences_.strayed;
  }
}

std::span<const Spot> MarkerFollower::follow(const std::byte* frame, std::int64_t index) {
  which_.clear();
  absences_ = {};
  for (std::size_t i = 0; i < markers_.size(); ++i) {
    Marker& m = markers_[i];
    m.found = false;
    const bool inside = m.x_px > -0.5 && m.x_px < shape_.width_px - 0.5 && m.y_px > -0.5 &&
                        m.y_px < shape_.height_px - 0.5;
    if (inside) {
      which_.push_back(i);
    } else {
      ++absences_.outside;
    }
  }
  fit(frame, which_, false);

  std::vector<std::size_t> moved;
  for (const std::size_t i : which_) {
    Marker& m = markers_[i];
    const int x_px = m.roi_x_px;
    const int y_px = m.roi_y_px;
    if (!inside_roi(m)) continue;
    place_roi(m, m.found_x_px, m.found_y_px);
    if (m.roi_x_px != x_px || m.roi_y_px != y_px) moved.push_back(i);
  }
  fit(frame, moved, true);

  for (const std::size_t i : which_) {
    if (markers_[i].found) continue;
    const bool bad = markers_[i].fit.status == fitter::FitStatus::BadInput;
    ++(bad ? absences_.bad_pixels : absences_.not_fitted);
  }
  const Pick step = common_step();
  spots_.clear();
  for (std::size_t i = 0; i < markers_.size(); ++i) {
    Marker& m = markers_[i];
    m.sigma_x_px = m.found ? m.fit.sigma_x_px : 0;
    m.sigma_y_px = m.found ? m.fit.sigma_y_px : 0;
    m.x_px = m.found ? m.found_x_px : m.x_px + step.x_px;
    m.y_px = m.found ? m.found_y_px : m.y_px + step.y_px;
    m.seen = m.seen || m.found;
    place_roi(m, m.x_px, m.y_px);
    if (!m.found) continue;
    spots_.push_back({.frame = index,
                      .marker = static_cast<int>(i),
                      .x_px = m.x_px,
                      .y_px = m.y_px,
                      .fit = m.fit});
  }
  return spots_;
}

}  // namespace driftd::tools
