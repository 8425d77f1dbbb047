// SPDX-License-Identifier: MIT
#include "control/drift/drift_estimator.hpp"

#include <algorithm>
#include <cmath>

namespace driftd::control {
namespace {

/// Error of a position by pixel response and model, so that no fit claims all the weight. The same
/// in the reference while the sample is held there: no part of what is published.
constexpr double kSdFloorNm = 0.3;
/// Time constant of the mean residuals, frames: noise averages to sd / sqrt(2 * 64 - 1).
constexpr double kMemoryFrames = 64;
/// Time constant of the slow brightness average, frames.
constexpr double kBrightnessFrames = 256;
/// A detached marker is taken back below this share of the limit that called it so.
constexpr double kReturnShare = 0.5;
/// Residuals count in the mean at most as this many limits: a marker that was far away for a
/// moment is not kept out for long.
constexpr double kLargestResidual = 2;
/// Frames of a marker's own reference before any reference was asked for.
constexpr int kDefaultReferenceFrames = 16;
/// What a marker counts that is not trusted, where too few others are there.
constexpr double kLeastShare = 0.05;
/// Far outside any sensor.
constexpr double kFarthestPx = 1e6;

double length(Vec2 v) noexcept {
  return std::hypot(v.x, v.y);
}

bool is_measured(const MarkerObservation& o) noexcept {
  return o.fitted && o.inside_frame && std::abs(o.x_px) < kFarthestPx &&
         std::abs(o.y_px) < kFarthestPx && o.sigma_px > 0 && std::isfinite(o.sigma_px) &&
         o.x_sd_px >= 0 && o.x_sd_px <= o.sigma_px && o.y_sd_px >= 0 && o.y_sd_px <= o.sigma_px &&
         o.amplitude_adu > 0 && std::isfinite(o.amplitude_adu);
}

bool changed(double value, double before, double largest_relative_change) noexcept {
  return before > 0 && std::abs(value - before) > largest_relative_change * before;
}

/// Welford's update of a mean and a sum of squared deviations.
void add_sample(double value, int count, double& mean, double& m2) noexcept {
  const double before = value - mean;
  mean += before / count;
  m2 += before * (value - mean);
}

}  // namespace

DriftEstimator::DriftEstimator(const EstimatorSettings& settings)
    : settings_(settings),
      limits_{.outlier_sigma = settings.outlier_sigma, .floor_nm = settings.outlier_floor_nm},
      frames_(static_cast<std::size_t>(std::max(1, settings.average_frames))) {}

void DriftEstimator::set_markers(std::span<const Marker> markers) {
  markers_.assign(markers.begin(), markers.end());
  results_.assign(markers.size(), {});
  reference_px_.clear();
  for (const Marker& m : markers_) reference_px_.push_back({m.x_px, m.y_px});
  tracks_.assign(markers.size(), {});
  for (Track& t : tracks_) t.referenced = true;
  shares_.assign(markers.size(), 1);
  ++references_;
  votes_.assign(markers.size(), {});
  scratch_.assign(markers.size(), 0);
  rebase_pending_ = true;
  reference_left_ = 0;
  reference_frames_ = kDefaultReferenceFrames;
  estimate_ = {};
  estimate_.markers_total =
      static_cast<int>(std::count_if(markers_.begin(), markers_.end(), [](const Marker& m) {
        return m.role == MarkerRole::Tracking;
      }));
  restart_average();
}

void DriftEstimator::set_references(std::span<const MarkerReference> references) noexcept {
  for (std::size_t i = 0; i < std::min(references.size(), tracks_.size()); ++i) {
    const MarkerReference& known = references[i];
    reference_px_[i] = known.place_px;
    Track track;
    track.referenced = known.trusted && known.sigma_px > 0 && known.amplitude_adu > 0;
    if (track.referenced) {
      track.reference_variance_nm2 = known.variance_nm2;
      track.reference_sigma_px = known.sigma_px;
      track.brightness_adu = known.amplitude_adu;
    }
    tracks_[i] = track;
  }
  rebase_pending_ = false;
  ++references_;
}

void DriftEstimator::set_part(std::size_t i, MarkerRole role, double share) noexcept {
  if (i >= markers_.size()) return;
  if (role != markers_[i].role) {
    markers_[i].role = role;
    estimate_.markers_total += role == MarkerRole::Tracking ? 1 : -1;
  }
  shares_[i] = std::clamp(share, 0.0, 1.0);
}

void DriftEstimator::begin_reference(int frames) noexcept {
  reference_frames_ = std::max(1, frames);
  reference_left_ = reference_frames_;
  reference_drift_sum_nm_ = {};
  rebase_pending_ = true;
  for (Track& t : tracks_) t.steadiness = {};
}

void DriftEstimator::restart_average() noexcept {
  averaged_ = 0;
}

const DriftEstimate& DriftEstimator::update(Observations observations) noexcept {
  observations = observations.first(std::min(observations.size(), markers_.size()));
  if (rebase_pending_) rebase_pending_ = !rebase(observations);
  Consensus tracking;
  if (rebase_pending_)
    judge(observations);
  else
    tracking = measure(observations);
  if (tracking.used > 0 && tracking.used >= settings_.min_markers) {
    accumulate(observations, tracking.value_nm);
    if (reference_left_ > 0 && --reference_left_ == 0 && finish_reference()) {
      restart_average();
      tracking = measure(observations);
    }
  }
  publish(tracking, agree(MarkerRole::Witness, observations));
  return estimate_;
}

/// The median marker's change; two markers cannot tell which of them changed.
DriftEstimator::CommonChange DriftEstimator::common_change(Observations observations) noexcept {
  const auto median_ratio = [&](auto ratio_of) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < observations.size(); ++i) {
      if (markers_[i].role != MarkerRole::Tracking || !is_measured(observations[i])) continue;
      const double ratio = ratio_of(tracks_[i], observations[i]);
      if (std::isfinite(ratio)) scratch_[count++] = ratio;
    }
    return count < 3 ? 1.0 : lower_median(std::span(scratch_).first(count));
  };
  return {.width = median_ratio([](const Track& t, const MarkerObservation& o) {
            return o.sigma_px / t.reference_sigma_px;
          }),
          .brightness = median_ratio([](const Track& t, const MarkerObservation& o) {
            return o.amplitude_adu / t.brightness_adu;
          })};
}

