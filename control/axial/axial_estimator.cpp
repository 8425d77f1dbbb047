// SPDX-License-Identifier: MIT
#include "control/axial/axial_estimator.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace driftd::control {
namespace {

/// Error of a z by the model of the spot, so that no fit claims all the weight; no part of what is
/// published.
constexpr double kSdFloorNm = 1;
/// As in the drift estimator: time constant of the mean residuals, when a detached marker returns,
/// and what a residual and a marker that is not trusted count at most and at least.
constexpr double kMemoryFrames = 64;
constexpr double kReturnShare = 0.5;
constexpr double kLargestResidual = 2;
constexpr double kLeastShare = 0.05;
/// A z known worse than by this share of the curve's range is none: the curve is no line over it.
constexpr double kMostSdShare = 0.1;

void add_sample(double value, int count, double& mean, double& m2) noexcept {
  const double before = value - mean;
  mean += before / count;
  m2 += before * (value - mean);
}

/// The widths' means over so many frames are held against the curve.
constexpr int kOffCurveFrames = 100;
/// Their light is a mean over so many.
constexpr double kLightFrames = 16;

/// Of what a displacement is read off by: the marker's own.
constexpr double kScaleShare2 = AxialEstimator::kScaleShare * AxialEstimator::kScaleShare;

}  // namespace

SpotFit spot_fit(const MarkerObservation& o, const FitUnits& units) noexcept {
  const double x_px2 = static_cast<double>(o.sigma_x_sd_px) * static_cast<double>(o.sigma_x_sd_px);
  const double y_px2 = static_cast<double>(o.sigma_y_sd_px) * static_cast<double>(o.sigma_y_sd_px);
  return {.sigma_x_px = static_cast<double>(o.sigma_x_px),
          .sigma_y_px = static_cast<double>(o.sigma_y_px),
          .variance = {x_px2, y_px2, 0},  // their correlation is below 0.15: test_axial_estimator
          .amplitude_e = units.gain_e_per_adu * static_cast<double>(o.amplitude_adu),
          .background_e =
              units.gain_e_per_adu * (static_cast<double>(o.background_adu) - units.offset_adu),
          .read_noise_e = units.read_noise_e,
          .chi_square = static_cast<double>(o.chi_square),
          .pixels = units.pixels};
}

AxialEstimator::AxialEstimator(const EstimatorSettings& settings, std::size_t markers)
    : settings_(settings),
      limits_{.outlier_sigma = settings.outlier_sigma,
              .floor_nm = kFloorShare * settings.outlier_floor_nm},
      results_(markers),
      tracks_(markers),
      lights_(markers),
      votes_(markers),
      scratch_(markers),
      frames_(static_cast<std::size_t>(std::max(1, settings.average_frames))) {}

void AxialEstimator::set_references(std::span<const MarkerReference> references,
                                    const DriftEstimator& lateral) noexcept {
  int tracking = 0;
  for (std::size_t i = 0; i < std::min(references.size(), tracks_.size()); ++i) {
    const MarkerReference& known = references[i];
    tracks_[i] = {};
    tracks_[i].referenced = known.trusted && std::isfinite(known.z_nm);
    if (!tracks_[i].referenced) continue;
    tracks_[i].reference_nm = known.z_nm;
    tracks_[i].reference_variance_nm2 = known.z_variance_nm2;
    if (lateral.markers()[i].role == MarkerRole::Tracking) ++tracking;
  }
  follower_.catch_up(lateral);
  begin_zero();
  rebase_pending_ = tracking < settings_.min_markers;
  settled_ = true;
  alone_left_ = own_frames_ = 0;
  restart_average();
}

void AxialEstimator::add_reference(std::size_t i, MarkerReference& reference) const noexcept {
  const Track& track = tracks_[i];
  if (!track.referenced || rebase_pending_ || alone_left_ > 0) return;
  reference.z_nm = track.reference_nm;
  reference.z_variance_nm2 = track.reference_variance_nm2;
}

