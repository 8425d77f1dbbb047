// SPDX-License-Identifier: MIT
// From a spot of light that the cover glass reflects to z: its place along a line, from a
// reference, times a slope. References are taken with those of x and y; without markers, of the
// first frames. Owned by the tracking loop; no allocation; noexcept.
#pragma once

#include <cstdint>
#include <optional>

#include "control/axial/axial_estimator.hpp"
#include "control/axial/reference_follower.hpp"

namespace driftd::control {

struct ReflectionSettings {
  double nm_per_px;
  double angle_rad;         ///< of its way, from x towards y
  double max_width_change;  ///< EstimatorSettings's
  int average_frames;       ///< likewise
};

/// The spot in one frame. Only with `reason` Measured is the rest of it.
struct ReflectedSpot {
  AxialReason reason = AxialReason::Dark;
  double x_px = 0, y_px = 0;
  double x_sd_px = 0, y_sd_px = 0, sigma_px = 0;
  double light = 0;          ///< of the spot, in any unit
  bool has_company = false;  ///< something else shines in the region, with its top here
  Vec2 company_px = {};
};

/// Where the spot was at a zero of z, along and across its way, and what it was like.
struct SpotZero {
  double along_px = 0, across_px = 0, variance_px2 = 0, sigma_px = 0, light = 0;

  bool is_at(const SpotZero& other) const noexcept {
    return along_px == other.along_px && across_px == other.across_px;
  }
};

class ReflectionEstimator {
 public:
  static constexpr int kFirstReferenceFrames = 16;
  /// A spot that is not the one of the reference: its light over that one's, and how far it is off
  /// the line on which that one moves, in sigmas and as a share of its way (the angle is not known
  /// better).
  static constexpr double kMostLight = 2, kMostOffLineSigmas = 1.5, kMostOffLineShare = 0.2;

  /// One frame. @param lateral  which has had it; null: there are no markers
  const AxialEstimate& update(const ReflectionSettings& settings, const ReflectedSpot& spot,
                              const DriftEstimator* lateral) noexcept;
  /// The next frame is from a new zero: another slope, other markers.
  void forget() noexcept { *this = {}; }
  /// As DriftEstimator's.
  void restart_average() noexcept { averaged_ = 0; }
  // As AxialEstimator's.
  void begin_reference(int frames) noexcept;
  int reference_left() const noexcept { return own_ ? left_ : 0; }
  void keep_zero(bool kept) noexcept { kept_ = kept; }
  std::uint32_t zeros() const noexcept { return zeros_; }
  /// None while one is being taken.
  std::optional<SpotZero> zero() const noexcept {
    return referenced_ && left_ == 0 && !wanted_ ? std::optional(reference_) : std::nullopt;
  }
  /// From the next frame on z counts from there.
  void set_zero(const SpotZero& zero) noexcept { wanted_ = zero; }

 private:
  using Look = SpotZero;  ///< of a frame, or sums or means over frames
  bool is_another(const ReflectionSettings& settings, const Look& look) const noexcept;
  void take(const Look& look, int frames) noexcept;
  void restart(int frames) noexcept;

  ReferenceFollower follower_;
  bool kept_ = false;  ///< x and y do not change the zero
  bool own_ = false;   ///< left_ is of begin_reference(), with a provisional zero
  bool referenced_ = false;
  int left_ = kFirstReferenceFrames;  ///< of a reference of its own; 0: it takes none
  int taken_ = 0;
  std::uint32_t zeros_ = 0;
  Look sum_;
  Look reference_;                  ///< its light is a slow average
  std::optional<SpotZero> wanted_;  ///< with the next frame
  double mean_px_ = 0;              ///< of the last frames, of which there are averaged_
  int averaged_ = 0;
  AxialEstimate estimate_;
};

}  // namespace driftd::control
