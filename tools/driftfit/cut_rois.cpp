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

CutRois::CutRois(const camera::StackShape& shape, int roi_px, const CameraMaps& maps)
    : shape_(shape), roi_px_(roi_px), maps_(maps) {}

void CutRois::resize(std::size_t count) {
  const auto side = static_cast<std::size_t>(roi_px_);
  count_ = count;
  pixels_.resize(count * side * side * bytes_of(shape_.type));
  if (maps_.variances() != nullptr) variances_.resize(count * side * side);
  if (maps_.convert()) firsts_.resize(count);
}

void CutRois::cut(std::size_t index, const std::byte* frame, int x_px, int y_px) noexcept {
  const auto side = static_cast<std::size_t>(roi_px_);
  const auto width = static_cast<std::size_t>(shape_.width_px);
  const std::size_t first = static_cast<std::size_t>(y_px) * width + static_cast<std::size_t>(x_px);
  const std::size_t pixel_bytes = bytes_of(shape_.type);
  const std::size_t to = index * side * side;
  copy_square(frame + first * pixel_bytes, width, side, pixel_bytes,
              pixels_.data() + to * pixel_bytes);
  if (maps_.convert()) firsts_[index] = first;
  if (maps_.variances() != nullptr)
    copy_square(reinterpret_cast<const std::byte*>(maps_.variances() + first), width, side,
                sizeof(float), reinterpret_cast<std::byte*>(variances_.data() + to));
}

fitter::Batch CutRois::batch() const noexcept {
  return {.pixels = pixels_.data(),
          .type = fitter_type(shape_.type),
          .roi_px = roi_px_,
          .count = count_,
          .variances = maps_.variances() != nullptr ? variances_.data() : nullptr};
}

fitter::Batch CutRois::recorded() {
  fitter::Batch batch = this->batch();
  if (!maps_.convert()) return batch;
  const auto side = static_cast<std::size_t>(roi_px_);
  const auto width = static_cast<std::size_t>(shape_.width_px);
  const auto* const light = reinterpret_cast<const float*>(pixels_.data());
  recorded_.resize(count_ * side * side);
  for (std::size_t k = 0; k < recorded_.size(); ++k) {
    const std::size_t in_roi = k % (side * side);
    const std::size_t pixel = firsts_[k / (side * side)] + in_roi / side * width + in_roi % side;
    recorded_[k] = maps_.as_recorded(pixel, light[k]);
  }
  batch.pixels = recorded_.data();
  return batch;
}

}  // namespace driftd::tools
