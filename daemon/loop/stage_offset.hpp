// SPDX-License-Identifier: MIT
// How far the stage's own sensors are from where the stage was told to be: the rms over the
// driver's last reports. A wrong reading counts as long as it is one of these. Tracking loop's
// thread.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>

#include "base/vec2.hpp"

namespace driftd::daemon {

class StageOffset {
 public:
  /// The reports of one second.
  static constexpr std::size_t kReports = 20;

  void forget() noexcept { seen_ = 0; }
  void add(Vec2 off_nm) noexcept {
    nm2_[seen_++ % kReports] = off_nm.x * off_nm.x + off_nm.y * off_nm.y;
  }
  /// NaN where there are none.
  double rms_nm() const noexcept {
    const std::size_t known = std::min(seen_, kReports);
    if (known == 0) return std::numeric_limits<double>::quiet_NaN();
    double sum_nm2 = 0;
    for (std::size_t i = 0; i < known; ++i) sum_nm2 += nm2_[i];
    return std::sqrt(sum_nm2 / static_cast<double>(known));
  }

 private:
  std::array<double, kReports> nm2_{};
  std::size_t seen_ = 0;
};

}  // namespace driftd::daemon
