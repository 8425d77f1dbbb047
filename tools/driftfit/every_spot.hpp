// SPDX-License-Identifier: MIT
// Localization microscopy: the spots of each frame are found without regard to other frames and
// fitted without start values, a block of frames at a time: by a GPU, which sees the frames once,
// or the CPU. Owned by one thread; the search uses several.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tools/driftfit/camera_maps.hpp"
#include "tools/driftfit/clipped_pixels.hpp"
#include "tools/driftfit/cut_rois.hpp"
#include "tools/driftfit/picks.hpp"
#include "tools/driftfit/spot.hpp"
#include "tools/driftfit/spot_fitter.hpp"
#include "tools/driftfit/spot_search.hpp"

namespace driftd::tools {

class EverySpot {
 public:
  /// @param fitter, maps  must outlive this
  EverySpot(const camera::StackShape& shape, int roi_px, double min_net_gradient,
            SpotFitter& fitter, const CameraMaps& maps);

  /// Those fitted in `count` frames one after another, in the order of frames; valid until the
  /// next call. The same for any number of threads. @throws fitter::FitterError
  std::span<const Spot> localize(const std::byte* frames, std::int64_t first, std::int64_t count);

  std::int64_t found() const noexcept { return found_; }
  const ClippedPixels& clipped_pixels() const noexcept { return clipped_; }

 private:
  void search(const std::byte* frames, std::size_t count);
  void add(std::int64_t frame, const FoundSpot& found);
  Pick roi_of(const Spot& spot) const noexcept;
  void cut(const std::byte* frames, std::int64_t first);
  void keep_fitted();

  camera::StackShape shape_;
  int roi_px_;
  SpotFitter& fitter_;
  const CameraMaps& maps_;
  const HotPixels& hot_;
  SpotSearch search_;
  std::vector<std::vector<FoundSpot>> candidates_;  ///< by frame
  CutRois rois_;
  ClippedPixels clipped_;
  std::vector<fitter::Localization> fits_;
  std::vector<Spot> spots_;
  std::int64_t found_ = 0;
};

}  // namespace driftd::tools
