// SPDX-License-Identifier: MIT
// The squares of frames that are fitted together, cut out, with what a map of variances says of
// their pixels. Owned by one thread.
#pragma once

#include <cstddef>
#include <vector>

#include "camera/recording/image_stack.hpp"
#include "fitter/fitter.hpp"

namespace driftd::tools {

class CutRois {
 public:
  /// @param variances  of each pixel of a frame, or null; must outlive this
  CutRois(const camera::StackShape& shape, int roi_px, const float* variances);

  void resize(std::size_t count);
  /// Number `index` from a frame; x_px, y_px: its first pixel. It must lie inside.
  void cut(std::size_t index, const std::byte* frame, int x_px, int y_px) noexcept;
  /// All of them; valid until resize().
  fitter::Batch batch() const noexcept;

 private:
  camera::StackShape shape_;
  int roi_px_;
  const float* map_;
  std::size_t count_ = 0;
  std::vector<std::byte> pixels_;
  std::vector<float> variances_;
};

}  // namespace driftd::tools
