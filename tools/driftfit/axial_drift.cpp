// SPDX-License-Identifier: MIT
#include "tools/driftfit/axial_drift.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/counted.hpp"
#include "control/axial/axial_estimator.hpp"
#include "control/drift/consensus.hpp"
#include "tools/driftfit/middle.hpp"

namespace driftd::tools {
namespace {

/// Error of a z by the model of the spot, so that no fit claims all the weight.
constexpr double kHeightFloorNm = 1;
/// Heights are read some three times worse than places.
constexpr control::RobustLimits kLimits{.outlier_sigma = 4, .floor_nm = 9};
/// Frames in which so many agree tie heights together, though they may be too few for a drift.
constexpr int kLeastToTie = 2;
constexpr int kMostRounds = 30;
constexpr double kSettledNm = 1e-3;
/// Markers whose scatter makes their mean this uncertain, where their fits promise much less,
/// contradict one another.
constexpr double kUncertainNm = 25, kOverPromised = 3;
/// Markers read in a smaller share of their fits are named.
constexpr double kSeldom = 0.75;
constexpr int kMostNamed = 5;

struct Level {
  double z_nm = 0;
  int frames = 0;  ///< that it is known from; 0: not known
};

class Solver {
 public:
  Solver(const MarkerHeights& heights, const PlaceBegins& places,
         const AxialDriftSettings& settings)
      : heights_(heights),
        places_(places),
        min_markers_(settings.min_markers),
        points_(heights.frames()),
        agreeing_(heights.frames()),
        scratch_(heights.markers()) {
    std::size_t start = settings.reference.value_or(0);
    if (!settings.reference) {
      while (start < points_.size() && heights_.read_in(start) < min_markers_) ++start;
    }
    for (std::size_t m = 0; m < heights_.markers(); ++m) {
      levels_.emplace_back(places_.places(m));
      if (start < points_.size() && heights_.was_read(start, m))
        level(start, m) = {static_cast<double>(heights_.at(start, m).z_nm), 1};
    }
  }

  std::vector<AxialPoint> solve() {
    for (int round = 0; round < kMostRounds && update_drift() >= kSettledNm; ++round)
      update_levels();
    for (AxialPoint& point : points_) {
      if (point.markers < min_markers_) point = {};
    }
    return points_;
  }
  /// How many markers of a frame agree, enough or not.
  int agreeing(std::size_t frame) const noexcept { return agreeing_[frame]; }

 private:
  Level& level(std::size_t frame, std::size_t m) { return levels_[m][places_.place(frame, m)]; }

  /// Largest change of any frame's drift; infinite where one became known or unknown.
  double update_drift() {
    double moved_nm = 0;
    for (std::size_t frame = 0; frame < points_.size(); ++frame) {
      const AxialPoint before = points_[frame];
      points_[frame] = drift_of(frame);
      if ((before.markers == 0) == (points_[frame].markers == 0)) {
        moved_nm = std::max(moved_nm, std::abs(points_[frame].z_nm - before.z_nm));
      } else {
        moved_nm = std::numeric_limits<double>::infinity();
      }
    }
    return moved_nm;
  }

