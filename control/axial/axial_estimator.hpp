// SPDX-License-Identifier: MIT
// From the markers' widths to the sample's z: each marker's width against the curve of the
// instrument, its z against the marker's own reference, and the robust mean of these, with a
// standard deviation and a validity of its own. Heights of markers cancel; one that moves against
// the others is an outlier in z and goes on counting in x and y. Nothing here reaches the drift in
// x and y. Belongs to a set of markers; tracking loop, after the drift estimator had the frame; no
// allocation after construction; noexcept.
//
// References are taken when those of x and y are, of the same frames. Where too few markers could
// be read in these, z takes its own as soon as enough can be, and is not valid until it has it.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "control/axial/brightness_curves.hpp"
#include "control/axial/fit_light.hpp"
#include "control/axial/reference_follower.hpp"
#include "control/drift/consensus.hpp"
#include "control/drift/drift_estimator.hpp"
#include "control/values/types.hpp"

namespace driftd::control {

/// Why there is a z, or none.
enum class AxialReason : std::uint8_t {
  Measured,
  NoReference,  ///< enough markers are read, and their references are being taken
  OutOfRange,   ///< of the curve, or far out of focus by the light of their fits
  Unclear,      ///< widths that no place, or more than one, of the curve explains, or pixels that
                ///< no single marker does
  Saturated,
  Dark,         ///< not seen, or too dim to tell z
  Implausible,  ///< they look otherwise than at their reference, are away from the others in x, y,
                ///< or have become brighter than them
  Apart,        ///< they do not agree on a z
  NoMarkers,    ///< none are known, or no frames come
  NotCalibrated,  ///< there is no curve, or no slope of the reflected spot
};
const char* name_of(AxialReason reason) noexcept;

/// A marker's fit in electrons. @param units  their `pixels` only where chi-square is a deviance
SpotFit spot_fit(const MarkerObservation& o, const FitUnits& units) noexcept;

/// A marker's part in one frame.
struct AxialResult {
  AxialReason reason = AxialReason::Dark;  ///< Measured: it counts, if it is of the right role
  bool read = false;                       ///< z_nm, sd_nm and side are of this frame
  double z_nm = 0, sd_nm = 0;              ///< on the curve: its height is in it
  double off_x = 0, off_y = 0;             ///< AxialReading's
  double dimness = 0;                      ///< SpotFit's, over the curve's there if that has one
  AxialSide side = AxialSide::Unknown;
  bool referenced = false;  ///< and read: displacement and residual are of this frame
  double displacement_nm = 0, residual_nm = 0;
};

struct AxialEstimate {
  bool valid = false;  ///< false: z is not to be used, for this reason
  AxialReason reason = AxialReason::NoMarkers;
  double z_nm = 0, variance_nm2 = 0;  ///< averaged over markers and frames
  double frame_z_nm = 0, frame_variance_nm2 = 0;
  /// What both are off by together, as a share of z: that of the curve's scale (rms).
  double scale_share = 0;
  /// What both may be off by together (rms) as light or background of the markers are others than
  /// when the zero was taken, by a curve without dimmer ones.
  double dimmed_nm = 0;
  double frame_noise_nm2 = 0;      ///< what differs from frame to frame, as promised
  double frame_fit_noise_nm2 = 0;  ///< the same by the fits alone: Consensus::fit_noise_nm2
  int markers_used = 0, markers_total = 0;
  int in_range = 0;  ///< tracking markers whose z was read
  int frames_averaged = 0;
  bool witness_valid = false;
  double witness_z_nm = 0;
  int witnesses_used = 0;
  double frame_witness_z_nm = 0;  ///< of this frame alone; only with witnesses_used > 0
  double frame_witness_noise_nm2 = 0;
  /// Mean place of the tracking markers on the curve, from its crossing; only with in_range > 0.
  double from_crossing_nm = 0;
  double curve_below_nm = 0, curve_above_nm = 0;  ///< from that place to the ends of the range
  /// How far the widths of the markers lie off the curve in the mean over them and the last frames,
  /// as a share of the curve's; 0 until there are enough frames.
  double off_curve = 0;
  /// Of a reflection: something else shines in its region, with its top in this sensor pixel.
  bool has_company = false;
  Vec2 company_px = {};

  /// That is told to people and programs: the variance of z, what its scale may be off by, and what
  /// its markers' light. No lock weighs by it: these errors do not change from frame to frame.
  double sd_nm() const noexcept { return sd_of(variance_nm2, z_nm); }
  double frame_sd_nm() const noexcept { return sd_of(frame_variance_nm2, frame_z_nm); }

 private:
  double sd_of(double random_nm2, double off_zero_nm) const noexcept {
    return std::hypot(std::sqrt(random_nm2), scale_share * off_zero_nm, dimmed_nm);
  }
};

class AxialEstimator {
 public:
  /// @param settings  those of the drift estimator: what is said of x and y holds for z, but for
  /// the
  ///   floor of outliers, which is kFloorShare of theirs
  AxialEstimator(const EstimatorSettings& settings, std::size_t markers);
  /// Heights are read some three times worse than places.
  static constexpr double kFloorShare = 3;
  /// What a displacement is read off by, as a share of it, standard deviation: so much by what is
  /// the marker's own, as pupils differ over a field, and as much again by the curve's pupil, the
  /// same for all markers (of random pupils, docs/measured/benchmarks.md).
  static constexpr double kScaleShare = 0.0233;
  /// What z reads of a change of the dimness by a factor e: so much, and so large a share of the
  /// way from the crossing (docs/internals/axial.md).
  static constexpr double kDimmedNm = 5, kDimmedShare = 0.1;

