// SPDX-License-Identifier: MIT
#include "control/search/turned_constellation.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <optional>
#include <utility>
#include <vector>

namespace driftd::control {
namespace {

/// A fitted spot is nearer to its marker than this share of the tolerance.
constexpr double kCloseShare = 1.0 / 3;
constexpr int kFits = 6;  ///< each may bring further pairs; the last ones by what is close alone
constexpr int kWideFits = 3;
/// A turn that is less than so many of its standard deviations is none ...
constexpr double kSurely = 4;
/// ... with places known no better than so: what a few pairs agree on by chance, and distortion.
constexpr double kLeastErrorPx = 0.02;

/// The displacement of the markers' centre, and the turn about it.
struct Pose {
  double turn_rad = 0;
  Vec2 displacement_px;
};

struct Pair {
  std::size_t marker, spot;
  double distance_px;
};

/// One answer: where the markers lie, and on which spots.
struct Answer {
  Pose pose;
  std::vector<Pair> pairs;  ///< in the order of the markers
};

class Sample {
 public:
  Sample(std::span<const MarkerReference> markers, std::span<const FittedSpot> spots,
         const ConstellationSettings& settings)
      : markers_(markers), spots_(spots), settings_(settings) {
    for (const MarkerReference& m : markers) {
      centre_px_.x += m.place_px.x / static_cast<double>(markers.size());
      centre_px_.y += m.place_px.y / static_cast<double>(markers.size());
    }
    for (const MarkerReference& m : markers)
      radius_px_ = std::max(radius_px_,
                            std::hypot(m.place_px.x - centre_px_.x, m.place_px.y - centre_px_.y));
  }

  Vec2 centre_px() const { return centre_px_; }
  double radius_px() const { return radius_px_; }
  double close_px() const { return kCloseShare * settings_.tolerance_px; }

  ConstellationMatch match(double turn_rad) const {
    std::vector<MarkerReference> references(markers_.begin(), markers_.end());
    for (MarkerReference& m : references) m.place_px = turned(m.place_px, turn_rad, centre_px_);
    return match_constellation(references, spots_, settings_);
  }

  /// Improves a first guess to the turn and displacement that most markers agree on.
  Answer fitted(Pose pose) const {
    for (int i = 0; i < kFits; ++i) {
      const auto pairs = pairs_at(pose, i < kWideFits ? settings_.tolerance_px : close_px());
      if (pairs.size() < 2) break;
      pose = pose_of(pairs);
    }
    Answer answer{pose, pairs_at(pose, close_px())};
    if (std::abs(pose.turn_rad) > settings_.most_turn_rad) answer.pairs.clear();
    return answer;
  }

  /// The pose, without a turn where it is not sure that there is one.
  Pose judged(const Answer& answer) const {
    double squares_px2 = 0, lever_px2 = 0;
    Vec2 mean_px;
    const auto n = static_cast<double>(answer.pairs.size());
    for (const Pair& pair : answer.pairs) {
      const Vec2 from = markers_[pair.marker].place_px, to = spots_[pair.spot].place_px;
      squares_px2 += pair.distance_px * pair.distance_px;
      lever_px2 += std::pow(from.x - centre_px_.x, 2) + std::pow(from.y - centre_px_.y, 2);
      mean_px = {mean_px.x + (to.x - from.x) / n, mean_px.y + (to.y - from.y) / n};
    }
    const double error_px = std::max(kLeastErrorPx, std::sqrt(squares_px2 / (2 * n)));
    if (std::abs(answer.pose.turn_rad) * std::sqrt(lever_px2) > kSurely * error_px)
      return answer.pose;
    return {.turn_rad = 0, .displacement_px = mean_px};
  }

  int visible_at(const Pose& pose) const {
    return static_cast<int>(std::count_if(markers_.begin(), markers_.end(), [&](const auto& m) {
      return is_inside(place_of(m, pose));
    }));
  }

