// SPDX-License-Identifier: MIT
#include "fitter/frames.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

#include "fitter/cut_pixels.hpp"
#include "fitter/options.hpp"
#include "fitter/pixel_type.hpp"

namespace driftd::fitter {
namespace {

/// Where the first pixel of a ROI is; `pixels` is null where the ROI leaves the frame.
struct Window {
  const unsigned char* pixels = nullptr;
  std::size_t in_map = 0;
};

Window window_of(const Frames& frames, const Place& place, int roi_px) noexcept {
  const Corner corner = corner_of(place, roi_px);
  if (!is_within(frames, place, roi_px)) return {};
  const auto x = static_cast<std::size_t>(corner.x_px);
  const auto y = static_cast<std::size_t>(corner.y_px);
  return {static_cast<const unsigned char*>(frames.pixels) +
              static_cast<std::size_t>(place.frame) * frames.frame_bytes + y * frames.row_bytes +
              x * bytes_per_pixel(frames.type),
          y * static_cast<std::size_t>(frames.width_px) + x};
}

/// Converts the pixels of a row.
/// @param gains, offsets  of the row, or null
/// @param offset          where there are no `offsets`
template <class Pixel>
void convert_row(const unsigned char* row, std::size_t count, const float* gains,
                 const float* offsets, float offset, float saturation, float* converted) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    Pixel pixel;
    std::memcpy(&pixel, row + i * sizeof pixel, sizeof pixel);
    converted[i] = converted_pixel(static_cast<float>(pixel), gains != nullptr ? gains[i] : 1.0f,
                                   offsets != nullptr ? offsets[i] : offset, saturation);
  }
}

/// @throws FitterError
void check_stride(const char* name, std::size_t bytes, std::size_t row_bytes) {
  if (bytes < row_bytes)
    throw FitterError(std::string("fitter: ") + name + " is " + std::to_string(bytes) +
                      " bytes, allowed are " + std::to_string(row_bytes) +
                      " (the pixels of a row) or more");
}

}  // namespace

FrameFits part_of(const FrameFits& all, std::size_t first, std::size_t count) {
  FrameFits part = all;
  part.places += first;
  part.rois = part_of(all.rois, first, count);
  return part;
}

void check_frames(const FrameFits& fits, const FitOptions& options, std::size_t results) {
  const Frames& frames = fits.frames;
  constexpr int kMostPx = 1 << 24;  // to which float counts
  Batch rois = fits.rois;
  rois.pixels = frames.pixels;
  rois.variances = frames.variances_adu2;
  check_batch(rois, options, results);
  if (rois.count == 0) return;
  check_range("width", frames.width_px, rois.roi_px, kMostPx);
  check_range("height", frames.height_px, rois.roi_px, kMostPx);
  const std::size_t row = static_cast<std::size_t>(frames.width_px) * bytes_per_pixel(frames.type);
  check_stride("row_stride", frames.row_bytes, row);
  check_stride("frame_stride", frames.frame_bytes, row);
  if (fits.places == nullptr) throw FitterError("fitter: no places given");
}

void check_places(const FrameFits& fits) {
  const Frames& frames = fits.frames;
  for (std::size_t i = 0; i < fits.rois.count; ++i) {
    const auto frame = static_cast<std::int64_t>(fits.places[i].frame);
    if (frame >= 0 && static_cast<std::size_t>(frame) < frames.count) continue;
    throw FitterError("fitter: place " + std::to_string(i) + " is in frame " +
                      std::to_string(frame) + ", of frames there are " +
                      std::to_string(frames.count) + ", counted from 0");
  }
}

PixelType type_of_cut(const Frames& frames) noexcept {
  return frames.converted() ? PixelType::F32 : frames.type;
}

FitOptions options_of_cut(const Frames& frames, const FitOptions& options) {
  FitOptions made = options;
  if (frames.converted()) {
    made.noise.offset_adu = 0;
    made.saturation_adu = std::numeric_limits<float>::infinity();
  }
  return made;
}

