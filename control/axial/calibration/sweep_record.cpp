// SPDX-License-Identifier: MIT
#include "control/axial/calibration/sweep_record.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "control/axial/axial_estimator.hpp"

namespace driftd::control {

SweepRecord::SweepRecord(SweepPlan plan, std::size_t markers)
    : plan_(std::move(plan)),
      markers_(markers),
      visits_(plan_.places().size() + 1),
      sums_(visits_.size() * markers) {}

void SweepRecord::add(std::size_t place, const SweepFrame& frame) noexcept {
  SweepVisit& visit = visits_[place];
  const bool is_late = place < back() && 2 * visit.frames >= plan_.places()[place].frames;
  ++visit.frames;
  visit.seconds += frame.seconds;
  if (frame.has_lateral) {
    ++visit.lateral_frames;
    visit.lateral_nm = {visit.lateral_nm.x + frame.lateral_nm.x,
                        visit.lateral_nm.y + frame.lateral_nm.y};
  }
  if (frame.has_spot) {
    ++visit.spot_frames;
    visit.spot_px = {visit.spot_px.x + frame.spot_px.x, visit.spot_px.y + frame.spot_px.y};
    visit.spot_variance += frame.spot_variance_px2;
    if (is_late) {
      ++visit.late_spot_frames;
      visit.late_spot_px = {visit.late_spot_px.x + frame.spot_px.x,
                            visit.late_spot_px.y + frame.spot_px.y};
    }
  }
  FitUnits units = frame.units;
  const bool gain_known = units.gain_e_per_adu > 0;
  if (!gain_known) units.gain_e_per_adu = 1;
  const std::size_t count = std::min(frame.markers.size(), markers_);
  for (std::size_t i = 0; i < count; ++i) {
    const MarkerObservation& o = frame.markers[i];
    MarkerAtPlace& sum = sums_[place * markers_ + i];
    if (o.saturated) ++sum.saturated;
    if (!o.fitted) continue;
    const SpotFit fit = spot_fit(o, units);
    if (!(fit.sigma_x_px > 0 && fit.sigma_y_px > 0) ||
        !std::isfinite(fit.sigma_x_px + fit.sigma_y_px + fit.variance.x_px2 + fit.variance.y_px2))
      continue;
    ++sum.frames;
    sum.x_px += o.x_px;
    sum.y_px += o.y_px;
    sum.sigma_x_px += fit.sigma_x_px;
    sum.sigma_y_px += fit.sigma_y_px;
    sum.variance_x_px2 += fit.variance.x_px2;
    sum.variance_y_px2 += fit.variance.y_px2;
    const double electrons = fit.electrons();
    sum.electrons += electrons;
    sum.background_e += fit.background_e;
    if (electrons > 0 && gain_known) {
      sum.dimness += fit.dimness();
      if (fit.pixels > 0) sum.excess += (fit.chi_square / fit.pixels - 1) / electrons;
    }
    if (!is_late) continue;
    ++sum.late_frames;
    sum.late_x_px += fit.sigma_x_px;
    sum.late_y_px += fit.sigma_y_px;
  }
}

}  // namespace driftd::control
