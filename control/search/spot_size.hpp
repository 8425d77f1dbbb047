// SPDX-License-Identifier: MIT
// How wide the spots of an image are and which ROI suits them, from the image alone. A pure
// function, not real time: some 10 ms for 256x256 pixels.
//
// Candidates are maxima over place and scale of differences of Gaussians (Lindeberg 1998, Int. J.
// Comput. Vis. 30:79). A fit decides which of them are spots and measures their width; the width
// that most of them share is sigma. The search and the fits are then repeated at that scale with
// the ROI that follows from it, and must agree.
#pragma once

#include <cstdint>
#include <span>
#include <stop_token>
#include <string>

#include "control/search/marker_detection.hpp"

namespace driftd::control {

struct SpotSize {
  double sigma_px = 0;      ///< median of the spots' widths, or as given; 0: not found
  int roi_px = 0;           ///< odd, or as given; 0: not found
  std::size_t spots = 0;    ///< fitted, of about this width
  double spread_px = 0;     ///< standard deviation of their widths (median absolute deviation)
  double neighbour_px = 0;  ///< median distance to the nearest other spot; 0: there is none
  std::string reason;       ///< a sentence for people: what was chosen and why, or why nothing was

  bool chosen() const noexcept { return sigma_px > 0 && roi_px > 0; }
};

/// Sigma from 0.7 to 10 px can be found. The ROI is ten sigma wide; less where neighbours, the
/// border or the image leave too few spots alone in it, but never less than five sigma.
/// @param image     row-major, width x height pixels
/// @param settings  what is above 0 of expected_sigma_px and roi_px is taken as given; max_count,
///   min_sigma_px, max_sigma_px, min_distance_px, border_px and saturation_adu as in the detection
/// @param stop  when asked, the search ends soon with a result of no use
SpotSize choose_spot_size(std::span<const std::uint16_t> image, int width_px, int height_px,
                          const DetectionSettings& settings, const std::stop_token& stop = {});

/// The settings for a detection of what was chosen: other widths are no markers of this image. The
/// limits min_sigma_px and max_sigma_px only narrow. What was not chosen is left as it is.
DetectionSettings settings_for(const SpotSize& size, DetectionSettings settings);

}  // namespace driftd::control
