// SPDX-License-Identifier: MIT
#include "tools/driftfit/marker_groups.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "tools/driftfit/marker_ways.hpp"
#include "tools/driftfit/middle.hpp"

namespace driftd::tools {
namespace {

constexpr double kApartOverPromised = 6;
constexpr int kLeastFramesApart = 2;  ///< by the same as in the frame before
using Markers = std::vector<std::size_t>;

class GroupSearch {
 public:
  GroupSearch(const SolvedDrift& solved, std::size_t reference, std::span<DriftPoint> points)
      : solved_(solved),
        points_(points),
        markers_(solved.tracks.markers()),
        ways_(solved, reference, points.size()),
        passed_over_(ways_.blocks()) {}

  std::vector<MarkersApart> found() {
    std::vector<MarkersApart> all;
    Markers left(markers_);
    std::iota(left.begin(), left.end(), std::size_t{0});
    while (left.size() > 1) {
      const auto widest = widest_block(left);
      if (!widest) break;
      MarkersApart apart = split(left, *widest);
      if (apart.others.empty()) break;
      const bool more_than_noise = is_apart(between(apart, *widest));
      if (more_than_noise && !measure(apart)) {
        passed_over_[*widest] = true;
        continue;
      }
      if (more_than_noise) {
        tell_anew(apart, left);
        all.push_back(apart);
      }
      if (!apart.is_decided()) break;
      std::erase_if(left, [&](std::size_t m) { return std::ranges::count(apart.some, m) > 0; });
    }
    return all;
  }

 private:
  /// The block in which the ways are spread most, but for those passed over.
  std::optional<std::size_t> widest_block(const Markers& markers) const {
    std::optional<std::size_t> widest;
    double most_px = 0;
    for (std::size_t block = 0; block < ways_.blocks(); ++block) {
      if (passed_over_[block]) continue;
      double low_x = 1e300, high_x = -1e300, low_y = 1e300, high_y = -1e300;
      for (const std::size_t m : markers) {
        const Way& here = ways_.in_block(block)[m];
        if (!here.known()) continue;
        low_x = std::min(low_x, here.x_px), high_x = std::max(high_x, here.x_px);
        low_y = std::min(low_y, here.y_px), high_y = std::max(high_y, here.y_px);
      }
      if (high_x < low_x) continue;
      const double spread_px = std::hypot(high_x - low_x, high_y - low_y);
      if (spread_px <= most_px) continue;
      most_px = spread_px;
      widest = block;
    }
    return most_px > kApartPx ? widest : std::nullopt;
  }

  /// Those nearer to the one that is furthest out, and those nearer to the one furthest from it.
  MarkersApart split(const Markers& markers, std::size_t block) const {
    std::vector<double> x, y;
    for (const std::size_t m : markers) {
      if (!ways_.in_block(block)[m].known()) continue;
      x.push_back(ways_.in_block(block)[m].x_px);
      y.push_back(ways_.in_block(block)[m].y_px);
    }
    const auto furthest_from = [&](const Way& from) {
      double most_px = -1;
      Way furthest;
      for (const std::size_t m : markers) {
        const Way& here = ways_.in_block(block)[m];
        if (!here.known() || distance_px(here, from) <= most_px) continue;
        most_px = distance_px(here, from);
        furthest = here;
      }
      return furthest;
    };
    const Way one = furthest_from({tools::middle_of(x), tools::middle_of(y), 0});
    const Way other = furthest_from(one);
    MarkersApart apart;
    for (const std::size_t m : markers) {
      const Way& here = ways_.in_block(block)[m];
      if (!here.known()) continue;
      const bool with_one = distance_px(here, one) < distance_px(here, other);
      (with_one ? apart.some : apart.others).push_back(m);
    }
    const MarkersApart seen = apart;
    for (const std::size_t m : markers) {
      if (ways_.in_block(block)[m].known()) continue;
      const auto nearer = nearer_to(seen, m);
      if (nearer) (*nearer == &seen.some ? apart.some : apart.others).push_back(m);
    }
    std::ranges::sort(apart.some);
    std::ranges::sort(apart.others);
    if (apart.some.size() > apart.others.size()) std::swap(apart.some, apart.others);
    return apart;
  }

