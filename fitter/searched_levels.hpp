// SPDX-License-Identifier: MIT
// What the searches over all parameters, amplitude and background included, have in common: which
// they are, their limits, and what a pixel's noise is to them. Host and device.
//
// A fixed parameter is one whose bounds are both its start value. A parameter at a bound towards
// which the minimum lies further is held for the step: its row of the equations says "0" (projected
// Newton).
#pragma once

#include <cstdint>
#include <limits>

#include "fitter/fit_values.hpp"
#include "fitter/fitter.hpp"
#include "fitter/pixel_sums.hpp"
#include "fitter/pixel_terms.hpp"
#include "fitter/small_matrix.hpp"

namespace driftd::fitter {

/// Amplitude and background less the pedestal.
template <class Real>
struct LevelsOf {
  Real alpha, beta;
};
using Levels = LevelsOf<float>;

/// Parameters of the shape of a model along the axes, at most.
constexpr int kMostSeparable = kParameters - 2;

template <class M, class R = float>
struct SearchedLevels {
  using Model = M;
  using Real = R;
  static constexpr bool kSearchesLevels = true;
  static constexpr int kShape = Model::kShape;
  static constexpr int kAlpha = kShape, kBeta = kShape + 1;
  static constexpr int kSearched = kShape + 2;
  using Parameters = Vec<kSearched, Real>;  ///< the shape's, alpha, beta
  using Shape = Vec<kShape, Real>;
  /// Whether the shape's fifth parameter is an angle, or what tells of one.
  static constexpr bool kIsRotated = kShape > kMostSeparable;
  /// Whether it has no y, and its second parameter is sigma.
  static constexpr bool kIsLine = requires { Model::kIsLine; };

  struct Domain {
    int side;
    Real pedestal_adu, sum_squares;  ///< of the pixels
    PixelNoiseOf<Real> noise;
    Parameters lower, upper;
    std::uint8_t fixed;  ///< bit j: parameter j

    /// False: no parameters are within all limits.
    DRIFTD_HD Mask<Real> valid() const {
      Mask<Real> is = Mask<Real>(true);
      for (int j = 0; j < kSearched; ++j) is = is && lower[j] <= upper[j];
      return is;
    }
    DRIFTD_HD Parameters limited(const Parameters& p) const {
      Parameters r;
      for (int j = 0; j < kSearched; ++j) r[j] = clamped(p[j], lower[j], upper[j]);
      return r;
    }
  };

  DRIFTD_HD static Domain domain(const PixelSummaryOf<Real>& summary, const FitInputOf<Real>& input,
                                 int side, const FitOptions& options) {
    Domain d;
    d.side = side;
    d.pedestal_adu = summary.pedestal_adu;
    d.sum_squares = summary.sum_squares;
    d.noise = noise_of(summary, input, options);
    const Vec<kShape> lowest = Model::lowest(side), highest = Model::highest(side);
    for (int j = 0; j < kShape; ++j) {
      d.lower[j] = lowest[j];
      d.upper[j] = highest[j];
    }
    const bool likelihood = is_likelihood(options.estimator);
    d.lower[kAlpha] = likelihood ? 0.0f : -kHuge;
    d.lower[kBeta] = options.min_background_adu - d.pedestal_adu;
    if (likelihood) d.lower[kBeta] = larger(d.lower[kBeta], d.noise.floor - d.noise.shift);
    d.upper[kAlpha] = d.upper[kBeta] = kHuge;
    narrow(d, options.bounds);
    if (input.bounds != nullptr) narrow(d, *input.bounds);
    d.fixed = 0;
    if (options.fixed != 0) fix(d, input, options.fixed);
    return d;
  }

  /// The parameters of a step from `from` to `to`, as far as the limits let it go. Without
  /// amplitude nothing depends on the place any more, so a likelihood, whose amplitude is not
  /// negative, keeps a share of it in each step. Far from the spot nothing depends on the place
  /// either, and a small gradient would pass for a minimum there: searches that go by gradients go
  /// by part of a width at a time.
  DRIFTD_HD static Parameters reachable(const Domain& d, const Parameters& from, Parameters to) {
    if (likelihood(d)) {
      to[kAlpha] = larger(to[kAlpha], kKeptAmplitude * from[kAlpha]);
      const Shape scale = Model::step_scale(shape(from));
      for (int j = 0; j < kShape; ++j) {
        const Real most = kMostStep * scale[j];
        to[j] = clamped(to[j], from[j] - most, from[j] + most);
      }
    }
    return d.limited(to);
  }

  /// Levels that are not given are NaN until prepare().
  DRIFTD_HD static Parameters from_start(const FitInputOf<Real>& input, const Domain& d) {
    Shape shape;
    if constexpr (kIsRotated)
      shape = Model::from_start(input.start, input.angle_rad);
    else
      shape = Model::from_start(input.start);
    Parameters p;
    for (int j = 0; j < kShape; ++j) p[j] = shape[j];
    p[kAlpha] = input.levels.amplitude_adu;
    p[kBeta] = input.levels.background_adu - d.pedestal_adu;
    return p;
  }

