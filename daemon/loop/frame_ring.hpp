// SPDX-License-Identifier: MIT
// The newest raw frames, as the camera sent them, in memory that is mapped, filled and locked
// before the loop runs. The loop puts each frame over the oldest one. A thread that saves frames
// holds them; meanwhile the loop passes over their places, and counts the frames that it could not
// keep. Neither waits for the other. Owned by whoever uses it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "camera/frame.hpp"

namespace driftd::daemon {

class FrameRing {
 public:
  struct Kept {
    camera::Frame frame;  ///< its pixels are the ring's
    std::int64_t taken_ns = 0;
  };

  /// @throws std::runtime_error where the computer has no such memory, with how much there is
  explicit FrameRing(std::size_t bytes);
  ~FrameRing();
  FrameRing(const FrameRing&) = delete;
  FrameRing& operator=(const FrameRing&) = delete;

  std::size_t bytes() const noexcept { return bytes_; }
  /// Why it may be swapped out; "" where it is locked.
  const std::string& not_locked() const noexcept { return not_locked_; }
  /// Bytes of the memory that one frame takes.
  static std::size_t place_bytes(std::size_t frame_bytes) noexcept;
  /// Frames that it has room for; 0 before the first frame, and where there is no room even for
  /// one.
  std::uint64_t room() const noexcept { return room_.load(std::memory_order_relaxed); }

  /// Housekeeping: whether frames are kept at all.
  std::atomic<bool> wanted{false};
  /// Frames without a place, since the start.
  std::atomic<std::uint64_t> not_kept{0};

  /// Loop: copies the frame, where frames are wanted.
  void keep(const camera::Frame& frame, std::int64_t taken_ns) noexcept;

  // The thread that saves. Frames are numbered from 1 in the order in which they were kept.
  /// Holds frames that came at or after that time from now on. @returns the first one's number
  std::uint64_t hold(std::int64_t from_ns) noexcept;
  /// The held frame of that number; null where there is none (yet).
  const Kept* at(std::uint64_t number) const noexcept;
  /// The first held frame from that number on, whose number it becomes; null where none has come
  /// yet.
  const Kept* next(std::uint64_t& number) const noexcept;
  std::uint64_t newest() const noexcept { return newest_.load(std::memory_order_acquire); }
  /// Gives up the frames before that number.
  void release_before(std::uint64_t number) noexcept { held_from_.store(number); }
  void release() noexcept { held_from_.store(kNone); }

 private:
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};
  struct Slot {
    std::atomic<std::uint64_t> number{0};  ///< 0: nothing, or it is being written
    Kept kept;
  };
  bool fit(std::size_t frame_bytes) noexcept;

  std::size_t bytes_;
  std::byte* memory_ = nullptr;
  std::string not_locked_;
  std::unique_ptr<Slot[]> slots_;
  std::size_t slot_bytes_ = 0;          ///< the loop's
  std::atomic<std::uint64_t> room_{0};  ///< slots of that size
  std::atomic<std::uint64_t> newest_{0};
  std::atomic<std::uint64_t> held_from_{kNone};
  std::atomic<bool> fitting_{false};
};

}  // namespace driftd::daemon
