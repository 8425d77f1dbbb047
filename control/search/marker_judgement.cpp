// SPDX-License-Identifier: MIT
// The second half of marker_detection.hpp: which fitted candidates make markers, and which of them
// become witnesses.
#include <algorithm>
#include <cmath>
#include <limits>

#include "control/search/marker_detection.hpp"
#include "control/values/number_text.hpp"

namespace driftd::control {
namespace {

/// Share of the amplitude by which a real spot may differ from a Gaussian (rms over the ROI) before
/// its residuals count as excess: diffraction rings, pixel integration, shot noise of the peak.
constexpr double kModelError = 0.025;
/// Free parameters of the circular Gaussian: x, y, sigma, amplitude, background.
constexpr int kParameters = 5;

struct Spot {
  const Candidate* candidate = nullptr;
  const fitter::Localization* fit = nullptr;
  double x_px = 0, y_px = 0;  ///< region pixels; the candidate's where the fit failed
  bool fitted = false;
  double precision_px() const { return std::hypot(fit->x_sd_px, fit->y_sd_px); }
};

/// "SNR 4.2 below 10.0"
std::string comparison(const char* quantity, double value, const char* relation, double limit,
                       int decimals) {
  return std::string(quantity) + " " + number(value, decimals) + " " + relation + " " +
         number(limit, decimals);
}

bool all_finite(const fitter::Localization& f) {
  return std::isfinite(f.x_px) && std::isfinite(f.y_px) && std::isfinite(f.sigma_x_px) &&
         std::isfinite(f.sigma_y_px) && std::isfinite(f.amplitude_adu) &&
         std::isfinite(f.chi_square) && std::isfinite(f.x_sd_px) && std::isfinite(f.y_sd_px);
}

Spot spot_of(const Candidate& c, const fitter::Localization& f, const DetectionSettings& settings) {
  Spot spot{&c, &f, static_cast<double>(c.x_px), static_cast<double>(c.y_px)};
  if (!fitter::converged(f.status) || !all_finite(f)) return spot;
  const double x = c.roi_x_px + static_cast<double>(f.x_px);
  const double y = c.roi_y_px + static_cast<double>(f.y_px);
  const double reach_px = std::max(2.0, 0.25 * settings.roi_px);
  if (std::hypot(x - c.x_px, y - c.y_px) > reach_px) return spot;
  spot.x_px = x;
  spot.y_px = y;
  spot.fitted = true;
  return spot;
}

/// What the spot itself has against being a marker; empty: nothing.
std::string fault_of(const Spot& spot, int width_px, int height_px,
                     const DetectionSettings& settings) {
  const fitter::Localization& f = *spot.fit;
  const Candidate& c = *spot.candidate;
  if (c.saturated) return "saturated";
  if (!spot.fitted) return "no spot could be fitted";
  const double sigma_px = std::sqrt(static_cast<double>(f.sigma_x_px * f.sigma_y_px));
  if (!(sigma_px >= settings.min_sigma_px))
    return comparison("sigma in px", sigma_px, "below", settings.min_sigma_px, 2);
  if (sigma_px > settings.max_sigma_px)
    return comparison("sigma in px", sigma_px, "above", settings.max_sigma_px, 2);
  const double amplitude = static_cast<double>(f.amplitude_adu);
  const int degrees = std::max(1, settings.roi_px * settings.roi_px - kParameters);
  const double rms = std::sqrt(static_cast<double>(f.chi_square) / degrees);
  // In a dense field the background's noise contains the neighbours; the residuals do not.
  const double noise = std::max(kQuantisationNoiseAdu, std::min(c.noise_adu, rms));
  if (!(amplitude >= settings.min_snr * noise))
    return comparison("SNR", amplitude / noise, "below", settings.min_snr, 1);
  const double ratio = rms / std::hypot(c.noise_adu, kModelError * amplitude);
  if (ratio > settings.max_residual_ratio)
    return comparison("residuals over expected noise", ratio, "above", settings.max_residual_ratio,
                      1);
  const double half_px = 0.5 * (settings.roi_px - 1);
  const double clearance_px = std::min(std::min(spot.x_px, width_px - 1 - spot.x_px) - half_px,
                                       std::min(spot.y_px, height_px - 1 - spot.y_px) - half_px);
  if (clearance_px < settings.border_px)
    return comparison("ROI's distance to the border in px", clearance_px, "below",
                      settings.border_px, 1);
  return {};
}

double distance(const Spot& a, const Spot& b) {
  return std::hypot(a.x_px - b.x_px, a.y_px - b.y_px);
}

/// Candidates come brightest first: an earlier one at the same place is the same spot.
bool same_spot(const Spot& a, const Spot& b, const DetectionSettings& settings) {
  return distance(a, b) < std::max(1.0, 0.5 * settings.expected_sigma_px);
}

std::string neighbour_of(std::size_t index, std::span<const Spot> spots,
                         const DetectionSettings& settings) {
  const Spot& spot = spots[index];
  const double wanted_px =
      settings.min_distance_px > 0 ? settings.min_distance_px : settings.roi_px;
  double nearest_px = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < spots.size(); ++i) {
    if (i == index) continue;
    if (same_spot(spot, spots[i], settings)) {
      if (i < index) return "the same spot as another candidate";
      continue;
    }
    if (spots[i].candidate->height_adu >= kDisturbingHeight * spot.candidate->height_adu)
      nearest_px = std::min(nearest_px, distance(spot, spots[i]));
  }
  if (nearest_px >= wanted_px) return {};
  return comparison("distance to the next spot in px", nearest_px, "below", wanted_px, 1);
}

double square_distance(const Marker& a, const Marker& b) {
  return (a.x_px - b.x_px) * (a.x_px - b.x_px) + (a.y_px - b.y_px) * (a.y_px - b.y_px);
}

/// One witness from each of `count` equal slices of the quality order, each chosen so that the sum
/// of squared distances from every marker to its nearest witness is least.
void choose_witnesses(std::vector<Marker>& markers, std::size_t count) {
  std::vector<double> nearest(markers.size(), std::numeric_limits<double>::infinity());
  for (std::size_t slice = 0; slice < count; ++slice) {
    const std::size_t begin = slice * markers.size() / count;
    const std::size_t end = (slice + 1) * markers.size() / count;
    std::size_t best = begin;
    double best_cost = std::numeric_limits<double>::infinity();
    for (std::size_t i = begin; i < end; ++i) {
      double cost = 0;
      for (std::size_t j = 0; j < markers.size(); ++j)
        cost += std::min(nearest[j], square_distance(markers[i], markers[j]));
      if (cost < best_cost) {
        best = i;
        best_cost = cost;
      }
    }
    markers[best].role = MarkerRole::Witness;
    for (std::size_t j = 0; j < markers.size(); ++j)
      nearest[j] = std::min(nearest[j], square_distance(markers[best], markers[j]));
  }
}

std::size_t witness_count(std::size_t markers, const DetectionSettings& settings) {
  if (markers < 2 || static_cast<int>(markers) < settings.min_for_witness) return 0;
  if (!(settings.witness_fraction > 0)) return 0;
  const double wanted = std::round(settings.witness_fraction * static_cast<double>(markers));
  const std::size_t half = markers / 2;
  return static_cast<std::size_t>(std::clamp(wanted, 1.0, static_cast<double>(half)));
}

std::vector<Spot> spots_of(std::span<const Candidate> candidates,
                           std::span<const fitter::Localization> fits,
                           const DetectionSettings& settings) {
  std::vector<Spot> spots;
  for (std::size_t i = 0; i < std::min(candidates.size(), fits.size()); ++i)
    spots.push_back(spot_of(candidates[i], fits[i], settings));
  return spots;
}

}  // namespace

