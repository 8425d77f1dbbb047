// SPDX-License-Identifier: MIT
#include "tools/driftfit/marker_ways.hpp"

#include <algorithm>
#include <numeric>

#include "tools/driftfit/middle.hpp"

namespace driftd::tools {
namespace {

constexpr std::size_t kMostBlockFrames = 10, kBlocks = 10;
/// Of the blocks at both ends, at most; a marker's way begins from as many. A slip just inside of
/// them shows.
constexpr std::size_t kEndFrames = 3;
constexpr int kRounds = 4;
/// Standard deviation of a median over that of a mean.
constexpr double kMedianOverMean = 1.25;

/// Where blocks begin, and the end of the last one.
std::vector<std::size_t> begins_of_blocks(std::size_t frames) {
  const std::size_t block = std::clamp<std::size_t>(frames / kBlocks, 1, kMostBlockFrames);
  const std::size_t ends = std::min({block, kEndFrames, frames});
  std::vector<std::size_t> begins = {0};
  for (std::size_t begin = ends; begin + ends < frames; begin += block) begins.push_back(begin);
  if (begins.back() + ends < frames) begins.push_back(frames - ends);
  begins.push_back(frames);
  return begins;
}

}  // namespace

Way middle_of(std::span<const Way> ways) {
  if (ways.empty()) return {};
  std::vector<double> x, y;
  double variance_px2 = 0;
  for (const Way& way : ways) {
    x.push_back(way.x_px);
    y.push_back(way.y_px);
    variance_px2 += way.variance_px2;
  }
  const auto n = static_cast<double>(ways.size());
  const double of_median = n > 2 ? kMedianOverMean * kMedianOverMean : 1;
  return {tools::middle_of(x), tools::middle_of(y), of_median * variance_px2 / (n * n)};
}

Way mean_of(std::span<const std::size_t> markers, std::span<const Way> ways) {
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

MarkerWays::MarkerWays(const SolvedDrift& solved, std::size_t reference, std::size_t frames)
    : solved_(solved), markers_(solved.tracks.markers()), begins_(begins_of_blocks(frames)) {
  find_zeros(reference);
  fill_ways();
}

Way MarkerWays::offset_in(std::size_t frame, std::size_t m) const {
  const MarkerTracks::Point& p = solved_.tracks.at(frame, m);
  const MarkerPlace& place = solved_.places[m][solved_.begins.place(frame, m)];
  if (std::isnan(p.x_px) || place.frames == 0) return {};
  return {p.x_px - place.x_px, p.y_px - place.y_px, p.variance_px2()};
}

/// Where markers are in some frames, but for what all have in common in each. That is found with
/// it: which markers a frame shows makes no difference, nor does a drift that is wrong.
/// @param most  of the frames, the first ones that show it, tell of a marker
std::vector<Way> MarkerWays::ways_in(std::span<const std::size_t> frames, std::size_t most) const {
  std::vector<Way> ways(markers_, Way{0, 0, 0});
  for (int round = 0; round < kRounds; ++round) {
    std::vector<std::vector<Way>> seen(markers_);
    for (const std::size_t frame : frames) {
      std::vector<Way> here;
      for (std::size_t m = 0; m < markers_; ++m) {
        const Way offset = offset_in(frame, m);
        if (offset.known()) here.push_back(offset - ways[m]);
      }
      const Way common = middle_of(here);
      for (std::size_t m = 0; m < markers_; ++m) {
        const Way offset = offset_in(frame, m);
        if (offset.known() && seen[m].size() < most) seen[m].push_back(offset - common);
      }
    }
    for (std::size_t m = 0; m < markers_; ++m) ways[m] = middle_of(seen[m]);
  }
  return ways;
}

/// Where ways begin: in the frames next to the reference, until each marker is seen often enough.
void MarkerWays::find_zeros(std::size_t reference) {
  std::vector<std::size_t> near, seen(markers_, 0);
  const auto add = [&](std::size_t frame) {
    near.push_back(frame);
    for (std::size_t m = 0; m < markers_; ++m) seen[m] += offset_in(frame, m).known() ? 1u : 0u;
  };
  // In short recordings, too, one wrong fit is not where a way begins.
  const std::size_t most = std::clamp<std::size_t>((begins_.back() + 1) / 2, 1, kEndFrames);
  const auto is_enough = [most](std::size_t frames) { return frames >= most; };
  for (std::size_t off = 0; off < begins_.back() && !std::ranges::all_of(seen, is_enough); ++off) {
    if (reference + off < begins_.back()) add(reference + off);
    if (off > 0 && off <= reference) add(reference - off);
  }
  zeros_ = ways_in(near, most);
}

void MarkerWays::fill_ways() {
  for (std::size_t block = 0; block < blocks(); ++block) {
    std::vector<std::size_t> frames(begins_[block + 1] - begins_[block]);
    std::iota(frames.begin(), frames.end(), begins_[block]);
    const std::vector<Way> ways = ways_in(frames, frames.size());
    for (std::size_t m = 0; m < markers_; ++m) {
      ways_.push_back(ways[m] - zeros_[m]);
      ways_.back().variance_px2 += zeros_[m].variance_px2;
    }
  }
}

}  // namespace driftd::tools
