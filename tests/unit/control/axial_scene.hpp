// SPDX-License-Identifier: MIT
// Markers at different heights on a sample that moves in z, as their fits would report them, for
// tests of z: widths by Huang's formula (Science 2008), with noise. Deterministic for a seed.
#pragma once

#include <cmath>
#include <random>
#include <vector>

#include "control/axial/axial_estimator.hpp"
#include "unit/control/marker_scene.hpp"

namespace driftd::control::test {

/// sigma 1.1 px in its focus, 220 nm from the crossing, twice as wide some 600 nm from it.
inline double huang_px(double z_nm, double focus_nm) {
  const double off = (z_nm - focus_nm) / 350;
  return 1.1 * std::sqrt(1 + off * off);
}
inline double width_x_px(double z_nm) {
  return huang_px(z_nm, -220);
}
inline double width_y_px(double z_nm) {
  return huang_px(z_nm, 220);
}
inline WidthCurve huang_curve(double scatter_factor = 1) {
  std::vector<WidthCurve::Knot> knots;
  for (int z = -1000; z <= 1000; z += 50)
    knots.push_back(
        {.z_nm = static_cast<double>(z), .sigma_x_px = width_x_px(z), .sigma_y_px = width_y_px(z)});
  return {knots, scatter_factor, AxialMethod::Astigmatic, {-500, 500}};
}

class AxialScene {
 public:
  static constexpr double kWidthSdPx = 0.009;  ///< some 4 nm of z

  AxialScene(const Scene& scene, unsigned seed) : lateral_(scene, seed), random_(seed + 1) {
    std::normal_distribution<double> height(0, 60);
    for (std::size_t i = 0; i < lateral_.markers().size(); ++i)
      heights_nm.push_back(height(random_));
  }
  const std::vector<Marker>& markers() const { return lateral_.markers(); }

  /// @param z_nm  of the sample
  std::vector<MarkerObservation>& observe(int frame, double z_nm) {
    observations_ = lateral_.observe(frame);
    std::normal_distribution<double> noise(0, kWidthSdPx);
    for (std::size_t i = 0; i < observations_.size(); ++i) {
      MarkerObservation& o = observations_[i];
      const double z = z_nm + heights_nm[i];
      o.sigma_x_px = static_cast<float>(width_x_px(z) + noise(random_));
      o.sigma_y_px = static_cast<float>(width_y_px(z) + noise(random_));
      o.sigma_px = mean_width(o.sigma_x_px, o.sigma_y_px);
      o.sigma_x_sd_px = o.sigma_y_sd_px = static_cast<float>(kWidthSdPx);
    }
    return observations_;
  }

  std::vector<double> heights_nm;

 private:
  MarkerScene lateral_;
  std::mt19937 random_;
  std::vector<MarkerObservation> observations_;
};

/// Both estimators on a scene, as the loop calls them.
struct AxialPair {
  explicit AxialPair(const AxialScene& scene, EstimatorSettings settings = scene_settings())
      : lateral(settings), axial(settings, scene.markers().size()) {
    lateral.set_markers(scene.markers());
  }
  const AxialEstimate& update(const std::vector<MarkerObservation>& observations) {
    drift = lateral.update(observations);
    return axial.update(curves, units, observations, lateral);
  }
  /// A lock's reference at z_nm.
  void take_reference(AxialScene& scene, int frames, double z_nm = 0) {
    lateral.begin_reference(frames);
    for (int i = 0; i < frames; ++i) update(scene.observe(i, z_nm));
  }

  BrightnessCurves curves = BrightnessCurves({huang_curve()});
  FitUnits units;
  DriftEstimator lateral;
  AxialEstimator axial;
  DriftEstimate drift;
};

}  // namespace driftd::control::test