  /// How many answers as good as this there would be on average, were the spots at random places:
  /// so many poses that differ, each with the binomial chance of so many markers on spots.
  double answers_by_chance(int matched, int visible) const {
    const double area_px2 = std::numbers::pi * close_px() * close_px();
    const double width_px = settings_.field_high_px.x - settings_.field_low_px.x;
    const double height_px = settings_.field_high_px.y - settings_.field_low_px.y;
    const double across_px = 2 * radius_px_;
    const double turns = 1 + 2 * settings_.most_turn_rad * radius_px_ / close_px();
    const double poses = turns * (width_px + across_px) * (height_px + across_px) / area_px2;
    const double share = std::min(
        1.0, static_cast<double>(spots_.size()) * area_px2 / std::max(1.0, width_px * height_px));
    double chance = 0;
    for (int k = matched; k <= visible; ++k) {
      const double ways =
          std::lgamma(visible + 1.0) - std::lgamma(k + 1.0) - std::lgamma(visible - k + 1.0);
      chance += std::exp(ways) * std::pow(share, k) * std::pow(1 - share, visible - k);
    }
    return poses * chance;
  }

 private:
  Vec2 place_of(const MarkerReference& marker, const Pose& pose) const {
    const Vec2 place = turned(marker.place_px, pose.turn_rad, centre_px_);
    return {place.x + pose.displacement_px.x, place.y + pose.displacement_px.y};
  }

  bool is_inside(Vec2 p) const {
    return p.x >= settings_.field_low_px.x && p.x <= settings_.field_high_px.x &&
           p.y >= settings_.field_low_px.y && p.y <= settings_.field_high_px.y;
  }

  bool resembles(const FittedSpot& spot, const MarkerReference& marker) const {
    return !(marker.sigma_px > 0) || std::abs(spot.sigma_px - marker.sigma_px) <=
                                         settings_.max_width_change * marker.sigma_px;
  }

  /// Each marker with its nearest spot; a spot that two claim is the nearer one's.
  std::vector<Pair> pairs_at(const Pose& pose, double within_px) const {
    std::vector<std::optional<Pair>> owner(spots_.size());
    for (std::size_t i = 0; i < markers_.size(); ++i) {
      const Vec2 place = place_of(markers_[i], pose);
      Pair nearest{i, spots_.size(), within_px};
      for (std::size_t s = 0; s < spots_.size(); ++s) {
        const Vec2 there = spots_[s].place_px;
        if (std::abs(there.x - place.x) > nearest.distance_px) continue;
        const double distance_px = std::hypot(there.x - place.x, there.y - place.y);
        if (distance_px <= nearest.distance_px && resembles(spots_[s], markers_[i]))
          nearest = {i, s, distance_px};
      }
      if (nearest.spot == spots_.size()) continue;
      auto& other = owner[nearest.spot];
      if (!other || nearest.distance_px < other->distance_px) other = nearest;
    }
    std::vector<Pair> pairs;
    for (const auto& pair : owner)
      if (pair) pairs.push_back(*pair);
    std::sort(pairs.begin(), pairs.end(),
              [](const Pair& a, const Pair& b) { return a.marker < b.marker; });
    return pairs;
  }

  /// The rigid motion of least squares (Umeyama 1991, without scale).
  Pose pose_of(const std::vector<Pair>& pairs) const {
    Vec2 from_mean, to_mean;
    const auto n = static_cast<double>(pairs.size());
    for (const Pair& pair : pairs) {
      const Vec2 from = markers_[pair.marker].place_px, to = spots_[pair.spot].place_px;
      from_mean = {from_mean.x + from.x / n, from_mean.y + from.y / n};
      to_mean = {to_mean.x + to.x / n, to_mean.y + to.y / n};
    }
    double along = 0, across = 0;
    for (const Pair& pair : pairs) {
      const Vec2 from = markers_[pair.marker].place_px, to = spots_[pair.spot].place_px;
      const Vec2 a{from.x - from_mean.x, from.y - from_mean.y};
      const Vec2 b{to.x - to_mean.x, to.y - to_mean.y};
      along += a.x * b.x + a.y * b.y;
      across += a.x * b.y - a.y * b.x;
    }
    const double turn_rad = std::atan2(across, along);
    const Vec2 there = turned(from_mean, turn_rad, centre_px_);
    return {turn_rad, {to_mean.x - there.x, to_mean.y - there.y}};
  }

