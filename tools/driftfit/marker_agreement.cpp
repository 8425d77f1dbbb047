// SPDX-License-Identifier: MIT
#include "tools/driftfit/marker_agreement.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

namespace driftd::tools {
namespace {

/// Markers that jump together do so within this. Specks beside several markers seldom do.
constexpr double kTogetherPx = 1;

std::vector<Pick> those_near(std::span<const Pick> votes, Pick centre, double reach_px) {
  std::vector<Pick> near;
  std::copy_if(votes.begin(), votes.end(), std::back_inserter(near),
               [&](Pick vote) { return distance_px(vote, centre) <= reach_px; });
  return near;
}

/// The mean of the two in the middle, where it is between two.
Pick centre_of_votes(std::vector<Pick> votes) {
  const auto middle = [&](double Pick::*axis) {
    const auto less = [axis](Pick a, Pick b) { return a.*axis < b.*axis; };
    const auto upper = votes.begin() + static_cast<std::ptrdiff_t>(votes.size() / 2);
    std::nth_element(votes.begin(), upper, votes.end(), less);
    if (votes.size() % 2 == 1) return (*upper).*axis;
    const double above = (*upper).*axis;
    return 0.5 * (above + (*std::max_element(votes.begin(), upper, less)).*axis);
  };
  const double x_px = middle(&Pick::x_px);
  return {x_px, middle(&Pick::y_px)};
}

/// The most votes that are within kTogetherPx of one of them.
std::vector<Pick> largest_group(std::span<const Pick> votes) {
  std::vector<Pick> largest;
  for (const Pick centre : votes) {
    std::vector<Pick> group = those_near(votes, centre, kTogetherPx);
    if (group.size() > largest.size()) largest = std::move(group);
  }
  return largest;
}

}  // namespace

std::optional<Pick> common_drift(std::span<const Pick> votes, Pick before, double reach_px) {
  if (votes.empty()) return before;
  std::vector<Pick> agreed = those_near(votes, before, reach_px);
  if (2 * agreed.size() <= votes.size()) {
    std::vector<Pick> others = largest_group(votes);
    if (others.size() >= 2 && others.size() > agreed.size()) agreed = std::move(others);
  }
  if (agreed.empty()) return std::nullopt;
  const Pick drift = centre_of_votes(std::move(agreed));
  // Those that were too far from the drift before may belong to this one.
  std::vector<Pick> near = those_near(votes, drift, reach_px);
  return near.empty() ? drift : centre_of_votes(std::move(near));
}

}  // namespace driftd::tools
