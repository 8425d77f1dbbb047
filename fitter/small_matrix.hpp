// SPDX-License-Identifier: MIT
// Vectors and symmetric matrices of the handful of parameters a fit has, and the solution of their
// equations. Host and device; plain values without an owner, callable from any thread.
#pragma once

#include <cstddef>

#include "fitter/real.hpp"

namespace driftd::fitter {

template <int n, class Real = float>
struct Vec {
  Real v[std::size_t{n}];

  DRIFTD_HD Real& operator[](int i) { return v[i]; }
  DRIFTD_HD Real operator[](int i) const { return v[i]; }
};

template <int n, class Real>
DRIFTD_HD Vec<n, Real> where(const Mask<Real>& mask, const Vec<n, Real>& yes,
                             const Vec<n, Real>& no) {
  Vec<n, Real> r;
  for (int i = 0; i < n; ++i) r[i] = where(mask, yes[i], no[i]);
  return r;
}

/// Symmetric n x n matrix; only the lower triangle (column <= row) is used.
template <int n, class Real = float>
struct SymmetricMatrix {
  Real a[std::size_t{n}][std::size_t{n}];

  DRIFTD_HD Real& operator()(int row, int column) { return a[row][column]; }
  DRIFTD_HD Real operator()(int row, int column) const { return a[row][column]; }
};

template <int n, class Real>
DRIFTD_HD SymmetricMatrix<n, Real> where(const Mask<Real>& mask,
                                         const SymmetricMatrix<n, Real>& yes,
                                         const SymmetricMatrix<n, Real>& no) {
  SymmetricMatrix<n, Real> r;
  for (int j = 0; j < n; ++j)
    for (int k = 0; k <= j; ++k) r(j, k) = where(mask, yes(j, k), no(j, k));
  return r;
}

/// Which of n parameters are kept as they are.
template <int n, class Real = float>
struct Held {
  Mask<Real> of[std::size_t{n}];
};

template <int n, class Real>
DRIFTD_HD Held<n, Real> where(const Mask<Real>& mask, const Held<n, Real>& yes,
                              const Held<n, Real>& no) {
  Held<n, Real> r;
  for (int j = 0; j < n; ++j) r.of[j] = where(mask, yes.of[j], no.of[j]);
  return r;
}

/// Makes the equations say "0" for what is held, which seldom anything is.
template <int n, class Real>
DRIFTD_HD void hold(SymmetricMatrix<n, Real>& a, const Held<n, Real>& held) {
  Mask<Real> one_of_them = held.of[0];
  for (int j = 1; j < n; ++j) one_of_them = one_of_them || held.of[j];
  if (!any(one_of_them)) return;
  for (int j = 0; j < n; ++j)
    for (int k = 0; k <= j; ++k)
      a(j, k) = where(held.of[j] || held.of[k], Real(j == k ? 1.0f : 0.0f), a(j, k));
}

/// The same of the parameters whose bits are set, in all lanes.
template <int n, class Real>
DRIFTD_HD void hold(SymmetricMatrix<n, Real>& a, unsigned bits) {
  for (int j = 0; j < n; ++j)
    for (int k = 0; k <= j; ++k)
      if (((bits >> j | bits >> k) & 1u) != 0) a(j, k) = j == k ? 1.0f : 0.0f;
}

/// a = L D L^T with ones on the diagonal of L, which is not stored. Only quotients and single
/// products of elements appear, so the parameters' units may differ by many orders.
template <int n, class Real = float>
struct Factors {
  SymmetricMatrix<n, Real> lower;
  Vec<n, Real> inverse_d;
  Mask<Real> positive_definite;
};

/// Factorizes a + damping diag(a).
template <int n, class Real>
DRIFTD_HD Factors<n, Real> factorize(const SymmetricMatrix<n, Real>& a,
                                     const Real& damping = 0.0f) {
  constexpr float kLostDigits = 1e-6f;  // a pivot this far below its diagonal element is rounding
  Factors<n, Real> f;
  f.positive_definite = Mask<Real>(true);
  Vec<n, Real> unscaled;  // L D, the current row
  for (int i = 0; i < n; ++i) {
    Real pivot = a(i, i) * (1.0f + damping);
    for (int j = 0; j < i; ++j) {
      unscaled[j] = a(i, j);
      for (int k = 0; k < j; ++k) unscaled[j] -= unscaled[k] * f.lower(j, k);
      f.lower(i, j) = unscaled[j] * f.inverse_d[j];
      pivot -= unscaled[j] * f.lower(i, j);
    }
    f.inverse_d[i] = reciprocal_of(pivot);
    f.positive_definite = f.positive_definite && pivot > kLostDigits * a(i, i);
  }
  return f;
}

template <int n, class Real>
DRIFTD_HD Vec<n, Real> solve(const Factors<n, Real>& f, Vec<n, Real> b) {
  for (int i = 0; i < n; ++i)
    for (int k = 0; k < i; ++k) b[i] -= f.lower(i, k) * b[k];
  for (int i = n - 1; i >= 0; --i) {
    b[i] *= f.inverse_d[i];
    for (int k = i + 1; k < n; ++k) b[i] -= f.lower(k, i) * b[k];
  }
  return b;
}

/// L^-1, with its diagonal of ones.
template <int n, class Real>
DRIFTD_HD SymmetricMatrix<n, Real> inverse_lower(const Factors<n, Real>& f) {
  SymmetricMatrix<n, Real> m;
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < i; ++j) {
      m(i, j) = -f.lower(i, j);
      for (int k = j + 1; k < i; ++k) m(i, j) -= f.lower(i, k) * m(k, j);
    }
    m(i, i) = 1.0f;
  }
  return m;
}

/// The diagonal of a^-1 = L^-T D^-1 L^-1.
/// @param m  L^-1
template <int n, class Real>
DRIFTD_HD Vec<n, Real> inverse_diagonal(const Factors<n, Real>& f,
                                        const SymmetricMatrix<n, Real>& m) {
  Vec<n, Real> r;
  for (int i = 0; i < n; ++i) {
    r[i] = 0.0f;
    for (int k = i; k < n; ++k) r[i] += m(k, i) * m(k, i) * f.inverse_d[k];
  }
  return r;
}

/// a^-1. @param m  L^-1
template <int n, class Real>
DRIFTD_HD SymmetricMatrix<n, Real> inverse(const Factors<n, Real>& f,
                                           const SymmetricMatrix<n, Real>& m) {
  SymmetricMatrix<n, Real> r;
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j <= i; ++j) {
      r(i, j) = 0.0f;
      for (int k = i; k < n; ++k) r(i, j) += m(k, i) * m(k, j) * f.inverse_d[k];
    }
  }
  return r;
}

}  // namespace driftd::fitter
