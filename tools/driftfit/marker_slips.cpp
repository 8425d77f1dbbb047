// SPDX-License-Identifier: MIT
#include "tools/driftfit/marker_slips.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "tools/driftfit/middle.hpp"

namespace driftd::tools {
namespace {

/// Frames on each side of a slip that tell of it.
constexpr std::size_t kLeastFrames = 5, kMostFrames = 10;
/// What voters, that do not slip themselves, have to be seen in of these.
constexpr std::size_t kLeastFramesOfVoter = 3;
constexpr double kLeastOverNoise = 5;
/// Deviations from a step over those from a steady motion: 0.7 for the least slip, 0.2 for a large
/// one, 1 where a motion begins, more in the midst of one.
constexpr double kMostOfSteady = 0.75;
constexpr double kNormalMad = 1.4826;
/// How much of a step is left against those that stay, at least.
constexpr double kLeastOfRelative = 0.7;

struct Vec {
  double x_px = 0, y_px = 0;
};
Vec operator-(Vec a, Vec b) noexcept {
  return {a.x_px - b.x_px, a.y_px - b.y_px};
}
double length(Vec v) noexcept {
  return std::hypot(v.x_px, v.y_px);
}

/// A marker's position less the drift.
struct Offset {
  std::size_t frame = 0;
  Vec at;
};

Vec middle_of(std::span<const Offset> offsets) {
  std::vector<double> x, y;
  for (const Offset& offset : offsets) {
    x.push_back(offset.at.x_px);
    y.push_back(offset.at.y_px);
  }
  return {tools::middle_of(x), tools::middle_of(y)};
}

/// A marker's offsets on both sides of a frame, nearest first.
struct Sides {
  std::vector<Offset> before, after;

  bool have(std::size_t frames) const noexcept {
    return before.size() >= frames && after.size() >= frames;
  }
  Vec step() const { return middle_of(after) - middle_of(before); }
};

class SlipSearch {
 public:
  SlipSearch(const MarkerTracks& tracks, const PlaceBegins& places,
             std::span<const DriftPoint> points)
      : tracks_(tracks), places_(places), points_(points) {}

  std::vector<Slip> found() {
    std::vector<Slip> slips;
    for (std::size_t m = 0; m < tracks_.markers(); ++m) {
      for (std::size_t place = 0; place < places_.places(m); ++place) {
        for (const auto& [seen, frame] : steps_of(m, place))
          if (slips_at(m, seen)) slips.push_back({m, frame});
      }
    }
    return slips;
  }

 private:
  std::optional<Offset> offset(std::size_t m, std::size_t frame) const noexcept {
    const MarkerTracks::Point& p = tracks_.at(frame, m);
    if (std::isnan(p.x_px) || points_[frame].markers == 0) return std::nullopt;
    return Offset{frame, {p.x_px - points_[frame].x_px, p.y_px - points_[frame].y_px}};
  }

  struct Candidate {
    std::size_t seen;   ///< frame that enough frames are on both sides of
    std::size_t frame;  ///< of the step: nearer to an end, it is seen from there
  };

  /// Where the means before and after differ most, among those around.
  std::vector<Candidate> steps_of(std::size_t m, std::size_t place) {
    offsets_.clear();
    sums_.assign(1, {});
    const std::size_t end = places_.end_of(m, place, tracks_.frames());
    for (std::size_t frame = places_.begin_of(m, place); frame < end; ++frame) {
      const auto here = offset(m, frame);
      if (!here) continue;
      offsets_.push_back(*here);
      sums_.push_back({sums_.back().x_px + here->at.x_px, sums_.back().y_px + here->at.y_px});
    }
    const std::size_t n = offsets_.size();
    weights_.assign(n + 1, 0);
    for (std::size_t k = 1; k < n; ++k) weights_[k] = weight_of_step(k);
    std::vector<Candidate> candidates;
    for (std::size_t k = kLeastFrames; k + kLeastFrames <= n; ++k) {
      const std::size_t first = std::max(k - kLeastFrames, kLeastFrames);
      const std::size_t last = std::min(k + kLeastFrames, n - kLeastFrames);
      if (weights_[k] > 0 && weights_[k] >= weights_[largest_of(first, last)]) {
        const std::size_t step = largest_of(k - kLeastFrames, k + kLeastFrames);
        candidates.push_back({offsets_[k].frame, offsets_[step].frame});
      }
    }
    return candidates;
  }

  std::size_t largest_of(std::size_t first, std::size_t last) const noexcept {
    const auto begin = weights_.begin() + static_cast<std::ptrdiff_t>(first);
    const auto end = weights_.begin() + static_cast<std::ptrdiff_t>(last) + 1;
    return static_cast<std::size_t>(std::max_element(begin, end) - weights_.begin());
  }

  /// How much the means before and after the k-th offset differ, over what noise makes of it; 0
  /// where that is less than any slip.
  double weight_of_step(std::size_t k) const noexcept {
    const std::size_t before = std::min(k, kMostFrames);
    const std::size_t after = std::min(offsets_.size() - k, kMostFrames);
    const auto nb = static_cast<double>(before), na = static_cast<double>(after);
    const Vec low = sums_[k] - sums_[k - before];
    const Vec high = sums_[k + after] - sums_[k];
    const double step_px =
        std::hypot(high.x_px / na - low.x_px / nb, high.y_px / na - low.y_px / nb);
    return step_px > 0.5 * kLeastSlipPx ? step_px * std::sqrt(nb * na / (nb + na)) : 0;
  }

