// SPDX-License-Identifier: MIT
// Beads in a stack of planes: found in the plane that shows most of them, and fitted in every
// plane. The field may move sideways from plane to plane; all beads move by the same. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "camera/recording/image_stack.hpp"
#include "control/axial/calibration/bead_fits.hpp"
#include "control/search/marker_detection.hpp"
#include "tools/driftfit/picks.hpp"
#include "tools/driftfit/spot_fitter.hpp"

namespace driftd::tools {

using control::BeadFit;
using control::ZStackBeads;

/// @param x_px, y_px  of the ROI's first pixel
BeadFit bead_fit(const fitter::Localization& result, const fitter::FitDetails& details, int x_px,
                 int y_px, int roi_px, const fitter::FitOptions& options);

struct ZStackSettings {
  control::DetectionSettings detection;
  SpotFitterSettings find, fit;  ///< finding them in one plane, and fitting their widths in all
  int roi_px = 0;                ///< 0: chosen in the plane that they are found in
  double roi_scale = 1;          ///< of what is chosen
  std::vector<Pick> picks;       ///< in the first plane; none: found
  std::vector<std::int64_t> frames;
};

/// @throws InputError where no bead is found, or the beads' tops are cut off
ZStackBeads beads_of(camera::ImageStack& stack, const ZStackSettings& settings,
                     const std::function<bool()>& stop);

}  // namespace driftd::tools
