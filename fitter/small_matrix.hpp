// SPDX-License-Identifier: MIT
// Vectors and symmetric matrices of the handful of parameters a fit has, and the solution of their
// equations. Host and device; plain values without an owner, callable from any thread.
#pragma once

#include <cstddef>

#include "fitter/host_device.hpp"

namespace driftd::fitter {

DRIFTD_HD float clamped(float value, float low, float high) {
  return value < low ? low : (value > high ? high : value);
}

template <int n>
struct Vec {
  float v[std::size_t{n}];

  DRIFTD_HD float& operator[](int i) { return v[i]; }
  DRIFTD_HD float operator[](int i) const { return v[i]; }
};

/// Symmetric n x n matrix; only the lower triangle (column <= row) is used.
template <int n>
struct SymmetricMatrix {
  float a[std::size_t{n}][std::size_t{n}];

  DRIFTD_HD float& operator()(int row, int column) { return a[row][column]; }
  DRIFTD_HD float operator()(int row, int column) const { return a[row][column]; }
};

/// Makes the equations say "0" for the parameters of the bits set.
template <int n>
DRIFTD_HD void hold(SymmetricMatrix<n>& a, unsigned held) {
  if (held == 0) return;
  for (int j = 0; j < n; ++j)
    for (int k = 0; k <= j; ++k)
      if ((held >> j & 1u) != 0 || (held >> k & 1u) != 0) a(j, k) = j == k ? 1.0f : 0.0f;
}

/// a = L D L^T with ones on the diagonal of L, which is not stored. Only quotients and single
/// products of elements appear, so the parameters' units may differ by many orders.
template <int n>
struct Factors {
  SymmetricMatrix<n> lower;
  Vec<n> inverse_d;
  bool positive_definite;
};

/// Of a + damping diag(a).
template <int n>
DRIFTD_HD Factors<n> factorize(const SymmetricMatrix<n>& a, float damping = 0) {
  constexpr float kLostDigits = 1e-6f;  // a pivot this far below its diagonal element is rounding
  Factors<n> f;
  f.positive_definite = true;
  Vec<n> unscaled;  // L D, the current row
  for (int i = 0; i < n; ++i) {
    float pivot = a(i, i) * (1.0f + damping);
    for (int j = 0; j < i; ++j) {
      unscaled[j] = a(i, j);
      for (int k = 0; k < j; ++k) unscaled[j] -= unscaled[k] * f.lower(j, k);
      f.lower(i, j) = unscaled[j] * f.inverse_d[j];
      pivot -= unscaled[j] * f.lower(i, j);
    }
    f.inverse_d[i] = 1.0f / pivot;
    if (!(pivot > kLostDigits * a(i, i))) f.positive_definite = false;
  }
  return f;
}

template <int n>
DRIFTD_HD Vec<n> solve(const Factors<n>& f, Vec<n> b) {
  for (int i = 0; i < n; ++i)
    for (int k = 0; k < i; ++k) b[i] -= f.lower(i, k) * b[k];
  for (int i = n - 1; i >= 0; --i) {
    b[i] *= f.inverse_d[i];
    for (int k = i + 1; k < n; ++k) b[i] -= f.lower(k, i) * b[k];
  }
  return b;
}

/// L^-1, with its diagonal of ones.
template <int n>
DRIFTD_HD SymmetricMatrix<n> inverse_lower(const Factors<n>& f) {
  SymmetricMatrix<n> m;
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
template <int n>
DRIFTD_HD Vec<n> inverse_diagonal(const Factors<n>& f, const SymmetricMatrix<n>& m) {
  Vec<n> r;
  for (int i = 0; i < n; ++i) {
    r[i] = 0;
    for (int k = i; k < n; ++k) r[i] += m(k, i) * m(k, i) * f.inverse_d[k];
  }
  return r;
}

/// a^-1. @param m  L^-1
template <int n>
DRIFTD_HD SymmetricMatrix<n> inverse(const Factors<n>& f, const SymmetricMatrix<n>& m) {
  SymmetricMatrix<n> r;
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j <= i; ++j) {
      r(i, j) = 0;
      for (int k = i; k < n; ++k) r(i, j) += m(k, i) * m(k, j) * f.inverse_d[k];
    }
  }
  return r;
}

}  // namespace driftd::fitter
