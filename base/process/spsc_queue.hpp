// SPDX-License-Identifier: MIT
// A bounded queue between exactly one producing and one consuming thread: no lock, no allocation
// after construction, both ends wait-free. How the loop, the publisher and housekeeping talk.
#pragma once

#include <atomic>
#include <cstddef>
#include <utility>
#include <vector>

namespace driftd {

template <typename T>
class SpscQueue {
 public:
  /// @param capacity  values it holds at most
  explicit SpscQueue(std::size_t capacity) : slots_(capacity + 1) {}

  /// Producer. False, with nothing moved, when full.
  bool push(T&& value) noexcept {
    const std::size_t tail = tail_.load(std::memory_order_relaxed);
    const std::size_t after = next(tail);
    if (after == head_.load(std::memory_order_acquire)) return false;
    slots_[tail] = std::move(value);
    tail_.store(after, std::memory_order_release);
    return true;
  }
  bool push(const T& value) noexcept {
    T copy = value;
    return push(std::move(copy));
  }
  /// Producer. True when a push would fail.
  bool full() const noexcept {
    return next(tail_.load(std::memory_order_relaxed)) == head_.load(std::memory_order_acquire);
  }
  /// Producer. So many values can be pushed now.
  std::size_t room() const noexcept {
    const std::size_t tail = tail_.load(std::memory_order_relaxed);
    const std::size_t head = head_.load(std::memory_order_acquire);
    return slots_.size() - 1 - (tail >= head ? tail - head : tail + slots_.size() - head);
  }
  /// Consumer. False when empty.
  bool pop(T& value) noexcept {
    const std::size_t head = head_.load(std::memory_order_relaxed);
    if (head == tail_.load(std::memory_order_acquire)) return false;
    value = std::move(slots_[head]);
    head_.store(next(head), std::memory_order_release);
    return true;
  }
  /// Consumer.
  bool empty() const noexcept {
    return head_.load(std::memory_order_relaxed) == tail_.load(std::memory_order_acquire);
  }

 private:
  std::size_t next(std::size_t i) const noexcept { return i + 1 == slots_.size() ? 0 : i + 1; }

  std::vector<T> slots_;
  alignas(64) std::atomic<std::size_t> head_{0};
  alignas(64) std::atomic<std::size_t> tail_{0};
};

}  // namespace driftd
