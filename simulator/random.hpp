// SPDX-License-Identifier: MIT
// The simulator's random numbers: a seeded generator with the distributions the physics needs, a
// many-lane generator for whole images, and a table that turns uniform bits into any continuous
// distribution. Deterministic from the seed; no object is shared between threads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace driftd::simulator {

/// xoshiro256++ (Blackman and Vigna 2021). Different `stream`s of one seed are independent, so that
/// a change in one part of the world leaves the random numbers of the others as they were.
class Random {
 public:
  Random(std::uint64_t seed, std::uint64_t stream) noexcept;
  std::uint64_t next() noexcept;
  double uniform() noexcept;  ///< in [0, 1), 53 bits
  double normal() noexcept;   ///< mean 0, variance 1 (Marsaglia's polar method)
  double exponential(double mean) noexcept;
  /// Exact Poisson number: inversion below a mean of 10, above it transformed rejection (PTRS,
  /// Hoermann 1993, Insurance: Mathematics and Economics 12:39).
  std::uint32_t poisson(double mean) noexcept;

 private:
  std::uint32_t poisson_rejection(double mean) noexcept;
  std::array<std::uint64_t, 4> state_;
  double spare_normal_ = 0;
  bool has_spare_ = false;
};

/// Exact Poisson numbers in a third of the time where means are below 24, from a generator of the
/// caller's: a Poisson number of a mean on a grid, by inversion through a guide table (Chen and
/// Asau 1974, AIIE Transactions 6:163), and one of the rest.
class PoissonTables {
 public:
  PoissonTables();
  std::uint32_t draw(double mean, Random& random) const noexcept;

 private:
  static constexpr int kSteps = 4;  ///< of the grid, in 1
  static constexpr int kLargestMean = 24;
  static constexpr std::size_t kNumbers = 128;  ///< beyond: 1e-40
  static constexpr std::size_t kGuides = 256;
  struct Table {
    std::array<double, kNumbers> cumulative{};
    std::array<std::uint8_t, kGuides> guide{};  ///< the smallest number of that share
  };
  std::vector<Table> tables_;
};

/// Sixteen xoshiro128++ generators side by side, which compilers turn into vector instructions.
class BulkRandom {
 public:
  static constexpr std::size_t kLanes = 16;
  BulkRandom(std::uint64_t seed, std::uint64_t stream) noexcept;
  /// Fills with uniform 32-bit numbers; `count` is rounded up to a multiple of kLanes, which the
  /// buffer must hold.
  void fill(std::uint32_t* out, std::size_t count) noexcept;

 private:
  std::array<std::array<std::uint32_t, kLanes>, 4> state_;
};

/// The inverse of a cumulative distribution: value(r) of a uniform 32-bit r follows it. 8192 equal
/// shares of probability with linear interpolation inside; the outermost two are cut again into
/// 1024, so that the tails reach beyond 5 standard deviations.
class QuantileTable {
 public:
  QuantileTable() = default;
  /// @param cdf         non-decreasing, about 0 at `low` and 1 at `high`
  QuantileTable(const std::function<double(double)>& cdf, double low, double high);
  float value(std::uint32_t random) const noexcept {
    const std::uint32_t cell = random >> kCellShift;
    const std::uint32_t rest = random & kRestMask;
    if (cell - 1U < kCells - 2U) [[likely]] {
      const float from = body_[cell];
      return from + (body_[cell + 1] - from) * (static_cast<float>(rest) * kRestScale);
    }
    return tail_value(cell == 0 ? lower_ : upper_, rest);
  }

 private:
  static constexpr std::uint32_t kCellShift = 19;
  static constexpr std::uint32_t kCells = 1U << (32 - kCellShift);
  static constexpr std::uint32_t kRestMask = (1U << kCellShift) - 1;
  static constexpr float kRestScale = 1.0F / static_cast<float>(1U << kCellShift);
  static constexpr std::uint32_t kTailShift = 9;
  static constexpr std::uint32_t kTailCells = 1U << (kCellShift - kTailShift);
  static float tail_value(const std::vector<float>& tail, std::uint32_t rest) noexcept;

  std::vector<float> body_;
  std::vector<float> lower_;
  std::vector<float> upper_;
};

/// Cumulative distribution of a Poisson number plus Gaussian noise.
class PoissonGaussCdf {
 public:
  PoissonGaussCdf(double mean, double sigma);
  double operator()(double x) const;
  double low() const noexcept { return low_; }
  double high() const noexcept { return high_; }

 private:
  double sigma_;
  int first_ = 0;
  std::vector<double> probability_;  ///< of first_, first_ + 1, ...
  std::vector<double> below_;        ///< of anything smaller
  double low_ = 0, high_ = 0;
};

}  // namespace driftd::simulator
