// SPDX-License-Identifier: MIT
// A camera that puts its frames into a ring, as the loop does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "daemon/loop/frame_ring.hpp"

namespace driftd::daemon::test {

constexpr int kRingWidth = 64, kRingHeight = 64;
constexpr std::size_t kRingFrameBytes = std::size_t{kRingWidth} * kRingHeight;

/// All pixels tell its number.
class RingCamera {
 public:
  explicit RingCamera(FrameRing& ring) : ring_(ring) {}
  void send(int count, std::int64_t arrival_ns = 0) {
    for (; count > 0; --count) {
      std::memset(pixels_.data(), static_cast<int>(++id % 251), pixels_.size());
      const camera::Frame frame{
          .pixels = pixels_.data(),
          .width_px = width,
          .height_px = kRingHeight,
          .id = id,
          .arrival_ns = arrival_ns != 0 ? arrival_ns : static_cast<std::int64_t>(id)};
      ring_.keep(frame, frame.arrival_ns - 1);
    }
  }
  std::uint64_t id = 0;
  int width = kRingWidth;

 private:
  FrameRing& ring_;
  std::vector<std::byte> pixels_ = std::vector<std::byte>(8 * kRingFrameBytes);
};

}  // namespace driftd::daemon::test
