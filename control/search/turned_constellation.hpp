// SPDX-License-Identifier: MIT
// Finding known markers on a sample that was taken out and put back: displaced by any distance,
// and turned by a few degrees, which no hand avoids. match_constellation() is asked at each of a
// row of turns; the best answer is fitted (turn and displacement, least squares) and then judged
// anew: its markers have to lie on spots closely, no other answer may come near it, and so many
// must agree that spots at random places would not. In doubt there is no answer, because a wrong
// one would move the sample. Changes of scale are not looked for. Pure; not real time.
#pragma once

#include <span>
#include <stop_token>

#include "control/search/constellation.hpp"

namespace driftd::control {

/// Two fix displacement and turn; the third is the first that tells a constellation from another.
constexpr int kFewestTurnedMarkers = 3;
/// How many answers there may be, on average, in an image of as many spots at random places.
constexpr double kMostAnswersByChance = 1e-3;

/// A reference's place on a sample that was turned, x towards y.
Vec2 turned(Vec2 place_px, double turn_rad, Vec2 centre_px) noexcept;

/// As match_constellation(), but `matched` counts markers within a third of the tolerance, of which
/// half of those that would be in the field are needed, and kFewestTurnedMarkers. Turns are looked
/// for up to settings.most_turn_rad; one that the noise of the spots explains is not told (0).
/// @param stop  when asked, the search ends soon with a result of no use
ConstellationMatch match_turned_constellation(std::span<const MarkerReference> markers,
                                              std::span<const FittedSpot> spots,
                                              const ConstellationSettings& settings,
                                              const std::stop_token& stop = {});

}  // namespace driftd::control
