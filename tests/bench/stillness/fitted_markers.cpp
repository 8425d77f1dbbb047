// SPDX-License-Identifier: MIT
// The second half of observed_markers.hpp: ROIs that are drawn and fitted.
#include <algorithm>
#include <cmath>

#include "tests/bench/stillness/observed_markers.hpp"

namespace driftd::stillness {
namespace {

/// As the daemon chooses it: ten sigma, an odd number.
int roi_px_of(const simulator::Scenario& scenario) {
  const int side_px = static_cast<int>(std::lround(10 * scenario.optics.sigma_px)) | 1;
  return std::clamp(side_px, fitter::kMinRoiPx, 63);
}

fitter::FitOptions options_of(const simulator::CameraModel& camera) {
  fitter::FitOptions options;
  options.estimator = fitter::Estimator::PoissonLikelihood;
  options.noise = {.gain_e_per_adu = static_cast<float>(camera.gain_e_per_adu),
                   .read_noise_e = static_cast<float>(camera.read_noise_e),
                   .offset_adu = static_cast<float>(camera.offset_adu)};
  return options;
}

}  // namespace

FittedMarkers::FittedMarkers(simulator::Simulation& simulation, const simulator::Truth& truth,
                             double witness_share)
    : ObservedMarkers(simulation, truth, witness_share),
      simulation_(simulation),
      roi_px_(roi_px_of(simulation.scenario())),
      tracker_(roi_px_, 1.0),
      fitter_(fitter::make_cpu_live_fitter(roi_px_, markers_.size(),
                                           options_of(simulation.scenario().camera))),
      cold_(markers_.size()) {
  tracker_.set_markers(markers_);
}

std::span<const control::MarkerObservation> FittedMarkers::observe(const simulator::Truth& truth) {
  const simulator::CameraModel& camera = simulation_.scenario().camera;
  for (std::size_t i = 0; i < markers_.size(); ++i) {
    const control::RoiOrigin roi = tracker_.origin(i);
    control::MarkerObservation& o = observations_[i];
    o = {};
    o.inside_frame = roi.x_px >= 0 && roi.y_px >= 0 && roi.x_px + roi_px_ <= camera.width_px &&
                     roi.y_px + roi_px_ <= camera.height_px;
    if (!o.inside_frame) {
      std::fill_n(fitter_->staging(i), roi_px_ * roi_px_, std::uint16_t{0});
      continue;
    }
    simulation_.image_of(truth,
                         {.offset_x_px = roi.x_px,
                          .offset_y_px = roi.y_px,
                          .width_px = roi_px_,
                          .height_px = roi_px_,
                          .exposure_us = camera.exposure_us},
                         fitter_->staging(i));
  }
  const auto fits = fitter_->fit(cold_);
  for (std::size_t i = 0; i < fits.size(); ++i) {
    const fitter::Localization& fit = fits[i];
    const control::RoiOrigin roi = tracker_.origin(i);
    observations_[i] = {.fitted = fitter::converged(fit.status),
                        .inside_frame = observations_[i].inside_frame,
                        .x_px = roi.x_px + static_cast<double>(fit.x_px),
                        .y_px = roi.y_px + static_cast<double>(fit.y_px),
                        .x_sd_px = fit.x_sd_px,
                        .y_sd_px = fit.y_sd_px,
                        .sigma_px = fit.sigma_x_px,
                        .amplitude_adu = fit.amplitude_adu,
                        .background_adu = fit.background_adu};
  }
  return observations_;
}

void FittedMarkers::follow(const control::DriftEstimator& estimator, Vec2 drift_nm) {
  const double pixel_nm = simulation_.scenario().optics.pixel_size_nm;
  tracker_.follow(observations_, estimator.results(), estimator.reference_px(),
                  {drift_nm.x / pixel_nm, drift_nm.y / pixel_nm});
}

}  // namespace driftd::stillness
