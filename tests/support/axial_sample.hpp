// SPDX-License-Identifier: MIT
// A few markers on images of the simulator's optics, fitted by the fitter and followed by both
// estimators as the daemon's loop does, without frames. Pixels are electrons. Seeded by the
// caller's generator.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "bench/axial/readings.hpp"
#include "control/axial/axial_estimator.hpp"

namespace driftd::test {

class AxialSample {
 public:
  /// The spots of each marker, from the middle of the first pixel of its ROI.
  using Markers = std::vector<std::vector<simulator::Spot>>;
  static constexpr double kPixelNm = 100;

  AxialSample(const bench::AxialSetup& setup, control::BrightnessCurves curves, std::size_t markers)
      : setup_(setup),
        curves_(std::move(curves)),
        lateral_(settings()),
        axial_(settings(), markers),
        observations_(markers) {
    std::vector<control::Marker> listed(markers);
    for (std::size_t i = 0; i < markers; ++i)
      listed[i] = {.id = static_cast<std::uint32_t>(i + 1), .x_px = x_px(i), .y_px = 6};
    lateral_.set_markers(listed);
  }

  /// `frames` exposures of the same spots. @param surroundings  the loop looks around the ROIs
  const control::AxialEstimate& expose(const AxialScene& scene, const Markers& markers, int frames,
                                       simulator::Random& random, bool surroundings = true) {
    const int side = setup_.roi_px, reach = 3 * side / 2, field = 2 * reach + 1;
    const int edge = reach - side / 2;
    std::vector<std::vector<double>> expected;
    for (std::vector<simulator::Spot> spots : markers) {
      for (simulator::Spot& spot : spots) spot.x_px += edge, spot.y_px += edge;
      expected.push_back(scene.expected(spots, field));
    }
    const auto area = static_cast<std::size_t>(side * side);
    std::vector<double> roi(area), around(16);
    std::vector<float> pixels(markers.size() * area), seen(around.size());
    for (int frame = 0; frame < frames; ++frame) {
      for (std::size_t i = 0; i < markers.size(); ++i) {
        const auto at = [&](int x, int y) {
          return expected[i][static_cast<std::size_t>(y * field + x)];
        };
        for (int k = 0; k < side * side; ++k)
          roi[static_cast<std::size_t>(k)] = at(edge + k % side, edge + k / side);
        scene.draw(roi, random, &pixels[i * area]);
        for (int k = 0; k < 4; ++k) {
          const int along = 2 * reach * k / 4, far = 2 * reach;
          const auto four = around.begin() + std::ptrdiff_t{4} * k;
          const double edges[] = {at(along, 0), at(far, along), at(far - along, far),
                                  at(0, far - along)};
          std::copy(std::begin(edges), std::end(edges), four);
        }
        scene.draw(around, random, seen.data());
        std::nth_element(seen.begin(), seen.begin() + 8, seen.end());
        observations_[i].surroundings_adu = surroundings ? seen[8] : std::nanf("");
      }
      const auto fits = bench::fit_images(setup_, scene, pixels);
      for (std::size_t i = 0; i < fits.size(); ++i) observe(i, fits[i]);
      lateral_.update(observations_);
      axial_.update(curves_, {1, 0, scene.read_noise_e(), side * side}, observations_, lateral_);
    }
    return estimate();
  }
  /// A lock's reference.
  const control::AxialEstimate& reference(const AxialScene& scene, const Markers& markers,
                                          int frames, simulator::Random& random,
                                          bool surroundings = true) {
    lateral_.begin_reference(frames);
    return expose(scene, markers, frames, random, surroundings);
  }

  const control::AxialEstimate& estimate() const { return axial_.estimate(); }
  const control::AxialResult& result(std::size_t i) const { return axial_.results()[i]; }
  const control::MarkerResult& lateral(std::size_t i) const { return lateral_.results()[i]; }
  const control::MarkerObservation& seen(std::size_t i) const { return observations_[i]; }
  /// Of z; control::AxialEstimator::zeros().
  std::uint32_t zeros() const { return axial_.zeros(); }
  bool referenced(std::size_t i) const { return std::isfinite(reference_of(i).z_nm); }
  /// Of the displacement of a marker in the last frame, as its vote has it.
  double sd_nm(std::size_t i) const {
    const control::AxialResult& z = result(i);
    return std::sqrt(z.sd_nm * z.sd_nm + reference_of(i).z_variance_nm2 +
                     std::pow(control::AxialEstimator::kScaleShare * z.displacement_nm, 2));
  }

 private:
  /// Those of config/options_tracking.cpp, without an average.
  static control::EstimatorSettings settings() {
    return {.pixel_size_nm = kPixelNm,
            .average_frames = 1,
            .min_markers = 3,
            .outlier_sigma = 4,
            .outlier_floor_nm = 3,
            .max_width_change = 0.5,
            .max_brightness_change = 0.8};
  }
  static double x_px(std::size_t i) { return 6 + 100.0 * static_cast<double>(i); }
  control::MarkerReference reference_of(std::size_t i) const {
    control::MarkerReference reference;
    axial_.add_reference(i, reference);
    return reference;
  }
  void observe(std::size_t i, const bench::Fit& fit) {
    control::MarkerObservation& o = observations_[i];
    const fitter::Localization& s = fit.spot;
    o.fitted = fit.good();
    o.x_px = x_px(i) - 6 + static_cast<double>(s.x_px);
    o.y_px = static_cast<double>(s.y_px);
    o.x_sd_px = s.x_sd_px, o.y_sd_px = s.y_sd_px;
    o.sigma_px = control::mean_width(s.sigma_x_px, s.sigma_y_px);
    o.amplitude_adu = s.amplitude_adu, o.background_adu = s.background_adu;
    o.sigma_x_px = s.sigma_x_px, o.sigma_y_px = s.sigma_y_px;
    o.sigma_x_sd_px = s.sigma_x_sd_px, o.sigma_y_sd_px = s.sigma_y_sd_px;
    o.chi_square = s.chi_square;
  }

  bench::AxialSetup setup_;
  control::BrightnessCurves curves_;
  control::DriftEstimator lateral_;
  control::AxialEstimator axial_;
  std::vector<control::MarkerObservation> observations_;
};

}  // namespace driftd::test
