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
// Where the background would pass its lower limit it stays there, and the same equations hold with
// sums of products about zero (C_ff = sum f^2 and so on).
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
  ProfileTotals<n> total;
  ProfileProducts<n> product;
  float alpha, beta;   ///< amplitude; background less the pedestal
  float inverse_c_ff;  ///< 1 / C_ff
  float about_mean;    ///< 1 / N; 0 where the background is at its limit
  float chi_square;
  SymmetricMatrix<n> normal;  ///< J^T J
  Vec<n> gradient;            ///< J^T (g - h), downhill
};

/// First half of an evaluation: the amplitudes (equation 6), from the profile's moments.
/// @param min_beta  limit of the background, less the pedestal
template <class Model>
DRIFTD_HD void eliminate_amplitudes(const ProfileMoments& m, const typename Model::Parameters& p,
                                    int pixel_count, float sum_g, float min_beta,
                                    Evaluation<Model::kShape>& e) {
  e.total = Model::totals(m.x, m.y, p);
  e.product = Model::products(m.x.second, m.y.second, p);
  const float f = e.total.f;
  e.about_mean = 1.0f / static_cast<float>(pixel_count);
  e.inverse_c_ff = 1.0f / (e.product.ff - f * f * e.about_mean);
  e.alpha = (m.profile_pixels - f * sum_g * e.about_mean) * e.inverse_c_ff;
  e.beta = (sum_g - e.alpha * f) * e.about_mean;
  if (e.beta < min_beta) {
    e.about_mean = 0;
    e.inverse_c_ff = 1.0f / e.product.ff;
    e.beta = min_beta;
    e.alpha = (m.profile_pixels - min_beta * f) * e.inverse_c_ff;
  }
}

/// Second half: chi-square, gradient and normal matrix, from the moments of the residuals.
template <class Model>
DRIFTD_HD void linearize(const ResidualMoments& r, const typename Model::Parameters& p,
                         Evaluation<Model::kShape>& e) {
  constexpr int n = Model::kShape;
  const Vec<n> rho = Model::residual_products(r, p);
  e.chi_square = r.squares;
  Vec<n> c_f;
  for (int j = 0; j < n; ++j) {
    c_f[j] = e.product.fd[j] - e.total.f * e.total.d[j] * e.about_mean;
    e.gradient[j] = e.alpha * rho[j];
  }
  for (int j = 0; j < n; ++j) {
    for (int k = 0; k <= j; ++k) {
      const float c_jk = e.product.dd(j, k) - e.total.d[j] * e.total.d[k] * e.about_mean;
      e.normal(j, k) = e.alpha * e.alpha * (c_jk - c_f[j] * c_f[k] * e.inverse_c_ff) +
                       rho[j] * rho[k] * e.inverse_c_ff;
    }
  }
}

}  // namespace driftd::fitter
