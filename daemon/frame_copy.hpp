// SPDX-License-Identifier: MIT
// Whole frames copied out of the loop when housekeeping asks for one (marker search, snapshot). An
// image belongs to one side at a time and changes hands through a pointer: housekeeping makes it
// and asks, the loop takes it, writes after the frame's correction was handed over, and gives it
// back. An image that nobody waits for any more is taken back, or dropped when it comes. The loop
// neither allocates nor frees.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "camera/frame.hpp"

namespace driftd::daemon {

struct FrameImage {
  camera::Frame frame;                ///< without its pixels
  std::vector<std::uint16_t> pixels;  ///< row-major; at least the frame's width * height
  bool fits = false;                  ///< false: the frame was larger than the room for it
};

/// One asker's way to a frame.
class FrameCopy {
 public:
  FrameCopy() = default;
  ~FrameCopy() {
    delete asked_.load();
    delete filled_.load();
  }
  FrameCopy(const FrameCopy&) = delete;
  FrameCopy& operator=(const FrameCopy&) = delete;

  // Housekeeping.
  /// Asks for the next frame, with room for so many pixels, in place of what was asked before.
  /// False, with nothing asked, while the loop is just writing to that.
  bool ask(std::size_t pixels) {
    withdraw();
    if (out_) return false;
    auto image = std::make_unique<FrameImage>();
    image->pixels.resize(pixels);
    asked_.store(image.release(), std::memory_order_release);
    out_ = true;
    return true;
  }
  /// The frame asked for, once it has come.
  std::unique_ptr<FrameImage> take() noexcept {
    std::unique_ptr<FrameImage> image(filled_.exchange(nullptr, std::memory_order_acq_rel));
    if (!image) return nullptr;
    out_ = false;
    if (abandoned_) image.reset();
    abandoned_ = false;
    return image;
  }
  /// The frame asked for is not wanted any more.
  void withdraw() noexcept {
    if (!out_) return;
    abandoned_ = true;
    const std::unique_ptr<FrameImage> image(asked_.exchange(nullptr, std::memory_order_acq_rel));
    if (image)
      out_ = abandoned_ = false;
    else
      take();  // filled, or in the loop's hands: then it comes later
  }
  bool pending() const noexcept { return out_ && !abandoned_; }

  /// Loop.
  void offer(const camera::Frame& frame) noexcept {
    if (asked_.load(std::memory_order_relaxed) == nullptr) return;
    FrameImage* image = asked_.exchange(nullptr, std::memory_order_acq_rel);
    if (image == nullptr) return;
    image->frame = frame;
    image->frame.pixels = nullptr;
    image->frame.line_padding_bytes = 0;
    const auto values =
        static_cast<std::size_t>(frame.width_px) * static_cast<std::size_t>(frame.height_px);
    image->fits = values <= image->pixels.size();
    if (image->fits) camera::unpack(frame, image->pixels.data());
    filled_.store(image, std::memory_order_release);
  }

 private:
  std::atomic<FrameImage*> asked_{nullptr};   // housekeeping -> loop
  std::atomic<FrameImage*> filled_{nullptr};  // loop -> housekeeping
  bool out_ = false;                          // housekeeping's: it has given an image away ...
  bool abandoned_ = false;                    // ... and will drop it when it comes back
};

/// Each asker has a copy of its own, so that none can take or resize another's.
struct FrameCopies {
  FrameCopy search, snapshot;

  /// Loop.
  void offer(const camera::Frame& frame) noexcept {
    search.offer(frame);
    snapshot.offer(frame);
  }
};

}  // namespace driftd::daemon
