// SPDX-License-Identifier: MIT
// Which side of a ROI suits the spots of an image: wide enough for a good fit, narrow enough that
// neighbours and the border leave spots alone in it. The last step of spot_size.hpp. Pure.
#pragma once

#include <span>
#include <string>

#include "control/search/marker_detection.hpp"

namespace driftd::control {

struct MeasuredSpot {
  double x_px = 0, y_px = 0;
  double sigma_px = 0;
  double height_adu = 0;
};

struct ImageSize {
  int width_px = 0, height_px = 0;
};

struct RoiChoice {
  int roi_px = 0;           ///< 0: the image is too small for any
  double neighbour_px = 0;  ///< median distance to the nearest other spot; 0: there is none
  std::string reason;
};

/// @param spots   those of the image's width
/// @param others  whatever else is there, the spots included
/// @param settings  roi_px above 0 is taken as given
RoiChoice choose_roi(double sigma_px, std::span<const MeasuredSpot> spots,
                     std::span<const Candidate> others, ImageSize image,
                     const DetectionSettings& settings);

}  // namespace driftd::control
