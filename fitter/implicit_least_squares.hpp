// SPDX-License-Identifier: MIT
// Unweighted least squares with amplitude and background eliminated: Leutenegger & Weber 2021,
// equations 3 to 9. A search is this file: which parameters are searched, and how a back end's sums
// become the value that is minimized and the equations of the next step. Host and device.
//
// With N pixels, C_ff = sum f^2 - (sum f)^2 / N and likewise C_fj, C_jk (the sums of products about
// the mean), r the residuals and rho_j = sum r d_j f, the paper's equations reduce to
//   alpha   = (sum f g - sum f sum g / N) / C_ff             beta = (sum g - alpha sum f) / N (6)
//   d_j alpha = (rho_j - alpha C_fj) / C_ff     d_j beta = -(f d_j alpha + alpha d_j f) summed / N
//   (8) J_j     = alpha d_j f + d_j alpha f + d_j beta           (the total derivative of h)
//   J_j.J_k = alpha^2 (C_jk - C_fj C_fk / C_ff) + rho_j rho_k / C_ff
//   J_j.(g - h) = alpha rho_j                                (as sum r = sum r f = 0, equation 4)
// Where the background would pass its lower limit it stays there, and the same equations hold with
// sums of products about zero (C_ff = sum f^2 and so on).
// The normal matrix therefore needs no pixel. The gradient needs only the pixels' moments: their
// differences from the model's lose no more digits than a bright spot's position has to spare. Of
// the chi-square every digit counts near the minimum, and there the search reads its changes from
// the gradients (levenberg_marquardt.hpp).
// A parameter at a limit is held for the step as in searched_levels.hpp.
#pragma once

#include <limits>

#include "fitter/fit_values.hpp"
#include "fitter/fitter.hpp"
#include "fitter/pixel_sums.hpp"
#include "fitter/searched_levels.hpp"
#include "fitter/small_matrix.hpp"
#include "fitter/spot_model.hpp"

namespace driftd::fitter {

/// Which parameters are held for the step: those at a limit beyond which the minimum lies, and
/// those that have no room at all (projected Newton).
template <int n, class Real, class Limits>
DRIFTD_HD Held<n, Real> hold_at_limits(const Vec<n, Real>& p, const Limits& lower,
                                       const Limits& upper, const Vec<n, Real>& gradient) {
  Held<n, Real> held;
  for (int j = 0; j < n; ++j) {
    held.of[j] = !(Real(lower[j]) < upper[j]) || (p[j] <= lower[j] && gradient[j] < 0.0f) ||
                 (p[j] >= upper[j] && gradient[j] > 0.0f);
  }
  return held;
}

/// One point of a minimization: its value and the linearized equations about it.
template <int n, class Real>
struct EvaluationOf {
  LevelsOf<Real> level;
  Real chi_square;                  ///< a likelihood has only something of its size here: PixelTerm
  SymmetricMatrix<n, Real> normal;  ///< J^T W J
  Vec<n, Real> gradient;            ///< J^T W (g - h), downhill
  Held<n, Real> held;

  /// The equations of the next step; those of held parameters say "0".
  DRIFTD_HD SymmetricMatrix<n, Real> equations() const {
    SymmetricMatrix<n, Real> a = normal;
    hold(a, held);
    return a;
  }
  DRIFTD_HD Vec<n, Real> right_side() const {
    Vec<n, Real> b;
    for (int j = 0; j < n; ++j) b[j] = where(held.of[j], Real(0.0f), gradient[j]);
    return b;
  }
};

template <int n, class Real>
DRIFTD_HD EvaluationOf<n, Real> where(const Mask<Real>& mask, const EvaluationOf<n, Real>& yes,
                                      const EvaluationOf<n, Real>& no) {
  return {
      {where(mask, yes.level.alpha, no.level.alpha), where(mask, yes.level.beta, no.level.beta)},
      where(mask, yes.chi_square, no.chi_square),
      where(mask, yes.normal, no.normal),
      where(mask, yes.gradient, no.gradient),
      where(mask, yes.held, no.held)};
}

template <SpotModel M, class R = float>
struct ImplicitLeastSquares {
  using Model = M;
  using Real = R;
  static constexpr bool kSearchesLevels = false;
  static constexpr int kSearched = Model::kShape;
  using Parameters = Vec<kSearched, Real>;