std::size_t CutRois::bytes_of_each(const FrameFits& fits) {
  const auto side = static_cast<std::size_t>(fits.rois.roi_px);
  const std::size_t variance = fits.frames.variances_adu2 != nullptr ? sizeof(float) : 0;
  return side * side * (bytes_per_pixel(type_of_cut(fits.frames)) + variance);
}

CutRois::CutRois(const FrameFits& fits, const FitOptions& options, std::size_t capacity,
                 std::byte* memory)
    : fits_(&fits),
      offset_adu_(options.noise.offset_adu),
      saturation_adu_(options.saturation_adu),
      type_(type_of_cut(fits.frames)) {
  const auto side = static_cast<std::size_t>(fits.rois.roi_px);
  const std::size_t pixels = side * side;
  roi_bytes_ = pixels * bytes_per_pixel(type_);
  if (memory == nullptr) {
    own_ = std::make_unique_for_overwrite<std::byte[]>(capacity * bytes_of_each(fits));
    memory = own_.get();
  }
  pixels_ = memory;
  if (fits.frames.variances_adu2 != nullptr) {
    variances_ = reinterpret_cast<float*>(memory);
    pixels_ += capacity * pixels * sizeof(float);
  }
  if (fits.rois.starts != nullptr) starts_ = std::make_unique<Start[]>(capacity);
}

void CutRois::cut_pixels(const Place& place, std::size_t at) noexcept {
  const Frames& frames = fits_->frames;
  const auto side = static_cast<std::size_t>(fits_->rois.roi_px);
  std::byte* const pixels = pixels_ + at * roi_bytes_;
  float* const variances = variances_ != nullptr ? variances_ + at * side * side : nullptr;
  const Window window = window_of(frames, place, fits_->rois.roi_px);
  if (window.pixels == nullptr) {  // pixels all alike: bad input to every fit
    std::memset(pixels, 0, roi_bytes_);
    if (variances != nullptr) std::fill_n(variances, side * side, 1.0f);
    return;
  }
  for (std::size_t row = 0; row < side; ++row) {
    const unsigned char* const from = window.pixels + row * frames.row_bytes;
    const std::size_t in_map = window.in_map + row * static_cast<std::size_t>(frames.width_px);
    const float* const gains =
        frames.gains_e_per_adu != nullptr ? frames.gains_e_per_adu + in_map : nullptr;
    const float* const offsets =
        frames.offsets_adu != nullptr ? frames.offsets_adu + in_map : nullptr;
    if (frames.converted())
      with_pixels(frames.type, nullptr, [&]<class Pixel>(const Pixel*) {
        convert_row<Pixel>(from, side, gains, offsets, offset_adu_, saturation_adu_,
                           reinterpret_cast<float*>(pixels) + row * side);
      });
    else
      std::memcpy(pixels + row * roi_bytes_ / side, from, roi_bytes_ / side);
    for (std::size_t i = 0; variances != nullptr && i < side; ++i) {
      const float gain = gains != nullptr ? gains[i] : 1.0f;
      variances[row * side + i] = converted_variance(frames.variances_adu2[in_map + i], gain);
    }
  }
}

void CutRois::cut(std::size_t first, std::size_t count, std::size_t at) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    const Place place = fits_->places[first + i];
    cut_pixels(place, at + i);
    if (!starts_) continue;
    const Corner corner = corner_of(place, fits_->rois.roi_px);
    Start& start = starts_[at + i] = fits_->rois.starts[first + i];
    start.x_px -= static_cast<float>(corner.x_px);
    start.y_px -= static_cast<float>(corner.y_px);
  }
}

Batch CutRois::batch(std::size_t first, std::size_t count) const noexcept {
  Batch cut = part_of(fits_->rois, first, count);
  cut.pixels = pixels_;
  cut.type = type_;
  cut.variances = variances_;
  cut.starts = starts_.get();
  return cut;
}

void CutRois::to_frame(std::size_t first, std::span<Localization> results) const noexcept {
  for (Localization& result : results) {
    const Corner corner = corner_of(fits_->places[first++], fits_->rois.roi_px);
    result.x_px += static_cast<float>(corner.x_px);
    result.y_px += static_cast<float>(corner.y_px);
  }
}

}  // namespace driftd::fitter
