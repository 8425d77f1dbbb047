// SPDX-License-Identifier: MIT
// Positions of markers followed through a stack, and which of a marker's places each belongs to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tools/driftfit/spot.hpp"

namespace driftd::tools {

/// From which frames on a marker has another place than before: it was taken back elsewhere, or
/// slipped.
class PlaceBegins {
 public:
  explicit PlaceBegins(std::size_t markers) : begins_(markers) {}
  /// The marker has a place of its own from that frame on.
  void add(std::size_t marker, std::size_t frame);
  /// A place, not the marker's first, begins at another frame, which no other place begins at.
  void move(std::size_t marker, std::size_t place, std::size_t frame) {
    begins_[marker][place - 1] = frame;
  }
  /// Which of the marker's places a frame belongs to, 0-based.
  std::size_t place(std::size_t frame, std::size_t marker) const noexcept;
  std::size_t places(std::size_t marker) const noexcept { return begins_[marker].size() + 1; }
  /// The first frame that may belong to a place.
  std::size_t begin_of(std::size_t marker, std::size_t place) const noexcept {
    return place == 0 ? 0 : begins_[marker][place - 1];
  }
  /// The one behind the last, of `frames` in all.
  std::size_t end_of(std::size_t marker, std::size_t place, std::size_t frames) const noexcept {
    return place + 1 < places(marker) ? begins_[marker][place] : frames;
  }

 private:
  std::vector<std::vector<std::size_t>> begins_;  ///< of each marker, ascending
};

/// Positions of all markers in all frames, 28 bytes each, and 24 bytes a frame for what is missing.
class MarkerTracks {
 public:
  struct Point {
    double x_px, y_px;  ///< NaN: missing
    float x_sd_px, y_sd_px;
    double variance_px2() const noexcept {  ///< of an axis
      const auto x = static_cast<double>(x_sd_px), y = static_cast<double>(y_sd_px);
      return 0.5 * (x * x + y * y);
    }
  };
  explicit MarkerTracks(std::size_t markers) : markers_(markers), places_(markers) {}
  void add_frame(std::span<const Spot> spots, const Absences& absences = {});
  std::size_t markers() const noexcept { return markers_; }
  std::size_t frames() const noexcept { return markers_ > 0 ? points_.size() / markers_ : 0; }
  const Point& at(std::size_t frame, std::size_t marker) const noexcept {
    return points_[frame * markers_ + marker];
  }
  /// Spot::top; NaN: missing.
  float top(std::size_t frame, std::size_t marker) const noexcept {
    return tops_[frame * markers_ + marker];
  }
  /// By Spot::place.
  const PlaceBegins& places() const noexcept { return places_; }
  const Absences& absences(std::size_t frame) const noexcept { return absences_[frame]; }
  /// How many markers have a position in a frame.
  int found(std::size_t frame) const noexcept;
  /// In how many frames a marker has a position.
  std::int64_t frames_of(std::size_t marker) const noexcept;

 private:
  std::size_t markers_;
  PlaceBegins places_;
  std::vector<Point> points_;
  std::vector<float> tops_;
  std::vector<Absences> absences_;
};

/// Where the sample went: a localization less the drift is where it was in the reference frame.
struct DriftPoint {
  int markers = 0;  ///< that agree; 0: too few, the drift is not known
  double x_px = 0, y_px = 0;
  double x_sd_px = 0, y_sd_px = 0;  ///< of this frame's mean
};

/// The same along z.
struct AxialPoint {
  int markers = 0;  ///< that agree; 0: not known
  double z_nm = 0, sd_nm = 0;
};

}  // namespace driftd::tools
