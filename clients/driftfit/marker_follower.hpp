// SPDX-License-Identifier: MIT
// Follows markers from frame to frame. Each is fitted from where its last fit ended; its ROI moves
// by whole pixels, and only when the marker has left the middle by more than the hysteresis; a
// marker found further off is cut out and fitted again in the same frame. Owned by one thread.
//
// A marker is missing from a frame where its fit fails, where it has left the frame, and where it
// moved otherwise than the others do (a neighbour taken for it): its ROI then goes with the others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "clients/driftfit/picks.hpp"
#include "clients/driftfit/spot.hpp"
#include "clients/driftfit/spot_fitter.hpp"

namespace driftd::clients {

class MarkerFollower {
 public:
  /// @param fitter  must outlive the follower
  MarkerFollower(const StackShape& shape, int roi_px, std::span<const Pick> picks,
                 SpotFitter& fitter);

  /// The markers found in the next frame, in their order; valid until the next call.
  /// @throws fitter::FitterError
  std::span<const Spot> follow(const std::byte* frame, std::int64_t index);

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

  StackShape shape_;
  int roi_px_;
  SpotFitter& fitter_;
  std::vector<Marker> markers_;
  std::vector<std::byte> pixels_;
  std::vector<fitter::Start> starts_;
  std::vector<fitter::Localization> fits_;
  std::vector<std::size_t> which_;
  std::vector<Spot> spots_;
};

}  // namespace driftd::clients