  DRIFTD_HD static Shape shape(const Parameters& p) {
    Shape s;
    for (int j = 0; j < kShape; ++j) s[j] = p[j];
    return s;
  }

  /// For a likelihood, the change of a step of 0.03 standard deviations, or a 10,000th where the
  /// fit is poor: a bright spot's background moves by more in a step that is small beside the
  /// amplitude.
  template <class Evaluation>
  DRIFTD_HD static Real most_in_small_step(const Domain& d, const Evaluation& at) {
    constexpr float kMost = 1e-3f, kMostShare = 1e-4f;
    if (!likelihood(d)) return kHuge;
    return larger(kMostShare * at.chi_square, Real(kMost));
  }
  template <class Evaluation>
  DRIFTD_HD static Mask<Real> tells_ahead(const Domain&, const Evaluation&) {
    return Mask<Real>(true);
  }

  /// Both levels count in units of the amplitude.
  DRIFTD_HD static Parameters step_scale(const Parameters& p) {
    const Shape of_shape = Model::step_scale(shape(p));
    Parameters scale;
    for (int j = 0; j < kShape; ++j) scale[j] = of_shape[j];
    scale[kAlpha] = scale[kBeta] = abs_of(p[kAlpha]);
    return scale;
  }

 protected:
  static constexpr float kHuge = std::numeric_limits<float>::infinity();

  static constexpr float kKeptAmplitude = 0.1f;
  /// Largest step of the shape, in its step_scale(). Among 0.3, 0.5, 0.8 and 2 this takes the
  /// fewest evaluations and finds the most minima (docs/measured/benchmarks.md, "The fitter on one
  /// core").
  static constexpr float kMostStep = 0.5f;

  /// Least amplitude of a spot that makes such pixels: numbers that span A have a standard
  /// deviation of A / 2 at most.
  DRIFTD_HD static Real least_amplitude(const PixelSummaryOf<Real>& summary, int side) {
    const float count = static_cast<float>(side * side);
    const Real mean = summary.sum / count;
    return 2.0f * sqrt_of(summary.sum_squares / count - mean * mean);
  }

  DRIFTD_HD static bool likelihood(const Domain& d) { return is_likelihood(d.noise.estimator); }

  /// All weights are 1: the normal matrix is then made of the profile's moments, without pixels.
  DRIFTD_HD static bool unweighted(const Domain& d) {
    return d.noise.estimator == Estimator::LeastSquares;
  }

  DRIFTD_HD static PixelNoiseOf<Real> noise_of(const PixelSummaryOf<Real>& summary,
                                               const FitInputOf<Real>& input,
                                               const FitOptions& options) {
    // A photon where none is expected has no likelihood; and nearer to 0 the curvature expected of
    // the background is so far from the true one that the search creeps (at 1e-3, 1 in 200 dim
    // spots on no background took more than 20 iterations).
    constexpr float kFloorElectrons = 1e-2f;
    const bool mapped = input.variances != nullptr && knows_its_variances(options.estimator);
    PixelNoiseOf<Real> noise = {options.estimator, mapped, gain_of(options), 0.0f, 0};
    if (!is_likelihood(options.estimator)) return noise;
    const NoiseModel& given = options.noise;
    const float read_e2 = noise.mapped ? 0.0f : given.read_noise_e * given.read_noise_e;
    noise.shift = summary.pedestal_adu - given.offset_adu + read_e2 / noise.gain;
    noise.floor = kFloorElectrons / noise.gain;
    return noise;
  }

  /// Which of Bounds' limits is that of parameter j, and which bit fixes it. An angle has no limits
  /// there; its bit comes behind the others.
  DRIFTD_HD static int place(int j) {
    if (j == kAlpha) return static_cast<int>(Parameter::Amplitude);
    if (j == kBeta) return static_cast<int>(Parameter::Background);
    if (kIsLine && j == 1) return static_cast<int>(Parameter::SigmaX);
    return kIsRotated && j == kMostSeparable ? kAngle : j;
  }

  template <class OfFits>
  DRIFTD_HD static void narrow(Domain& d, const BoundsOf<OfFits>& bounds) {
    for (int j = 0; j < kSearched; ++j) {
      if (place(j) == kAngle) continue;
      const Real zero = j == kBeta ? d.pedestal_adu : Real(0.0f);
      d.lower[j] = larger(d.lower[j], bounds.lower[place(j)] - zero);
      d.upper[j] = smaller(d.upper[j], bounds.upper[place(j)] - zero);
    }
  }

  /// A start value that is not finite leaves no parameters within the limits.
  DRIFTD_HD static void fix(Domain& d, const FitInputOf<Real>& input, unsigned fixed) {
    const Parameters start = from_start(input, d);
    for (int j = 0; j < kSearched; ++j) {
      if ((fixed >> place(j) & 1u) == 0) continue;
      d.fixed = static_cast<std::uint8_t>(d.fixed | 1u << j);
      Mask<Real> given = is_finite(start[j]);
      if (j < kShape) given = given && input.start.sigma_x_px > 0.0f;
      d.lower[j] = where(given, start[j], Real(kHuge));
      d.upper[j] = where(given, start[j], Real(-kHuge));
    }
  }
};

}  // namespace driftd::fitter
