// SPDX-License-Identifier: MIT
#include "control/search/constellation.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace driftd::control {
namespace {

/// One pair's opinion of where the markers went.
struct Opinion {
  Vec2 displacement_px;
  std::size_t marker;
};

double distance(Vec2 a, Vec2 b) {
  return std::hypot(a.x - b.x, a.y - b.y);
}

bool is_inside(Vec2 place, const ConstellationSettings& settings) {
  return place.x >= settings.field_low_px.x && place.x <= settings.field_high_px.x &&
         place.y >= settings.field_low_px.y && place.y <= settings.field_high_px.y;
}

bool is_near(double value, double expected, double largest_relative_change) {
  return !(expected > 0) || std::abs(value - expected) <= largest_relative_change * expected;
}

/// Sorted by x, so that those near a displacement lie together.
std::vector<Opinion> opinions_of(std::span<const MarkerReference> markers,
                                 std::span<const FittedSpot> spots,
                                 const ConstellationSettings& settings) {
  std::vector<Opinion> opinions;
  for (const FittedSpot& spot : spots) {
    if (!is_inside(spot.place_px, settings)) continue;
    for (std::size_t i = 0; i < markers.size(); ++i) {
      const MarkerReference& marker = markers[i];
      if (is_near(spot.sigma_px, marker.sigma_px, settings.max_width_change) &&
          is_near(spot.amplitude_adu, marker.amplitude_adu, settings.max_brightness_change)) {
        opinions.push_back(
            {{spot.place_px.x - marker.place_px.x, spot.place_px.y - marker.place_px.y}, i});
      }
    }
  }
  std::sort(opinions.begin(), opinions.end(), [](const Opinion& a, const Opinion& b) {
    return a.displacement_px.x < b.displacement_px.x;
  });
  return opinions;
}

struct Support {
  int markers = 0;  ///< different ones with an opinion near enough
  Vec2 mean_px;     ///< mean of their opinions
};

/// Counts who supports a displacement.
class Poll {
 public:
  Poll(std::vector<Opinion> opinions, std::size_t markers, double tolerance_px)
      : opinions_(std::move(opinions)), counted_(markers, 0), tolerance_px_(tolerance_px) {}

  const std::vector<Opinion>& opinions() const { return opinions_; }

  Support support(Vec2 displacement_px) {
    ++count_;
    Support support;
    auto opinion =
        std::lower_bound(opinions_.begin(), opinions_.end(), displacement_px.x - tolerance_px_,
                         [](const Opinion& o, double x_px) { return o.displacement_px.x < x_px; });
    for (; opinion != opinions_.end() &&
           opinion->displacement_px.x <= displacement_px.x + tolerance_px_;
         ++opinion) {
      if (counted_[opinion->marker] == count_) continue;
      if (distance(opinion->displacement_px, displacement_px) > tolerance_px_) continue;
      counted_[opinion->marker] = count_;
      ++support.markers;
      support.mean_px.x += opinion->displacement_px.x;
      support.mean_px.y += opinion->displacement_px.y;
    }
    if (support.markers > 0) {
      support.mean_px.x /= support.markers;
      support.mean_px.y /= support.markers;
    }
    return support;
  }

 private:
  std::vector<Opinion> opinions_;
  std::vector<std::size_t> counted_;  ///< in which count each marker was seen last
  double tolerance_px_;
  std::size_t count_ = 0;
};

ConstellationMatch refused(const Support& best, std::string reason) {
  return {.found = false,
          .matched = best.markers,
          .displacement_px = best.mean_px,
          .reason = std::move(reason)};
}

}  // namespace

ConstellationMatch match_constellation(std::span<const MarkerReference> markers,
                                       std::span<const FittedSpot> spots,
                                       const ConstellationSettings& settings) {
  Poll poll(opinions_of(markers, spots, settings), markers.size(), settings.tolerance_px);
  Support best;
  std::vector<int> supporters;
  for (const Opinion& opinion : poll.opinions()) {
    const Support support = poll.support(opinion.displacement_px);
    supporters.push_back(support.markers);
    if (support.markers > best.markers) best = support;
  }
  const auto visible =
      static_cast<int>(std::count_if(markers.begin(), markers.end(), [&](const auto& m) {
        return is_inside({m.place_px.x + best.mean_px.x, m.place_px.y + best.mean_px.y}, settings);
      }));
  const int needed = std::max({1, settings.min_markers, (visible + 1) / 2});
  if (best.markers < needed) {
    return refused(best, "of " + std::to_string(spots.size()) + " spots at most " +
                             std::to_string(best.markers) + " lie like the markers, need " +
                             std::to_string(needed));
  }
  int runner_up = 0;
  for (std::size_t i = 0; i < supporters.size(); ++i) {
    if (distance(poll.opinions()[i].displacement_px, best.mean_px) > 2 * settings.tolerance_px)
      runner_up = std::max(runner_up, supporters[i]);
  }
  if (2 * runner_up > best.markers) {
    ConstellationMatch match =
        refused(best, "ambiguous: two displacements put " + std::to_string(best.markers) + " and " +
                          std::to_string(runner_up) + " markers on spots");
    match.is_ambiguous = true;
    return match;
  }
  return {.found = true, .matched = best.markers, .displacement_px = best.mean_px, .reason = {}};
}

}  // namespace driftd::control