  /// References that were taken before, in the order of the markers and after the drift estimator's
  /// set_references(); without a z where they have none.
  void set_references(std::span<const MarkerReference> references,
                      const DriftEstimator& lateral) noexcept;
  /// One frame, which `lateral` has had.
  const AxialEstimate& update(const BrightnessCurves& curves, const FitUnits& units,
                              std::span<const MarkerObservation> observations,
                              const DriftEstimator& lateral) noexcept;
  /// The next frame's curve is another one: a new zero.
  void change_curve() noexcept {
    rebase_pending_ = true;
    off_curve_frames_ = 0;
  }
  /// As DriftEstimator's.
  void restart_average() noexcept { averaged_ = 0; }
  /// The mean of so many good frames, from the next one on, becomes the zero of z, while x and y
  /// keep theirs. Until then z is from a provisional one. Only while the zero is kept.
  void begin_reference(int frames) noexcept;
  /// Good frames until that reference is complete; 0: none is being taken.
  int reference_left() const noexcept;
  /// The zero stays, whatever x and y do with theirs: z is held.
  void keep_zero(bool kept) noexcept { kept_ = kept; }
  bool keeps_zero() const noexcept { return kept_; }

  /// Of the last frame.
  const AxialEstimate& estimate() const noexcept { return estimate_; }
  std::span<const AxialResult> results() const noexcept { return results_; }
  /// Adds the z of the reference of a marker, where it has one.
  void add_reference(std::size_t i, MarkerReference& reference) const noexcept;
  /// Grows with each new zero of z.
  std::uint32_t zeros() const noexcept { return zeros_; }

 private:
  struct Steadiness {
    int frames = 0;
    double mean_nm = 0, m2_nm2 = 0, variance_sum_nm2 = 0;
  };
  struct Track {
    bool referenced = false, detached = false;
    double readmission = 1, memory_weight = 1, mean_residual_nm = 0;
    double reference_nm = 0, reference_variance_nm2 = 0;
    double dimness = 0;  ///< at the reference; 0: not known
    Steadiness steadiness;
  };
  struct FrameMean {
    double z_nm, variance_nm2, reference_nm2;
    bool witness_valid;
    double witness_nm;
  };
  using Observations = std::span<const MarkerObservation>;

  void read(const BrightnessCurves& curves, const FitUnits& units, Observations observations,
            const DriftEstimator& lateral) noexcept;
  bool rebase(const DriftEstimator& lateral) noexcept;
  void refuse_grown(const DriftEstimator& lateral) noexcept;
  Consensus measure(const DriftEstimator& lateral) noexcept;
  Consensus agree(MarkerRole role, const DriftEstimator& lateral) noexcept;
  Vote vote_of(std::size_t i) const noexcept;
  double common_residual_limit_nm(const DriftEstimator& lateral) noexcept;
  void remember_residual(std::size_t i, double sd_nm, double common_limit_nm) noexcept;
  void accumulate(double z_nm, bool taking) noexcept;
  bool is_steady(const Steadiness& s, int frames_needed) const noexcept;
  int frames() const noexcept { return own_frames_ > 0 ? own_frames_ : follower_.frames(); }
  void adopt(std::size_t i, double common_nm) noexcept;
  bool finish_reference(const DriftEstimator& lateral) noexcept;
  bool is_enough(const Consensus& consensus) const noexcept {
    return consensus.used > 0 && consensus.used >= settings_.min_markers;
  }
  void publish(const WidthCurve& curve, const Consensus& tracking, const Consensus& witnesses,
               const DriftEstimator& lateral) noexcept;
  void publish_mean(const Consensus& tracking, const Consensus& witnesses) noexcept;
  void see_light(const BrightnessCurves& curves, const DriftEstimator& lateral) noexcept;
  void begin_zero() noexcept {
    ++zeros_;
    dimmed_ = 0;
  }
  AxialReason why_not(const DriftEstimator& lateral) const noexcept;

  EstimatorSettings settings_;
  RobustLimits limits_;
  std::vector<AxialResult> results_;
  std::vector<Track> tracks_;
  std::vector<FitLight> lights_;
  std::vector<Vote> votes_;
  std::vector<double> scratch_;
  std::vector<FrameMean> frames_;  ///< ring of average_frames
  std::size_t newest_ = 0;
  int averaged_ = 0;
  ReferenceFollower follower_;
  std::uint32_t zeros_ = 0;
  bool rebase_pending_ = true;
  bool kept_ = false;     ///< x and y do not change it
  int own_frames_ = 0;    ///< of begin_reference(); 0: the last reference was that of x and y
  bool settled_ = false;  ///< x and y have theirs: what z still lacks, it takes alone
  int alone_left_ = 0;    ///< frames until it has; 0: it takes none
  int frames_taken_ = 0;
  double taken_sum_nm_ = 0;
  int off_curve_frames_ = 0;
  double off_x_ = 0, off_y_ = 0;  ///< means over markers and frames
  double dimmed_ = 0;  ///< logarithm of the markers' dimness over that at the zero, a mean
  AxialEstimate estimate_;
};

}  // namespace driftd::control
