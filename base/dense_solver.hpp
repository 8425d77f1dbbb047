// SPDX-License-Identifier: MIT
// Normal equations of small least-squares problems: a symmetric matrix that rows are added to, its
// Cholesky solution and its inverse. Used by the calibration of the stage; any thread.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace driftd {

class NormalEquations {
 public:
  explicit NormalEquations(std::size_t unknowns);

  std::size_t unknowns() const noexcept { return n_; }
  /// An equation sum(row[i] * unknown[i]) = value of weight 1.
  void add(std::span<const double> row, double value);
  /// An equation for one unknown alone: what is known of it beforehand.
  void add_prior(std::size_t unknown, double value, double sd);
  /// Many equations at once: `columns` of equal length, one an unknown. Rows from `begin` to `end`.
  void add_columns(std::span<const std::vector<double>* const> columns,
                   const std::vector<double>& values, std::size_t begin, std::size_t end);
  /// Solves; each diagonal element is first raised by the share `damping` (Marquardt). Unknowns
  /// that no equation speaks of stay 0. @return false when it cannot be solved
  bool solve(double damping, std::vector<double>& solution) const;
  /// The inverse, row after row: the covariance where the equations have unit variance.
  bool invert(std::vector<double>& inverse) const;
  /// The sum of squares that `solution` leaves.
  double remaining(std::span<const double> solution) const;
  double sum_of_squares() const noexcept { return sum_of_squares_; }

 private:
  bool factorise(double damping, std::vector<double>& factor) const;
  void substitute(const std::vector<double>& factor, std::vector<double>& x) const;

  std::size_t n_;
  std::vector<double> matrix_;  ///< lower triangle used
  std::vector<double> right_;
  double sum_of_squares_ = 0;
};

}  // namespace driftd
