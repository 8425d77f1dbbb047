// SPDX-License-Identifier: MIT
#include "tools/driftfit/drift_trace.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "control/drift/consensus.hpp"
#include "tools/driftfit/marker_slips.hpp"
#include "tools/driftfit/middle.hpp"

namespace driftd::tools {
namespace {

constexpr MarkerPlace kNowhere{std::numeric_limits<double>::quiet_NaN(),
                               std::numeric_limits<double>::quiet_NaN(), 0};
/// Irreducible error of a position (pixel response, model), so that no fit claims all the weight.
constexpr double kSdFloorNm = 0.3;
constexpr int kMaxRounds = 30;
constexpr double kSettledPx = 1e-5;
/// Each brings a slip at least, most bring all that there are.
constexpr int kMaxRestarts = 30;
/// Markers further from their mean than this, and than so many standard deviations, contradict it.
constexpr double kContradictsPx = 1, kContradictsSd = 4;
/// So do markers whose scatter makes their mean this uncertain, where their fits promise much less.
constexpr double kUncertainPx = 0.25, kUncertainOverPromised = 3;
/// Frames of two markers tie places together where these agree so well, though they may be too few
/// for a drift that is told.
constexpr int kLeastToTie = 2;
constexpr double kTiesPx = 0.25;

/// The first frame with so many markers; 0 where none has.
std::size_t first_with(const MarkerTracks& tracks, int min_markers) {
  for (std::size_t frame = 0; frame < tracks.frames(); ++frame) {
    if (tracks.found(frame) >= min_markers) return frame;
  }
  return 0;
}

/// Where none is, 0.
std::size_t first_known(const std::vector<DriftPoint>& points) {
  const auto first =
      std::find_if(points.begin(), points.end(), [](const DriftPoint& p) { return p.markers > 0; });
  return first == points.end() ? 0 : static_cast<std::size_t>(first - points.begin());
}

class DriftSolver {
 public:
  DriftSolver(const MarkerTracks& tracks, const DriftSettings& settings)
      : tracks_(tracks),
        pixel_nm_(settings.pixel_nm),
        min_markers_(settings.min_markers),
        start_(settings.reference.value_or(first_with(tracks, min_markers_))),
        begins_(tracks.places()),
        places_(tracks.markers()),
        scratch_(tracks.markers()) {}

  DriftSolution solve(std::optional<std::size_t> reference) {
    int restarts = 0;
    while (!settle(restarts < kMaxRestarts)) ++restarts;
    while (restarts++ < kMaxRestarts && find_earlier_begins()) settle(false);
    for (DriftPoint& point : points_) {
      if (point.markers < min_markers_) point = {};
    }
    DriftSolution solution{
        .points = std::move(points_), .moved = moved(), .apart = {}, .places = begins_};
    const SolvedDrift solved{tracks_, begins_, places_};
    solution.apart =
        find_apart(solved, reference.value_or(first_known(solution.points)), solution.points);
    return solution;
  }

 private:
  /// From the start frame on; false where a marker was seen to slip on the way.
  bool settle(bool may_slip) {
    begin();
    for (int round = 0; round < kMaxRounds; ++round) {
      const double moved_px = update_drift();
      if (round == 0 && frames_known() < 2) break;
      // Before a place is the median of positions at two.
      if (may_slip && split_places()) return false;
      if (moved_px < kSettledPx) break;
      update_places();
    }
    return true;
  }

  /// Nothing is known but the places of the markers in the start frame.
  void begin() {
    points_.assign(tracks_.frames(), {});
    for (std::size_t m = 0; m < places_.size(); ++m) {
      places_[m].assign(begins_.places(m), kNowhere);
      const MarkerTracks::Point& p = tracks_.at(start_, m);
      if (!std::isnan(p.x_px)) places_[m][begins_.place(start_, m)] = {p.x_px, p.y_px, 1};
    }
  }

  /// Largest change of any frame's drift; infinite where one became known.
  double update_drift() {
    double moved_px = 0;
    for (std::size_t frame = 0; frame < points_.size(); ++frame) {
      const DriftPoint before = points_[frame];
      points_[frame] = drift_of(frame);
      const DriftPoint& now = points_[frame];
      if ((before.markers == 0) != (now.markers == 0)) {
        moved_px = std::numeric_limits<double>::infinity();
      }
      moved_px =
          std::max({moved_px, std::abs(now.x_px - before.x_px), std::abs(now.y_px - before.y_px)});
    }
    return moved_px;
  }

