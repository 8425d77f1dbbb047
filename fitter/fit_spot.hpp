// SPDX-License-Identifier: MIT
// The whole fit of one ROI over a back end's sums: start values, minimization, uncertainties and
// the verdict. Host and device; the back end owns all memory.
#pragma once

#include <cmath>

#include "fitter/acceptance.hpp"
#include "fitter/fitter.hpp"
#include "fitter/full_search.hpp"
#include "fitter/implicit_least_squares.hpp"
#include "fitter/levenberg_marquardt.hpp"
#include "fitter/uncertainty.hpp"

namespace driftd::fitter {

/// Start values of the paper: the maximum of the 3x3 moving average, and sqrt(M / pi) from the M
/// pixels above the level exp(-1/2) between its lowest and highest value.
template <class BackEnd>
DRIFTD_HD Start cold_start(BackEnd& pixels) {
  constexpr float kInversePi = 0.318309886f;
  constexpr float kOneSigmaLevel = 0.606530660f;
  const SmoothedExtremes peak = pixels.smoothed_pixels();
  const float level = peak.lowest + kOneSigmaLevel * (peak.highest - peak.lowest);
  const float sigma_px = std::sqrt(pixels.count_above(level) * kInversePi);
  return {peak.x_px, peak.y_px, sigma_px, sigma_px};
}

DRIFTD_HD bool usable_start(const Start& s) {
  return s.sigma_x_px > 0 && std::isfinite(s.x_px) && std::isfinite(s.y_px) &&
         std::isfinite(s.sigma_x_px) && std::isfinite(s.sigma_y_px);
}

DRIFTD_HD Localization bad_input() {
  return {NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, FitStatus::BadInput,
          0,   {}};
}

/// @param fixed  bit j: parameter j
template <class Model>
DRIFTD_HD void store_sd(Vec<Model::kShape + 2> sd, unsigned fixed, Localization& l) {
  for (int j = 0; j < Model::kShape + 2; ++j)
    if ((fixed >> j & 1u) != 0) sd[j] = 0;
  Model::store_sd(sd.v, l);
  l.amplitude_sd_adu = sd[Model::kShape];
  l.background_sd_adu = sd[Model::kShape + 1];
}

/// Whether the normal matrix is the inverse of the covariance.
DRIFTD_HD bool knows_its_variances(Estimator estimator) {
  return estimator == Estimator::WeightedLeastSquares || estimator == Estimator::PoissonLikelihood;
}

/// From a minimum to the result. The verdict rests on the plain residuals whatever the estimator
/// and the noise model say, so that a wrong gain cannot turn noise into spots or spots into noise.
/// @pre the profile set last is the minimum's
template <class Search, class BackEnd>
DRIFTD_HD Localization conclude(BackEnd& pixels, const typename Search::Domain& domain,
                                const Minimum<Search>& minimum, const FitOptions& options) {
  using Spot = typename Search::Model;
  constexpr int n = Spot::kShape;
  const typename Spot::Parameters p = Search::shape(minimum.parameters);
  const auto& at = minimum.at;
  const float alpha = at.level.alpha;
  const PlainSums<n> plain = Search::plain_sums(pixels, domain, minimum.parameters, at);
  const PixelSummary& summary = pixels.summary();
  const float count = static_cast<float>(pixels.side() * pixels.side());
  const float freedom = count - static_cast<float>(n + 2);
  const float pooled = plain.squares / freedom;

  Localization l = {};
  Spot::store(p, l);
  l.amplitude_adu = alpha;
  l.background_adu = at.level.beta + summary.pedestal_adu;
  l.chi_square = at.chi_square;
  l.status = minimum.status;
  l.iterations = static_cast<std::uint8_t>(minimum.iterations);

  SymmetricMatrix<n + 2> full = full_matrix<n>(plain.product, plain.total, count, alpha);
  hold(full, plain.fixed);
  const Factors<n + 2> h = factorize(full);
  const SymmetricMatrix<n + 2> inverse_l = inverse_lower(h);
  store_sd<Spot>(standard_deviations(inverse_diagonal(h, inverse_l), pooled), plain.fixed, l);
  // Summed whatever the other tests say: the lanes of a back end must meet in it.
  const SmoothedExtremes structure = pixels.smoothed_residuals(alpha, at.level.beta);
  const float constant = summary.sum_squares - summary.sum * summary.sum / count;
  const bool spot = h.positive_definite && inside_limits<Spot>(p, pixels.side()) &&
                    significant(l, plain.squares, constant, freedom) &&
                    structureless(structure, alpha, std::sqrt(pooled));
  if (options.spots_only && converged(l.status) && !spot) l.status = FitStatus::NotConverged;

  if constexpr (Search::kWeighs) {
    if (knows_its_variances(options.estimator)) {
      const Factors<n + 2> weighted = factorize(Search::step_matrix(at));
      Vec<n + 2> variance = inverse_diagonal(weighted, inverse_lower(weighted));
      for (int j = 0; j < n + 2; ++j)  // of what a bound keeps: given all others
        if ((at.held >> j & 1u) != 0) variance[j] = 1.0f / at.normal(j, j);
      store_sd<Spot>(standard_deviations(variance, 1), plain.fixed, l);
      return l;
    }
  }
  const CubicMoments third = pixels.cubic_moments();
  const SymmetricMatrix<n + 2> cubic =
      full_matrix<n>(Spot::products(SeparableMoments{third.x, third.y}, p),
                     {plain.product.ff, plain.product.fd}, plain.total.f, alpha);
  const PixelVariance variance = options.noise.gain_e_per_adu > 0
                                     ? photon_variance(options.noise, alpha, l.background_adu)
                                     : residual_variance(pixels.variance_sums(alpha, at.level.beta),
                                                         count, plain.total.f, n + 1, pooled);
  store_sd<Spot>(standard_deviations(inverse(h, inverse_l), cubic, variance), plain.fixed, l);
  return l;
}

/// A fit of one ROI as a state machine over LevenbergMarquardt: begin(), then whatever phase() asks
/// for until it is Done. A warm start that leads nowhere (the spot jumped) is tried again cold.
/// No call sums over pixels, so that a back end may do so for several fits at once.
template <class Search>
class SpotFit {
 public:
  using Parameters = typename Search::Parameters;
  using Domain = typename Search::Domain;

