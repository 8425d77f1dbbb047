// SPDX-License-Identifier: MIT
#include "base/dense_solver.hpp"

#include <cmath>

namespace driftd {
namespace {

/// Below this share of its diagonal element a pivot is rounding: the unknown is not determined.
constexpr double kSmallestPivot = 1e-13;

}  // namespace

NormalEquations::NormalEquations(std::size_t unknowns)
    : n_(unknowns), matrix_(unknowns * unknowns), right_(unknowns) {}

void NormalEquations::add(std::span<const double> row, double value) {
  for (std::size_t i = 0; i < n_; ++i) {
    if (row[i] == 0) continue;
    for (std::size_t j = 0; j <= i; ++j) matrix_[i * n_ + j] += row[i] * row[j];
    right_[i] += row[i] * value;
  }
  sum_of_squares_ += value * value;
}

void NormalEquations::add_prior(std::size_t unknown, double value, double sd) {
  matrix_[unknown * n_ + unknown] += 1 / (sd * sd);
  right_[unknown] += value / (sd * sd);
  sum_of_squares_ += value * value / (sd * sd);
}

void NormalEquations::add_columns(std::span<const std::vector<double>* const> columns,
                                  const std::vector<double>& values, std::size_t begin,
                                  std::size_t end) {
  for (std::size_t i = 0; i < n_; ++i) {
    const double* a = columns[i]->data();
    for (std::size_t j = 0; j <= i; ++j) {
      const double* b = columns[j]->data();
      double sum = 0;
      for (std::size_t k = begin; k < end; ++k) sum += a[k] * b[k];
      matrix_[i * n_ + j] += sum;
    }
    double sum = 0;
    for (std::size_t k = begin; k < end; ++k) sum += a[k] * values[k];
    right_[i] += sum;
  }
  for (std::size_t k = begin; k < end; ++k) sum_of_squares_ += values[k] * values[k];
}

bool NormalEquations::factorise(double damping, std::vector<double>& factor) const {
  factor.assign(n_ * n_, 0);
  for (std::size_t i = 0; i < n_; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = matrix_[i * n_ + j];
      if (i == j) sum *= 1 + damping;
      for (std::size_t k = 0; k < j; ++k) sum -= factor[i * n_ + k] * factor[j * n_ + k];
      if (i != j) {
        factor[i * n_ + j] = factor[j * n_ + j] > 0 ? sum / factor[j * n_ + j] : 0;
        continue;
      }
      if (!std::isfinite(sum)) return false;
      const bool determined = sum > kSmallestPivot * matrix_[i * n_ + i];
      factor[i * n_ + i] = determined ? std::sqrt(sum) : 0;
    }
  }
  return true;
}

void NormalEquations::substitute(const std::vector<double>& factor, std::vector<double>& x) const {
  for (std::size_t i = 0; i < n_; ++i) {
    double sum = x[i];
    for (std::size_t k = 0; k < i; ++k) sum -= factor[i * n_ + k] * x[k];
    x[i] = factor[i * n_ + i] > 0 ? sum / factor[i * n_ + i] : 0;
  }
  for (std::size_t i = n_; i-- > 0;) {
    double sum = x[i];
    for (std::size_t k = i + 1; k < n_; ++k) sum -= factor[k * n_ + i] * x[k];
    x[i] = factor[i * n_ + i] > 0 ? sum / factor[i * n_ + i] : 0;
  }
}

bool NormalEquations::solve(double damping, std::vector<double>& solution) const {
  std::vector<double> factor;
  if (!factorise(damping, factor)) return false;
  solution = right_;
  substitute(factor, solution);
  for (const double value : solution) {
    if (!std::isfinite(value)) return false;
  }
  return true;
}

bool NormalEquations::invert(std::vector<double>& inverse) const {
  std::vector<double> factor;
  if (!factorise(0, factor)) return false;
  inverse.assign(n_ * n_, 0);
  std::vector<double> column(n_);
  for (std::size_t i = 0; i < n_; ++i) {
    column.assign(n_, 0);
    column[i] = 1;
    substitute(factor, column);
    for (std::size_t j = 0; j < n_; ++j) inverse[j * n_ + i] = column[j];
  }
  return true;
}

double NormalEquations::remaining(std::span<const double> solution) const {
  double sum = sum_of_squares_;
  for (std::size_t i = 0; i < n_; ++i) {
    sum -= 2 * solution[i] * right_[i];
    for (std::size_t j = 0; j <= i; ++j)
      sum += (i == j ? 1 : 2) * matrix_[i * n_ + j] * solution[i] * solution[j];
  }
  return sum > 0 ? sum : 0;
}

}  // namespace driftd
