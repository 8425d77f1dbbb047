// SPDX-License-Identifier: MIT
#include "tests/bench/stillness/observed_markers.hpp"

#include <cmath>
#include <numbers>
#include <stdexcept>

namespace driftd::stillness {
namespace {

/// Spots nearer than this to where a marker should be are fitted as one.
constexpr double kReachInSigmas = 3;

}  // namespace

double fit_sd_px(double photons, double background_e, double read_noise_e, double sigma_px) {
  const double wide_px2 = sigma_px * sigma_px + 1.0 / 12;
  const double noise_e2 = background_e + read_noise_e * read_noise_e;
  const double tau = 2 * std::numbers::pi * wide_px2 * noise_e2 / photons;
  return std::sqrt(wide_px2 / photons * (1 + 4 * tau + std::sqrt(2 * tau / (1 + 4 * tau))));
}

ObservedMarkers::ObservedMarkers(const simulator::Simulation& simulation,
                                 const simulator::Truth& truth, double witness_share)
    : simulation_(simulation), random_(simulation.scenario().seed, 200) {
  simulation.light_of(truth, spots_);
  const double pixel_nm = simulation.scenario().optics.pixel_size_nm;
  double owed = 0;
  for (const simulator::Spot& spot : spots_) {
    owed += witness_share;
    const bool witness = owed >= 1;
    if (witness) owed -= 1;
    markers_.push_back(
        {.id = static_cast<std::uint32_t>(markers_.size() + 1),
         .role = witness ? control::MarkerRole::Witness : control::MarkerRole::Tracking,
         .x_px = spot.x_px - truth.sample_nm.x / pixel_nm,
         .y_px = spot.y_px - truth.sample_nm.y / pixel_nm});
    electrons_.push_back(spot.electrons);
  }
  if (markers_.empty()) throw std::runtime_error("no marker shines at the start");
  observations_.resize(markers_.size());
}

double ObservedMarkers::best_noise_nm() const noexcept {
  const simulator::Scenario& s = simulation_.scenario();
  double weight = 0;
  for (std::size_t i = 0; i < markers_.size(); ++i) {
    if (markers_[i].role != control::MarkerRole::Tracking) continue;
    const double sd_px =
        fit_sd_px(electrons_[i], s.camera.background_e, s.camera.read_noise_e, s.optics.sigma_px);
    weight += 1 / (sd_px * sd_px);
  }
  return s.optics.pixel_size_nm / std::sqrt(weight);
}

std::span<const control::MarkerObservation> ObservedMarkers::observe(
    const simulator::Truth& truth) {
  simulation_.light_of(truth, spots_);
  const simulator::Scenario& s = simulation_.scenario();
  const double pixel_nm = s.optics.pixel_size_nm;
  const double reach_px = kReachInSigmas * s.optics.sigma_px;
  for (std::size_t i = 0; i < markers_.size(); ++i) {
    control::MarkerObservation& o = observations_[i];
    o = {};
    const Vec2 expected_px = {markers_[i].x_px + truth.sample_nm.x / pixel_nm,
                              markers_[i].y_px + truth.sample_nm.y / pixel_nm};
    double electrons = 0, x = 0, y = 0, square = 0;
    for (const simulator::Spot& spot : spots_) {
      const double dx = spot.x_px - expected_px.x, dy = spot.y_px - expected_px.y;
      if (std::abs(dx) > reach_px || std::abs(dy) > reach_px) continue;
      electrons += spot.electrons;
      x += spot.electrons * dx;
      y += spot.electrons * dy;
      square += spot.electrons * (dx * dx + dy * dy) / 2;
    }
    // Drawn for every marker, so that one that blinks leaves the others' noise as it was.
    const double noise_x = random_.normal(), noise_y = random_.normal();
    if (!(electrons > 0)) continue;
    x /= electrons;
    y /= electrons;
    const double apart_px2 = std::max(0.0, square / electrons - (x * x + y * y) / 2);
    const double sigma_px = std::sqrt(s.optics.sigma_px * s.optics.sigma_px + apart_px2);
    const double sd_px =
        fit_sd_px(electrons, s.camera.background_e, s.camera.read_noise_e, sigma_px);
    o = {.fitted = true,
         .x_px = expected_px.x + x + sd_px * noise_x,
         .y_px = expected_px.y + y + sd_px * noise_y,
         .x_sd_px = static_cast<float>(sd_px),
         .y_sd_px = static_cast<float>(sd_px),
         .sigma_px = static_cast<float>(sigma_px),
         .amplitude_adu = static_cast<float>(
             electrons / (2 * std::numbers::pi * sigma_px * sigma_px * s.camera.gain_e_per_adu)),
         .background_adu = static_cast<float>(s.camera.background_e / s.camera.gain_e_per_adu)};
  }
  return observations_;
}

}  // namespace driftd::stillness
