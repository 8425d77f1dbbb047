// SPDX-License-Identifier: MIT
#include "tools/driftfit/marker_groups.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "tools/driftfit/middle.hpp"

namespace driftd::tools {
namespace {

constexpr std::size_t kMostBlockFrames = 10, kBlocks = 10;
constexpr double kApartOverPromised = 6;
/// Standard deviation of a median over that of a mean.
constexpr double kMedianOverMean = 1.25;
constexpr double kUnseen = std::numeric_limits<double>::quiet_NaN();

/// A marker's way in a block since the reference.
struct Way {
  double x_px = kUnseen, y_px = kUnseen;  ///< NaN: not seen in both
  double variance_px2 = 0;                ///< promised, of an axis

  bool known() const noexcept { return !std::isnan(x_px); }
};

double distance_px(const Way& a, const Way& b) noexcept {
  return std::hypot(a.x_px - b.x_px, a.y_px - b.y_px);
}

using Markers = std::vector<std::size_t>;

class GroupSearch {
 public:
  GroupSearch(const SolvedDrift& solved, std::size_t reference, std::span<DriftPoint> points)
      : solved_(solved),
        points_(points),
        markers_(solved.tracks.markers()),
        block_(std::clamp<std::size_t>(points.size() / kBlocks, 1, kMostBlockFrames)),
        blocks_((points.size() + block_ - 1) / block_),
        ways_(blocks_ * markers_),
        zeros_(markers_) {
    fill_ways();
    for (std::size_t m = 0; m < markers_; ++m) begin_at_reference(m, reference / block_);
  }

  std::vector<MarkersApart> found() {
    std::vector<MarkersApart> all;
    Markers left(markers_);
    std::iota(left.begin(), left.end(), std::size_t{0});
    while (left.size() > 1) {
      const auto widest = widest_block(left);
      if (!widest) break;
      MarkersApart apart = split(left, *widest);
      if (apart.others.empty()) break;
      const bool told = measure(apart, *widest);
      if (told) {
        widen(apart);
        all.push_back(apart);
      }
      if (!apart.is_decided()) break;
      std::erase_if(left, [&](std::size_t m) { return std::ranges::count(apart.some, m) > 0; });
    }
    return all;
  }

 private:
  Way& way(std::size_t block, std::size_t m) { return ways_[block * markers_ + m]; }
  const Way& way(std::size_t block, std::size_t m) const { return ways_[block * markers_ + m]; }
  static double variance_of(const MarkerTracks::Point& p) noexcept {
    const auto x_sd_px = static_cast<double>(p.x_sd_px), y_sd_px = static_cast<double>(p.y_sd_px);
    return 0.5 * (x_sd_px * x_sd_px + y_sd_px * y_sd_px);
  }

  /// A marker's position less its place and the drift, or the middle of all where that is unknown.
  void offsets_in(std::size_t frame, std::vector<Way>& offsets) const {
    std::vector<double> x, y;
    for (std::size_t m = 0; m < markers_; ++m) {
      const MarkerTracks::Point& p = solved_.tracks.at(frame, m);
      const MarkerPlace& place = solved_.places[m][solved_.begins.place(frame, m)];
      offsets[m] = {};
      if (std::isnan(p.x_px) || place.frames == 0) continue;
      offsets[m] = {p.x_px - place.x_px, p.y_px - place.y_px, variance_of(p)};
      x.push_back(offsets[m].x_px);
      y.push_back(offsets[m].y_px);
    }
    if (x.empty()) return;
    const DriftPoint& drift = points_[frame];
    const bool known = drift.markers > 0;
    const double x_px = known ? drift.x_px : middle_of(x);
    const double y_px = known ? drift.y_px : middle_of(y);
    for (Way& offset : offsets) {
      offset.x_px -= x_px;
      offset.y_px -= y_px;
    }
  }