  /// From each place that is known, of one where the marker was seen twice, to the next.
  std::vector<MarkerMoved> moved() const {
    std::vector<MarkerMoved> all;
    for (std::size_t m = 0; m < places_.size(); ++m) {
      for (std::size_t i = 1; i < places_[m].size(); ++i) {
        const MarkerPlace& from = places_[m][i - 1];
        const MarkerPlace& to = places_[m][i];
        if (from.frames < 2 || to.frames == 0) continue;
        const double by_px = std::hypot(to.x_px - from.x_px, to.y_px - from.y_px);
        if (by_px < kLeastSlipPx) continue;
        std::size_t frame = begins_.begin_of(m, i), before = frame - 1;
        while (std::isnan(tracks_.at(frame, m).x_px)) ++frame;
        while (std::isnan(tracks_.at(before, m).x_px)) --before;
        all.push_back({m, frame, before, by_px});
      }
    }
    return all;
  }

  std::ptrdiff_t frames_known() const {
    return std::count_if(points_.begin(), points_.end(),
                         [](const DriftPoint& p) { return p.markers > 0; });
  }

  DriftPoint drift_of(std::size_t frame) {
    votes_.clear();
    // Whether this is one of the frames that the places are known from. At first only the start is
    // one, and it need not be left out: its drift is 0 by definition.
    const int own = points_[frame].markers > 0 ? 1 : 0;
    const auto variance_nm2 = [&](float sd_px) {
      const double sd_nm = static_cast<double>(sd_px) * pixel_nm_;
      return sd_nm * sd_nm + kSdFloorNm * kSdFloorNm;
    };
    for (std::size_t m = 0; m < places_.size(); ++m) {
      const MarkerTracks::Point& p = tracks_.at(frame, m);
      if (std::isnan(p.x_px)) continue;
      const MarkerPlace& place = places_[m][begins_.place(frame, m)];
      if (place.frames <= own) continue;
      const double with_place = 1 + 1.0 / (place.frames - own);
      votes_.push_back(
          {.value_nm = {(p.x_px - place.x_px) * pixel_nm_, (p.y_px - place.y_px) * pixel_nm_},
           .variance_nm2 = {with_place * variance_nm2(p.x_sd_px),
                            with_place * variance_nm2(p.y_sd_px)}});
    }
    const control::Consensus mean = control::robust_mean(votes_, {}, scratch_);
    int markers = agreeing(mean, kContradictsPx);
    if (markers < min_markers_) {
      markers = std::min(markers, agreeing(mean, kTiesPx));
      if (markers < kLeastToTie) return {};
    }
    return {.markers = markers,
            .x_px = mean.value_nm.x / pixel_nm_,
            .y_px = mean.value_nm.y / pixel_nm_,
            .x_sd_px = std::sqrt(mean.covariance_nm2.xx) / pixel_nm_,
            .y_sd_px = std::sqrt(mean.covariance_nm2.yy) / pixel_nm_};
  }

  /// How many of the votes are near the mean, whether or not they have a weight in it.
  int agreeing(const control::Consensus& mean, double within_px) const {
    if (mean.used == 0 || scatters(mean)) return 0;
    const auto agrees = [&](const control::Vote& vote) {
      const double off_nm =
          std::hypot(vote.value_nm.x - mean.value_nm.x, vote.value_nm.y - mean.value_nm.y);
      return off_nm <= std::max(within_px * pixel_nm_, kContradictsSd * control::sd_of(vote));
    };
    return static_cast<int>(std::count_if(votes_.begin(), votes_.end(), agrees));
  }

  bool scatters(const control::Consensus& mean) const {
    const double sd_nm = std::sqrt(0.5 * (mean.covariance_nm2.xx + mean.covariance_nm2.yy));
    const double promised_nm = std::sqrt(0.5 * (mean.noise_nm2.x + mean.noise_nm2.y));
    return sd_nm > std::max(kUncertainPx * pixel_nm_, kUncertainOverPromised * promised_nm);
  }

