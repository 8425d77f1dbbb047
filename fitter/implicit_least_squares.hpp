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
// The normal matrix therefore needs no pixel; residuals, not differences of large sums, give the
// chi-square and the gradient, so that single precision suffices.
#pragma once

#include <cmath>

#include "fitter/circular_gaussian.hpp"
#include "fitter/fitter.hpp"
#include "fitter/pixel_sums.hpp"
#include "fitter/small_matrix.hpp"

namespace driftd::fitter {

/// What a fit is given beside the pixels.
struct FitInput {
  Start start;
  StartLevels levels = {NAN, NAN};
  const Bounds* bounds = nullptr;
  const float* variances = nullptr;  ///< of this ROI's pixels, adu^2
};

/// Amplitude and background less the pedestal.
struct Levels {
  float alpha, beta;
};

template <class M>
struct ImplicitLeastSquares {
  using Model = M;
  static constexpr bool kWeighs =
      false;  ///< needs weighted_moments(), and a map where there is one
  static constexpr int kSearched = Model::kShape;
  using Parameters = Vec<kSearched>;

  /// What does not change during the fit of one ROI.
  struct Domain {
    int side;
    float min_beta;  ///< limit of the background, less the pedestal

    DRIFTD_HD bool valid() const { return true; }
    DRIFTD_HD Parameters limited(const Parameters& p) const { return Model::limited(p, side); }
  };

  /// One point of the minimization: its value and the linearized equations about it.
  struct Evaluation {
    ProfileTotals<kSearched> total;
    ProfileProducts<kSearched> product;
    Levels level;
    float inverse_c_ff;  ///< 1 / C_ff
    float about_mean;    ///< 1 / N; 0 where the background is at its limit
    float chi_square;
    SymmetricMatrix<kSearched> normal;  ///< J^T J
    Vec<kSearched> gradient;            ///< J^T (g - h), downhill
  };

  /// The equations of the next step.
  DRIFTD_HD static const SymmetricMatrix<kSearched>& step_matrix(const Evaluation& e) {
    return e.normal;
  }

  DRIFTD_HD static Domain domain(const PixelSummary& summary, const FitInput&, int side,
                                 const FitOptions& options) {
    return {side, options.min_background_adu - summary.pedestal_adu};
  }

  DRIFTD_HD static Parameters from_start(const FitInput& input, const Domain&) {
    return Model::from_start(input.start);
  }
  /// The parameters of a step `to`, as far as the limits let it go.
  DRIFTD_HD static Parameters reachable(const Domain& domain, const Parameters&,
                                        const Parameters& to) {
    return domain.limited(to);
  }

  DRIFTD_HD static const Parameters& shape(const Parameters& p) { return p; }
  DRIFTD_HD static Profile profile(const Parameters& p) { return Model::profile(p); }
  DRIFTD_HD static Parameters step_scale(const Parameters& p) { return Model::step_scale(p); }

  /// First half of an evaluation: the amplitudes (equation 6), from the profile's moments.
  DRIFTD_HD static void prepare(const ProfileMoments& m, const PixelSummary& summary,
                                const Domain& domain, const Parameters& p, Evaluation& e) {
    e.total = Model::totals(SeparableMoments{m.x.first, m.y.first}, p);
    e.product = Model::products(SeparableMoments{m.x.second, m.y.second}, p);
    const float f = e.total.f;
    const float sum_g = summary.sum;
    e.about_mean = 1.0f / static_cast<float>(domain.side * domain.side);
    e.inverse_c_ff = 1.0f / (e.product.ff - f * f * e.about_mean);
    e.level.alpha = (m.profile_pixels - f * sum_g * e.about_mean) * e.inverse_c_ff;
    e.level.beta = (sum_g - e.level.alpha * f) * e.about_mean;
    if (e.level.beta < domain.min_beta) {
      e.about_mean = 0;
      e.inverse_c_ff = 1.0f / e.product.ff;
      e.level = {(m.profile_pixels - domain.min_beta * f) * e.inverse_c_ff, domain.min_beta};
    }
  }

  /// Second half: chi-square, gradient and normal matrix, from the moments of the residuals.
  template <class BackEnd>
  DRIFTD_HD static void linearize(BackEnd& pixels, const Domain&, const Parameters& p,
                                  Evaluation& e) {
    const ResidualMoments r = pixels.residuals(e.level.alpha, e.level.beta);
    const float alpha = e.level.alpha;
    const Vec<kSearched> rho = Model::residual_products(r, p);
    e.chi_square = r.squares;
    Vec<kSearched> c_f;
    for (int j = 0; j < kSearched; ++j) {
      c_f[j] = e.product.fd[j] - e.total.f * e.total.d[j] * e.about_mean;
      e.gradient[j] = alpha * rho[j];
    }
    for (int j = 0; j < kSearched; ++j) {
      for (int k = 0; k <= j; ++k) {
        const float c_jk = e.product.dd(j, k) - e.total.d[j] * e.total.d[k] * e.about_mean;
        e.normal(j, k) = alpha * alpha * (c_jk - c_f[j] * c_f[k] * e.inverse_c_ff) +
                         rho[j] * rho[k] * e.inverse_c_ff;
      }
    }
  }

  /// @pre the profile set last is the minimum's
  template <class BackEnd>
  DRIFTD_HD static PlainSums<kSearched> plain_sums(BackEnd&, const Domain&, const Parameters&,
                                                   const Evaluation& e) {
    return {e.product, e.total, e.chi_square, 0};
  }
};

}  // namespace driftd::fitter
