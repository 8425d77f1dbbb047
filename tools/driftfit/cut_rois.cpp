// SPDX-License-Identifier: MIT
#include "tools/driftfit/cut_rois.hpp"

#include <cstring>

#include "tools/driftfit/spot.hpp"

namespace driftd::tools {
namespace {

/// Copies a square out of rows of `width` values.
void copy_square(const std::byte* from, std::size_t width, std::size_t side,
                 std::size_t value_bytes, std::byte* out) noexcept {
  for (std::size_t row = 0; row < side; ++row)
    std::memcpy(out + row * side * value_bytes, from + row * width * value_bytes,
                side * value_bytes);
}

}  // namespace

CutRois::CutRois(const camera::StackShape& shape, int roi_px, const float* variances)
    : shape_(shape), roi_px_(roi_px), map_(variances) {}

void CutRois::resize(std::size_t count) {
  const auto side = static_cast<std::size_t>(roi_px_);
  count_ = count;
  pixels_.resize(count * side * side * bytes_of(shape_.type));
  if (map_ != nullptr) variances_.resize(count * side * side);
}

void CutRois::cut(std::size_t index, const std::byte* frame, int x_px, int y_px) noexcept {
  const auto side = static_cast<std::size_t>(roi_px_);
  const auto width = static_cast<std::size_t>(shape_.width_px);
  const std::size_t first = static_cast<std::size_t>(y_px) * width + static_cast<std::size_t>(x_px);
  const std::size_t pixel_bytes = bytes_of(shape_.type);
  const std::size_t to = index * side * side;
  copy_square(frame + first * pixel_bytes, width, side, pixel_bytes,
              pixels_.data() + to * pixel_bytes);
  if (map_ != nullptr)
    copy_square(reinterpret_cast<const std::byte*>(map_ + first), width, side, sizeof(float),
                reinterpret_cast<std::byte*>(variances_.data() + to));
}

fitter::Batch CutRois::batch() const noexcept {
  return {.pixels = pixels_.data(),
          .type = fitter_type(shape_.type),
          .roi_px = roi_px_,
          .count = count_,
          .variances = map_ != nullptr ? variances_.data() : nullptr};
}

}  // namespace driftd::tools
