// SPDX-License-Identifier: MIT
// What most of the markers agree on: a robust weighted mean of 2-D displacements. Private to the
// drift estimator; no allocation, noexcept, a fixed number of iterations: same input, same bits.
//
// Tukey biweight by iteratively reweighted means (Huber & Ronchetti, Robust Statistics, 2009, ch. 4
// and 7). It starts at the componentwise median, so that wrong markers do no harm wherever they
// are, as long as they are a minority. A weight is at most twice the median weight: one bright but
// wrong marker cannot outvote the others.
#pragma once

#include <span>

#include "control/values/types.hpp"

namespace driftd::control {

/// One marker's vote.
struct Vote {
  Vec2 value_nm;
  Vec2 variance_nm2;     ///< > 0
  double floor_nm2 = 0;  ///< the part of it that only keeps one vote from claiming all the weight
  double reference_nm2 = 0;  ///< part of the variance that is the same in every frame, per axis
  double trust = 1;          ///< factor on the weight, 0..1
  double share = 1;          ///< the estimator's own: set_part()
  double weight = 0;         ///< result: share of the sum of weights
  // Set by the consensus itself, and the same in each of its iterations.
  double weight_at_centre = 0;
  double per_limit_nm2 = 0;  ///< 1 / limit^2
  double loss = 1;           ///< of a robust mean against a plain one, as a factor of variance
};

/// Smallest distance from the consensus at which a vote has no weight: the larger of both. sd_nm is
/// that of the vote against the mean of the others.
struct RobustLimits {
  double outlier_sigma = 4;
  double floor_nm = 3;

  double limit_nm(double sd_nm, double scale) const noexcept {
    return floor_nm > outlier_sigma * scale * sd_nm ? floor_nm : outlier_sigma * scale * sd_nm;
  }
};

struct Consensus {
  int used = 0;      ///< votes with a weight; 0: the rest is meaningless
  double scale = 1;  ///< the votes' scatter over what their uncertainties promise; at least 1
  double others_sd_nm = 0;  ///< of the mean that one vote is compared with
  Vec2 value_nm;
  /// Formal covariance, or that of the observed scatter where it is larger.
  Covariance2 covariance_nm2;
  double reference_nm2 = 0;  ///< part of its variances that is the same in every frame
  Vec2 noise_nm2;            ///< formal variance without that part
  /// What noise of the votes makes of value_nm from frame to frame: noise_nm2 without the floors,
  /// and with what a robust mean loses against a plain one.
  Vec2 fit_noise_nm2;
};

/// Median of the length of a 2-D normal vector with unit standard deviation per axis.
constexpr double kRayleighMedian = 1.1774100225154747;
/// The same of one axis.
constexpr double kNormalMedian = 0.6744897501960817;

/// @param scratch  at least votes.size() doubles
/// @param median_distance  of votes from the consensus, in standard deviations, where these are
///   honest. Votes of one axis have it in x, nothing in y, and in both the same variance.
Consensus robust_mean(std::span<Vote> votes, RobustLimits limits, std::span<double> scratch,
                      double median_distance = kRayleighMedian) noexcept;

/// Tukey's biweight: 1 at distance 0, falling smoothly to 0 at `limit` and beyond.
double biweight(double distance, double limit) noexcept;

/// Standard deviation per axis (mean of both axes).
double sd_of(const Vote& vote) noexcept;

/// The smaller of the two middle values for an even count; reorders; not empty.
double lower_median(std::span<double> values) noexcept;

}  // namespace driftd::control
