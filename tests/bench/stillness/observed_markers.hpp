// SPDX-License-Identifier: MIT
// What the fits make of a frame. Without drawing it: each marker's true place, with noise of the
// covariance that a maximum-likelihood fit of such a spot has. Or by drawing each marker's ROI and
// fitting it, ten times as slow. Owned by a pilot.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "control/drift/drift_estimator.hpp"
#include "control/drift/roi_tracker.hpp"
#include "fitter/fitter.hpp"
#include "simulator/random.hpp"
#include "simulator/simulation.hpp"

namespace driftd::stillness {

/// Standard deviation of a fitted place, px: the bound of Rieger and Stallinga (2014, ChemPhysChem
/// 15:664, eq. 2), with the read noise counted as background.
double fit_sd_px(double photons, double background_e, double read_noise_e, double sigma_px);

class ObservedMarkers {
 public:
  /// The markers are those that shine at `truth`.
  /// @param witness_share  of them, evenly spread over the list
  /// @throws std::runtime_error when none does
  ObservedMarkers(const simulator::Simulation& simulation, const simulator::Truth& truth,
                  double witness_share);
  ObservedMarkers(const ObservedMarkers&) = delete;
  ObservedMarkers& operator=(const ObservedMarkers&) = delete;
  virtual ~ObservedMarkers() = default;
  const std::vector<control::Marker>& markers() const noexcept { return markers_; }
  /// Noise of the mean over the tracking markers, weighted best.
  double best_noise_nm() const noexcept;
  virtual std::span<const control::MarkerObservation> observe(const simulator::Truth& truth);
  /// Those of the frame observed last.
  std::span<const control::MarkerObservation> observations() const noexcept {
    return observations_;
  }
  /// After the frame's estimate: where the next frame is looked at.
  virtual void follow(const control::DriftEstimator& /*estimator*/, Vec2 /*drift_nm*/) {}

 protected:
  std::vector<control::Marker> markers_;
  std::vector<control::MarkerObservation> observations_;

 private:
  const simulator::Simulation& simulation_;
  simulator::Random random_;
  std::vector<simulator::Spot> spots_;
  std::vector<double> electrons_;
};

/// By ROIs that are drawn and fitted as the daemon does, by Poisson likelihood.
class FittedMarkers final : public ObservedMarkers {
 public:
  FittedMarkers(simulator::Simulation& simulation, const simulator::Truth& truth,
                double witness_share);
  std::span<const control::MarkerObservation> observe(const simulator::Truth& truth) override;
  void follow(const control::DriftEstimator& estimator, Vec2 drift_nm) override;

 private:
  simulator::Simulation& simulation_;
  int roi_px_;
  control::RoiTracker tracker_;
  std::unique_ptr<fitter::LiveFitter> fitter_;
  std::vector<fitter::Start> cold_;
};

}  // namespace driftd::stillness
