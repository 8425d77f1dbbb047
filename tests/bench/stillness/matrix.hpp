// SPDX-License-Identifier: MIT
// Dense matrices for the bound: a dozen states, so no library is needed. Any thread.
#pragma once

#include <algorithm>
#include <cassert>
#include <cmath>
#include <complex>
#include <cstddef>
#include <utility>
#include <vector>

namespace driftd::stillness {

class Matrix {
 public:
  Matrix() = default;
  Matrix(std::size_t rows, std::size_t columns)
      : rows_(rows), columns_(columns), values_(rows * columns) {}
  static Matrix identity(std::size_t n) {
    Matrix m(n, n);
    for (std::size_t i = 0; i < n; ++i) m(i, i) = 1;
    return m;
  }
  std::size_t rows() const noexcept { return rows_; }
  std::size_t columns() const noexcept { return columns_; }
  double operator()(std::size_t i, std::size_t j) const { return values_[i * columns_ + j]; }
  double& operator()(std::size_t i, std::size_t j) { return values_[i * columns_ + j]; }

  Matrix transposed() const {
    Matrix t(columns_, rows_);
    for (std::size_t i = 0; i < rows_; ++i)
      for (std::size_t j = 0; j < columns_; ++j) t(j, i) = (*this)(i, j);
    return t;
  }
  /// Rows and columns from the first ones on.
  Matrix block(std::size_t row, std::size_t column, std::size_t rows, std::size_t columns) const {
    Matrix b(rows, columns);
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < columns; ++j) b(i, j) = (*this)(row + i, column + j);
    return b;
  }
  double trace() const {
    double sum = 0;
    for (std::size_t i = 0; i < rows_; ++i) sum += (*this)(i, i);
    return sum;
  }
  double largest() const {
    double largest = 0;
    for (const double v : values_) largest = std::max(largest, std::abs(v));
    return largest;
  }
  friend Matrix operator*(const Matrix& a, const Matrix& b) {
    assert(a.columns_ == b.rows_);
    Matrix c(a.rows_, b.columns_);
    for (std::size_t i = 0; i < a.rows_; ++i)
      for (std::size_t k = 0; k < a.columns_; ++k) {
        const double f = a(i, k);
        if (f == 0) continue;
        for (std::size_t j = 0; j < b.columns_; ++j) c(i, j) += f * b(k, j);
      }
    return c;
  }
  friend Matrix operator*(double f, Matrix a) {
    for (double& v : a.values_) v *= f;
    return a;
  }
  friend Matrix operator+(Matrix a, const Matrix& b) {
    for (std::size_t i = 0; i < a.values_.size(); ++i) a.values_[i] += b.values_[i];
    return a;
  }
  friend Matrix operator-(Matrix a, const Matrix& b) { return std::move(a) + (-1.0 * b); }

 private:
  std::size_t rows_ = 0, columns_ = 0;
  std::vector<double> values_;
};

/// Solves a x = b for square `a` (row by row) by elimination with pivots.
template <typename Number>
std::vector<Number> solve(std::vector<std::vector<Number>> a, std::vector<Number> b) {
  const std::size_t n = b.size();
  for (std::size_t k = 0; k < n; ++k) {
    std::size_t pivot = k;
    for (std::size_t i = k + 1; i < n; ++i)
      if (std::abs(a[i][k]) > std::abs(a[pivot][k])) pivot = i;
    std::swap(a[k], a[pivot]);
    std::swap(b[k], b[pivot]);
    for (std::size_t i = k + 1; i < n; ++i) {
      const Number f = a[i][k] / a[k][k];
      for (std::size_t j = k; j < n; ++j) a[i][j] -= f * a[k][j];
      b[i] -= f * b[k];
    }
  }
  for (std::size_t k = n; k-- > 0;) {
    for (std::size_t j = k + 1; j < n; ++j) b[k] -= a[k][j] * b[j];
    b[k] /= a[k][k];
  }
  return b;
}

}  // namespace driftd::stillness