/// Health as far as width, brightness and the fit show it.
void DriftEstimator::judge(Observations observations) noexcept {
  const CommonChange common = common_change(observations);
  for (std::size_t i = 0; i < markers_.size(); ++i) {
    MarkerResult& result = results_[i];
    const Track& track = tracks_[i];
    result = {.health = MarkerHealth::FitFailed, .displacement_nm = {}, .residual_nm = {}};
    if (i >= observations.size()) continue;
    const MarkerObservation& o = observations[i];
    if (!o.inside_frame)
      result.health = MarkerHealth::OutsideFrame;
    else if (!is_measured(o))
      result.health = MarkerHealth::FitFailed;
    else if (!track.referenced)
      result.health = MarkerHealth::Unreferenced;
    else if (changed(o.sigma_px, common.width * track.reference_sigma_px,
                     settings_.max_width_change) ||
             changed(o.amplitude_adu, common.brightness * track.brightness_adu,
                     settings_.max_brightness_change))
      result.health = MarkerHealth::Implausible;
    else
      result.health = MarkerHealth::Good;
  }
}

Vec2 DriftEstimator::displacement_nm(std::size_t i, const MarkerObservation& o) const noexcept {
  return {(o.x_px - reference_px_[i].x) * settings_.pixel_size_nm,
          (o.y_px - reference_px_[i].y) * settings_.pixel_size_nm};
}

Vote DriftEstimator::vote_of(std::size_t i, const MarkerObservation& o) const noexcept {
  const Track& track = tracks_[i];
  const double x_sd_nm = o.x_sd_px * settings_.pixel_size_nm;
  const double y_sd_nm = o.y_sd_px * settings_.pixel_size_nm;
  constexpr double kFloorNm2 = kSdFloorNm * kSdFloorNm;
  const double common_nm2 = kFloorNm2 + track.reference_variance_nm2;
  return {.value_nm = displacement_nm(i, o),
          .variance_nm2 = {x_sd_nm * x_sd_nm + common_nm2, y_sd_nm * y_sd_nm + common_nm2},
          .floor_nm2 = kFloorNm2,
          .reference_nm2 = track.reference_variance_nm2,
          .trust = track.readmission * track.memory_weight};
}

Vec2 DriftEstimator::noise_nm2(std::size_t i, const MarkerObservation& o) const noexcept {
  const Vote vote = vote_of(i, o);
  return {vote.variance_nm2.x - vote.reference_nm2, vote.variance_nm2.y - vote.reference_nm2};
}