  std::span<const MarkerReference> markers_;
  std::span<const FittedSpot> spots_;
  const ConstellationSettings& settings_;
  Vec2 centre_px_;
  double radius_px_ = 0;
};

/// Markers that the other answer has on other spots: what both have is one truth seen twice.
int different(const std::vector<Pair>& pairs, const std::vector<Pair>& best) {
  return static_cast<int>(std::count_if(pairs.begin(), pairs.end(), [&](const Pair& pair) {
    return std::none_of(best.begin(), best.end(), [&](const Pair& b) {
      return b.marker == pair.marker && b.spot == pair.spot;
    });
  }));
}

/// 0, then outwards on both sides: of equal answers the least turned is taken.
std::vector<double> turns_to_try(double step_rad, double most_rad) {
  std::vector<double> turns{0};
  for (double turn = step_rad; turn < most_rad + step_rad / 2; turn += step_rad) {
    turns.push_back(std::min(turn, most_rad));
    turns.push_back(-std::min(turn, most_rad));
  }
  return turns;
}

}  // namespace

Vec2 turned(Vec2 place_px, double turn_rad, Vec2 centre_px) noexcept {
  const double c = std::cos(turn_rad), s = std::sin(turn_rad);
  const Vec2 from{place_px.x - centre_px.x, place_px.y - centre_px.y};
  return {centre_px.x + c * from.x - s * from.y, centre_px.y + s * from.x + c * from.y};
}

ConstellationMatch match_turned_constellation(std::span<const MarkerReference> markers,
                                              std::span<const FittedSpot> spots,
                                              const ConstellationSettings& settings,
                                              const std::stop_token& stop) {
  ConstellationMatch result;
  if (markers.size() < static_cast<std::size_t>(kFewestTurnedMarkers)) {
    result.reason = "it has " + std::to_string(markers.size()) + " markers, need " +
                    std::to_string(kFewestTurnedMarkers);
    return result;
  }
  const Sample sample(markers, spots, settings);
  const double step_rad = settings.tolerance_px / std::max(1.0, sample.radius_px());
  std::vector<Answer> answers;
  std::size_t best = 0;
  ConstellationMatch best_match;
  for (const double turn_rad : turns_to_try(step_rad, settings.most_turn_rad)) {
    if (stop.stop_requested()) return result;
    ConstellationMatch match = sample.match(turn_rad);
    answers.push_back(match.matched < 2 ? Answer{}
                                        : sample.fitted({turn_rad, match.displacement_px}));
    if (answers.size() > 1 && answers.back().pairs.size() <= answers[best].pairs.size()) continue;
    best = answers.size() - 1;
    best_match = std::move(match);
  }
  const std::vector<Pair>& pairs = answers[best].pairs;
  const int visible = sample.visible_at(answers[best].pose);
  const int needed = std::max({kFewestTurnedMarkers, settings.min_markers, (visible + 1) / 2});
  result.matched = static_cast<int>(pairs.size());
  if (result.matched < needed) {
    result.reason = "of " + std::to_string(spots.size()) + " spots at most " +
                    std::to_string(result.matched) + " lie like the markers, need " +
                    std::to_string(needed);
    return result;
  }
  int rival = 0;
  for (const Answer& answer : answers) rival = std::max(rival, different(answer.pairs, pairs));
  const bool rivalled = 2 * rival > result.matched;
  if (rivalled || best_match.is_ambiguous) {
    result.reason = rivalled ? "ambiguous: two ways to lay the markers put " +
                                   std::to_string(result.matched) + " and " +
                                   std::to_string(rival) + " of them on spots"
                             : best_match.reason;
    return result;
  }
  if (sample.answers_by_chance(result.matched, visible) > kMostAnswersByChance) {
    result.reason = std::to_string(result.matched) + " of " + std::to_string(visible) +
                    " markers are on spots, which " + std::to_string(spots.size()) +
                    " spots of another sample may do by chance: more markers are needed";
    return result;
  }
  const Pose pose = sample.judged(answers[best]);
  result.found = true;
  result.displacement_px = pose.displacement_px;
  result.turn_rad = pose.turn_rad;
  result.centre_px = sample.centre_px();
  return result;
}

}  // namespace driftd::control