  /// What does not change during the fit of one ROI.
  struct Domain {
    int side;
    Real min_beta;     ///< limit of the background, less the pedestal
    Real sum_squares;  ///< of the pixels

    DRIFTD_HD Mask<Real> valid() const { return Mask<Real>(true); }
    DRIFTD_HD Parameters limited(const Parameters& p) const {
      return fitter::limited<Model>(p, side);
    }
  };

  /// Between the two halves of an evaluation.
  struct Prepared {
    ProfileTotals<kSearched, Real> total;
    ProfileProducts<kSearched, Real> product;
    LevelsOf<Real> level;
    Real inverse_c_ff;  ///< 1 / C_ff
    Real about_mean;    ///< 1 / N; 0 where the background is at its limit
    ResidualMomentsOf<Real> residuals;
    Real unexplained;  ///< squares
  };

  using Evaluation = EvaluationOf<kSearched, Real>;

  DRIFTD_HD static Domain domain(const PixelSummaryOf<Real>& summary, const FitInputOf<Real>&,
                                 int side, const FitOptions& options) {
    return {side, options.min_background_adu - summary.pedestal_adu, summary.sum_squares};
  }

  DRIFTD_HD static Parameters from_start(const FitInputOf<Real>& input, const Domain&) {
    return Model::from_start(input.start);
  }
  /// The parameters of a step `to`, as far as the limits let it go.
  DRIFTD_HD static Parameters reachable(const Domain& domain, const Parameters&,
                                        const Parameters& to) {
    return domain.limited(to);
  }

  /// Where the background reaches its limit, the gradient has a kink.
  DRIFTD_HD static Real least_told(const Domain& d, const Evaluation& from, const Evaluation& to) {
    const Mask<Real> free = from.level.beta > d.min_beta, still = to.level.beta > d.min_beta;
    return where((free && still) || (!free && !still),
                 fitter::least_told(d.sum_squares, d.side, from.level.beta, to.level.beta),
                 Real(0.0f));
  }

  DRIFTD_HD static Real most_in_small_step(const Domain&, const Evaluation&) {
    return std::numeric_limits<float>::infinity();
  }
  /// From its limit the background may rise in any step.
  DRIFTD_HD static Mask<Real> tells_ahead(const Domain& d, const Evaluation& at) {
    return at.level.beta > d.min_beta;
  }

  /// Where the search ended: the best levels for that shape, to first order in the last step.
  /// @param full  the normal matrix of the shape and both levels
  template <class Minimum>
  DRIFTD_HD static LevelsOf<Real> levels(const Domain& domain, const Minimum& minimum,
                                         const SymmetricMatrix<kSearched + 2, Real>& full) {
    constexpr int a = kSearched, b = kSearched + 1;
    const LevelsOf<Real>& from = minimum.at.level;
    Real of_a = 0.0f, of_b = 0.0f;
    for (int j = 0; j < kSearched; ++j) {
      const Real step = minimum.trial[j] - minimum.parameters[j];
      of_a -= full(a, j) * step;
      of_b -= full(b, j) * step;
    }
    const Real determinant = full(a, a) * full(b, b) - full(b, a) * full(b, a);
    const Real to_b =
        larger((of_b * full(a, a) - of_a * full(b, a)) / determinant, domain.min_beta - from.beta);
    const Real to_a = (of_a - full(b, a) * to_b) / full(a, a);
    return {where(minimum.is_at_trial, from.alpha + to_a, from.alpha),
            where(minimum.is_at_trial, from.beta + to_b, from.beta)};
  }

