// SPDX-License-Identifier: MIT
// How far markers went, each against the others, since the reference: in blocks of up to ten
// frames, three at both ends. No drift has a part in it, which may be wrong. Pure.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "tools/driftfit/marker_groups.hpp"

namespace driftd::tools {

struct Way {
  double x_px = std::numeric_limits<double>::quiet_NaN(), y_px = x_px;  ///< NaN: not seen
  double variance_px2 = 0;                                              ///< promised, of an axis

  bool known() const noexcept { return !std::isnan(x_px); }
};

/// With the first one's variance.
inline Way operator-(const Way& a, const Way& b) noexcept {
  return {a.x_px - b.x_px, a.y_px - b.y_px, a.variance_px2};
}
inline double distance_px(const Way& a, const Way& b) noexcept {
  return std::hypot(a.x_px - b.x_px, a.y_px - b.y_px);
}
/// Of none: unknown.
Way middle_of(std::span<const Way> ways);
/// Of some markers. @param ways  one of each marker
Way mean_of(std::span<const std::size_t> markers, std::span<const Way> ways);

class MarkerWays {
 public:
  /// @param solved  must outlive this
  MarkerWays(const SolvedDrift& solved, std::size_t reference, std::size_t frames);

  std::size_t blocks() const noexcept { return begins_.size() - 1; }
  /// The first frame of a block; of the one behind the last the number of frames.
  std::size_t begin_of(std::size_t block) const noexcept { return begins_[block]; }
  /// Of each marker, but for what all have in common.
  std::span<const Way> in_block(std::size_t block) const noexcept {
    return std::span(ways_).subspan(block * markers_, markers_);
  }
  /// From which on the ways of markers are counted, from their places.
  std::span<const Way> zeros() const noexcept { return zeros_; }
  /// A marker's position less its place: the drift is still in it.
  Way offset_in(std::size_t frame, std::size_t m) const;

 private:
  std::vector<Way> ways_in(std::span<const std::size_t> frames, std::size_t most) const;
  void find_zeros(std::size_t reference);
  void fill_ways();

  const SolvedDrift& solved_;
  std::size_t markers_;
  std::vector<std::size_t> begins_;  ///< of blocks
  std::vector<Way> zeros_, ways_;    ///< [marker], [block][marker]
};

}  // namespace driftd::tools
