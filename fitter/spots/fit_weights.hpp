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
  void weigh_evenly(const Batch& batch, const FitOptions& options);
  /// Those of the ROIs that were fitted as the fit expects them, which their fits then start from.
  /// @pre weigh_evenly() of the same batch, and a fit with its variances() and details()
  void weigh_by_fits(const Batch& batch, const NoiseModel& noise,
                     std::span<const Localization> fits);

  /// As Batch has them, until the next call.
  const float* variances() const noexcept { return variances_.data(); }
  const Start* starts() const noexcept { return starts_.data(); }  ///< after weigh_by_fits()
  /// What the first fit tells the angles by; null, as angles_rad() is: the model has none.
  FitDetails* details() noexcept { return details_.empty() ? nullptr : details_.data(); }
  const float* angles_rad() const noexcept {  ///< after weigh_by_fits()
    return angles_rad_.empty() ? nullptr : angles_rad_.data();
  }

 private:
  std::vector<float> variances_;
  std::vector<Start> starts_;
  std::vector<FitDetails> details_;
  std::vector<float> angles_rad_;
};

}  // namespace driftd::fitter
