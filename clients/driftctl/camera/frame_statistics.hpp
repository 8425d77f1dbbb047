// SPDX-License-Identifier: MIT
// What `driftctl calibrate camera` gathers of each pixel over a series of frames: mean, variance
// from one frame to the next, extremes, and which levels occur at all. One thread.
#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

namespace driftd::clients {

/// The frames do not tell what is asked; what() says why, in a sentence for people.
struct CannotCalibrate : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A larger share of values at 0 says that the offset is too low.
inline constexpr double kClipped = 1e-3;

/// What stays the same over a series.
struct FrameShape {
  int width_px = 0, height_px = 0;
  int bits = 0;  ///< of the pixel format
  bool operator==(const FrameShape&) const = default;
  std::size_t pixels() const noexcept {
    return static_cast<std::size_t>(width_px) * static_cast<std::size_t>(height_px);
  }
};

class FrameStatistics {
 public:
  explicit FrameStatistics(const FrameShape& shape);
  /// @pre pixels.size() == shape().pixels()
  void add(std::span<const std::uint16_t> pixels);

  const FrameShape& shape() const noexcept { return shape_; }
  int frames() const noexcept { return frames_; }
  int repeated() const noexcept { return repeated_; }  ///< frames equal to the one before

  double mean(std::size_t pixel) const noexcept { return sum_[pixel] / frames_; }
  /// Half the mean square of the differences of successive frames: slow changes are not in it.
  double variance(std::size_t pixel) const noexcept {
    return square_of_steps_[pixel] / (2.0 * (frames_ - 1));
  }
  /// About the mean, divisor frames.
  double spread(std::size_t pixel) const noexcept {
    return sum_of_squares_[pixel] / frames_ - mean(pixel) * mean(pixel);
  }
  int zeros(std::size_t pixel) const noexcept { return static_cast<int>(zeros_[pixel]); }
  std::uint16_t lowest(std::size_t pixel) const noexcept { return lowest_[pixel]; }
  std::uint16_t highest(std::size_t pixel) const noexcept { return highest_[pixel]; }
  const std::vector<double>& frame_means() const noexcept { return frame_means_; }

  /// How often each level occurred.
  const std::vector<std::uint64_t>& levels() const noexcept { return levels_; }
  /// The share of all values that are 0.
  double share_at_zero() const noexcept {
    return static_cast<double>(levels_[0]) / (static_cast<double>(shape_.pixels()) * frames_);
  }
  /// The largest number that divides all levels: 16 where 12 bits are left aligned in 16.
  int step() const noexcept;
  /// The largest level of the pixel format that the step allows.
  int top() const noexcept { return (1 << shape_.bits) - step(); }
  /// The levels between the 5 % and 95 % quantiles that never occur, as a share of all that should.
  double missing_levels() const;

 private:
  FrameShape shape_;
  int frames_ = 0, repeated_ = 0;
  std::vector<double> sum_, sum_of_squares_, square_of_steps_, frame_means_;
  std::vector<std::uint16_t> before_, lowest_, highest_;
  std::vector<std::uint32_t> zeros_;
  std::vector<std::uint64_t> levels_;
};

}  // namespace driftd::clients