const AxialEstimate& AxialEstimator::update(const BrightnessCurves& curves, const FitUnits& units,
                                            Observations observations,
                                            const DriftEstimator& lateral) noexcept {
  read(curves, units, observations, lateral);
  ReferenceFollower::Change change = follower_.follow(lateral);
  if (change != ReferenceFollower::Change::None)
    settled_ = change == ReferenceFollower::Change::Complete;
  if (kept_) change = ReferenceFollower::Change::None;
  const bool complete = change == ReferenceFollower::Change::Complete;
  if (change == ReferenceFollower::Change::NewZero) {
    rebase_pending_ = true;
    alone_left_ = own_frames_ = 0;
    for (FitLight& light : lights_) light.forget();
  }
  refuse_grown(lateral);
  if (rebase_pending_ && rebase(lateral)) {
    rebase_pending_ = false;
    alone_left_ = settled_ || own_frames_ > 0 ? frames() : 0;
  }
  Consensus tracking;
  if (!rebase_pending_) tracking = measure(lateral);
  const bool enough = is_enough(tracking);
  const bool taking = (!kept_ && follower_.taking()) || complete || alone_left_ > 0;
  if (enough) accumulate(tracking.value_nm.x, taking);
  const bool alone_finished = enough && alone_left_ > 0 && --alone_left_ == 0;
  if (complete || alone_finished) {
    rebase_pending_ = rebase_pending_ || !finish_reference(lateral);
    tracking = {};
    if (!rebase_pending_) tracking = measure(lateral);
  }
  for (std::size_t i = 0; i < lights_.size(); ++i)
    if (results_[i].reason == AxialReason::Measured) lights_[i].keep();
  publish(curves.curves().front(), tracking, agree(MarkerRole::Witness, lateral), lateral);
  see_light(curves, lateral);
  return estimate_;
}

/// What the widths of this frame say, marker by marker.
void AxialEstimator::read(const BrightnessCurves& curves, const FitUnits& units,
                          Observations observations, const DriftEstimator& lateral) noexcept {
  const WidthCurve& curve = curves.curves().front();
  const double most_sd_nm = kMostSdShare * (curve.upper_nm() - curve.lower_nm());
  FitUnits of_fits = units;
  if (!curves.by_likelihood()) of_fits.pixels = 0;
  for (std::size_t i = 0; i < results_.size(); ++i) {
    AxialResult& result = results_[i];
    result = {};
    if (i >= observations.size() || i >= lateral.results().size()) continue;
    const MarkerObservation& o = observations[i];
    const MarkerHealth health = lateral.results()[i].health;
    if (!o.inside_frame || !o.fitted || health == MarkerHealth::FitFailed) {
      result.reason = o.saturated ? AxialReason::Saturated : AxialReason::Dark;
      continue;
    }
    const SpotFit fit = spot_fit(o, of_fits);
    const AxialReading z = curves.read(fit);
    result.side = z.side;
    if (!z.measured) {
      const bool outside = z.side == AxialSide::Below || z.side == AxialSide::Above;
      result.reason = outside ? AxialReason::OutOfRange : AxialReason::Unclear;
      continue;
    }
    if (!(z.sd_nm <= most_sd_nm) || !std::isfinite(z.z_nm)) continue;  // too dim
    lights_[i].see(o, units);
    if (lights_[i].is_far()) {
      result.side = AxialSide::Unknown;
      result.reason = AxialReason::OutOfRange;
      continue;
    }
    result.read = true;
    result.z_nm = z.z_nm;
    result.sd_nm = z.sd_nm;
    result.off_x = z.off_x;
    result.off_y = z.off_y;
    const double usual = curve.dimness(z.z_nm);  // which changes along the curve
    result.dimness = fit.dimness() / (usual > 0 ? usual : 1);
    result.reason = health == MarkerHealth::Good ? AxialReason::Measured : AxialReason::Implausible;
  }
}

void AxialEstimator::begin_reference(int frames) noexcept {
  own_frames_ = std::max(1, frames);
  alone_left_ = 0;
  rebase_pending_ = true;
}

int AxialEstimator::reference_left() const noexcept {
  if (own_frames_ == 0) return 0;
  return rebase_pending_ ? own_frames_ : alone_left_;
}

