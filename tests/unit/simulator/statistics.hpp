// SPDX-License-Identifier: MIT
// Moments of samples, for tests of random numbers. All generators are seeded, so a bound of some
// standard errors is met always or never.
#pragma once

#include <cmath>
#include <cstddef>

namespace driftd::test {

class Moments {
 public:
  void add(double value) {
    ++count_;
    const double delta = value - mean_;
    mean_ += delta / static_cast<double>(count_);
    squares_ += delta * (value - mean_);
  }
  double count() const { return static_cast<double>(count_); }
  double mean() const { return mean_; }
  double variance() const { return squares_ / static_cast<double>(count_ - 1); }
  double standard_error() const { return std::sqrt(variance() / count()); }

 private:
  std::size_t count_ = 0;
  double mean_ = 0;
  double squares_ = 0;
};

}  // namespace driftd::test
