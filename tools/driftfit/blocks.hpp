// SPDX-License-Identifier: MIT
// The frames of a stack in blocks: the next one is read while one is worked on. Owned by one
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>

#include "camera/recording/image_stack.hpp"
#include "tools/driftfit/options.hpp"
#include "tools/driftfit/progress.hpp"

namespace driftd::tools {

struct FrameRange {
  std::int64_t first = 0, count = 0;
};

/// Memory for frames; it is as large as was last asked for.
class FrameMemory {
 public:
  explicit FrameMemory(bool pinned) : pinned_(pinned) {}
  void resize(std::size_t bytes);
  std::byte* data() const { return held_ != nullptr ? held_.get() : plain_.get(); }
  std::size_t size() const { return size_; }

 private:
  struct Free {
    void operator()(std::byte* memory) const noexcept;
  };
  bool pinned_;
  std::size_t size_ = 0;
  std::unique_ptr<std::byte[]> plain_;
  std::unique_ptr<std::byte, Free> held_;  ///< that GPUs read
};

/// The frames of a range, a block at a time; the next one is read meanwhile.
class Blocks {
 public:
  /// @param threads  that share the frames of a block
  /// @param for_gpu  frames are in memory that GPUs read where it lies, as far as there is some
  Blocks(const Options& options, camera::ImageStack& stack, FrameRange range, int threads,
         bool for_gpu, const std::function<bool()>& stop);

  /// False after the last. @throws Interrupted
  bool read();
  [[nodiscard]] std::int64_t first() const { return next_; }
  [[nodiscard]] std::int64_t count() const { return count_; }
  [[nodiscard]] const std::byte* pixels() const { return pixels_.data(); }

 private:
  void read_ahead();

  camera::ImageStack& stack_;
  std::int64_t next_, end_;
  const std::function<bool()>& stop_;
  Progress progress_;
  std::int64_t size_ = 1, count_ = 0;
  FrameMemory pixels_, following_;
  std::future<void> ahead_;  ///< its end waits for the thread, so it is the last
};

}  // namespace driftd::tools