/// Witnesses vote among themselves, each alike: their mean must not lean on the estimate it checks.
Consensus DriftEstimator::agree(MarkerRole role, Observations observations) noexcept {
  std::size_t count = 0;
  int trusted = 0;
  for (std::size_t i = 0; i < observations.size(); ++i) {
    if (markers_[i].role != role || !tracks_[i].referenced || !is_measured(observations[i]))
      continue;
    if (results_[i].health == MarkerHealth::Implausible) continue;
    if (role == MarkerRole::Tracking && tracks_[i].detached) continue;
    votes_[count] = vote_of(i, observations[i]);
    if (role == MarkerRole::Witness) votes_[count].trust = 1;
    votes_[count].share = shares_[i];
    trusted += shares_[i] > 0 ? 1 : 0;
    ++count;
  }
  const bool needs_all = role == MarkerRole::Tracking && trusted < settings_.min_markers;
  return robust_mean(with_shares(count, needs_all ? kLeastShare : 0), limits_, scratch_);
}

/// Leaves out votes without a share.
std::span<Vote> DriftEstimator::with_shares(std::size_t count, double least) noexcept {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double share = std::max(votes_[i].share, least);
    if (!(share > 0)) continue;
    votes_[kept] = votes_[i];
    votes_[kept++].trust *= share;
  }
  return std::span(votes_).first(kept);
}

Consensus DriftEstimator::measure(Observations observations) noexcept {
  judge(observations);
  const Consensus consensus = agree(MarkerRole::Tracking, observations);
  const double common_limit_nm = common_residual_limit_nm();
  for (std::size_t i = 0; i < observations.size(); ++i) {
    MarkerResult& result = results_[i];
    if (result.health != MarkerHealth::Good && result.health != MarkerHealth::Implausible) continue;
    const Vote vote = vote_of(i, observations[i]);
    result.displacement_nm = vote.value_nm;
    if (consensus.used == 0) continue;
    result.residual_nm = {vote.value_nm.x - consensus.value_nm.x,
                          vote.value_nm.y - consensus.value_nm.y};
    if (result.health == MarkerHealth::Implausible) continue;
    remember_residual(i, sd_of(vote), common_limit_nm);
    Track& track = tracks_[i];
    const double limit_nm =
        limits_.limit_nm(std::hypot(sd_of(vote), consensus.others_sd_nm), consensus.scale);
    if (track.detached || length(result.residual_nm) > limit_nm)
      result.health = MarkerHealth::Outlier;
    else
      track.brightness_adu +=
          (observations[i].amplitude_adu - track.brightness_adu) / kBrightnessFrames;
  }
  return consensus;
}

/// The markers themselves say how steady they are to one another (expansion, tilt): most of them
/// can never be outliers.
double DriftEstimator::common_residual_limit_nm() noexcept {
  std::size_t count = 0;
  for (std::size_t i = 0; i < tracks_.size(); ++i) {
    if (markers_[i].role != MarkerRole::Tracking || !tracks_[i].referenced) continue;
    if (!tracks_[i].detached) scratch_[count++] = length(tracks_[i].mean_residual_nm);
  }
  if (count == 0) return 0;
  return limits_.outlier_sigma * lower_median(std::span(scratch_).first(count)) / kRayleighMedian;
}

void DriftEstimator::remember_residual(std::size_t i, double sd_nm,
                                       double common_limit_nm) noexcept {
  Track& track = tracks_[i];
  const double noise_nm2 = std::max(0.0, sd_nm * sd_nm - track.reference_variance_nm2);
  const double mean_sd_nm =
      std::sqrt(noise_nm2 / (2 * kMemoryFrames - 1) + track.reference_variance_nm2);
  const double limit_nm = std::max(limits_.limit_nm(mean_sd_nm, 1), common_limit_nm);
  const Vec2 residual = results_[i].residual_nm;
  const double far = length(residual) / (kLargestResidual * limits_.limit_nm(sd_nm, 1));
  const double clip = far > 1 ? 1 / far : 1;
  track.mean_residual_nm.x += (clip * residual.x - track.mean_residual_nm.x) / kMemoryFrames;
  track.mean_residual_nm.y += (clip * residual.y - track.mean_residual_nm.y) / kMemoryFrames;

  const double mean_nm = length(track.mean_residual_nm);
  if (!track.detached && mean_nm > limit_nm) {
    track.detached = true;
    track.readmission = 0;
  } else if (track.detached && mean_nm < kReturnShare * limit_nm) {
    track.detached = false;
  }
  if (!track.detached) track.readmission = std::min(1.0, track.readmission + 1 / kMemoryFrames);
  track.memory_weight = biweight(mean_nm, limit_nm);
}

