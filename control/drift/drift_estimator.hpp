// SPDX-License-Identifier: MIT
// From localizations to the drift: a robust, uncertainty-weighted mean of the markers'
// displacements from their references, averaged over frames, with its covariance and each marker's
// health. Tracking loop; no allocation after construction; noexcept.
//
// Every marker is measured against its own reference, so markers may come and go without a jump. A
// marker that detaches slowly does not show in one frame, but in the running mean of its residual.
// Its weight falls smoothly as that mean grows, to zero where the marker is called an outlier, and
// returns gradually after the mean has come back to half of that.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "control/drift/consensus.hpp"
#include "control/values/types.hpp"

namespace driftd::control {

struct EstimatorSettings {
  double pixel_size_nm;
  int average_frames;
  int min_markers;
  double outlier_sigma;     ///< a marker further than this from the consensus is an outlier
  double outlier_floor_nm;  ///< no marker nearer than this is called an outlier
  /// Relative changes of sigma against the reference's and of amplitude against a slow average,
  /// beyond the change that is common to the markers (focus, lamp, exposure).
  double max_width_change;
  double max_brightness_change;
};

class DriftEstimator {
 public:
  explicit DriftEstimator(const EstimatorSettings& settings);

  /// New markers; their x_px, y_px serve as provisional references. Not from the loop.
  /// The first frame with min_markers fitted corrects each provisional reference by how far its
  /// marker was from the place listed, less the displacement common to all.
  void set_markers(std::span<const Marker> markers);
  /// Sets references that were taken before, in the order of the markers, after set_markers(). A
  /// reference that is not trusted is replaced later, by the consensus.
  void set_references(std::span<const MarkerReference> references) noexcept;
  std::span<const Marker> markers() const noexcept { return markers_; }

  /// Starts a new reference: the mean position of each marker over the next `frames` good frames
  /// becomes its reference; update() measures against the old one until then. The update() that
  /// completes it already reports that frame against the new references.
  /// A marker seen in less than half of the frames, or not steady against the others in place,
  /// width and brightness, is left Unreferenced; it gets a reference, on the same terms, from as
  /// many later frames of its own. While fewer than min_markers are steady, the reference starts
  /// over.
  void begin_reference(int frames) noexcept;
  bool referencing() const noexcept { return reference_left_ > 0; }
  /// Good frames until it is complete.
  int reference_left() const noexcept { return reference_left_; }

  /// One frame. observations[i] belongs to markers()[i]; missing ones count as not fitted, and so
  /// do numbers that are not finite. An invalid frame keeps the last drift and restarts the
  /// average.
  const DriftEstimate& update(std::span<const MarkerObservation> observations) noexcept;
  /// What a marker is for and how much it counts in the mean of its role, 0..1, from the next frame
  /// on. Its reference stays. Where fewer than min_markers would be left, those of share 0 count a
  /// little, too.
  void set_part(std::size_t i, MarkerRole role, double share) noexcept;
  double share(std::size_t i) const noexcept { return shares_[i]; }
  /// Grows with each new reference that all markers have.
  std::uint32_t references() const noexcept { return references_; }
  /// Variance of a place in this frame, without its reference's.
  Vec2 noise_nm2(std::size_t i, const MarkerObservation& observation) const noexcept;
  const EstimatorSettings& settings() const noexcept { return settings_; }

  /// Frames were missed or skipped (camera away), or the last is not to be followed: forget the
  /// frame average, keep the references.
  void restart_average() noexcept;

  /// Displacement and residual are zero where this frame gave none.
  std::span<const MarkerResult> results() const noexcept { return results_; }
  /// An Unreferenced marker has its last known place here, on the same terms.
  std::span<const Vec2> reference_px() const noexcept { return reference_px_; }
  /// The reference of markers()[i]; its amplitude is the slow average.
  MarkerReference reference(std::size_t i) const noexcept {
    const Track& track = tracks_[i];
    return {.place_px = reference_px_[i],
            .sigma_px = track.reference_sigma_px,
            .amplitude_adu = track.brightness_adu,
            .variance_nm2 = track.reference_variance_nm2,
            .trusted = track.referenced && !track.detached};
  }

 private:
  /// Mean and scatter of a marker over the frames of a reference in the making.
  struct Steadiness {
    int frames = 0;
    Vec2 mean_px;  ///< place less the common drift
    double place_m2_px2 = 0, variance_sum_px2 = 0;
    double width_mean = 0, width_m2 = 0;
    double brightness_mean = 0, brightness_m2 = 0;
  };
  struct Track {
    bool referenced = false;
    bool detached = false;     ///< called an outlier by its mean residual, until it has come back
    double readmission = 1;    ///< grows to 1 over the memory's length after a return
    double memory_weight = 1;  ///< falls as the mean residual grows
    Vec2 mean_residual_nm;
    double reference_variance_nm2 = 0;
    double reference_sigma_px = 0;
    double brightness_adu = 0;  ///< slow average
    Steadiness steadiness;
  };
  struct FrameMean {
    Vec2 drift_nm;
    Covariance2 covariance_nm2;
    double reference_nm2 = 0;  ///< the part of it that an average over frames does not lessen
    bool witness_valid = false;
    Vec2 witness_nm;
  };
  using Observations = std::span<const MarkerObservation>;

  /// What a marker's width and brightness are compared with, times its own reference values.
  struct CommonChange {
    double width = 1, brightness = 1;
  };

  void judge(Observations observations) noexcept;
  CommonChange common_change(Observations observations) noexcept;
  Consensus measure(Observations observations) noexcept;
  Consensus agree(MarkerRole role, Observations observations) noexcept;
  std::span<Vote> with_shares(std::size_t count, double least) noexcept;
  Vote vote_of(std::size_t i, const MarkerObservation& observation) const noexcept;
  Vec2 displacement_nm(std::size_t i, const MarkerObservation& observation) const noexcept;
  double common_residual_limit_nm() noexcept;
  void remember_residual(std::size_t i, double sd_nm, double common_limit_nm) noexcept;

  bool rebase(Observations observations) noexcept;
  void accumulate(Observations observations, Vec2 drift_nm) noexcept;
  bool steady(const Steadiness& s, int frames_needed) const noexcept;
  void adopt_reference(std::size_t i, Vec2 common_px) noexcept;
  bool finish_reference() noexcept;
  void publish(const Consensus& tracking, const Consensus& witnesses) noexcept;

  EstimatorSettings settings_;
  RobustLimits limits_;
  std::vector<Marker> markers_;
  std::vector<MarkerResult> results_;
  std::vector<Vec2> reference_px_;
  std::vector<Track> tracks_;
  std::vector<double> shares_;  ///< set_part()
  std::uint32_t references_ = 0;
  std::vector<Vote> votes_;
  std::vector<double> scratch_;
  std::vector<FrameMean> frames_;  ///< ring of average_frames
  std::size_t newest_ = 0;
  int averaged_ = 0;
  bool rebase_pending_ = false;
  int reference_left_ = 0;
  int reference_frames_ = 0;  ///< of the last reference, for markers that get theirs later
  Vec2 reference_drift_sum_nm_;
  DriftEstimate estimate_;
};

}  // namespace driftd::control
