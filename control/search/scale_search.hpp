// SPDX-License-Identifier: MIT
// Where an image has something round of any size: maxima over place and scale of differences of
// Gaussians. The first step of spot_size.hpp. A pure function, not real time.
#pragma once

#include <cstdint>
#include <span>
#include <stop_token>
#include <vector>

#include "control/search/marker_detection.hpp"

namespace driftd::control {

/// What has about the width of one scale.
struct ScaleLevel {
  double sigma_px;
  int roi_px;  ///< of the candidates
  std::vector<Candidate> candidates;
};

/// Scales half an octave apart, for sigma from 0.6 to 9 px; those for which the image is too small
/// are left out. Each has its clearest candidates only, the clearest first.
std::vector<ScaleLevel> search_scales(std::span<const std::uint16_t> image, int width_px,
                                      int height_px, const std::stop_token& stop);

}  // namespace driftd::control