/// Makes this frame's positions, less the common displacement, the provisional references.
bool DriftEstimator::rebase(Observations observations) noexcept {
  judge(observations);
  Consensus common = agree(MarkerRole::Tracking, observations);
  if (common.used < settings_.min_markers) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < observations.size(); ++i) {
      if (markers_[i].role != MarkerRole::Tracking || !is_measured(observations[i])) continue;
      votes_[count] = vote_of(i, observations[i]);
      votes_[count++].trust = 1;
    }
    if (count == 0 || static_cast<int>(count) < settings_.min_markers) return false;
    common = robust_mean(std::span(votes_).first(count), limits_, scratch_);
  }
  if (common.used == 0) return false;
  const double pixel_nm = settings_.pixel_size_nm;
  for (std::size_t i = 0; i < markers_.size(); ++i) {
    Track fresh;
    fresh.steadiness = tracks_[i].steadiness;
    if (i < observations.size() && is_measured(observations[i])) {
      const MarkerObservation& o = observations[i];
      const double sd_nm = 0.5 * (o.x_sd_px + o.y_sd_px) * pixel_nm;
      fresh.referenced = true;
      fresh.reference_variance_nm2 = sd_nm * sd_nm;
      fresh.reference_sigma_px = o.sigma_px;
      fresh.brightness_adu = o.amplitude_adu;
      reference_px_[i] = {o.x_px - common.value_nm.x / pixel_nm,
                          o.y_px - common.value_nm.y / pixel_nm};
    }
    tracks_[i] = fresh;
  }
  ++references_;
  return true;
}

void DriftEstimator::accumulate(Observations observations, Vec2 drift_nm) noexcept {
  const bool referencing = reference_left_ > 0;
  if (referencing) {
    reference_drift_sum_nm_.x += drift_nm.x;
    reference_drift_sum_nm_.y += drift_nm.y;
  }
  const double pixel_nm = settings_.pixel_size_nm;
  for (std::size_t i = 0; i < observations.size(); ++i) {
    const MarkerObservation& o = observations[i];
    Track& track = tracks_[i];
    if (!is_measured(o) || (!referencing && track.referenced)) continue;
    Steadiness& s = track.steadiness;
    const int n = ++s.frames;
    const double sd_px = 0.5 * (o.x_sd_px + o.y_sd_px);
    s.variance_sum_px2 += sd_px * sd_px;
    add_sample(o.x_px - drift_nm.x / pixel_nm, n, s.mean_px.x, s.place_m2_px2);
    add_sample(o.y_px - drift_nm.y / pixel_nm, n, s.mean_px.y, s.place_m2_px2);
    add_sample(o.sigma_px, n, s.width_mean, s.width_m2);
    add_sample(o.amplitude_adu, n, s.brightness_mean, s.brightness_m2);
    if (referencing || n < reference_frames_) continue;
    if (steady(s, reference_frames_)) {
      adopt_reference(i, {});
      track.readmission = 0;
    }
    s = {};
  }
}

bool DriftEstimator::steady(const Steadiness& s, int frames_needed) const noexcept {
  if (s.frames < std::max(1, frames_needed)) return false;
  const double degrees = std::max(1, s.frames - 1);
  const double place_sd_nm = std::sqrt(0.5 * s.place_m2_px2 / degrees) * settings_.pixel_size_nm;
  const double fit_sd_nm = std::sqrt(s.variance_sum_px2 / s.frames) * settings_.pixel_size_nm;
  return place_sd_nm <= limits_.limit_nm(fit_sd_nm, 1) &&
         std::sqrt(s.width_m2 / degrees) <= 0.5 * settings_.max_width_change * s.width_mean &&
         std::sqrt(s.brightness_m2 / degrees) <=
             0.5 * settings_.max_brightness_change * s.brightness_mean;
}

