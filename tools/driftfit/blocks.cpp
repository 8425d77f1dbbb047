// SPDX-License-Identifier: MIT
#include "tools/driftfit/blocks.hpp"

#include <algorithm>
#include <utility>

#include "fitter/cuda_fitter.hpp"
#include "tools/driftfit/errors.hpp"

namespace driftd::tools {
namespace {

/// Frames are read in blocks, one ahead of the one that is worked on: of about this size, because
/// memory is slow when it is used first. Larger ones where each thread needs some frames, for a
/// GPU, which takes several pieces of a block at once, or where none is read ahead: of a file whose
/// chunks are too large to be kept, each block unpacks them.
constexpr std::size_t kBlockBytes = std::size_t{8} << 20;
constexpr std::size_t kLargeBlockBytes = std::size_t{32} << 20;
constexpr std::int64_t kFramesOfThread = 2;
constexpr std::int64_t kMostBlockFrames = 4096;

}  // namespace

void FrameMemory::Free::operator()(std::byte* memory) const noexcept {
  fitter::free_pinned(memory);
}

void FrameMemory::resize(std::size_t bytes) {
  if (bytes == size_) return;
  plain_.reset();
  held_.reset(pinned_ ? static_cast<std::byte*>(fitter::allocate_pinned(bytes)) : nullptr);
  if (held_ == nullptr) plain_ = std::make_unique<std::byte[]>(bytes);
  size_ = bytes;
}

Blocks::Blocks(const Options& options, camera::ImageStack& stack, FrameRange range, int threads,
               bool for_gpu, const std::function<bool()>& stop)
    : stack_(stack),
      next_(range.first),
      end_(range.first + range.count),
      stop_(stop),
      progress_(range.count, options.show_progress),
      pixels_(for_gpu),
      following_(for_gpu) {
  const auto fitting = [&](std::size_t bytes) {
    return static_cast<std::int64_t>(bytes / stack.shape().frame_bytes());
  };
  const bool small = stack.reads_beside_others() && !for_gpu;
  const std::size_t usual = small ? kBlockBytes : kLargeBlockBytes;
  const std::int64_t shared = std::min(kFramesOfThread * threads, fitting(kLargeBlockBytes));
  size_ = std::clamp<std::int64_t>(std::max(fitting(usual), shared), 1,
                                   std::min(kMostBlockFrames, range.count));
  pixels_.resize(static_cast<std::size_t>(size_) * stack.shape().frame_bytes());
}

bool Blocks::read() {
  if (stop_()) throw Interrupted();
  progress_.advance(count_);
  next_ += count_;
  count_ = std::min(size_, end_ - next_);
  if (count_ <= 0) return false;
  if (ahead_.valid()) {
    ahead_.get();
    std::swap(pixels_, following_);
  } else {
    stack_.read(next_, count_, pixels_.data());
  }
  read_ahead();
  return true;
}

void Blocks::read_ahead() {
  const std::int64_t first = next_ + count_;
  const std::int64_t count = std::min(size_, end_ - first);
  if (count <= 0 || !stack_.reads_beside_others()) return;
  following_.resize(pixels_.size());
  ahead_ = std::async(std::launch::async,
                      [this, first, count] { stack_.read(first, count, following_.data()); });
}

}  // namespace driftd::tools
