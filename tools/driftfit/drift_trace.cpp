// SPDX-License-Identifier: MIT
#include "tools/driftfit/drift_trace.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "control/drift/consensus.hpp"

namespace driftd::tools {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
/// Irreducible error of a position (pixel response, model), so that no fit claims all the weight.
constexpr double kSdFloorNm = 0.3;
constexpr int kMaxRounds = 30;
constexpr double kSettledPx = 1e-5;
/// Markers further from their mean than this, and than so many standard deviations, contradict it.
constexpr double kContradictsPx = 1, kContradictsSd = 4;
/// So do markers whose scatter makes their mean this uncertain, where their fits promise much less.
constexpr double kUncertainPx = 0.25, kUncertainOverPromised = 3;
/// Frames of two markers tie places together where these agree so well, though they may be too few
/// for a drift that is told.
constexpr int kLeastToTie = 2;
constexpr double kTiesPx = 0.25;

struct Place {
  double x_px = kNaN, y_px = kNaN;
  int frames = 0;  ///< that it is known from
};

double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return 0.5 * (*middle + *std::max_element(values.begin(), middle));
}

/// The first frame with so many markers; 0 where none has.
std::size_t first_with(const MarkerTracks& tracks, int min_markers) {
  for (std::size_t frame = 0; frame < tracks.frames(); ++frame) {
    if (tracks.found(frame) >= min_markers) return frame;
  }
  return 0;
}

class DriftSolver {
 public:
  DriftSolver(const MarkerTracks& tracks, const DriftSettings& settings)
      : tracks_(tracks),
        pixel_nm_(settings.pixel_nm),
        min_markers_(settings.min_markers),
        points_(tracks.frames()),
        scratch_(tracks.markers()) {
    for (std::size_t m = 0; m < tracks.markers(); ++m) places_.emplace_back(tracks.places(m));
    const std::size_t start = settings.reference.value_or(first_with(tracks, min_markers_));
    for (std::size_t m = 0; m < tracks.markers(); ++m) {
      const MarkerTracks::Point& p = tracks.at(start, m);
      if (!std::isnan(p.x_px)) places_[m][tracks.place(start, m)] = {p.x_px, p.y_px, 1};
    }
  }

  std::vector<DriftPoint> solve() {
    for (int round = 0; round < kMaxRounds; ++round) {
      const double moved_px = update_drift();
      if (moved_px < kSettledPx || (round == 0 && frames_known() < 2)) break;
      update_places();
    }
    for (DriftPoint& point : points_) {
      if (point.markers < min_markers_) point = {};
    }
    return std::move(points_);
  }

 private:
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

  std::ptrdiff_t frames_known() const {
    return std::count_if(points_.begin(), points_.end(),
                         [](const DriftPoint& p) { return p.markers > 0; });
  }

