// SPDX-License-Identifier: MIT
// When a minimum is a spot. Host and device.
#pragma once

#include <cmath>

#include "fitter/levenberg_marquardt.hpp"
#include "fitter/pixel_sums.hpp"

namespace driftd::fitter {

template <class Model>
DRIFTD_HD bool inside_limits(const typename Model::Parameters& p, int side) {
  const float margin = 1e-3f;
  const Profile f = Model::profile(p);
  const float last = static_cast<float>(side) - 0.5f - margin;
  const float widest = Model::max_sigma_px(side) * (1.0f - margin);
  const float narrowest = Model::kMinSigmaPx * (1.0f + margin);
  return f.x_px > -0.5f + margin && f.x_px < last && f.y_px > -0.5f + margin && f.y_px < last &&
         f.sigma_x_px > narrowest && f.sigma_x_px < widest && f.sigma_y_px > narrowest &&
         f.sigma_y_px < widest;
}

template <class Model, class BackEnd>
DRIFTD_HD bool is_spot(BackEnd& pixels, const Minimum<Model>& minimum) {
  return minimum.at.alpha > 0 && inside_limits<Model>(minimum.parameters, pixels.side());
}

}  // namespace driftd::fitter
