// SPDX-License-Identifier: MIT
// Spots in a whole frame, found without being told where: candidates and a batch fit of each; and
// what housekeeping makes of them: new markers, or the markers it knows, found again. Not real
// time: seconds for a large frame full of texture, so on a thread that nobody waits for.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "camera/frame.hpp"
#include "control/search/constellation.hpp"
#include "control/search/marker_detection.hpp"
#include "daemon/loop/loop_values.hpp"
#include "fitter/fitter.hpp"

namespace driftd::daemon {

/// @param pixels  the frame's width * height values, row-major
/// @param bounds  what ends the search early, and what was left out, where that is of interest
control::DetectionResult find_markers(const camera::Frame& frame,
                                      std::span<const std::uint16_t> pixels,
                                      const control::DetectionSettings& settings,
                                      const fitter::FitOptions& options,
                                      control::SearchBounds* bounds = nullptr);

/// What there is where somebody pointed at.
struct SpotAt {
  control::Vec2 place_px;  ///< sensor pixels
  std::string problem;     ///< a sentence: why it makes no marker; "": it does
};

/// The spot next to a place, at most half a ROI away, that could be a marker; its distance to
/// border and neighbours is whoever's who pointed, as long as its ROI lies in the frame and has no
/// other spot in its inner half.
/// @param place_px  sensor pixels; @param pixels, settings, options  as above
SpotAt find_spot_at(control::Vec2 place_px, const camera::Frame& frame,
                    std::span<const std::uint16_t> pixels,
                    const control::DetectionSettings& settings, const fitter::FitOptions& options);

/// Pairs of a marker and a spot that a search for known markers compares at most; beyond it the
/// faintest spots are left out. The time goes with the square of this number.
constexpr std::size_t kMostPairs = 200'000;
/// Where turns are looked for, too: some hundred searches in one.
constexpr std::size_t kMostTurnedPairs = 20'000;

/// Where the tracking markers of `known` are now.
/// @param frame, pixels, detection, options, bounds  as above
/// @param settings  its field is set here, from the frame and the ROI's side; with most_turn_rad
///   they may be turned
control::ConstellationMatch find_markers_again(
    const MarkersReport& known, const camera::Frame& frame, std::span<const std::uint16_t> pixels,
    const control::DetectionSettings& detection, const fitter::FitOptions& options,
    control::ConstellationSettings settings, control::SearchBounds* bounds = nullptr);

}  // namespace driftd::daemon
