// SPDX-License-Identifier: MIT
#include "fitter/spots/hot_pixels.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "fitter/options.hpp"

namespace driftd::fitter {
namespace {

/// What is deeper in a hole stays as it is. No fit finds a spot there.
constexpr int kReachPx = 32;

}  // namespace

float median_of(std::vector<float> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

HotPixels::HotPixels(int width_px, std::span<const float> variances, float rounding) {
  median_ = median_of({variances.begin(), variances.end()});
  const float usual = median_ > 0 ? median_ : rounding;
  const float most = std::min(kMostNoise * usual, std::numeric_limits<float>::max());
  std::vector<std::uint32_t> left;
  std::vector<bool> known(variances.size());
  for (std::size_t i = 0; i < variances.size(); ++i) {
    known[i] = variances[i] <= most;
    if (!known[i]) left.push_back(static_cast<std::uint32_t>(i));
  }
  count_ = left.size();
  const auto width = std::int64_t{width_px};
  const auto height = static_cast<std::int64_t>(variances.size()) / width;
  for (int ring = 0; ring < kReachPx && !left.empty(); ++ring) {
    const std::size_t first = fills_.size();
    std::vector<std::uint32_t> deeper;
    for (const std::uint32_t pixel : left) {
      const std::int64_t x = pixel % width;
      const std::int64_t y = pixel / width;
      const std::size_t before = sources_.size();
      for (std::int64_t v = std::max<std::int64_t>(0, y - 1); v <= std::min(height - 1, y + 1); ++v)
        for (std::int64_t u = std::max<std::int64_t>(0, x - 1); u <= std::min(width - 1, x + 1);
             ++u)
          if (known[static_cast<std::size_t>(v * width + u)])
            sources_.push_back(static_cast<std::uint32_t>(v * width + u));
      if (sources_.size() > before)
        fills_.push_back({pixel, static_cast<std::uint32_t>(sources_.size())});
      else
        deeper.push_back(pixel);
    }
    for (std::size_t i = first; i < fills_.size(); ++i) known[fills_[i].pixel] = true;
    if (fills_.size() > first) rings_.push_back(static_cast<std::uint32_t>(fills_.size()));
    left = std::move(deeper);
  }
}

template <class Pixel>
void HotPixels::fill(Pixel* frame) const noexcept {
  std::uint32_t begin = 0;
  for (const Fill& hole : fills_) {
    frame[hole.pixel] = mean_of(frame, sources_.data() + begin, hole.end - begin);
    begin = hole.end;
  }
}

const std::byte* HotPixels::filled(const FrameShape& shape, const std::byte* frame,
                                   std::vector<std::byte>& copy) const {
  if (fills_.empty()) return frame;
  copy.assign(frame, frame + shape.pixels() * bytes_per_pixel(shape.type));
  switch (shape.type) {
    case PixelType::U8:
      fill(reinterpret_cast<std::uint8_t*>(copy.data()));
      break;
    case PixelType::U16:
      fill(reinterpret_cast<std::uint16_t*>(copy.data()));
      break;
    case PixelType::F32:
      fill(reinterpret_cast<float*>(copy.data()));
      break;
  }
  return copy.data();
}

}  // namespace driftd::fitter