  /// Which of two groups a marker goes with: it is apart from the other one, where it is seen.
  std::optional<const Markers*> nearer_to(const MarkersApart& apart, std::size_t m) const {
    const int from_some = frames_apart({{m}, apart.some}, false);
    const int from_others = frames_apart({{m}, apart.others}, false);
    const int least = std::max(1, least_frames_apart());
    if (from_others >= least && 2 * from_some < from_others) return &apart.some;
    if (from_some >= least && 2 * from_others < from_some) return &apart.others;
    return std::nullopt;
  }

  /// In how many frames groups are apart by the same as in the one before that shows both: a wrong
  /// fit is in one frame alone.
  /// @param by_blocks  in those blocks alone in which they are apart
  int frames_apart(const MarkersApart& apart, bool by_blocks) const {
    constexpr double kSameShare = 0.5;
    int frames = 0;
    Way before;
    for (std::size_t block = 0; block < ways_.blocks(); ++block) {
      const bool counts = !by_blocks || is_apart(between(apart, block));
      for (std::size_t frame = ways_.begin_of(block); frame < ways_.begin_of(block + 1); ++frame) {
        const Way here = in_frame(apart, frame);
        if (!here.known()) continue;
        const double px = std::hypot(here.x_px, here.y_px);
        frames += counts && px > kApartPx && distance_px(here, before) < kSameShare * px ? 1 : 0;
        before = here;
      }
    }
    return frames;
  }

  /// Of two or three frames any may be the last in which they are apart.
  int least_frames_apart() const noexcept {
    return std::clamp(static_cast<int>(points_.size()) / 2 - 1, 0, kLeastFramesApart);
  }

  /// The way of some markers against the others.
  Way between(const MarkersApart& apart, std::size_t block) const {
    const auto ways = ways_.in_block(block);
    const Way some = mean_of(apart.some, ways), others = mean_of(apart.others, ways);
    return {some.x_px - others.x_px, some.y_px - others.y_px,
            some.variance_px2 + others.variance_px2};
  }

  /// Not where it is unknown.
  static bool is_apart(const Way& way) noexcept {
    return std::hypot(way.x_px, way.y_px) >
           std::max(kApartPx, kApartOverPromised * std::sqrt(way.variance_px2));
  }

  /// False where they are apart in so few frames that it may be a wrong fit.
  bool measure(MarkersApart& apart) const {
    if (frames_apart(apart, true) < least_frames_apart()) return false;
    std::optional<std::size_t> first, last;
    for (std::size_t block = 0; block < ways_.blocks(); ++block) {
      const Way here = between(apart, block);
      if (!is_apart(here)) continue;
      if (!first) first = block;
      last = block;
      apart.most_px = std::max(apart.most_px, std::hypot(here.x_px, here.y_px));
    }
    apart.first = first_apart(apart, *first);
    apart.last = last_apart(apart, *last);
    return true;
  }

  /// The way of some markers against the others in one frame.
  Way in_frame(const MarkersApart& apart, std::size_t frame) const {
    const Way some = mean_in(apart.some, frame);
    if (!some.known()) return {};
    const Way others = mean_in(apart.others, frame);
    return {some.x_px - others.x_px, some.y_px - others.y_px, 0};
  }

  Way mean_in(const Markers& group, std::size_t frame) const {
    double x_px = 0, y_px = 0, n = 0;
    for (const std::size_t m : group) {
      const Way offset = ways_.offset_in(frame, m) - ways_.zeros()[m];
      if (!offset.known()) continue;
      x_px += offset.x_px;
      y_px += offset.y_px;
      ++n;
    }
    return n > 0 ? Way{x_px / n, y_px / n, 0} : Way{};
  }

  /// 1 where they are apart, -1 where not; 0: nobody knows.
  int sign_in(const MarkersApart& apart, std::size_t frame) const {
    const Way here = in_frame(apart, frame);
    if (!here.known()) return 0;
    return std::hypot(here.x_px, here.y_px) > kApartPx ? 1 : -1;
  }

  /// From which frame on most are apart, to the end of the first block that is; that before it may
  /// have some.
  std::size_t first_apart(const MarkersApart& apart, std::size_t block) const {
    const std::size_t begin = ways_.begin_of(block - std::min<std::size_t>(block, 1));
    std::size_t first = ways_.begin_of(block);
    int sum = 0, most = 0;
    for (std::size_t frame = ways_.begin_of(block + 1); frame-- > begin;) {
      sum += sign_in(apart, frame);
      if (sum > most) most = sum, first = frame;
    }
    return first;
  }
  std::size_t last_apart(const MarkersApart& apart, std::size_t block) const {
    const std::size_t end = ways_.begin_of(std::min(block + 2, ways_.blocks()));
    std::size_t last = ways_.begin_of(block + 1) - 1;
    int sum = 0, most = 0;
    for (std::size_t frame = ways_.begin_of(block); frame < end; ++frame) {
      sum += sign_in(apart, frame);
      if (sum > most) most = sum, last = frame;
    }
    return last;
  }

