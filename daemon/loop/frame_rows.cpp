// SPDX-License-Identifier: MIT
#include "daemon/loop/frame_rows.hpp"

#include <cmath>

namespace driftd::daemon {

using record::FrameRow;
using record::LocalizationRow;

FrameRow frame_row(const FrameResult& result, std::int64_t taken_ns,
                   std::uint32_t reference) noexcept {
  const control::DriftEstimate& d = result.drift;
  FrameRow row;
  row.frame_id = result.frame_id;
  row.camera_time_ns = result.camera_time_ns;
  row.arrival_ns = result.arrival_ns;
  row.taken_ns = taken_ns;
  row.reference = reference;
  row.lock_id = static_cast<std::uint32_t>(result.lock_id);
  row.state = static_cast<std::uint8_t>(result.state);
  row.valid = d.valid;
  row.markers_used = static_cast<std::uint16_t>(d.markers_used);
  row.markers_total = static_cast<std::uint16_t>(d.markers_total);
  if (d.valid) {
    row.x_nm = static_cast<float>(d.drift_nm.x);
    row.y_nm = static_cast<float>(d.drift_nm.y);
    row.x_sd_nm = static_cast<float>(std::sqrt(d.covariance_nm2.xx));
    row.y_sd_nm = static_cast<float>(std::sqrt(d.covariance_nm2.yy));
    row.frame_x_nm = static_cast<float>(d.frame_drift_nm.x);
    row.frame_y_nm = static_cast<float>(d.frame_drift_nm.y);
    row.frame_x_sd_nm = static_cast<float>(std::sqrt(d.frame_covariance_nm2.xx));
    row.frame_y_sd_nm = static_cast<float>(std::sqrt(d.frame_covariance_nm2.yy));
  }
  if (d.witness_valid) {
    row.witness_valid = true;
    row.witness_x_nm = static_cast<float>(d.witness_nm.x);
    row.witness_y_nm = static_cast<float>(d.witness_nm.y);
    row.witnesses_used = static_cast<std::uint16_t>(d.witnesses_used);
  }
  const control::AxialEstimate& z = result.axial;
  row.z_valid = z.valid;
  if (z.valid) {
    row.z_nm = static_cast<float>(z.z_nm);
    row.z_sd_nm = static_cast<float>(z.sd_nm());
    row.frame_z_nm = static_cast<float>(z.frame_z_nm);
    row.frame_z_sd_nm = static_cast<float>(z.frame_sd_nm());
    row.z_markers_used = static_cast<std::uint16_t>(z.markers_used);
  }
  if (z.valid && z.witness_valid) row.witness_z_nm = static_cast<float>(z.witness_z_nm);
  row.in_lock = result.all_in_lock();
  if (has_set_point(result)) {
    row.set_x_nm = result.moved_nm.x;
    row.set_y_nm = result.moved_nm.y;
  }
  if (result.has_correction) {
    row.correction = record::Sent::Unknown;
    row.probe = result.probe;
    row.limited = result.correction.limited;
    row.total_x_nm = result.correction.total_nm.x;
    row.total_y_nm = result.correction.total_nm.y;
    row.delta_x_nm = static_cast<float>(result.correction.delta_nm.x);
    row.delta_y_nm = static_cast<float>(result.correction.delta_nm.y);
  }
  row.z_state = static_cast<std::uint8_t>(result.z.state);
  row.z_lock_id = static_cast<std::uint32_t>(result.z.lock_id);
  if (has_set_point(result.z)) row.set_z_nm = result.z.moved_nm.x;
  if (result.z.has_correction) {
    row.z_correction = record::Sent::Unknown;
    row.total_z_nm = result.z.correction.total_nm.x;
    row.delta_z_nm = static_cast<float>(result.z.correction.delta_nm.x);
  }
  return row;
}

LocalizationRow localization_row(std::uint64_t frame_id, const control::Marker& marker,
                                 const control::MarkerObservation& o,
                                 const control::MarkerResult& result,
                                 const control::AxialResult& axial, bool measures_z) noexcept {
  LocalizationRow row;
  row.frame_id = frame_id;
  row.marker_id = marker.id;
  row.role = static_cast<std::uint8_t>(marker.role);
  row.health = static_cast<std::uint8_t>(result.health);
  row.fitted = o.fitted;
  if (!o.fitted) return row;
  row.x_px = o.x_px;
  row.y_px = o.y_px;
  row.x_sd_px = o.x_sd_px;
  row.y_sd_px = o.y_sd_px;
  row.sigma_px = o.sigma_px;
  row.amplitude_adu = o.amplitude_adu;
  row.background_adu = o.background_adu;
  if (measures_z) {
    row.sigma_x_px = o.sigma_x_px;
    row.sigma_y_px = o.sigma_y_px;
  }
  if (axial.read) {
    row.z_nm = static_cast<float>(axial.z_nm);
    row.z_sd_nm = static_cast<float>(axial.sd_nm);
  }
  if (axial.referenced) row.residual_z_nm = static_cast<float>(axial.residual_nm);
  if (result.health != control::MarkerHealth::Unreferenced) {
    row.residual_x_nm = static_cast<float>(result.residual_nm.x);
    row.residual_y_nm = static_cast<float>(result.residual_nm.y);
  }
  return row;
}

}  // namespace driftd::daemon