  void fill_ways() {
    std::vector<Way> offsets(markers_);
    std::vector<std::vector<double>> x(markers_), y(markers_);
    for (std::size_t block = 0; block < blocks_; ++block) {
      for (std::size_t m = 0; m < markers_; ++m) x[m].clear(), y[m].clear();
      const std::size_t end = std::min(points_.size(), (block + 1) * block_);
      for (std::size_t frame = block * block_; frame < end; ++frame) {
        offsets_in(frame, offsets);
        for (std::size_t m = 0; m < markers_; ++m) {
          if (!offsets[m].known()) continue;
          x[m].push_back(offsets[m].x_px);
          y[m].push_back(offsets[m].y_px);
          way(block, m).variance_px2 += offsets[m].variance_px2;
        }
      }
      for (std::size_t m = 0; m < markers_; ++m) {
        if (x[m].empty()) continue;
        const auto n = static_cast<double>(x[m].size());
        way(block, m) = {middle_of(x[m]), middle_of(y[m]),
                         kMedianOverMean * kMedianOverMean * way(block, m).variance_px2 / (n * n)};
      }
    }
  }

  /// Ways begin in the reference's block, or the next to it that shows the marker.
  void begin_at_reference(std::size_t m, std::size_t reference) {
    std::optional<Way> zero;
    for (std::size_t off = 0; off < blocks_ && !zero; ++off) {
      if (reference + off < blocks_ && way(reference + off, m).known())
        zero = way(reference + off, m);
      else if (off <= reference && way(reference - off, m).known())
        zero = way(reference - off, m);
    }
    if (!zero) return;
    zeros_[m] = *zero;
    for (std::size_t block = 0; block < blocks_; ++block) {
      Way& here = way(block, m);
      here.x_px -= zero->x_px;
      here.y_px -= zero->y_px;
      here.variance_px2 += zero->variance_px2;
    }
  }

