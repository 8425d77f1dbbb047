// SPDX-License-Identifier: MIT
// The newest value of something, from one writing to one reading thread: a triple buffer. The
// writer never waits and the reader always gets a whole value; values in between are overwritten.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace driftd {

template <typename T>
class LatestValue {
 public:
  /// Writer: the buffer to fill (it holds an old value), then publish().
  T& writing() noexcept { return slots_[write_]; }
  void publish() noexcept {
    write_ =
        middle_.exchange(static_cast<std::uint8_t>(write_ | kFresh), std::memory_order_acq_rel) &
        kIndex;
  }
  /// Reader: takes the newest value over, if there is one newer than what reading() shows.
  bool refresh() noexcept {
    if ((middle_.load(std::memory_order_relaxed) & kFresh) == 0) return false;
    read_ = middle_.exchange(read_, std::memory_order_acq_rel) & kIndex;
    return true;
  }
  const T& reading() const noexcept { return slots_[read_]; }

 private:
  static constexpr std::uint8_t kIndex = 3;
  static constexpr std::uint8_t kFresh = 4;
  std::array<T, 3> slots_{};
  std::uint8_t write_ = 0;                // writer's own
  std::atomic<std::uint8_t> middle_ = 1;  // handed over
  std::uint8_t read_ = 2;                 // reader's own
};

}  // namespace driftd
