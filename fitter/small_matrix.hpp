// SPDX-License-Identifier: MIT
// Vectors and symmetric matrices of the handful of parameters a fit has, and the Cholesky solution
// of their equations. Host and device; plain values without an owner, callable from any thread.
#pragma once

#include <cmath>

#include "fitter/host_device.hpp"

namespace driftd::fitter {

template <int n>
struct Vec {
  float v[n];

  DRIFTD_HD float& operator[](int i) { return v[i]; }
  DRIFTD_HD float operator[](int i) const { return v[i]; }
};

/// Symmetric n x n matrix; only the lower triangle (column <= row) is used.
template <int n>
struct SymmetricMatrix {
  float a[n][n];

  DRIFTD_HD float& operator()(int row, int column) { return a[row][column]; }
  DRIFTD_HD float operator()(int row, int column) const { return a[row][column]; }
};

/// Lower triangle L of a = L L^T with the reciprocals of its diagonal in `inverse_diagonal`.
template <int n>
struct Cholesky {
  SymmetricMatrix<n> lower;
  Vec<n> inverse_diagonal;
  bool positive_definite;
};

/// `a` must be scaled to a diagonal near 1, so that a pivot can be judged: one below 1e-6 has lost
/// its digits in single precision.
template <int n>
DRIFTD_HD Cholesky<n> factorize(const SymmetricMatrix<n>& a) {
  constexpr float kMinPivot = 1e-6f;
  Cholesky<n> c;
  c.positive_definite = true;
  for (int j = 0; j < n; ++j) {
    float pivot = a(j, j);
    for (int k = 0; k < j; ++k) pivot -= c.lower(j, k) * c.lower(j, k);
    if (!(pivot > kMinPivot)) {
      c.positive_definite = false;
      return c;
    }
    const float inverse = 1.0f / std::sqrt(pivot);
    c.inverse_diagonal[j] = inverse;
    for (int i = j + 1; i < n; ++i) {
      float sum = a(i, j);
      for (int k = 0; k < j; ++k) sum -= c.lower(i, k) * c.lower(j, k);
      c.lower(i, j) = sum * inverse;
    }
  }
  return c;
}

template <int n>
DRIFTD_HD Vec<n> solve(const Cholesky<n>& c, Vec<n> b) {
  for (int i = 0; i < n; ++i) {
    for (int k = 0; k < i; ++k) b[i] -= c.lower(i, k) * b[k];
    b[i] *= c.inverse_diagonal[i];
  }
  for (int i = n - 1; i >= 0; --i) {
    for (int k = i + 1; k < n; ++k) b[i] -= c.lower(k, i) * b[k];
    b[i] *= c.inverse_diagonal[i];
  }
  return b;
}

}  // namespace driftd::fitter