  Sides around(std::size_t m, std::size_t frame) const {
    Sides sides;
    const std::size_t place = places_.place(frame, m);
    const std::size_t end = places_.end_of(m, place, tracks_.frames());
    for (std::size_t i = frame; i < end && sides.after.size() < kMostFrames; ++i)
      if (const auto here = offset(m, i)) sides.after.push_back(*here);
    const std::size_t begin = places_.begin_of(m, place);
    for (std::size_t i = frame; i > begin && sides.before.size() < kMostFrames; --i)
      if (const auto here = offset(m, i - 1)) sides.before.push_back(*here);
    return sides;
  }

  bool slips_at(std::size_t m, std::size_t frame) const {
    const Sides own = around(m, frame);
    std::vector<Sides> others;
    std::vector<double> x, y;
    std::size_t all = 1;
    for (std::size_t other = 0; other < tracks_.markers(); ++other) {
      if (other == m) continue;
      Sides sides = around(other, frame);
      if (sides.have(1)) ++all;  // those that were seen too little to vote might have gone with it
      if (!sides.have(kLeastFramesOfVoter)) continue;
      x.push_back(sides.step().x_px);
      y.push_back(sides.step().y_px);
      others.push_back(std::move(sides));
    }
    if (others.empty()) return false;
    const Vec step = own.step(), usual{tools::middle_of(x), tools::middle_of(y)};
    std::erase_if(others, [&](const Sides& other) {
      return length(other.step() - usual) >= length(other.step() - step);
    });
    if (2 * others.size() <= all) return false;
    const double by_px = length(step - usual);
    if (by_px <= least_slip_px(own) || !is_step(own)) return false;
    const Sides relative = less_common(own, others);
    return relative.have(kLeastFramesOfVoter) && length(relative.step()) > kLeastOfRelative * by_px;
  }

  /// What is left without the motion of those that stay: the drift may be wrong where markers
  /// contradict one another.
  static Sides less_common(const Sides& own, const std::vector<Sides>& others) {
    struct Sum {
      Vec of;
      double count = 0;
    };
    std::map<std::size_t, Sum> sums;  // by frame
    for (const Sides& other : others) {
      const Vec low = middle_of(other.before), high = middle_of(other.after);
      const Vec middle{0.5 * (low.x_px + high.x_px), 0.5 * (low.y_px + high.y_px)};
      for (const auto* side : {&other.before, &other.after}) {
        for (const Offset& offset : *side) {
          Sum& sum = sums[offset.frame];
          sum.of.x_px += offset.at.x_px - middle.x_px;
          sum.of.y_px += offset.at.y_px - middle.y_px;
          ++sum.count;
        }
      }
    }
    const auto less = [&](const std::vector<Offset>& side) {
      std::vector<Offset> left;
      for (const Offset& offset : side) {
        const auto sum = sums.find(offset.frame);
        if (sum == sums.end()) continue;
        const auto& [of, count] = sum->second;
        left.push_back({offset.frame, offset.at - Vec{of.x_px / count, of.y_px / count}});
      }
      return left;
    };
    return {less(own.before), less(own.after)};
  }

  static double least_slip_px(const Sides& sides) {
    std::vector<double> away;
    for (const auto* side : {&sides.before, &sides.after}) {
      const Vec middle = middle_of(*side);
      for (const Offset& offset : *side) {
        away.push_back(std::abs(offset.at.x_px - middle.x_px));
        away.push_back(std::abs(offset.at.y_px - middle.y_px));
      }
    }
    return std::max(kLeastSlipPx, kLeastOverNoise * kNormalMad * tools::middle_of(away));
  }

  static bool is_step(const Sides& sides) {
    const auto mean_frame = [](const std::vector<Offset>& side) {
      double sum = 0;
      for (const Offset& offset : side) sum += static_cast<double>(offset.frame);
      return sum / static_cast<double>(side.size());
    };
    const Vec low = middle_of(sides.before), high = middle_of(sides.after);
    const double from = mean_frame(sides.before), over = mean_frame(sides.after) - from;
    double off_step_px = 0, off_line_px = 0;
    for (const auto* side : {&sides.before, &sides.after}) {
      for (const Offset& offset : *side) {
        const double share = (static_cast<double>(offset.frame) - from) / over;
        const Vec line{low.x_px + share * (high.x_px - low.x_px),
                       low.y_px + share * (high.y_px - low.y_px)};
        off_line_px += length(offset.at - line);
        off_step_px += length(offset.at - (side == &sides.before ? low : high));
      }
    }
    return off_step_px < kMostOfSteady * off_line_px;
  }

  const MarkerTracks& tracks_;
  const PlaceBegins& places_;
  std::span<const DriftPoint> points_;
  std::vector<Offset> offsets_;
  std::vector<Vec> sums_;
  std::vector<double> weights_;
};

}  // namespace

std::vector<Slip> find_slips(const MarkerTracks& tracks, const PlaceBegins& places,
                             std::span<const DriftPoint> points) {
  return SlipSearch(tracks, places, points).found();
}

}  // namespace driftd::tools
