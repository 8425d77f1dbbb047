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
#include "control/axial/width_curve.hpp"
#include "control/search/marker_detection.hpp"
#include "tools/driftfit/picks.hpp"
#include "tools/driftfit/spot_fitter.hpp"

namespace driftd::tools {

/// A bead in a plane.
struct BeadFit {
  bool fitted = false;  ///< the fit found a spot where the others say that it is
  double x_px = 0, y_px = 0;
  double sigma_x_px = 0, sigma_y_px = 0;
  control::WidthVariance variance = {};
  double photons = 0;  ///< counts where the gain is not known
  double background_e = 0;
  double dimness = 0;  ///< control::SpotFit::dimness()
  double excess = 0;   ///< what chi-square of a pixel has over 1, for each electron
};
/// @param x_px, y_px  of the ROI's first pixel
BeadFit bead_fit(const fitter::Localization& result, const fitter::FitDetails& details, int x_px,
                 int y_px, int roi_px, const fitter::FitOptions& options);

struct ZStackBeads {
  std::size_t beads = 0, planes = 0;
  std::vector<BeadFit> fits;         ///< plane after plane
  std::vector<std::int64_t> frames;  ///< of the planes
  std::int64_t found_in = 0;         ///< the frame that the beads were found in
  int roi_px = 0;
  std::size_t saturated = 0;  ///< images of beads that reach the saturation: they have no fit

  const BeadFit& at(std::size_t plane, std::size_t bead) const {
    return fits[plane * beads + bead];
  }
};

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
