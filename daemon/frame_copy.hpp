// SPDX-License-Identifier: MIT
// One frame copied out of the loop when housekeeping asks for it (marker search, snapshot): asked,
// then filled by the loop after the frame's correction was handed over, then read. The memory is
// housekeeping's; the loop only writes between asked and filled.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "camera/frame.hpp"

namespace driftd::daemon {

class FrameCopy {
 public:
  /// Housekeeping: asks for the next frame; room for `pixels` values.
  void ask(std::size_t pixels) {
    pixels_.resize(pixels);
    state_.store(State::Asked, std::memory_order_release);
  }
  /// Housekeeping: true when a frame asked for has come; pixels() and frame() may then be read.
  bool filled() const noexcept { return state_.load(std::memory_order_acquire) == State::Filled; }
  bool asked() const noexcept { return state_.load(std::memory_order_acquire) == State::Asked; }
  /// Frame without pixels; and pixels, row-major, the frame's width * height. When the frame was
  /// larger than asked for, pixels() is empty.
  const camera::Frame& frame() const noexcept { return frame_; }
  const std::vector<std::uint16_t>& pixels() const noexcept { return pixels_; }
  bool fits() const noexcept { return fits_; }

  /// Loop.
  void offer(const camera::Frame& frame) noexcept {
    if (state_.load(std::memory_order_acquire) != State::Asked) return;
    frame_ = frame;
    frame_.pixels = nullptr;
    const auto values =
        static_cast<std::size_t>(frame.width_px) * static_cast<std::size_t>(frame.height_px);
    fits_ = values <= pixels_.size();
    if (fits_) camera::unpack(frame, pixels_.data());
    state_.store(State::Filled, std::memory_order_release);
  }

 private:
  enum class State : std::uint8_t { Idle, Asked, Filled };
  std::atomic<State> state_{State::Idle};
  camera::Frame frame_;
  bool fits_ = false;
  std::vector<std::uint16_t> pixels_;
};

}  // namespace driftd::daemon