  /// The block in which the ways are spread most.
  std::optional<std::size_t> widest_block(const Markers& markers) const {
    std::optional<std::size_t> widest;
    double most_px = 0;
    for (std::size_t block = 0; block < blocks_; ++block) {
      double low_x = 1e300, high_x = -1e300, low_y = 1e300, high_y = -1e300;
      for (const std::size_t m : markers) {
        const Way& here = way(block, m);
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
      if (!way(block, m).known()) continue;
      x.push_back(way(block, m).x_px);
      y.push_back(way(block, m).y_px);
    }
    const auto furthest_from = [&](const Way& from) {
      double most_px = -1;
      Way furthest;
      for (const std::size_t m : markers) {
        const Way& here = way(block, m);
        if (!here.known() || distance_px(here, from) <= most_px) continue;
        most_px = distance_px(here, from);
        furthest = here;
      }
      return furthest;
    };
    const Way one = furthest_from({middle_of(x), middle_of(y), 0});
    const Way other = furthest_from(one);
    MarkersApart apart;
    for (const std::size_t m : markers) {
      const Way& here = way(block, m);
      if (!here.known()) continue;
      const bool with_one = distance_px(here, one) < distance_px(here, other);
      (with_one ? apart.some : apart.others).push_back(m);
    }
    if (apart.some.size() > apart.others.size()) std::swap(apart.some, apart.others);
    return apart;
  }

  /// @param ways  one of each marker
  static Way mean_of(const Markers& markers, std::span<const Way> ways) {
    Way sum{0, 0, 0};
    double n = 0;
    for (const std::size_t m : markers) {
      const Way& here = ways[m];
      if (!here.known()) continue;
      sum = {sum.x_px + here.x_px, sum.y_px + here.y_px, sum.variance_px2 + here.variance_px2};
      ++n;
    }
    return n > 0 ? Way{sum.x_px / n, sum.y_px / n, sum.variance_px2 / (n * n)} : Way{};
  }

  /// The way of some markers against the others.
  Way between(const MarkersApart& apart, std::size_t block) const {
    const auto ways = std::span(ways_).subspan(block * markers_, markers_);
    const Way some = mean_of(apart.some, ways), others = mean_of(apart.others, ways);
    return {some.x_px - others.x_px, some.y_px - others.y_px,
            some.variance_px2 + others.variance_px2};
  }

  static bool is_apart(const Way& way) noexcept {
    return std::hypot(way.x_px, way.y_px) >
           std::max(kApartPx, kApartOverPromised * std::sqrt(way.variance_px2));
  }

  /// False where they are not apart by more than noise.
  bool measure(MarkersApart& apart, std::size_t widest) const {
    if (!is_apart(between(apart, widest))) return false;
    apart.first = points_.size();
    for (std::size_t block = 0; block < blocks_; ++block) {
      const Way here = between(apart, block);
      if (!here.known() || !is_apart(here)) continue;
      apart.first = std::min(apart.first, block * block_);
      apart.last = std::min(points_.size(), (block + 1) * block_) - 1;
      apart.most_px = std::max(apart.most_px, std::hypot(here.x_px, here.y_px));
    }
    return true;
  }

  /// In frames whose drift is not that of others, which are more. Of as many nobody knows which are
  /// right, whichever were seen more in a frame.
  void widen(const MarkersApart& apart) {
    Way since{0, 0, 0}, now{0, 0, 0};  // the reference; as the places are
    for (std::size_t frame = 0; frame < points_.size(); ++frame) {
      const Way here = between(apart, frame / block_);
      if (here.known()) {
        since = here;
        const Way from = mean_of(apart.some, zeros_), to = mean_of(apart.others, zeros_);
        now = {here.x_px + from.x_px - to.x_px, here.y_px + from.y_px - to.y_px, 0};
      }
      const double some = seen(apart.some, frame), others = seen(apart.others, frame);
      const double wrong = apart.is_decided() ? some : std::max(some, others);
      const double all = some + others, share = all > 0 ? wrong / all : 0;
      if (2 * share < 1) continue;
      DriftPoint& point = points_[frame];
      // What the scatter of the two groups made of it as if each marker had its own.
      const double counted = all > 1 ? share * (1 - share) / (all - 1) : 0;
      const auto widened = [&](double sd_px, double since_px, double now_px) {
        const double own =
            std::max(promised_variance(frame), sd_px * sd_px - counted * now_px * now_px);
        return std::hypot(std::sqrt(own), share * since_px);
      };
      point.x_sd_px = widened(point.x_sd_px, since.x_px, now.x_px);
      point.y_sd_px = widened(point.y_sd_px, since.y_px, now.y_px);
    }
  }

  double seen(const Markers& markers, std::size_t frame) const {
    return static_cast<double>(std::ranges::count_if(
        markers, [&](std::size_t m) { return !std::isnan(solved_.tracks.at(frame, m).x_px); }));
  }

  /// Variance that is promised for the mean of all markers that are seen.
  double promised_variance(std::size_t frame) const {
    double sum = 0, n = 0;
    for (std::size_t m = 0; m < markers_; ++m) {
      const MarkerTracks::Point& p = solved_.tracks.at(frame, m);
      if (std::isnan(p.x_px)) continue;
      sum += variance_of(p);
      ++n;
    }
    return n > 0 ? sum / (n * n) : 0;
  }

  const SolvedDrift& solved_;
  std::span<DriftPoint> points_;
  std::size_t markers_, block_, blocks_;
  std::vector<Way> ways_;   ///< [block][marker]
  std::vector<Way> zeros_;  ///< from which on they are counted: [marker], from its place
};

}  // namespace

std::vector<MarkersApart> find_apart(const SolvedDrift& solved, std::size_t reference,
                                     std::span<DriftPoint> points) {
  if (points.empty()) return {};
  return GroupSearch(solved, reference, points).found();
}

}  // namespace driftd::tools