void DriftEstimator::adopt_reference(std::size_t i, Vec2 common_px) noexcept {
  const Steadiness& s = tracks_[i].steadiness;
  const double pixel_nm = settings_.pixel_size_nm;
  reference_px_[i] = {s.mean_px.x + common_px.x, s.mean_px.y + common_px.y};
  Track fresh;
  fresh.referenced = true;
  fresh.reference_variance_nm2 = s.variance_sum_px2 / s.frames / s.frames * pixel_nm * pixel_nm;
  fresh.reference_sigma_px = s.width_mean;
  fresh.brightness_adu = s.brightness_mean;
  fresh.steadiness = s;
  tracks_[i] = fresh;
}

bool DriftEstimator::finish_reference() noexcept {
  const int needed = (reference_frames_ + 1) / 2;
  int tracking = 0;
  for (std::size_t i = 0; i < markers_.size(); ++i)
    if (markers_[i].role == MarkerRole::Tracking && steady(tracks_[i].steadiness, needed))
      ++tracking;
  if (tracking < settings_.min_markers) {
    begin_reference(reference_frames_);
    return false;
  }
  ++references_;
  const double to_mean_px = 1 / (reference_frames_ * settings_.pixel_size_nm);
  const Vec2 common_px{reference_drift_sum_nm_.x * to_mean_px,
                       reference_drift_sum_nm_.y * to_mean_px};
  for (std::size_t i = 0; i < markers_.size(); ++i) {
    if (steady(tracks_[i].steadiness, needed)) {
      adopt_reference(i, common_px);
    } else {
      tracks_[i] = {};
      reference_px_[i].x += common_px.x;
      reference_px_[i].y += common_px.y;
    }
    tracks_[i].steadiness = {};
  }
  return true;
}

void DriftEstimator::publish(const Consensus& tracking, const Consensus& witnesses) noexcept {
  estimate_.markers_used = tracking.used;
  estimate_.witnesses_used = witnesses.used;
  estimate_.valid = tracking.used > 0 && tracking.used >= settings_.min_markers;
  estimate_.witness_valid = false;
  if (!estimate_.valid) {
    restart_average();
    estimate_.frames_averaged = 0;
    return;
  }
  newest_ = (newest_ + 1) % frames_.size();
  frames_[newest_] = {.drift_nm = tracking.value_nm,
                      .covariance_nm2 = tracking.covariance_nm2,
                      .reference_nm2 = tracking.reference_nm2,
                      .witness_valid = witnesses.used > 0,
                      .witness_nm = witnesses.value_nm};
  averaged_ = std::min(averaged_ + 1, static_cast<int>(frames_.size()));

  Vec2 drift;
  Vec2 witness;
  Covariance2 covariance;
  double reference_nm2 = 0;
  int witness_frames = 0;
  for (int back = 0; back < averaged_; ++back) {
    const FrameMean& f =
        frames_[(newest_ + frames_.size() - static_cast<std::size_t>(back)) % frames_.size()];
    drift = {drift.x + f.drift_nm.x, drift.y + f.drift_nm.y};
    covariance = {covariance.xx + f.covariance_nm2.xx, covariance.xy + f.covariance_nm2.xy,
                  covariance.yy + f.covariance_nm2.yy};
    reference_nm2 += f.reference_nm2;
    if (!f.witness_valid) continue;
    witness = {witness.x + f.witness_nm.x, witness.y + f.witness_nm.y};
    ++witness_frames;
  }
  const double n = averaged_;
  estimate_.frame_drift_nm = tracking.value_nm;
  estimate_.frame_covariance_nm2 = tracking.covariance_nm2;
  estimate_.frame_noise_nm2 = tracking.noise_nm2;
  estimate_.frame_fit_noise_nm2 = tracking.fit_noise_nm2;
  estimate_.frame_witness_nm = witnesses.value_nm;
  estimate_.frame_witness_noise_nm2 = witnesses.noise_nm2;
  estimate_.drift_nm = {drift.x / n, drift.y / n};
  // The references' errors are the same in each of the frames: the mean has them in full.
  const auto variance_of_mean = [&](double sum_nm2) {
    return (sum_nm2 - reference_nm2) / (n * n) + reference_nm2 / n;
  };
  estimate_.covariance_nm2 = {variance_of_mean(covariance.xx), covariance.xy / (n * n),
                              variance_of_mean(covariance.yy)};
  estimate_.frames_averaged = averaged_;
  estimate_.witness_valid = witness_frames > 0;
  if (witness_frames > 0)
    estimate_.witness_nm = {witness.x / witness_frames, witness.y / witness_frames};
}

}  // namespace driftd::control