  enum class Phase : std::uint8_t {
    NeedsStart,  ///< start() with a cold_start()
    Searching,   ///< advance() with an evaluation at trial()
    AtMinimum,   ///< finish() with conclude() at minimum()
    Done         ///< see result()
  };

  DRIFTD_HD void begin(const PixelSummary& summary, const FitInput& input, int side,
                       const FitOptions& options) {
    result_ = bad_input();
    warm_ = usable_start(input.start);
    const Domain domain = Search::domain(summary, input, side, options);
    search_.begin(Search::from_start(input, domain), domain, options);
    phase_ = !(summary.usable && domain.valid()) ? Phase::Done
             : warm_                             ? Phase::Searching
                                                 : Phase::NeedsStart;
  }

  /// After begin(): what came with the pixels is no input.
  DRIFTD_HD void refuse() { phase_ = Phase::Done; }

  DRIFTD_HD Phase phase() const { return phase_; }
  /// A search may complete its first trial from the profile's moments.
  DRIFTD_HD Parameters& trial() { return search_.trial(); }
  DRIFTD_HD const Domain& domain() const { return search_.domain(); }
  DRIFTD_HD const Minimum<Search>& minimum() const { return search_.minimum(); }
  DRIFTD_HD const Localization& result() const { return result_; }

  DRIFTD_HD void start(const Start& cold, const FitOptions& options) {
    warm_ = false;
    const Domain domain = search_.domain();
    search_.begin(Search::from_start({cold}, domain), domain, options);
    phase_ = Phase::Searching;
  }

  DRIFTD_HD void advance(const typename Search::Evaluation& at, const FitOptions& options) {
    if (search_.advance(at, options)) phase_ = Phase::AtMinimum;
  }

  DRIFTD_HD void finish(const Localization& concluded, const FitOptions& options) {
    result_ = concluded;
    const bool again = warm_ && options.spots_only && !converged(concluded.status);
    phase_ = again ? Phase::NeedsStart : Phase::Done;
  }

 private:
  LevenbergMarquardt<Search> search_;
  Localization result_;
  bool warm_;
  Phase phase_;
};

}  // namespace driftd::fitter