/// A marker that has become brighter than the others has company, whose light widens its fit.
void AxialEstimator::refuse_grown(const DriftEstimator& lateral) noexcept {
  std::size_t count = 0;
  for (std::size_t i = 0; i < results_.size(); ++i) {
    const double ratio = lights_[i].light_over_known();
    if (results_[i].reason == AxialReason::Measured && std::isfinite(ratio) &&
        lateral.markers()[i].role == MarkerRole::Tracking)
      scratch_[count++] = ratio;
  }
  const auto common = common_change(std::span(scratch_).first(count));
  if (!common) return;
  for (std::size_t i = 0; i < results_.size(); ++i)
    if (results_[i].reason == AxialReason::Measured && lights_[i].has_grown(*common))
      results_[i].reason = AxialReason::Implausible;
}

/// Makes the z of this frame, marker by marker, the provisional references.
bool AxialEstimator::rebase(const DriftEstimator& lateral) noexcept {
  int tracking = 0;
  for (std::size_t i = 0; i < tracks_.size(); ++i)
    if (results_[i].reason == AxialReason::Measured &&
        lateral.markers()[i].role == MarkerRole::Tracking)
      ++tracking;
  frames_taken_ = 0;
  taken_sum_nm_ = 0;
  if (tracking < settings_.min_markers) return false;
  for (std::size_t i = 0; i < tracks_.size(); ++i) {
    const AxialResult& result = results_[i];
    tracks_[i] = {};
    if (result.reason != AxialReason::Measured) continue;
    tracks_[i].referenced = true;
    tracks_[i].reference_nm = result.z_nm;
    tracks_[i].reference_variance_nm2 = result.sd_nm * result.sd_nm;
    tracks_[i].dimness = result.dimness;
  }
  restart_average();
  begin_zero();
  return true;
}

/// As x and y do, a marker counts in less weight by its reference's error and by how far its mean
/// residual has gone.
Vote AxialEstimator::vote_of(std::size_t i) const noexcept {
  const AxialResult& result = results_[i];
  const Track& track = tracks_[i];
  constexpr double kFloorNm2 = kSdFloorNm * kSdFloorNm;
  const double moved_nm = result.z_nm - track.reference_nm;
  const double variance_nm2 = result.sd_nm * result.sd_nm + kFloorNm2 +
                              track.reference_variance_nm2 + kScaleShare2 * moved_nm * moved_nm;
  return {.value_nm = {moved_nm, 0},
          .variance_nm2 = {variance_nm2, variance_nm2},
          .floor_nm2 = kFloorNm2,
          .reference_nm2 = track.reference_variance_nm2,
          .trust = track.readmission * track.memory_weight};
}

Consensus AxialEstimator::agree(MarkerRole role, const DriftEstimator& lateral) noexcept {
  std::size_t count = 0;
  int trusted = 0;
  const bool tracking = role == MarkerRole::Tracking;
  for (std::size_t i = 0; i < tracks_.size(); ++i) {
    const bool counts = results_[i].read && results_[i].reason != AxialReason::Implausible;
    if (!counts || !tracks_[i].referenced || lateral.markers()[i].role != role) continue;
    if (tracking && tracks_[i].detached) continue;
    votes_[count] = vote_of(i);
    if (!tracking) votes_[count].trust = 1;
    votes_[count].share = lateral.share(i);
    trusted += lateral.share(i) > 0 ? 1 : 0;
    ++count;
  }
  const double least = tracking && trusted < settings_.min_markers ? kLeastShare : 0;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double share = std::max(votes_[i].share, least);
    if (!(share > 0)) continue;
    votes_[kept] = votes_[i];
    votes_[kept++].trust *= share;
  }
  return robust_mean(std::span(votes_).first(kept), limits_, scratch_, kNormalMedian);
}

