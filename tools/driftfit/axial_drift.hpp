// SPDX-License-Identifier: MIT
// The drift in z of each frame, from the heights that followed markers were read at. Pure functions
// of the whole recording, by the model that x and y have (drift_trace.hpp): a marker's z is its own
// height plus the drift of the frame, which is the robust mean over markers of z less height. A
// marker that has a new place in x and y has a new height, too. Where too few markers were read, or
// agree, there is no drift in z.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/driftfit/axial_reader.hpp"
#include "tools/driftfit/marker_tracks.hpp"
#include "tools/driftfit/picks.hpp"

namespace driftd::tools {

/// Heights of all markers in all frames, 9 bytes each.
class MarkerHeights {
 public:
  explicit MarkerHeights(std::size_t markers) : markers_(markers) {}
  void add_frame(std::span<const Spot> spots);
  std::size_t markers() const noexcept { return markers_; }
  std::size_t frames() const noexcept { return frames_; }
  struct Height {
    float z_nm, sd_nm;
  };
  /// Meaningless unless it was read.
  const Height& at(std::size_t frame, std::size_t marker) const noexcept {
    return heights_[frame * markers_ + marker];
  }
  HeightReading reading(std::size_t frame, std::size_t marker) const noexcept {
    return readings_[frame * markers_ + marker];
  }
  bool was_read(std::size_t frame, std::size_t marker) const noexcept {
    return reading(frame, marker) == HeightReading::Read;
  }
  int read_in(std::size_t frame) const noexcept;

 private:
  std::size_t markers_, frames_ = 0;
  std::vector<Height> heights_;
  std::vector<HeightReading> readings_;
};

struct AxialDriftSettings {
  std::optional<std::size_t> reference = std::nullopt;  ///< as DriftSettings
  int min_markers = 1;
};

struct AxialDrift {
  std::vector<AxialPoint> points;
  std::vector<std::string> reasons;  ///< why a point is not known; "" where it is
  std::size_t reference = 0;         ///< frame whose z is 0
};

/// @param places  the markers' by x and y
AxialDrift solve_axial_drift(const MarkerHeights& heights, const PlaceBegins& places,
                             const AxialDriftSettings& settings);

std::int64_t frames_known(const AxialDrift& drift);

/// In how many frames z has no drift, the reason in the first of them, and what would help, tried;
/// "" where all have one.
std::string axial_gaps_in_words(const AxialDrift& drift, const MarkerHeights& heights,
                                const PlaceBegins& places, const AxialDriftSettings& settings,
                                std::int64_t first_frame);

/// What was read and what was not, and of which markers less than three quarters; lines.
std::string heights_in_words(const AxialReader& reader, std::span<const Pick> picks);

}  // namespace driftd::tools
