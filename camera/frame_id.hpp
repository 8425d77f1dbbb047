// SPDX-License-Identifier: MIT
// FrameIdUnwrapper: turns a camera's block ids into ids that grow for ever. GigE Vision 1.x ids
// have 16 bits and skip 0 (1..65535, 1, ...); GigE Vision 2 with extended ids and USB3 Vision
// have 64. One belongs to each source; the stream thread calls it, never two at a time.
#pragma once

#include <cstdint>

namespace driftd::camera {

class FrameIdUnwrapper {
 public:
  struct Result {
    std::uint64_t id = 0;    ///< grows by at least one with each call
    std::uint64_t lost = 0;  ///< ids left out since the last one
  };

  /// A (re)connected camera counts anew: its next id is taken as the successor of the last one,
  /// with nothing lost. @param wide  the ids are known to have 64 bits
  void restart(bool wide) noexcept {
    running_ = false;
    wide_ = wide;
  }

  Result next(std::uint64_t raw) noexcept {
    if (raw > kLastNarrowId) wide_ = true;
    if (!any_) {
      any_ = running_ = true;
      raw_ = id_ = raw;
      return {.id = id_, .lost = 0};
    }
    const std::uint64_t step = running_ ? step_to(raw) : 1;
    running_ = true;
    raw_ = raw;
    id_ += step;
    return {.id = id_, .lost = step - 1};
  }

 private:
  static constexpr std::uint64_t kLastNarrowId = 65535;
  static constexpr std::uint64_t kHalfRound = kLastNarrowId / 2;

  [[nodiscard]] std::uint64_t step_to(std::uint64_t raw) const noexcept {
    if (raw > raw_) return raw - raw_;
    if (wide_) return 1;  // it went backwards: the camera has restarted its count
    const std::uint64_t step = raw + kLastNarrowId - raw_;
    // A wrap with more than half a round lost is far less likely than a restarted count.
    return step <= kHalfRound ? step : 1;
  }

  bool any_ = false;
  bool running_ = false;
  bool wide_ = false;
  std::uint64_t raw_ = 0;
  std::uint64_t id_ = 0;
};

}  // namespace driftd::camera