Consensus AxialEstimator::measure(const DriftEstimator& lateral) noexcept {
  const Consensus consensus = agree(MarkerRole::Tracking, lateral);
  const double common_limit_nm = common_residual_limit_nm(lateral);
  for (std::size_t i = 0; i < tracks_.size(); ++i) {
    AxialResult& result = results_[i];
    if (!result.read || !tracks_[i].referenced) continue;
    const Vote vote = vote_of(i);
    result.referenced = true;
    result.displacement_nm = vote.value_nm.x;
    if (consensus.used == 0) continue;
    result.residual_nm = vote.value_nm.x - consensus.value_nm.x;
    if (result.reason == AxialReason::Implausible) continue;
    const double sd_nm = sd_of(vote);
    remember_residual(i, sd_nm, common_limit_nm);
    const double variance_nm2 = sd_nm * sd_nm + consensus.others_sd_nm * consensus.others_sd_nm;
    const double limit_nm = limits_.limit_nm(std::sqrt(variance_nm2), consensus.scale);
    if (tracks_[i].detached || std::abs(result.residual_nm) > limit_nm)
      result.reason = AxialReason::Apart;
  }
  return consensus;
}

/// The markers themselves say how steady they are to one another: most of them can never be
/// outliers.
double AxialEstimator::common_residual_limit_nm(const DriftEstimator& lateral) noexcept {
  std::size_t count = 0;
  for (std::size_t i = 0; i < tracks_.size(); ++i) {
    const Track& track = tracks_[i];
    if (lateral.markers()[i].role != MarkerRole::Tracking || !track.referenced || track.detached)
      continue;
    scratch_[count++] = std::abs(track.mean_residual_nm);
  }
  if (count == 0) return 0;
  return limits_.outlier_sigma * lower_median(std::span(scratch_).first(count)) / kNormalMedian;
}

void AxialEstimator::remember_residual(std::size_t i, double sd_nm,
                                       double common_limit_nm) noexcept {
  Track& track = tracks_[i];
  const double noise_nm2 = std::max(0.0, sd_nm * sd_nm - track.reference_variance_nm2);
  const double mean_sd_nm =
      std::sqrt(noise_nm2 / (2 * kMemoryFrames - 1) + track.reference_variance_nm2);
  const double limit_nm = std::max(limits_.limit_nm(mean_sd_nm, 1), common_limit_nm);
  const double most_nm = kLargestResidual * limits_.limit_nm(sd_nm, 1);
  const double residual_nm = std::clamp(results_[i].residual_nm, -most_nm, most_nm);
  track.mean_residual_nm += (residual_nm - track.mean_residual_nm) / kMemoryFrames;

  const double mean_nm = std::abs(track.mean_residual_nm);
  if (!track.detached && mean_nm > limit_nm) {
    track.detached = true;
    track.readmission = 0;
  } else if (track.detached && mean_nm < kReturnShare * limit_nm) {
    track.detached = false;
  }
  if (!track.detached) track.readmission = std::min(1.0, track.readmission + 1 / kMemoryFrames);
  track.memory_weight = biweight(mean_nm, limit_nm);
}

/// A frame of a reference; of a marker's own, where it has none and the others have.
void AxialEstimator::accumulate(double z_nm, bool taking) noexcept {
  frames_taken_ += taking ? 1 : 0;
  taken_sum_nm_ += taking ? z_nm : 0;
  for (std::size_t i = 0; i < tracks_.size(); ++i) {
    Track& track = tracks_[i];
    const AxialResult& result = results_[i];
    if (!result.read || result.reason == AxialReason::Implausible) continue;
    if (!taking && track.referenced) continue;
    Steadiness& s = track.steadiness;
    const int n = ++s.frames;
    s.variance_sum_nm2 += result.sd_nm * result.sd_nm;
    add_sample(result.z_nm - z_nm, n, s.mean_nm, s.m2_nm2);
    if (taking || n < frames()) continue;
    if (is_steady(s, frames())) {
      adopt(i, 0);
      track.readmission = 0;
    }
    s = {};
  }
}

bool AxialEstimator::is_steady(const Steadiness& s, int frames_needed) const noexcept {
  if (s.frames < std::max(1, frames_needed)) return false;
  const double sd_nm = std::sqrt(s.m2_nm2 / std::max(1, s.frames - 1));
  return sd_nm <= limits_.limit_nm(std::sqrt(s.variance_sum_nm2 / s.frames), 1);
}

