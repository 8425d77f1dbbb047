// SPDX-License-Identifier: MIT
// NewestMailbox: hands pointers from one writer thread to one reader thread, wait-free, keeping
// only the newest. The one slot holds either a fresh item (from the writer, not seen yet) or a used
// one (given back by the reader), so neither side ever finds it full: triple buffering. Owned by a
// connection; its writer is Aravis' stream thread, its reader the tracking loop.
#pragma once

#include <atomic>
#include <cstdint>

namespace driftd::camera {

template <typename T>
class NewestMailbox {
  static_assert(alignof(T) > 1, "the lowest pointer bit marks a fresh item");

 public:
  struct Removed {
    T* item = nullptr;   ///< what had been in the slot; the writer's again. May be null.
    bool fresh = false;  ///< true: the reader never saw it
  };

  /// Writer: puts the newest item in and takes out what was there.
  Removed publish(T* item) noexcept {
    const std::uintptr_t old =
        slot_.exchange(reinterpret_cast<std::uintptr_t>(item) | kFresh, std::memory_order_acq_rel);
    return {pointer(old), (old & kFresh) != 0};
  }

  /// Reader: whether there is a fresh item.
  bool has_fresh() const noexcept { return (slot_.load(std::memory_order_acquire) & kFresh) != 0; }

  /// Reader: takes the fresh item and leaves `used` (may be null) in its place. Null, with `used`
  /// still the reader's, when there is none.
  T* take(T* used) noexcept {
    if (!has_fresh()) return nullptr;
    // Only the reader removes freshness: what is exchanged here is fresh, perhaps fresher.
    const std::uintptr_t item =
        slot_.exchange(reinterpret_cast<std::uintptr_t>(used), std::memory_order_acq_rel);
    return pointer(item);
  }

 private:
  static constexpr std::uintptr_t kFresh = 1;
  static T* pointer(std::uintptr_t tagged) noexcept {
    return reinterpret_cast<T*>(tagged & ~kFresh);  // NOLINT(performance-no-int-to-ptr)
  }
  std::atomic<std::uintptr_t> slot_{0};
};

}  // namespace driftd::camera