  DRIFTD_HD static const Parameters& shape(const Parameters& p) { return p; }
  DRIFTD_HD static ProfileOf<Real> profile(const Parameters& p) { return Model::profile(p); }
  DRIFTD_HD static Parameters step_scale(const Parameters& p) { return Model::step_scale(p); }

  DRIFTD_HD static bool wants_moments(const Domain&, const Parameters&) { return true; }

  /// First half of an evaluation: the amplitudes (equation 6), from the profile's moments.
  DRIFTD_HD static Prepared prepare(const ProfileMomentsOf<Real>& m,
                                    const PixelSummaryOf<Real>& summary, const Domain& domain,
                                    const Parameters& p) {
    Prepared e;
    e.total = Model::totals(m.first(), p);
    e.product = Model::products(m.second(), p);
    const Real f = e.total.f;
    const Real sum_g = summary.sum;
    const float per_pixel = 1.0f / static_cast<float>(domain.side * domain.side);
    const Real inverse_c_ff = reciprocal_of(e.product.ff - f * f * per_pixel);
    const Real alpha = (m.pixels.f - f * sum_g * per_pixel) * inverse_c_ff;
    const Real beta = (sum_g - alpha * f) * per_pixel;
    const Mask<Real> at_limit = beta < domain.min_beta;
    const Real inverse_ff = reciprocal_of(e.product.ff);
    e.about_mean = where(at_limit, Real(0.0f), Real(per_pixel));
    e.inverse_c_ff = where(at_limit, inverse_ff, inverse_c_ff);
    e.level = {where(at_limit, (m.pixels.f - domain.min_beta * f) * inverse_ff, alpha),
               where(at_limit, domain.min_beta, beta)};
    e.residuals = m.residuals(e.level.alpha, e.level.beta);
    e.unexplained = unexplained_squares(m, summary, 1.0f / per_pixel, e.level.alpha, e.level.beta);
    return e;
  }

  /// Second half: chi-square, gradient and normal matrix.
  template <SumsOverPixels BackEnd>
  DRIFTD_HD static Evaluation linearize(BackEnd& pixels, const Domain& domain, const Parameters& p,
                                        const Prepared& at) {
    const Real alpha = at.level.alpha;
    const Parameters rho = Model::residual_products(at.residuals, p);
    Evaluation e;
    e.level = at.level;
    e.chi_square = squares_of_residuals(pixels, at.unexplained, alpha, at.level.beta);
    Parameters c_f;
    for (int j = 0; j < kSearched; ++j) {
      c_f[j] = at.product.fd[j] - at.total.f * at.total.d[j] * at.about_mean;
      e.gradient[j] = alpha * rho[j];
    }
    for (int j = 0; j < kSearched; ++j) {
      for (int k = 0; k <= j; ++k) {
        const Real c_jk = at.product.dd(j, k) - at.total.d[j] * at.total.d[k] * at.about_mean;
        e.normal(j, k) = alpha * alpha * (c_jk - c_f[j] * c_f[k] * at.inverse_c_ff) +
                         rho[j] * rho[k] * at.inverse_c_ff;
      }
    }
    e.held = hold_at_limits(p, Model::lowest(domain.side), Model::highest(domain.side), e.gradient);
    return e;
  }

  /// @param is_set  the profile set last is that of `p`
  /// @post it is
  template <SumsOverPixels BackEnd>
  DRIFTD_HD static PlainSums<kSearched, Real> plain_sums(BackEnd& pixels, const Domain&,
                                                         const Parameters& p, const Evaluation& e,
                                                         const Mask<Real>& is_set) {
    const ProfileOf<Real> here = profile(p);  // named: m may refer to nothing that goes before it
    const ProfileMomentsOf<Real>& m = moments_at(pixels, here, is_set);
    return {Model::products(m.second(), p), Model::totals(m.first(), p),
            pixels.squares(e.level.alpha, e.level.beta),
            Real(static_cast<float>(pixels.side() * pixels.side())), 0};
  }
};

}  // namespace driftd::fitter