  /// What two groups say of a frame's drift.
  struct Told {
    Way some, others;  ///< where it went, by each; unknown: none is seen
  };

  Told told_in(const MarkersApart& apart, std::size_t frame) const {
    const Way base = mean_of(apart.others, ways_.zeros());
    const auto of = [&](const Markers& group) {
      std::vector<Way> ways;
      for (const std::size_t m : group) {
        const Way offset = ways_.offset_in(frame, m) - ways_.zeros()[m];
        if (offset.known())
          ways.push_back({offset.x_px + base.x_px, offset.y_px + base.y_px, offset.variance_px2});
      }
      return middle_of(ways);
    };
    return {of(apart.some), of(apart.others)};
  }

  /// Where the larger group decides, but as many of the other are seen, the drift may be that
  /// one's. Of groups that are as many it is the mean of both, however many are seen of each, and
  /// may be off by half of what they are apart; where one group alone is seen, by all of it.
  void tell_anew(const MarkersApart& apart, const Markers& left) {
    const bool decided = apart.is_decided();
    Markers neither = left;  // nobody knows which group these go with
    std::erase_if(neither, [&](std::size_t m) {
      return std::ranges::count(apart.some, m) + std::ranges::count(apart.others, m) > 0;
    });
    Way since{0, 0, 0};  // how far they are apart where both were seen last
    std::vector<std::size_t> of_one;
    for (std::size_t frame = 0; frame < points_.size(); ++frame) {
      const Told told = told_in(apart, frame);
      const bool both = told.some.known() && told.others.known();
      if (both) {
        since = between(told);
        // Before they were seen together again, they may have been as far apart as now.
        for (const std::size_t before : of_one) widen(points_[before], since);
        of_one.clear();
      }
      DriftPoint& point = points_[frame];
      const bool any = told.some.known() || told.others.known();
      if (point.markers == 0 || !any ||
          (decided && seen(apart.some, frame) < seen(apart.others, frame)))
        continue;
      if (both && !decided) {
        put(point,
            {0.5 * (told.some.x_px + told.others.x_px), 0.5 * (told.some.y_px + told.others.y_px),
             0.25 * (told.some.variance_px2 + told.others.variance_px2)});
        widen(point, {0.5 * since.x_px, 0.5 * since.y_px, 0});
        continue;
      }
      if (!both && !decided && seen(neither, frame) == 0)
        put(point, told.others.known() ? told.others : told.some);
      widen(point, since);
      if (!both) of_one.push_back(frame);
    }
  }

  static Way between(const Told& told) noexcept {
    return {told.some.x_px - told.others.x_px, told.some.y_px - told.others.y_px, 0};
  }
  static void put(DriftPoint& point, const Way& drift) noexcept {
    point.x_px = drift.x_px;
    point.y_px = drift.y_px;
    point.x_sd_px = point.y_sd_px = std::sqrt(drift.variance_px2);
  }
  /// A standard deviation is at least so much.
  static void widen(DriftPoint& point, const Way& by) noexcept {
    point.x_sd_px = std::max(point.x_sd_px, std::abs(by.x_px));
    point.y_sd_px = std::max(point.y_sd_px, std::abs(by.y_px));
  }

  std::ptrdiff_t seen(const Markers& markers, std::size_t frame) const {
    return std::ranges::count_if(
        markers, [&](std::size_t m) { return !std::isnan(solved_.tracks.at(frame, m).x_px); });
  }

  const SolvedDrift& solved_;
  std::span<DriftPoint> points_;
  std::size_t markers_;
  MarkerWays ways_;
  std::vector<bool> passed_over_;  ///< blocks with nothing but wrong fits
};

}  // namespace

std::vector<MarkersApart> find_apart(const SolvedDrift& solved, std::size_t reference,
                                     std::span<DriftPoint> points) {
  if (points.empty()) return {};
  return GroupSearch(solved, reference, points).found();
}

}  // namespace driftd::tools
