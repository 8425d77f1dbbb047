// SPDX-License-Identifier: MIT
#include "control/axial/calibration/sweep_fits.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace driftd::control {
namespace {

/// Of the frames of a place, of a marker that counts there.
constexpr double kSeenShare = 0.5;

}  // namespace

double middle(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t cut = values.size() / 4;
  double sum = 0;
  for (std::size_t i = cut; i < values.size() - cut; ++i) sum += values[i];
  return sum / static_cast<double>(values.size() - 2 * cut);
}

BeadFit SweepFits::fit_at(std::initializer_list<std::size_t> places, std::size_t marker) const {
  BeadFit fit{.fitted = true};
  const double share = 1.0 / static_cast<double>(places.size());
  for (const std::size_t p : places) {
    const MarkerAtPlace& m = record_.at(p, marker);
    if (m.frames == 0 || m.saturated > 0 || m.frames < kSeenShare * record_.visit(p).frames)
      return {};
    const double weight = share / m.frames;
    fit.x_px += weight * m.x_px;
    fit.y_px += weight * m.y_px;
    fit.sigma_x_px += weight * m.sigma_x_px;
    fit.sigma_y_px += weight * m.sigma_y_px;
    fit.variance.x_px2 += weight * weight * m.variance_x_px2;
    fit.variance.y_px2 += weight * weight * m.variance_y_px2;
    fit.photons += weight * m.electrons;
    fit.background_e += weight * m.background_e;
    fit.dimness += weight * m.dimness;
    fit.excess += weight * m.excess;
  }
  return fit;
}

std::optional<Vec2> SweepFits::moved_at(std::size_t place, std::size_t marker) const {
  const MarkerAtPlace& m = record_.at(place, marker);
  const int early = m.frames - m.late_frames;
  if (m.late_frames == 0 || early == 0) return std::nullopt;
  return Vec2{m.late_x_px / m.late_frames - (m.sigma_x_px - m.late_x_px) / early,
              m.late_y_px / m.late_frames - (m.sigma_y_px - m.late_y_px) / early};
}

ZStackBeads SweepFits::beads_of_steps() const {
  ZStackBeads beads;
  beads.beads = record_.markers();
  beads.planes = record_.plan().steps();
  beads.roi_px = context_.fits.roi_px;
  beads.fits.resize(beads.planes * beads.beads);
  const std::vector<std::size_t> up = stage_.steps_of(SweepPart::Up);
  const std::vector<std::size_t> down = stage_.steps_of(SweepPart::Down);
  for (std::size_t s = 0; s < beads.planes; ++s) {
    beads.frames.push_back(static_cast<std::int64_t>(s));
    for (std::size_t i = 0; i < beads.beads; ++i) {
      beads.fits[s * beads.beads + i] = fit_at({up[s], down[s]}, i);
      for (const std::size_t p : {up[s], down[s]})
        beads.saturated += record_.at(p, i).saturated > 0 ? 1U : 0U;
    }
  }
  return beads;
}

ZStackBeads SweepFits::beads_of_both(const std::vector<double>& drift,
                                     CalibrationSettings& settings) const {
  std::vector<std::pair<double, std::size_t>> visits;
  for (const SweepPart part : {SweepPart::Up, SweepPart::Down})
    for (const std::size_t p : stage_.places_of(part))
      visits.emplace_back(places_[p].z_nm + drift[p], p);
  std::sort(visits.begin(), visits.end());
  ZStackBeads beads;
  beads.beads = record_.markers();
  beads.planes = visits.size();
  beads.roi_px = context_.fits.roi_px;
  settings.z_nm.clear();
  settings.step.clear();
  settings.frames_averaged = record_.plan().settings().frames_per_place;
  for (const auto& [z_nm, p] : visits) {
    settings.step.push_back(settings.z_nm.size());
    beads.frames.push_back(static_cast<std::int64_t>(settings.z_nm.size()));
    settings.z_nm.push_back(z_nm);
    for (std::size_t i = 0; i < beads.beads; ++i) {
      beads.fits.push_back(fit_at({p}, i));
      beads.saturated += record_.at(p, i).saturated > 0 ? 1U : 0U;
    }
  }
  return beads;
}

PlaceLooks SweepFits::looks() const {
  const bool two = context_.method == AxialMethod::Astigmatic;
  std::vector<Vec2> means(record_.markers());
  std::vector<double> counts(record_.markers(), 0);
  for (std::size_t p = 0; p < places_.size(); ++p) {
    for (std::size_t i = 0; i < record_.markers(); ++i) {
      const BeadFit fit = fit_at({p}, i);
      if (fit.fitted) means[i].x += fit.sigma_x_px, means[i].y += fit.sigma_y_px, ++counts[i];
    }
  }
  PlaceLooks looks(places_.size());
  for (std::size_t p = 0; p < places_.size(); ++p) {
    std::vector<double> x, y, moved_x, moved_y;
    double variance = 0;
    for (std::size_t i = 0; i < record_.markers(); ++i) {
      const BeadFit fit = fit_at({p}, i);
      if (!fit.fitted) continue;
      if (const auto moved = moved_at(p, i))
        moved_x.push_back(moved->x), moved_y.push_back(two ? moved->y : 0);
      x.push_back(fit.sigma_x_px - means[i].x / counts[i]);
      y.push_back(two ? fit.sigma_y_px - means[i].y / counts[i] : 0);
      variance += std::max(fit.variance.x_px2, two ? fit.variance.y_px2 : 0);
    }
    if (!places_[p].is_measured() || x.empty()) continue;
    const double sd = kMedianSd * std::sqrt(variance) / static_cast<double>(x.size());
    looks[p] = PlaceLook{.px = {middle(std::move(x)), middle(std::move(y))}, .sd_px = sd};
    if (!moved_x.empty())
      looks[p]->moved_px = {middle(std::move(moved_x)), middle(std::move(moved_y))};
  }
  return looks;
}

}  // namespace driftd::control