  AxialPoint drift_of(std::size_t frame) {
    // A level that this frame alone tells says nothing of it; at first only the start is one, and
    // its drift is 0 by definition.
    const int own = points_[frame].markers > 0 ? 1 : 0;
    constexpr double kFloorNm2 = kHeightFloorNm * kHeightFloorNm;
    votes_.clear();
    for (std::size_t m = 0; m < heights_.markers(); ++m) {
      if (!heights_.was_read(frame, m)) continue;
      const Level& known = level(frame, m);
      if (known.frames <= own) continue;
      const MarkerHeights::Height& height = heights_.at(frame, m);
      const auto sd_nm = static_cast<double>(height.sd_nm);
      const double variance_nm2 = (1 + 1.0 / (known.frames - own)) * sd_nm * sd_nm + kFloorNm2;
      votes_.push_back({.value_nm = {static_cast<double>(height.z_nm) - known.z_nm, 0},
                        .variance_nm2 = {variance_nm2, variance_nm2},
                        .floor_nm2 = kFloorNm2});
    }
    const control::Consensus mean =
        control::robust_mean(votes_, kLimits, scratch_, control::kNormalMedian);
    agreeing_[frame] = mean.used;
    if (mean.used == 0 || mean.used < std::min(kLeastToTie, min_markers_)) return {};
    const double sd_nm = std::sqrt(mean.covariance_nm2.xx);
    if (sd_nm > std::max(kUncertainNm, kOverPromised * std::sqrt(mean.noise_nm2.x))) {
      agreeing_[frame] = 0;
      return {};
    }
    const double z_nm = mean.value_nm.x;
    return {.markers = mean.used,
            .z_nm = z_nm,
            .sd_nm = std::hypot(sd_nm, control::AxialEstimator::kScaleShare * z_nm)};
  }

  void update_levels() {
    for (std::size_t m = 0; m < heights_.markers(); ++m) {
      for (std::size_t place = 0; place < places_.places(m); ++place) {
        values_.clear();
        const std::size_t end = places_.end_of(m, place, points_.size());
        for (std::size_t frame = places_.begin_of(m, place); frame < end; ++frame) {
          if (points_[frame].markers > 0 && heights_.was_read(frame, m))
            values_.push_back(static_cast<double>(heights_.at(frame, m).z_nm) -
                              points_[frame].z_nm);
        }
        levels_[m][place] = {};
        if (!values_.empty())
          levels_[m][place] = {middle_of(values_), static_cast<int>(values_.size())};
      }
    }
  }