void AxialEstimator::adopt(std::size_t i, double common_nm) noexcept {
  const Steadiness s = tracks_[i].steadiness;
  tracks_[i] = {};
  tracks_[i].referenced = true;
  tracks_[i].reference_nm = s.mean_nm + common_nm;
  tracks_[i].reference_variance_nm2 = s.variance_sum_nm2 / s.frames / s.frames;
  tracks_[i].dimness = results_[i].dimness;
}

/// Every steady marker's mean place becomes its reference. @returns whether these are enough
bool AxialEstimator::finish_reference(const DriftEstimator& lateral) noexcept {
  const int needed = (frames() + 1) / 2;
  int tracking = 0;
  for (std::size_t i = 0; i < tracks_.size(); ++i)
    if (is_steady(tracks_[i].steadiness, needed) &&
        lateral.markers()[i].role == MarkerRole::Tracking)
      ++tracking;
  restart_average();
  if (frames_taken_ == 0 || tracking < settings_.min_markers) return false;
  const double common_nm = taken_sum_nm_ / frames_taken_;
  for (std::size_t i = 0; i < tracks_.size(); ++i) {
    if (is_steady(tracks_[i].steadiness, needed))
      adopt(i, common_nm);
    else
      tracks_[i] = {};
  }
  begin_zero();
  return true;
}

/// The likelihood's widths depend on how dim a marker is, which curves of dimmer ones allow for.
void AxialEstimator::see_light(const BrightnessCurves& curves,
                               const DriftEstimator& lateral) noexcept {
  if (!curves.by_likelihood() || curves.curves().size() > 1) return;
  double sum = 0;
  int count = 0;
  for (std::size_t i = 0; i < tracks_.size(); ++i) {
    Track& track = tracks_[i];
    const double dimness = results_[i].dimness;
    const bool counts = results_[i].referenced && results_[i].reason == AxialReason::Measured &&
                        lateral.markers()[i].role == MarkerRole::Tracking;
    if (!counts || !(dimness > 0) || !std::isfinite(dimness)) continue;
    if (track.dimness == 0) track.dimness = dimness;
    sum += std::log(dimness / track.dimness);
    ++count;
  }
  if (count == 0) return;
  dimmed_ += (sum / count - dimmed_) / kLightFrames;
  estimate_.dimmed_nm =
      std::abs(dimmed_) * (kDimmedNm + kDimmedShare * std::abs(estimate_.from_crossing_nm));
}

/// What is wrong with most of the tracking markers that are not used.
AxialReason AxialEstimator::why_not(const DriftEstimator& lateral) const noexcept {
  std::array<int, static_cast<std::size_t>(AxialReason::NoMarkers) + 1> count{};
  int readable = 0;
  for (std::size_t i = 0; i < results_.size(); ++i) {
    if (lateral.markers()[i].role != MarkerRole::Tracking) continue;
    if (results_[i].reason == AxialReason::Measured)
      ++readable;
    else
      ++count[static_cast<std::size_t>(results_[i].reason)];
  }
  const bool waits = rebase_pending_ || alone_left_ > 0;
  if (waits && readable >= settings_.min_markers) return AxialReason::NoReference;
  const auto most = std::max_element(count.begin(), count.end());
  if (*most > 0) return static_cast<AxialReason>(most - count.begin());
  return readable > 0 ? AxialReason::NoReference : AxialReason::NoMarkers;
}