bool LeftOut::meets(double at_x_px, double at_y_px, int roi_px) const noexcept {
  const double reach_px = 0.5 * (side_px + roi_px);
  return side_px > 0 && std::abs(at_x_px - x_px) < reach_px && std::abs(at_y_px - y_px) < reach_px;
}

std::vector<FittedSpot> fitted_spots(std::span<const Candidate> candidates,
                                     std::span<const fitter::Localization> fits, int offset_x_px,
                                     int offset_y_px, const DetectionSettings& settings) {
  const std::vector<Spot> spots = spots_of(candidates, fits, settings);
  std::vector<FittedSpot> result;
  for (auto spot = spots.begin(); spot != spots.end(); ++spot) {
    if (!spot->fitted || spot->candidate->saturated) continue;
    const auto is_same = [&](const Spot& s) { return same_spot(s, *spot, settings); };
    if (std::any_of(spots.begin(), spot, is_same)) continue;
    const fitter::Localization& f = *spot->fit;
    result.push_back({.place_px = {spot->x_px + offset_x_px, spot->y_px + offset_y_px},
                      .sigma_px = std::sqrt(static_cast<double>(f.sigma_x_px * f.sigma_y_px)),
                      .amplitude_adu = static_cast<double>(f.amplitude_adu)});
  }
  return result;
}

DetectionResult judge_candidates(std::span<const Candidate> candidates,
                                 std::span<const fitter::Localization> fits, int width_px,
                                 int height_px, int offset_x_px, int offset_y_px,
                                 const DetectionSettings& settings) {
  const std::vector<Spot> spots = spots_of(candidates, fits, settings);
  DetectionResult result;
  const auto reject = [&](const Spot& spot, std::string reason) {
    result.rejected.push_back(
        {spot.x_px + offset_x_px, spot.y_px + offset_y_px, std::move(reason)});
  };
  std::vector<Spot> good;
  for (std::size_t i = 0; i < spots.size(); ++i) {
    std::string reason = fault_of(spots[i], width_px, height_px, settings);
    if (settings.left_out.meets(spots[i].x_px + offset_x_px, spots[i].y_px + offset_y_px,
                                settings.roi_px))
      reason = "in the region of axial.reflection";
    if (reason.empty()) reason = neighbour_of(i, spots, settings);
    if (reason.empty())
      good.push_back(spots[i]);
    else
      reject(spots[i], std::move(reason));
  }
  std::stable_sort(good.begin(), good.end(), [](const Spot& a, const Spot& b) {
    return a.precision_px() < b.precision_px();
  });
  const auto kept =
      static_cast<std::size_t>(std::clamp(settings.max_count, 0, static_cast<int>(kMaxMarkers)));
  for (std::size_t i = kept; i < good.size(); ++i)
    reject(good[i], std::to_string(kept) + " better ones found");
  good.resize(std::min(good.size(), kept));
  for (const Spot& spot : good)
    result.markers.push_back({.id = static_cast<std::uint32_t>(result.markers.size() + 1),
                              .role = MarkerRole::Tracking,
                              .x_px = spot.x_px + offset_x_px,
                              .y_px = spot.y_px + offset_y_px});
  choose_witnesses(result.markers, witness_count(result.markers.size(), settings));
  return result;
}

}  // namespace driftd::control