  /// Whether any marker has one place more than before: it slipped.
  bool split_places() {
    const std::vector<Slip> slips = find_slips(tracks_, begins_, points_);
    for (const Slip& slip : slips) begins_.add(slip.marker, slip.frame);
    return !slips.empty();
  }

  /// Where the first frames of a slip show more of the markers that slip than of those that stay,
  /// their drift is that of the former, and the slip was found behind them. By the places it is
  /// those that stay who decide.
  bool find_earlier_begins() {
    bool found = false;
    for (std::size_t m = 0; m < places_.size(); ++m) {
      for (std::size_t i = 1; i < places_[m].size(); ++i) {
        for (auto begin = earlier_begin(m, i); begin; begin = earlier_begin(m, i)) {
          begins_.move(m, i, *begin);
          found = true;
        }
      }
    }
    return found;
  }

  std::optional<std::size_t> earlier_begin(std::size_t m, std::size_t place) {
    const MarkerPlace& old = places_[m][place - 1];
    const MarkerPlace& now = places_[m][place];
    const std::size_t begin = begins_.begin_of(m, place);
    const std::size_t first = begins_.begin_of(m, place - 1) + 1;
    std::size_t frame = begin;
    while (frame > first && std::isnan(tracks_.at(frame - 1, m).x_px)) --frame;
    if (frame <= first || old.frames == 0 || now.frames == 0) return std::nullopt;
    --frame;
    x_.clear();
    y_.clear();
    for (std::size_t other = 0; other < places_.size(); ++other) {
      const MarkerTracks::Point& p = tracks_.at(frame, other);
      const std::size_t its = begins_.place(frame, other);
      const MarkerPlace& there = places_[other][its];
      if (other == m || std::isnan(p.x_px) || there.frames == 0 ||
          its != begins_.place(begin, other))
        continue;
      x_.push_back(p.x_px - there.x_px);
      y_.push_back(p.y_px - there.y_px);
    }
    if (x_.empty()) return std::nullopt;
    const MarkerTracks::Point& p = tracks_.at(frame, m);
    const double x_px = p.x_px - middle_of(x_), y_px = p.y_px - middle_of(y_);
    constexpr double kMuchNearer = 0.5;
    const bool is_there = std::hypot(x_px - now.x_px, y_px - now.y_px) <
                          kMuchNearer * std::hypot(x_px - old.x_px, y_px - old.y_px);
    return is_there ? std::optional(frame) : std::nullopt;
  }

  void update_places() {
    for (std::size_t m = 0; m < places_.size(); ++m) {
      for (std::size_t i = 0; i < places_[m].size(); ++i) update_place(m, i);
    }
  }

  void update_place(std::size_t m, std::size_t place) {
    x_.clear();
    y_.clear();
    const std::size_t end = begins_.end_of(m, place, tracks_.frames());
    for (std::size_t frame = begins_.begin_of(m, place); frame < end; ++frame) {
      const MarkerTracks::Point& p = tracks_.at(frame, m);
      if (std::isnan(p.x_px) || points_[frame].markers == 0) continue;
      x_.push_back(p.x_px - points_[frame].x_px);
      y_.push_back(p.y_px - points_[frame].y_px);
    }
    places_[m][place] = kNowhere;
    if (!x_.empty())
      places_[m][place] = {middle_of(x_), middle_of(y_), static_cast<int>(x_.size())};
  }

  const MarkerTracks& tracks_;
  double pixel_nm_;
  int min_markers_;
  std::size_t start_;
  PlaceBegins begins_;
  std::vector<std::vector<MarkerPlace>> places_;  ///< of each marker
  std::vector<DriftPoint> points_;
  std::vector<control::Vote> votes_;
  std::vector<double> scratch_, x_, y_;
};

}  // namespace

DriftSolution solve_drift(const MarkerTracks& tracks, const DriftSettings& settings) {
  DriftSolution solution = DriftSolver(tracks, settings).solve(settings.reference);
  std::vector<DriftPoint>& points = solution.points;
  const std::size_t reference = settings.reference.value_or(first_known(points));
  if (reference >= points.size()) return solution;
  const DriftPoint zero = points[reference];
  if (zero.markers == 0) points.assign(points.size(), {});
  for (DriftPoint& point : points) {
    if (point.markers == 0) continue;
    point.x_px -= zero.x_px;
    point.y_px -= zero.y_px;
  }
  return solution;
}

}  // namespace driftd::tools
