// SPDX-License-Identifier: MIT
// How still a law held the sample, as measured: mean squares over its last blocks of time. A value;
// noexcept.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "control/values/arithmetic.hpp"

namespace driftd::control {

class HeldRecord {
 public:
  static constexpr std::size_t kBlocks = 8;
  static constexpr double kBlockS = 0.5, kBlockFrames = 8;
  /// After it took over; the sample is where the other law left it.
  static constexpr std::size_t kSettlingBlocks = 2;

  void restart() noexcept { *this = {}; }
  /// Nothing was commanded meanwhile.
  void pause() noexcept {
    begun_ = false;
    sum_ = frames_ = 0;
  }
  /// A frame while the law acts. @param left_nm2  mean square of an axis
  void see(double left_nm2, std::int64_t now_ns) noexcept {
    if (!begun_) since_ns_ = now_ns;
    begun_ = true;
    sum_ += left_nm2;
    frames_ += 1;
    if (seconds_between(since_ns_, now_ns) < kBlockS || frames_ < kBlockFrames) return;
    if (++closed_ > kSettlingBlocks) means_[(closed_ - 1) % kBlocks] = sum_ / frames_;
    pause();
  }
  std::size_t blocks() const noexcept {
    return closed_ <= kSettlingBlocks ? 0 : std::min(closed_ - kSettlingBlocks, kBlocks);
  }
  /// 0 without blocks.
  double mean_nm2() const noexcept {
    double sum = 0;
    for (std::size_t i = 0; i < blocks(); ++i) sum += block(i);
    return blocks() > 0 ? sum / static_cast<double>(blocks()) : 0;
  }
  /// Variance of the mean, by its blocks.
  double mean_variance_nm4() const noexcept {
    const double mean = mean_nm2();
    double sum = 0;
    for (std::size_t i = 0; i < blocks(); ++i) sum += (block(i) - mean) * (block(i) - mean);
    const auto n = static_cast<double>(blocks());
    return n > 1 ? sum / (n * (n - 1)) : 0;
  }

 private:
  double block(std::size_t i) const noexcept { return means_[(closed_ - 1 - i) % kBlocks]; }

  std::array<double, kBlocks> means_{};
  std::size_t closed_ = 0;
  std::int64_t since_ns_ = 0;
  double sum_ = 0, frames_ = 0;
  bool begun_ = false;
};

}  // namespace driftd::control