void AxialEstimator::publish(const WidthCurve& curve, const Consensus& tracking,
                             const Consensus& witnesses, const DriftEstimator& lateral) noexcept {
  estimate_ = {};
  double place_nm = 0, off_x = 0, off_y = 0;
  int outside = 0;
  for (std::size_t i = 0; i < results_.size(); ++i) {
    if (lateral.markers()[i].role != MarkerRole::Tracking) continue;
    ++estimate_.markers_total;
    if (results_[i].reason == AxialReason::OutOfRange) ++outside;
    if (!results_[i].read || results_[i].reason == AxialReason::Implausible) continue;
    ++estimate_.in_range;
    place_nm += results_[i].z_nm;
    off_x += results_[i].off_x;
    off_y += results_[i].off_y;
  }
  if (estimate_.in_range > 0) {
    place_nm /= estimate_.in_range;
    off_curve_frames_ = std::min(off_curve_frames_ + 1, kOffCurveFrames);
    off_x_ += (off_x / estimate_.in_range - off_x_) / off_curve_frames_;
    off_y_ += (off_y / estimate_.in_range - off_y_) / off_curve_frames_;
    estimate_.from_crossing_nm = place_nm - curve.crossing_nm();
    estimate_.curve_below_nm = place_nm - curve.lower_nm();
    estimate_.curve_above_nm = curve.upper_nm() - place_nm;
  }
  if (off_curve_frames_ == kOffCurveFrames) estimate_.off_curve = std::hypot(off_x_, off_y_);
  estimate_.markers_used = tracking.used;
  estimate_.witnesses_used = witnesses.used;
  // Where most of them are beyond the range, those that noise brings within it are no mean.
  const bool most_outside = outside >= estimate_.in_range && outside > 0;
  const bool has_zero = alone_left_ == 0 || own_frames_ > 0;
  estimate_.valid = is_enough(tracking) && has_zero && !most_outside;
  if (!estimate_.valid) {
    restart_average();
    estimate_.reason = most_outside ? AxialReason::OutOfRange : why_not(lateral);
    return;
  }
  estimate_.reason = AxialReason::Measured;
  publish_mean(tracking, witnesses);
}

void AxialEstimator::publish_mean(const Consensus& tracking, const Consensus& witnesses) noexcept {
  newest_ = (newest_ + 1) % frames_.size();
  frames_[newest_] = {.z_nm = tracking.value_nm.x,
                      .variance_nm2 = tracking.covariance_nm2.xx,
                      .reference_nm2 = tracking.reference_nm2,
                      .witness_valid = witnesses.used > 0,
                      .witness_nm = witnesses.value_nm.x};
  averaged_ = std::min(averaged_ + 1, static_cast<int>(frames_.size()));
  double z_nm = 0, variance_nm2 = 0, reference_nm2 = 0, witness_nm = 0;
  int witness_frames = 0;
  for (int back = 0; back < averaged_; ++back) {
    const FrameMean& f =
        frames_[(newest_ + frames_.size() - static_cast<std::size_t>(back)) % frames_.size()];
    z_nm += f.z_nm;
    variance_nm2 += f.variance_nm2;
    reference_nm2 += f.reference_nm2;
    if (!f.witness_valid) continue;
    witness_nm += f.witness_nm;
    ++witness_frames;
  }
  const double n = averaged_;
  estimate_.frame_z_nm = tracking.value_nm.x;
  estimate_.scale_share = kScaleShare;
  estimate_.frame_variance_nm2 = tracking.covariance_nm2.xx;
  estimate_.frame_noise_nm2 = tracking.noise_nm2.x;
  estimate_.frame_fit_noise_nm2 = tracking.fit_noise_nm2.x;
  estimate_.frame_witness_z_nm = witnesses.value_nm.x;
  estimate_.frame_witness_noise_nm2 = witnesses.noise_nm2.x;
  estimate_.z_nm = z_nm / n;
  // The references' errors are the same in each of the frames: the mean has them in full.
  estimate_.variance_nm2 = (variance_nm2 - reference_nm2) / (n * n) + reference_nm2 / n;
  estimate_.frames_averaged = averaged_;
  estimate_.witness_valid = witness_frames > 0;
  if (witness_frames > 0) estimate_.witness_z_nm = witness_nm / witness_frames;
}

const char* name_of(AxialReason reason) noexcept {
  switch (reason) {
    case AxialReason::Measured:
      return "measured";
    case AxialReason::NoReference:
      return "no_reference";
    case AxialReason::OutOfRange:
      return "out_of_range";
    case AxialReason::Unclear:
      return "unclear";
    case AxialReason::Saturated:
      return "saturated";
    case AxialReason::Dark:
      return "dark";
    case AxialReason::Implausible:
      return "implausible";
    case AxialReason::Apart:
      return "apart";
    case AxialReason::NotCalibrated:
      return "not_calibrated";
    case AxialReason::NoMarkers:
      return "no_markers";
  }
  return "unknown";
}

}  // namespace driftd::control
