// SPDX-License-Identifier: MIT
// Follows markers from frame to frame. The fit of a marker starts where its last fit ended. Its ROI
// moves by whole pixels, and only when the marker is further from the middle than the hysteresis;
// the marker is then cut out and fitted again in the same frame. Owned by one thread.
//
// A marker is missing from a frame where its fit fails, where it has left the frame, and where its
// step differs from that of the others, because the fit found a neighbour. The ROI of a missing
// marker moves with the others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tools/driftfit/cut_rois.hpp"
#include "tools/driftfit/picks.hpp"
#include "tools/driftfit/spot.hpp"
#include "tools/driftfit/spot_fitter.hpp"

namespace driftd::tools {

class MarkerFollower {
 public:
  /// @param fitter     must outlive the follower
  /// @param variances  likewise; of each pixel of a frame, or null
  MarkerFollower(const camera::StackShape& shape, int roi_px, std::span<const Pick> picks,
                 SpotFitter& fitter, const float* variances = nullptr);

  /// The markers found in the next frame, in their order; valid until the next call.
  /// @throws fitter::FitterError
  std::span<const Spot> follow(const std::byte* frame, std::int64_t index);
  /// Why the other markers are missing from that frame.
  const Absences& absences() const noexcept { return absences_; }

 private:
  struct Marker {
    double x_px, y_px;                     ///< where it is expected
    float sigma_x_px = 0, sigma_y_px = 0;  ///< of its last fit; 0: missing there
    bool seen = false;                     ///< in any frame
    int roi_x_px = 0, roi_y_px = 0;
    bool found = false;  ///< in this frame; then where:
    double found_x_px = 0, found_y_px = 0;
    fitter::Localization fit{};
  };

  void place_roi(Marker& marker, double x_px, double y_px) const noexcept;
  int placed(int origin_px, double position_px, int size_px) const noexcept;
  bool inside_roi(const Marker& m) const noexcept;
  void fit(const std::byte* frame, std::span<const std::size_t> which, bool again);
  void reject_strays(Pick step) noexcept;
  Pick common_step();

  camera::StackShape shape_;
  int roi_px_;
  SpotFitter& fitter_;
  std::vector<Marker> markers_;
  CutRois rois_;
  std::vector<fitter::Start> starts_;
  std::vector<fitter::Localization> fits_;
  std::vector<std::size_t> which_;
  std::vector<Spot> spots_;
  Absences absences_;
};

}  // namespace driftd::tools
