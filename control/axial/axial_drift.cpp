// SPDX-License-Identifier: MIT
#include "control/axial/axial_drift.hpp"

#include <cmath>

namespace driftd::control {

DriftEstimate as_drift(const AxialEstimate& e) noexcept {
  const bool told = e.valid && std::isfinite(e.z_nm + e.frame_z_nm) &&
                    std::isfinite(e.variance_nm2 + e.frame_variance_nm2);
  return {.valid = told,
          .drift_nm = {e.z_nm, 0},
          .frame_drift_nm = {e.frame_z_nm, 0},
          .covariance_nm2 = {.xx = e.variance_nm2},
          .frame_covariance_nm2 = {.xx = e.frame_variance_nm2},
          .markers_used = e.markers_used,
          .markers_total = e.markers_total,
          .frames_averaged = e.frames_averaged,
          .witness_valid = e.witness_valid,
          .witness_nm = {e.witness_z_nm, 0},
          .witnesses_used = e.witnesses_used,
          .frame_witness_nm = {e.frame_witness_z_nm, 0},
          .frame_noise_nm2 = {e.frame_noise_nm2, 0},
          .frame_fit_noise_nm2 = {e.frame_fit_noise_nm2, 0},
          .frame_witness_noise_nm2 = {e.frame_witness_noise_nm2, 0}};
}

}  // namespace driftd::control
