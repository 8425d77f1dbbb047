// SPDX-License-Identifier: MIT
// Weights of weighted least squares that nobody gave: what the noise model makes of the light that
// a first fit, of even weights, expects. Owned and called by one thread.
#pragma once

#include <span>
#include <vector>

#include "fitter/fitter.hpp"

namespace driftd::fitter {

class FitWeights {
 public:
  /// All pixels of a ROI as its mean light makes them.
  /// @param batch  variances are those of its pixels' read noise; null: by the noise model
  void weigh_evenly(const Batch& batch, const NoiseModel& noise);
  /// Those of the ROIs that were fitted as the fit expects them, which their fits then start from.
  /// @pre weigh_evenly() of the same batch
  void weigh_by_fits(const Batch& batch, const NoiseModel& noise,
                     std::span<const Localization> fits);

  /// As Batch has them, until the next call.
  const float* variances() const noexcept { return variances_.data(); }
  const Start* starts() const noexcept { return starts_.data(); }  ///< after weigh_by_fits()

 private:
  std::vector<float> variances_;
  std::vector<Start> starts_;
};

}  // namespace driftd::fitter
