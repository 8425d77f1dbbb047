// SPDX-License-Identifier: MIT
#include "tools/driftfit/marker_tracks.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace driftd::tools {

void PlaceBegins::add(std::size_t marker, std::size_t frame) {
  std::vector<std::size_t>& frames = begins_[marker];
  frames.insert(std::upper_bound(frames.begin(), frames.end(), frame), frame);
}

std::size_t PlaceBegins::place(std::size_t frame, std::size_t marker) const noexcept {
  const std::vector<std::size_t>& frames = begins_[marker];
  return static_cast<std::size_t>(std::upper_bound(frames.begin(), frames.end(), frame) -
                                  frames.begin());
}

int MarkerTracks::found(std::size_t frame) const noexcept {
  int count = 0;
  for (std::size_t m = 0; m < markers_; ++m) count += std::isnan(at(frame, m).x_px) ? 0 : 1;
  return count;
}

std::int64_t MarkerTracks::frames_of(std::size_t marker) const noexcept {
  std::int64_t count = 0;
  for (std::size_t frame = 0; frame < frames(); ++frame) {
    count += std::isnan(at(frame, marker).x_px) ? 0 : 1;
  }
  return count;
}

void MarkerTracks::add_frame(std::span<const Spot> spots, const Absences& absences) {
  absences_.push_back(absences);
  const std::size_t begin = points_.size();
  constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();
  points_.resize(begin + markers_, {kMissing, kMissing, 0, 0});
  tops_.resize(begin + markers_, std::numeric_limits<float>::quiet_NaN());
  for (const Spot& spot : spots) {
    const auto marker = static_cast<std::size_t>(spot.marker);
    while (places_.places(marker) <= static_cast<std::size_t>(spot.place))
      places_.add(marker, absences_.size() - 1);
    if (!std::isfinite(spot.fit.x_sd_px) || !std::isfinite(spot.fit.y_sd_px)) {
      ++absences_.back().not_fitted;
      continue;
    }
    points_[begin + marker] = {spot.x_px, spot.y_px, spot.fit.x_sd_px, spot.fit.y_sd_px};
    tops_[begin + marker] = spot.top;
  }
}

}  // namespace driftd::tools