  const MarkerHeights& heights_;
  const PlaceBegins& places_;
  int min_markers_;
  std::vector<AxialPoint> points_;
  std::vector<int> agreeing_;
  std::vector<std::vector<Level>> levels_;  ///< of each marker, by place
  std::vector<control::Vote> votes_;
  std::vector<double> scratch_, values_;
};

/// "1 of 3 markers read; 3 needed; 2 out of the curve's range"
std::string no_height_reason(const MarkerHeights& heights, std::size_t frame, int agreeing,
                             int min_markers) {
  HeightCounts counts{};
  for (std::size_t m = 0; m < heights.markers(); ++m)
    ++counts[static_cast<std::size_t>(heights.reading(frame, m))];
  const int read = heights.read_in(frame);
  std::string text =
      fmt::format("z of {} of {} read; ", read, counted(heights.markers(), "marker"));
  if (read >= min_markers) text += fmt::format("{} agree; ", agreeing);
  text += fmt::format("{} needed", min_markers);
  std::string why = unread_in_words(counts);
  std::replace(why.begin(), why.end(), ',', ';');  // it stands in a column of a CSV
  const auto absent = counts[static_cast<std::size_t>(HeightReading::None)];
  if (!why.empty()) text += "; " + why;
  if (absent > 0) text += fmt::format("; {} not found", absent);
  return text;
}

}  // namespace

void MarkerHeights::add_frame(std::span<const Spot> spots) {
  const std::size_t begin = frames_++ * markers_;
  heights_.resize(begin + markers_, {0, 0});
  readings_.resize(begin + markers_, HeightReading::None);
  for (const Spot& spot : spots) {
    const std::size_t at = begin + static_cast<std::size_t>(spot.marker);
    readings_[at] = spot.reading;
    if (spot.reading == HeightReading::Read) heights_[at] = {spot.z_nm, spot.z_sd_nm};
  }
}

int MarkerHeights::read_in(std::size_t frame) const noexcept {
  int count = 0;
  for (std::size_t m = 0; m < markers_; ++m) count += was_read(frame, m) ? 1 : 0;
  return count;
}

AxialDrift solve_axial_drift(const MarkerHeights& heights, const PlaceBegins& places,
                             const AxialDriftSettings& settings) {
  Solver solver(heights, places, settings);
  AxialDrift drift{.points = solver.solve(), .reasons = {}, .reference = 0};
  const auto known = std::find_if(drift.points.begin(), drift.points.end(),
                                  [](const AxialPoint& p) { return p.markers > 0; });
  drift.reference =
      settings.reference.value_or(static_cast<std::size_t>(known - drift.points.begin()));
  const bool has_zero =
      drift.reference < drift.points.size() && drift.points[drift.reference].markers > 0;
  const double zero_nm = has_zero ? drift.points[drift.reference].z_nm : 0;
  for (std::size_t frame = 0; frame < drift.points.size(); ++frame) {
    AxialPoint& point = drift.points[frame];
    if (!has_zero) point = {};
    const bool is_known = point.markers > 0;
    if (is_known) point.z_nm -= zero_nm;
    drift.reasons.push_back(
        is_known ? ""
                 : no_height_reason(heights, frame, solver.agreeing(frame), settings.min_markers));
  }
  return drift;
}

std::int64_t frames_known(const AxialDrift& drift) {
  return std::count_if(drift.points.begin(), drift.points.end(),
                       [](const AxialPoint& p) { return p.markers > 0; });
}

std::string axial_gaps_in_words(const AxialDrift& drift, const MarkerHeights& heights,
                                const PlaceBegins& places, const AxialDriftSettings& settings,
                                std::int64_t first_frame) {
  const auto frames = static_cast<std::int64_t>(drift.points.size());
  const std::int64_t known = frames_known(drift);
  if (known == frames) return {};
  const auto lacks = std::find_if(drift.points.begin(), drift.points.end(),
                                  [](const AxialPoint& p) { return p.markers == 0; });
  const std::ptrdiff_t first = lacks - drift.points.begin();
  std::string text =
      fmt::format("z has a drift in {} of {}; frame {}: {}", known, counted(frames, "frame"),
                  first_frame + first, drift.reasons[static_cast<std::size_t>(first)]);
  const auto tried = [&](const AxialDriftSettings& other, const std::string& option) {
    const std::int64_t more = frames_known(solve_axial_drift(heights, places, other));
    if (more > known) text += fmt::format("\n  {}: z in {}", option, counted(more, "frame"));
    return more > known;
  };
  for (int fewer = settings.min_markers - 1; fewer >= 1; --fewer) {
    if (tried({settings.reference, fewer}, fmt::format("--min-markers {}", fewer))) break;
  }
  if (settings.reference && drift.points[*settings.reference].markers == 0) {
    const AxialDriftSettings free{std::nullopt, settings.min_markers};
    const AxialDrift other = solve_axial_drift(heights, places, free);
    tried(free,
          fmt::format("--reference {}", first_frame + static_cast<std::int64_t>(other.reference)));
  }
  return text;
}

std::string heights_in_words(const AxialReader& reader, std::span<const Pick> picks) {
  const auto line = [](const HeightCounts& counts) {
    const auto read = counts[static_cast<std::size_t>(HeightReading::Read)];
    const std::int64_t all = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    const std::string why = unread_in_words(counts);
    return fmt::format("z read of {} of {}{}{}\n", read, counted(all, "fit"),
                       why.empty() ? "" : "; ", why);
  };
  std::string text = line(reader.counts());
  int seldom = 0;
  for (std::size_t m = 0; m < picks.size(); ++m) {
    const HeightCounts& counts = reader.counts_of(m);
    const std::int64_t all = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    const auto read = counts[static_cast<std::size_t>(HeightReading::Read)];
    if (static_cast<double>(read) < kSeldom * static_cast<double>(all) && seldom++ < kMostNamed) {
      text += fmt::format("marker {} at {:.0f}, {:.0f} px: {}", m, picks[m].x_px, picks[m].y_px,
                          line(counts));
    }
  }
  if (seldom > kMostNamed) {
    text += fmt::format("and {} more, of less than three quarters of their fits\n",
                        counted(seldom - kMostNamed, "marker"));
  }
  return text;
}

}  // namespace driftd::tools
