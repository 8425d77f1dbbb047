// SPDX-License-Identifier: MIT
#include "tools/driftfit/spot.hpp"

namespace driftd::tools {

Photons photons_of(const fitter::Localization& fit, const Units& units) {
  return fitter::photons_of(fit, {.roi_px = units.roi_px,
                                  .estimator = units.estimator,
                                  .noise = units.noise,
                                  .excess_noise = units.excess_noise});
}

fitter::PixelType fitter_type(camera::PixelType type) noexcept {
  switch (type) {
    case camera::PixelType::U8:
      return fitter::PixelType::U8;
    case camera::PixelType::U16:
      return fitter::PixelType::U16;
    case camera::PixelType::F32:
      break;
  }
  return fitter::PixelType::F32;
}

}  // namespace driftd::tools
