// SPDX-License-Identifier: MIT
// FrameIdUnwrapper: turns a camera's block ids into ids that grow for ever. GigE Vision 1.x ids
// have 16 bits and skip 0 (1..65535, 1, ...), which not every camera knows; GigE Vision 2 with
// extended ids and USB3 Vision have 64. One belongs to each source; the stream thread calls it,
// never two at a time.
#pragma once

#include <cstdint>

namespace driftd::camera {

class FrameIdUnwrapper {
 public:
  struct Result {
    std::uint64_t id = 0;    ///< grows by at least one with each call
    std::uint64_t lost = 0;  ///< ids left out since the last one
  };

  /// @param wide     the ids are known to have 64 bits
  /// @param next_id  what the first frame is to be called: a reconnected camera counts anew, and
  ///                 its frames go on from those before. 0: its own id
  explicit FrameIdUnwrapper(bool wide, std::uint64_t next_id = 0) noexcept
      : wide_(wide), id_(next_id) {}

  Result next(std::uint64_t raw) noexcept {
    if (raw > kLastNarrowId) wide_ = true;
    if (raw == 0) round_ = kLastNarrowId + 1;
    std::uint64_t step = 1;
    if (running_) {
      step = step_to(raw);
      id_ += step;
    } else if (id_ == 0) {
      id_ = raw;
    }
    running_ = true;
    raw_ = raw;
    return {.id = id_, .lost = step - 1};
  }

 private:
  static constexpr std::uint64_t kLastNarrowId = 65535;
  static constexpr std::uint64_t kHalfRound = kLastNarrowId / 2;

  [[nodiscard]] std::uint64_t step_to(std::uint64_t raw) const noexcept {
    if (raw > raw_) return raw - raw_;
    if (wide_) return 1;  // it went backwards: the camera has restarted its count
    const std::uint64_t step = raw + round_ - raw_;
    // A wrap with more than half a round lost is far less likely than a restarted count.
    return step <= kHalfRound ? step : 1;
  }

  bool wide_;
  bool running_ = false;
  std::uint64_t round_ = kLastNarrowId;  ///< ids from one to its return
  std::uint64_t raw_ = 0;
  std::uint64_t id_;
};

}  // namespace driftd::camera
