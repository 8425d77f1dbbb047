// SPDX-License-Identifier: MIT
// Copies whole frames out of the loop when housekeeping asks for one (marker search, snapshot). An
// image belongs to one side at a time and changes hands through a pointer. Housekeeping makes it
// and asks. The loop takes it, copies after the frame's correction has left, part by part as long
// as nothing else waits for the loop, and gives it back. If something does wait, the loop tries the
// next frame. An image that nobody waits for any more is taken back, or dropped when it comes. The
// loop neither allocates nor frees.
#pragma once

#include <algorithm>
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
  int tries = 0;                      ///< at frames that were followed too soon
};

/// One asker's way to a frame.
class FrameCopy {
 public:
  /// Pixels that are copied before the loop looks again: some 10 us.
  static constexpr int kPartPixels = 1 << 15;
  /// After so many tries one frame has to wait: a camera's frames may always come sooner than one
  /// is copied.
  static constexpr int kMostTries = 30;

  FrameCopy() = default;
  ~FrameCopy() {
    delete asked_.load();
    delete filled_.load();
  }
  FrameCopy(const FrameCopy&) = delete;
  FrameCopy& operator=(const FrameCopy&) = delete;

  // Housekeeping.
  /// Asks for the next frame, with room for so many pixels, in place of what was asked before.
  /// False where the loop is just writing to the earlier image: then nothing is asked.
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
  /// Gives up the frame that was asked for.
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

  // Loop.
  bool is_asked() const noexcept { return asked_.load(std::memory_order_relaxed) != nullptr; }
  /// @param is_wanted  asked before each part: whether the loop has something else to do
  template <typename IsWanted>
  void offer(const camera::Frame& frame, IsWanted is_wanted) noexcept {
    if (!is_asked()) return;
    FrameImage* image = asked_.exchange(nullptr, std::memory_order_acq_rel);
    if (image == nullptr) return;
    const auto give_up = [&] { return image->tries < kMostTries && is_wanted(); };
    image->frame = frame;
    image->frame.pixels = nullptr;
    image->frame.line_padding_bytes = 0;
    const auto values =
        static_cast<std::size_t>(frame.width_px) * static_cast<std::size_t>(frame.height_px);
    image->fits = values <= image->pixels.size();
    const int lines = std::max(1, kPartPixels / std::max(1, frame.width_px));
    for (int y = 0; image->fits && y < frame.height_px; y += lines) {
      if (give_up()) {  // nobody else writes there while the image is out
        ++image->tries;
        return asked_.store(image, std::memory_order_release);
      }
      camera::unpack_lines(frame, y, std::min(y + lines, frame.height_px), image->pixels.data());
    }
    filled_.store(image, std::memory_order_release);
  }
  void offer(const camera::Frame& frame) noexcept {
    offer(frame, [] { return false; });
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

  // Loop.
  bool is_asked() const noexcept { return search.is_asked() || snapshot.is_asked(); }
  template <typename IsWanted>
  void offer(const camera::Frame& frame, IsWanted is_wanted) noexcept {
    search.offer(frame, is_wanted);
    snapshot.offer(frame, is_wanted);
  }
  void offer(const camera::Frame& frame) noexcept {
    offer(frame, [] { return false; });
  }
};

}  // namespace driftd::daemon
