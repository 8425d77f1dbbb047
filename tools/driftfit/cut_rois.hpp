// SPDX-License-Identifier: MIT
// The squares of frames that are fitted together, cut out, with what a map of variances says of
// their pixels. Owned by one thread.
#pragma once

#include <cstddef>
#include <vector>

#include "camera/recording/image_stack.hpp"
#include "fitter/fitter.hpp"
#include "tools/driftfit/camera_maps.hpp"

namespace driftd::tools {

class CutRois {
 public:
  /// @param maps  of a frame; must outlive this
  CutRois(const camera::StackShape& shape, int roi_px, const CameraMaps& maps);

  void resize(std::size_t count);
  /// Number `index` from a frame; x_px, y_px: its first pixel. It must lie inside.
  void cut(std::size_t index, const std::byte* frame, int x_px, int y_px) noexcept;
  /// All of them; valid until resize().
  fitter::Batch batch() const noexcept;
  /// The same before the maps were applied; valid until it is called again, or resize().
  fitter::Batch recorded();

 private:
  camera::StackShape shape_;
  int roi_px_;
  const CameraMaps& maps_;
  std::size_t count_ = 0;
  std::vector<std::byte> pixels_;
  std::vector<float> variances_, recorded_;
  std::vector<std::size_t> firsts_;  ///< pixels of the frame, by ROI; of converted frames alone
};

}  // namespace driftd::tools