  DriftPoint drift_of(std::size_t frame) {
    votes_.clear();
    // Of the frames that places are known from this is one: not at first, but in the start itself,
    // where the drift is 0 by definition.
    const int own = points_[frame].markers > 0 ? 1 : 0;
    const auto variance_nm2 = [&](float sd_px) {
      const double sd_nm = static_cast<double>(sd_px) * pixel_nm_;
      return sd_nm * sd_nm + kSdFloorNm * kSdFloorNm;
    };
    for (std::size_t m = 0; m < places_.size(); ++m) {
      const MarkerTracks::Point& p = tracks_.at(frame, m);
      if (std::isnan(p.x_px)) continue;
      const Place& place = places_[m][tracks_.place(frame, m)];
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

  /// How many of the votes have a weight and are near the mean.
  int agreeing(const control::Consensus& mean, double within_px) const {
    if (mean.used == 0 || scatters(mean)) return 0;
    const auto agrees = [&](const control::Vote& vote) {
      const double off_nm =
          std::hypot(vote.value_nm.x - mean.value_nm.x, vote.value_nm.y - mean.value_nm.y);
      return vote.weight > 0 &&
             off_nm <= std::max(within_px * pixel_nm_, kContradictsSd * control::sd_of(vote));
    };
    return static_cast<int>(std::count_if(votes_.begin(), votes_.end(), agrees));
  }

  bool scatters(const control::Consensus& mean) const {
    const double sd_nm = std::sqrt(0.5 * (mean.covariance_nm2.xx + mean.covariance_nm2.yy));
    const double promised_nm = std::sqrt(0.5 * (mean.noise_nm2.x + mean.noise_nm2.y));
    return sd_nm > std::max(kUncertainPx * pixel_nm_, kUncertainOverPromised * promised_nm);
  }

  void update_places() {
    for (std::size_t m = 0; m < places_.size(); ++m) {
      for (std::size_t i = 0; i < places_[m].size(); ++i) update_place(m, i);
    }
  }

  void update_place(std::size_t m, std::size_t place) {
    x_.clear();
    y_.clear();
    const std::size_t end = tracks_.begin_of(m, place + 1);
    for (std::size_t frame = tracks_.begin_of(m, place); frame < end; ++frame) {
      const MarkerTracks::Point& p = tracks_.at(frame, m);
      if (std::isnan(p.x_px) || points_[frame].markers == 0) continue;
      x_.push_back(p.x_px - points_[frame].x_px);
      y_.push_back(p.y_px - points_[frame].y_px);
    }
    places_[m][place] = {};
    if (!x_.empty()) places_[m][place] = {median(x_), median(y_), static_cast<int>(x_.size())};
  }

  const MarkerTracks& tracks_;
  double pixel_nm_;
  int min_markers_;
  std::vector<std::vector<Place>> places_;  ///< of each marker
  std::vector<DriftPoint> points_;
  std::vector<control::Vote> votes_;
  std::vector<double> scratch_, x_, y_;
};

}  // namespace

int MarkerTracks::found(std::size_t frame) const noexcept {
  int count = 0;
  for (std::size_t m = 0; m < markers_; ++m) count += std::isnan(at(frame, m).x_px) ? 0 : 1;
  return count;
}

std::int64_t MarkerTracks::frames_of(std::size_t marker) const noexcept {
  std::int64_t count = 0;
  for (std::size_t frame = 0; frame < frames(); ++frame) {
    count += std::isnan(at(frame, marker).x_px) ? 0 : 1;
  }
  return count;
}

std::size_t MarkerTracks::place(std::size_t frame, std::size_t marker) const noexcept {
  const std::vector<std::size_t>& frames = taken_back_[marker];
  return static_cast<std::size_t>(std::upper_bound(frames.begin(), frames.end(), frame) -
                                  frames.begin());
}

void MarkerTracks::add_frame(std::span<const Spot> spots, const Absences& absences) {
  absences_.push_back(absences);
  const std::size_t begin = points_.size();
  points_.resize(begin + markers_, {kNaN, kNaN, 0, 0});
  for (const Spot& spot : spots) {
    const auto marker = static_cast<std::size_t>(spot.marker);
    while (taken_back_[marker].size() < static_cast<std::size_t>(spot.place))
      taken_back_[marker].push_back(absences_.size() - 1);
    if (!std::isfinite(spot.fit.x_sd_px) || !std::isfinite(spot.fit.y_sd_px)) {
      ++absences_.back().not_fitted;
      continue;
    }
    points_[begin + marker] = {spot.x_px, spot.y_px, spot.fit.x_sd_px, spot.fit.y_sd_px};
  }
}

std::vector<DriftPoint> solve_drift(const MarkerTracks& tracks, const DriftSettings& settings) {
  std::vector<DriftPoint> points = DriftSolver(tracks, settings).solve();
  const auto first_known =
      std::find_if(points.begin(), points.end(), [](const DriftPoint& p) { return p.markers > 0; });
  if (first_known == points.end()) return points;
  const DriftPoint zero = settings.reference ? points[*settings.reference] : *first_known;
  if (zero.markers == 0) return std::vector<DriftPoint>(points.size());
  for (DriftPoint& point : points) {
    if (point.markers == 0) continue;
    point.x_px -= zero.x_px;
    point.y_px -= zero.y_px;
  }
  return points;
}

}  // namespace driftd::tools
