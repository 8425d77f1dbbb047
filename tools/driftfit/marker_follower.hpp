// SPDX-License-Identifier: MIT
// Follows markers from frame to frame. Each has a place of its own beside the drift that all share;
// its fit starts at its place plus the drift before. Its ROI moves by whole pixels, and only when
// the marker is further from the middle than the hysteresis; the marker is then cut out and fitted
// again in the same frame. Owned by one thread.
//
// The drift of a frame is what most markers agree on (marker_agreement.hpp). A marker is missing
// where its fit fails, where it has left the frame, and where the fit found something elsewhere: a
// speck, a neighbour. It is then sought again where the drift says, and in the next frame at its
// place, whatever was found meanwhile. What is found elsewhere at the same offset in several frames
// is the marker at a new place (Spot::place), or another that is as good.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tools/driftfit/clipped_pixels.hpp"
#include "tools/driftfit/cut_rois.hpp"
#include "tools/driftfit/picks.hpp"
#include "tools/driftfit/spot.hpp"
#include "tools/driftfit/spot_fitter.hpp"

namespace driftd::tools {

class MarkerFollower {
 public:
  /// @param fitter, maps  must outlive the follower
  MarkerFollower(const camera::StackShape& shape, int roi_px, std::span<const Pick> picks,
                 SpotFitter& fitter, const CameraMaps& maps);

  /// The markers found in the next frame, in their order; valid until the next call.
  /// @throws fitter::FitterError
  std::span<const Spot> follow(const std::byte* frame, std::int64_t index);
  /// Why the other markers are missing from that frame.
  const Absences& absences() const noexcept { return absences_; }
  /// In how many frames a marker was missing, by the reason.
  const Absences& absences_of(std::size_t marker) const noexcept {
    return markers_[marker].absences;
  }
  const ClippedPixels& clipped_pixels() const noexcept { return clipped_; }

 private:
  enum class Result : std::uint8_t { Found, Outside, BadPixels, NotFitted, Strayed };
  struct Marker {
    Pick pick;
    Pick place;    ///< less the drift; the pick until it is seen
    int seen = 0;  ///< in so many frames at this place
    int moves = 0;
    bool confirmed = false;                ///< was seen twice at one place
    Pick elsewhere;                        ///< offset from the place of what was found instead
    int times_elsewhere = 0;               ///< in a row
    float sigma_x_px = 0, sigma_y_px = 0;  ///< of its last fit; 0: missing there
    int roi_x_px = 0, roi_y_px = 0;
    Absences absences{};
    // in this frame:
    Result result = Result::Outside;
    Pick found;
    fitter::Localization fit{};
    float top = 0;  ///< Spot::top
  };

  Pick expected(const Marker& m) const noexcept;
  void place_roi(Marker& marker, Pick at) const noexcept;
  int placed(int origin_px, double position_px, int size_px) const noexcept;
  bool is_inside(Pick at) const noexcept;
  bool inside_roi(const Marker& m) const noexcept;
  void fit(const std::byte* frame, std::span<const std::size_t> which, bool again);
  void fit_around(const std::byte* frame, std::span<const std::size_t> which);
  bool find_drift();
  void reject_strays() noexcept;
  void seek_again(const std::byte* frame, Pick before);
  void reject_doubles() noexcept;
  void look_elsewhere(Marker& m) noexcept;
  bool is_of_another(const Marker& m) const noexcept;
  void keep(std::size_t index, std::int64_t frame);

  camera::StackShape shape_;
  int roi_px_;
  double reach_px_;  ///< further from where it is expected is another spot
  SpotFitter& fitter_;
  std::vector<Marker> markers_;
  Pick drift_;  ///< of the last frame in which it was known
  CutRois rois_;
  ClippedPixels clipped_;
  std::vector<fitter::Start> starts_;
  std::vector<fitter::Localization> fits_;
  std::vector<std::size_t> which_, again_;
  std::vector<Pick> votes_;
  std::vector<Spot> spots_;
  Absences absences_;
};

}  // namespace driftd::tools
