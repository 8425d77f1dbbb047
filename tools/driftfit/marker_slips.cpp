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
constexpr std::size_t kLeastFrames = 3, kMostFrames = 10;
/// What voters, that do not slip themselves, have to be seen in of these.
constexpr std::size_t kLeastFramesOfVoter = 2;
/// Of a slip that so many frames tell of on each side; with fewer it has to be larger.
constexpr double kLeastOverNoise = 5;
/// Deviations from a step over those from a steady motion: 0.7 for the least slip, 0.2 for a large
/// one, 1 where a motion begins, more in the midst of one.
constexpr double kMostOfSteady = 0.75;
constexpr double kNormalMad = 1.4826;
/// Of a slip the drift, which may be wrong yet, leaves at least so much.
constexpr double kOfSlip = 0.5;
/// What a marker's step against another may be off the usual one, of its length. One that is
/// further off, but nearer to it than to none, stays, too, as a majority goes.
constexpr double kMostOffUsual = 0.5;

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
  double sd_px = 0;  ///< that its fit promises
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
    return Offset{frame,
                  {p.x_px - points_[frame].x_px, p.y_px - points_[frame].y_px},
                  static_cast<double>(0.5f * (p.x_sd_px + p.y_sd_px))};
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
      if (weights_[k] > 0 && weights_[k] >= weights_[largest_of(first, last)] &&
          is_more_than_noise(k)) {
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

  /// The means before and after the k-th offset.
  struct MeanStep {
    std::size_t before = 0, after = 0;  ///< offsets, no more than kMostFrames
    double px = 0;
  };

  MeanStep step_at(std::size_t k) const noexcept {
    const std::size_t before = std::min(k, kMostFrames);
    const std::size_t after = std::min(offsets_.size() - k, kMostFrames);
    const auto nb = static_cast<double>(before), na = static_cast<double>(after);
    const Vec low = sums_[k] - sums_[k - before];
    const Vec high = sums_[k + after] - sums_[k];
    return {before, after,
            std::hypot(high.x_px / na - low.x_px / nb, high.y_px / na - low.y_px / nb)};
  }

  /// How much these differ, over what noise makes of it; 0 where that is less than any slip.
  double weight_of_step(std::size_t k) const noexcept {
    const MeanStep step = step_at(k);
    const auto nb = static_cast<double>(step.before), na = static_cast<double>(step.after);
    return step.px > kOfSlip * kLeastSlipPx ? step.px * std::sqrt(nb * na / (nb + na)) : 0;
  }

  /// Most steps that noise makes need no look at the other markers. What is seen counts half, for a
  /// drift that is wrong yet is in it.
  bool is_more_than_noise(std::size_t k) const {
    const MeanStep step = step_at(k);
    const auto at = offsets_.begin() + static_cast<std::ptrdiff_t>(k);
    const Sides sides{{at - static_cast<std::ptrdiff_t>(step.before), at},
                      {at, at + static_cast<std::ptrdiff_t>(step.after)}};
    const Noise noise = noise_of(sides);
    return step.px >
           kOfSlip * least_slip_px(sides, std::max(kOfSlip * noise.seen_px, noise.promised_px));
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

  /// On both sides, in as many frames as these go, whether or not their drift is known.
  bool is_seen_beside(std::size_t m, const Sides& sides) const {
    const auto is_seen = [&](std::size_t first, std::size_t last) {
      std::size_t frames = 0;
      for (std::size_t frame = first; frame <= last; ++frame)
        frames += std::isnan(tracks_.at(frame, m).x_px) ? 0u : 1u;
      return frames >= kLeastFramesOfVoter;
    };
    return is_seen(sides.before.back().frame, sides.before.front().frame) &&
           is_seen(sides.after.front().frame, sides.after.back().frame);
  }

  /// A marker's offsets against another's, in the frames that show both: the drift, which may be
  /// wrong yet, has no part in it.
  Sides against(const Sides& own, std::size_t other, std::size_t frame) const {
    const std::size_t place = places_.place(frame, other);
    const auto of = [&](const std::vector<Offset>& side) {
      std::vector<Offset> left;
      for (const Offset& here : side) {
        const auto there = offset(other, here.frame);
        if (there && places_.place(here.frame, other) == place)
          left.push_back({here.frame, here.at - there->at, here.sd_px});
      }
      return left;
    };
    return {of(own.before), of(own.after)};
  }

  bool slips_at(std::size_t m, std::size_t frame) const {
    const Sides own = around(m, frame);
    std::vector<Sides> voters;
    std::vector<double> x, y;
    std::size_t all = 1;
    for (std::size_t other = 0; other < tracks_.markers(); ++other) {
      // Those that were seen too little to vote might have gone with it.
      if (other == m || !is_seen_beside(other, own)) continue;
      ++all;
      Sides relative = against(own, other, frame);
      if (!relative.have(kLeastFramesOfVoter)) continue;
      x.push_back(relative.step().x_px);
      y.push_back(relative.step().y_px);
      voters.push_back(std::move(relative));
    }
    if (voters.empty()) return false;
    const Vec usual{tools::middle_of(x), tools::middle_of(y)};
    const auto stay = std::ranges::count_if(voters, [&](const Sides& voter) {
      return length(voter.step() - usual) < length(voter.step());
    });
    if (2 * static_cast<std::size_t>(stay) <= all) return false;
    std::erase_if(voters, [&](const Sides& voter) {
      return length(voter.step() - usual) >= kMostOffUsual * length(usual);
    });
    if (voters.empty()) return false;
    const Sides relative = mean_of(voters);
    const Noise noise = noise_of(relative);
    // What few frames show of the noise may be less than it is.
    const double noise_px = std::max(noise.seen_px, noise.promised_px);
    return is_step(relative) && length(relative.step()) > least_slip_px(relative, noise_px);
  }

  /// Each from its middle before on: those that are seen in a frame differ.
  static Sides mean_of(const std::vector<Sides>& voters) {
    struct Sum {
      Offset of;
      double count = 0;
    };
    std::map<std::size_t, Sum> before, after;  // by frame
    for (const Sides& voter : voters) {
      const Vec zero = middle_of(voter.before);
      const auto add = [&](std::map<std::size_t, Sum>& sums, const std::vector<Offset>& side) {
        for (const Offset& offset : side) {
          Sum& sum = sums[offset.frame];
          sum.of.at.x_px += offset.at.x_px - zero.x_px;
          sum.of.at.y_px += offset.at.y_px - zero.y_px;
          sum.of.sd_px = offset.sd_px;
          ++sum.count;
        }
      };
      add(before, voter.before);
      add(after, voter.after);
    }
    const auto mean = [](const std::map<std::size_t, Sum>& sums) {
      std::vector<Offset> offsets;
      offsets.reserve(sums.size());
      for (const auto& [frame, sum] : sums)
        offsets.push_back(
            {frame, {sum.of.at.x_px / sum.count, sum.of.at.y_px / sum.count}, sum.of.sd_px});
      return offsets;
    };
    return {mean(before), mean(after)};
  }

  struct Noise {
    double seen_px, promised_px;
  };

  static Noise noise_of(const Sides& sides) {
    std::vector<double> away, promised;
    for (const auto* side : {&sides.before, &sides.after}) {
      const Vec middle = middle_of(*side);
      for (const Offset& offset : *side) {
        away.push_back(std::abs(offset.at.x_px - middle.x_px));
        away.push_back(std::abs(offset.at.y_px - middle.y_px));
        promised.push_back(offset.sd_px);
      }
    }
    return {kNormalMad * tools::middle_of(away), tools::middle_of(promised)};
  }

  static double least_slip_px(const Sides& sides, double noise_px) noexcept {
    const auto over = [](std::size_t frames) { return kMostFrames / static_cast<double>(frames); };
    const double few = std::sqrt(0.5 * (over(sides.before.size()) + over(sides.after.size())));
    return std::max(kLeastSlipPx, kLeastOverNoise * few * noise_px);
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
