// SPDX-License-Identifier: MIT
// Unweighted least squares with amplitude and background eliminated: Leutenegger & Weber 2021,
// equations 3 to 9. An estimator is this file: from a back end's sums at a set of shape parameters
// to the value that is minimized and the equations of the next step. Host and device.
//
// With N pixels, C_ff = sum f^2 - (sum f)^2 / N and likewise C_fj, C_jk (the sums of products about
// the mean), r the residuals and rho_j = sum r d_j f, the paper's equations reduce to
//   alpha   = (sum f g - sum f sum g / N) / C_ff             beta = (sum g - alpha sum f) / N (6)
//   d_j alpha = (rho_j - alpha C_fj) / C_ff     d_j beta = -(f d_j alpha + alpha d_j f) summed / N
//   (8) J_j     = alpha d_j f + d_j alpha f + d_j beta           (the total derivative of h)
//   J_j.J_k = alpha^2 (C_jk - C_fj C_fk / C_ff) + rho_j rho_k / C_ff
//   J_j.(g - h) = alpha rho_j                                (as sum r = sum r f = 0, equation 4)
// The normal matrix therefore needs no pixel; residuals, not differences of large sums, give the
// chi-square and the gradient, so that single precision suffices.
#pragma once

#include "fitter/circular_gaussian.hpp"
#include "fitter/pixel_sums.hpp"
#include "fitter/small_matrix.hpp"

namespace driftd::fitter {

/// One point of the minimization: its value and the linearized equations about it.
template <int n>
struct Evaluation {
  float alpha, beta;  ///< amplitude; background less the pedestal
  float chi_square;
  SymmetricMatrix<n> normal;  ///< J^T J
  Vec<n> gradient;            ///< J^T (g - h), downhill
};

template <class Model, class BackEnd>
DRIFTD_HD Evaluation<Model::kShape> evaluate_implicit(BackEnd& pixels,
                                                      const typename Model::Parameters& p) {
  constexpr int n = Model::kShape;
  const float inverse_n = 1.0f / static_cast<float>(pixels.side() * pixels.side());
  const float sum_g = pixels.summary().sum;
  const ProfileMoments m = pixels.set_profile(Model::profile(p));
  const ProfileTotals<n> total = Model::totals(m.x, m.y, p);
  const ProfileProducts<n> product = Model::products(m.x.second, m.y.second, p);

  Evaluation<n> e;
  const float inverse_c_ff = 1.0f / (product.ff - total.f * total.f * inverse_n);
  e.alpha = (m.profile_pixels - total.f * sum_g * inverse_n) * inverse_c_ff;
  e.beta = (sum_g - e.alpha * total.f) * inverse_n;

  const ResidualMoments r = pixels.residuals(e.alpha, e.beta);
  const Vec<n> rho = Model::residual_products(r, p);
  e.chi_square = r.squares;
  Vec<n> c_f;
  for (int j = 0; j < n; ++j) {
    c_f[j] = product.fd[j] - total.f * total.d[j] * inverse_n;
    e.gradient[j] = e.alpha * rho[j];
  }
  for (int j = 0; j < n; ++j) {
    for (int k = 0; k <= j; ++k) {
      const float c_jk = product.dd(j, k) - total.d[j] * total.d[k] * inverse_n;
      e.normal(j, k) = e.alpha * e.alpha * (c_jk - c_f[j] * c_f[k] * inverse_c_ff) +
                       rho[j] * rho[k] * inverse_c_ff;
    }
  }
  return e;
}

}  // namespace driftd::fitter
