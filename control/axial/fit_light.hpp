// SPDX-License-Identifier: MIT
// The light in a marker's fit against what it held before and against what lies around the marker.
// Far out of focus a fit takes the bright middle of the rings for the marker and the rings for
// background: its widths may be those of a marker in focus, its light is not. Tracking loop; a
// value; noexcept.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>
#include <span>

#include "control/axial/brightness_curves.hpp"
#include "control/drift/consensus.hpp"
#include "control/values/types.hpp"

namespace driftd::control {

class FitLight {
 public:
  /// Background that the ROI has over its surroundings, over the light of the fit. Pupil images (NA
  /// 1.4, 0 to 0.1 waves): at most 0.4 in the range of astigmatic curves and 0.8 in that of
  /// defocus, 1.9 to 19 beyond 1,000 nm from the focus.
  static constexpr double kMostHalo = 1.2, kLittleHalo = 0.6;
  /// Light of a fit over what it held before: at least 0.5 within a range, at most 0.1 beyond.
  static constexpr double kLeastLight = 0.2;
  /// What a marker's light grows by against the others' at most, and in standard deviations.
  static constexpr double kMostGrowth = 0.25, kGrowthSd = 6;

  /// One frame's fit, before any question.
  void see(const MarkerObservation& o, const FitUnits& units) noexcept {
    if (std::isfinite(o.surroundings_adu)) {
      around_frames_ = std::min(around_frames_ + 1, kAroundFrames);
      around_adu_ += (static_cast<double>(o.surroundings_adu) - around_adu_) / around_frames_;
    }
    const double area_px2 = 2 * std::numbers::pi * static_cast<double>(o.sigma_x_px) *
                            static_cast<double>(o.sigma_y_px);
    const double background_adu = static_cast<double>(o.background_adu);
    light_adu_ = area_px2 * static_cast<double>(o.amplitude_adu);
    const bool known = around_frames_ > 0 && units.pixels > 0;
    halo_ = known ? (background_adu - around_adu_) * units.pixels / light_adu_ : kUnknown;
    const double electrons = units.gain_e_per_adu * light_adu_;
    const double noise_e2 = units.gain_e_per_adu * (background_adu - units.offset_adu) +
                            units.read_noise_e * units.read_noise_e;
    sd_share_ = electrons > 0
                    ? std::sqrt(electrons + 2 * area_px2 * std::max(0.0, noise_e2)) / electrons
                    : kUnknown;
  }
  /// The fit is one far out of focus. A lamp that was turned down leaves the halo as it was.
  bool is_far() const noexcept {
    const bool lost = light_over_known() < kLeastLight && !(halo_ < kLittleHalo);
    return lost || halo_ > kMostHalo;
  }
  /// Over that of the last frames that were kept; NaN before there are any.
  double light_over_known() const noexcept {
    return known_frames_ > 0 ? light_adu_ / known_adu_ : kUnknown;
  }
  /// Something shines beside the marker. @param common  light_over_known() of the others
  bool has_grown(double common) const noexcept {
    const double sd = sd_share_ * std::sqrt(1 + 1.0 / std::max(1, known_frames_));
    const double noise = std::isfinite(sd) ? kGrowthSd * sd : 0;
    return light_over_known() > common * (1 + std::max(kMostGrowth, noise));
  }
  /// The fit is the marker's own.
  void keep() noexcept {
    known_frames_ = std::min(known_frames_ + 1, kKnownFrames);
    known_adu_ += (light_adu_ - known_adu_) / known_frames_;
  }
  /// The lamp may be another one from now on.
  void forget() noexcept { known_frames_ = 0; }

 private:
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  static constexpr int kAroundFrames = 16, kKnownFrames = 64;
  int around_frames_ = 0, known_frames_ = 0;
  double around_adu_ = 0, known_adu_ = 0;
  double light_adu_ = 0, halo_ = kUnknown;
  double sd_share_ = kUnknown;  ///< of light_adu_; NaN without a gain
};

/// How the light of most markers has changed: light_over_known() of those that are read. Nothing
/// where too few can be compared. Reorders.
inline std::optional<double> common_change(std::span<double> lights) noexcept {
  constexpr std::size_t kFewestToCompare = 3;  // fewer do not tell whose light changed
  if (lights.size() < kFewestToCompare) return std::nullopt;
  return lower_median(lights);
}

}  // namespace driftd::control
