// SPDX-License-Identifier: MIT
// Whole frames of a camera and where the spots are in them: ROIs are cut a piece at a time while
// they are fitted, so that what was cut is read again from the core's cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "fitter/fitter.hpp"

namespace driftd::fitter {

/// Frames, and what is known of each pixel of the camera.
struct Frames {
  const void* pixels = nullptr;  ///< in the host's memory of any alignment
  PixelType type = PixelType::U16;
  int width_px = 0, height_px = 0;
  std::size_t count = 0;
  std::size_t row_bytes = 0, frame_bytes = 0;  ///< from one row, or frame, to the next
  /// Maps, row after row without gaps, or null. With gains or offsets a pixel becomes a float,
  /// (pixel - offset) gain, before it is fitted. One whose gain is not > 0 makes BadInput.
  const float* gains_e_per_adu = nullptr;
  const float* offsets_adu = nullptr;
  const float* variances_adu2 = nullptr;  ///< what Batch::variances says

  bool converted() const noexcept { return gains_e_per_adu != nullptr || offsets_adu != nullptr; }
};

/// The pixel in a ROI's middle, (side / 2, side / 2) of the ROI.
struct Place {
  std::int32_t x_px, y_px, frame;
};

/// ROIs of frames. A ROI that does not lie in its frame with all its pixels is BadInput.
struct FrameFits {
  Frames frames;
  const Place* places = nullptr;  ///< rois.count of them
  /// Side, count, and what else is known of each ROI; without pixels, type and variances. x and y
  /// of the starts are the frame's, bounds those of the ROI.
  Batch rois;
};

/// `count` of the ROIs, beginning with `first`.
FrameFits part_of(const FrameFits& all, std::size_t first, std::size_t count);

/// As check_batch(). @throws FitterError also for frames that are not what they say
void check_frames(const FrameFits& fits, const FitOptions& options, std::size_t results);
/// @throws FitterError for a place in a frame that is not there
void check_places(const FrameFits& fits);

/// The type of the pixels that are fitted.
PixelType type_of_cut(const Frames& frames) noexcept;

/// The options of fits whose pixels are cut from `frames`. The given noise and limits are meant for
/// the pixels that are fitted (electrons with a map of gains), except saturation_adu, and
/// noise.offset_adu, which is subtracted where there are gains alone.
FitOptions options_of_cut(const Frames& frames, const FitOptions& options);

/// Memory for ROIs, and what cuts them into it.
class CutRois {
 public:
  /// @param fits, options  have to outlive it
  /// @param memory  of `capacity` times bytes_of_each(), as aligned as a float; null: its own
  CutRois(const FrameFits& fits, const FitOptions& options, std::size_t capacity,
          std::byte* memory = nullptr);

  /// Cuts `count` ROIs, beginning with `first`, to the places from `at` on. Different threads may
  /// cut to different places.
  void cut(std::size_t first, std::size_t count, std::size_t at = 0) noexcept;
  /// `count` ROIs that were cut from place 0 on, beginning with `first`.
  Batch batch(std::size_t first, std::size_t count) const noexcept;
  /// Turns places in the ROI into places in the frame.
  void to_frame(std::size_t first, std::span<Localization> results) const noexcept;

  static std::size_t bytes_of_each(const FrameFits& fits);

 private:
  void cut_pixels(const Place& place, std::size_t at) noexcept;

  const FrameFits* fits_;
  float offset_adu_;  ///< of all pixels, where there is no map
  float saturation_adu_;
  PixelType type_;
  std::size_t roi_bytes_;
  std::unique_ptr<std::byte[]> own_;
  float* variances_ = nullptr;  ///< null without a map
  std::byte* pixels_;
  std::unique_ptr<Start[]> starts_;
};

/// As fit_batch_cpu() with the ROIs cut; x and y of the results are the frame's. @throws
/// FitterError
void fit_frames_cpu(const FrameFits& fits, const FitOptions& options,
                    std::span<Localization> results, int threads = 1);

}  // namespace driftd::fitter
