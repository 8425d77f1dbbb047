// SPDX-License-Identifier: MIT
#include "tools/driftfit/drift_gaps.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "base/counted.hpp"
#include "tools/driftfit/middle.hpp"

namespace driftd::tools {
namespace {

constexpr std::size_t kStretchesShown = 8;
constexpr double kLeastJumpPx = 2;
constexpr std::size_t kStepsBeside = 3;
constexpr double kSeldomShare = 0.75;
constexpr std::size_t kMarkersShown = 8;

/// What Absences counts, in words.
std::vector<std::pair<int, const char*>> by_reason(const Absences& a) {
  return {{a.not_sought, "not sought yet"},
          {a.not_fitted, "not fitted"},
          {a.bad_pixels, "saturated or without contrast"},
          {a.strayed, "apart from the others"},
          {a.outside, "outside the frame"},
          {a.repeated, "not recorded (the page of an earlier frame)"}};
}

std::string reason_of(const MarkerTracks& tracks, std::size_t frame, int min_markers) {
  const int found = tracks.found(frame);
  if (found >= min_markers) {
    return fmt::format("{} of {}; fewer than {} agree", found, counted(tracks.markers(), "marker"),
                       min_markers);
  }
  std::string text =
      fmt::format("{} of {}; {} needed", found, counted(tracks.markers(), "marker"), min_markers);
  for (const auto& [count, what] : by_reason(tracks.absences(frame))) {
    if (count > 0) text += fmt::format("; {} {}", count, what);
  }
  return text;
}

bool known(const DriftPoint& point) noexcept {
  return point.markers > 0;
}

/// "3 to 8, 22", the first few, and how long the longest is.
std::string stretches_in_words(const DriftTrace& trace) {
  std::string text;
  std::size_t stretches = 0;
  std::int64_t longest = 0;
  const auto& points = trace.points;
  for (auto begin = points.begin(); begin != points.end();) {
    begin = std::find_if_not(begin, points.end(), known);
    if (begin == points.end()) break;
    const auto end = std::find_if(begin, points.end(), known);
    const std::int64_t first = trace.first_frame + (begin - points.begin());
    const std::int64_t frames = end - begin;
    longest = std::max(longest, frames);
    if (++stretches <= kStretchesShown) {
      text += text.empty() ? "" : ", ";
      text +=
          frames == 1 ? std::to_string(first) : fmt::format("{} to {}", first, first + frames - 1);
    }
    begin = end;
  }
  if (stretches > kStretchesShown) {
    text += fmt::format(" and {}, the longest of {}",
                        counted(stretches - kStretchesShown, "more stretch", "more stretches"),
                        counted(longest, "frame"));
  }
  return text;
}

/// Sums over the frames without drift.
struct Totals {
  Absences absences;
  std::int64_t frames = 0, disagreeing = 0;
};

Totals totals_of(const DriftTrace& trace, const MarkerTracks& tracks, int min_markers) {
  Totals totals;
  for (std::size_t i = 0; i < trace.points.size(); ++i) {
    if (known(trace.points[i])) continue;
    const Absences& here = tracks.absences(i);
    totals.absences.outside += here.outside;
    totals.absences.bad_pixels += here.bad_pixels;
    totals.absences.not_fitted += here.not_fitted;
    totals.absences.strayed += here.strayed;
    totals.absences.not_sought += here.not_sought;
    totals.absences.repeated += here.repeated;
    totals.disagreeing += tracks.found(i) >= min_markers ? 1 : 0;
    ++totals.frames;
  }
  return totals;
}

/// A number of markers by which enough frames have a drift, else one by which more have.
std::string fewer_markers(const MarkerTracks& tracks, std::int64_t frames_known,
                          const GapSettings& settings) {
  const auto frames = static_cast<std::int64_t>(tracks.frames());
  const double wanted = settings.wanted_share * static_cast<double>(frames);
  DriftSettings fewer = settings.solved_by;
  for (--fewer.min_markers; fewer.min_markers >= 1; --fewer.min_markers) {
    std::int64_t found = 0;
    for (std::size_t i = 0; i < tracks.frames(); ++i)
      found += tracks.found(i) >= fewer.min_markers ? 1 : 0;
    if (fewer.min_markers > 1 && static_cast<double>(found) < wanted) continue;
    const std::vector<DriftPoint> points = solve_drift(tracks, fewer).points;
    const std::int64_t enough = std::count_if(points.begin(), points.end(), known);
    if (static_cast<double>(enough) >= wanted || (fewer.min_markers == 1 && enough > frames_known))
      return advice_in_words(fmt::format("--min-markers {}", fewer.min_markers), enough, frames,
                             settings.least_share);
    fewer.min_markers = fewer.min_markers / 2 + 1;  // so that few are tried of many
  }
  return {};
}

/// Another reference, by which enough frames have a drift.
std::string other_reference(const DriftTrace& trace, const MarkerTracks& tracks,
                            const GapSettings& settings) {
  if (!settings.solved_by.reference) return {};
  const auto frames_of = [&](const DriftSettings& other) {
    const std::vector<DriftPoint> points = solve_drift(tracks, other).points;
    const auto first = std::find_if(points.begin(), points.end(), known) - points.begin();
    return std::pair(static_cast<std::size_t>(first),
                     std::count_if(points.begin(), points.end(), known));
  };
  DriftSettings other = settings.solved_by;
  other.reference = std::nullopt;
  other.reference = frames_of(other).first;
  if (*other.reference >= tracks.frames()) return {};
  const auto enough = frames_of(other).second;
  const auto frames = static_cast<std::int64_t>(tracks.frames());
  if (static_cast<double>(enough) < settings.wanted_share * static_cast<double>(frames)) return {};
  const std::int64_t frame = trace.first_frame + static_cast<std::int64_t>(*other.reference);
  return advice_in_words(fmt::format("--reference {}", frame), enough, frames,
                         settings.least_share);
}

/// From one frame that has a drift to the next.
struct Step {
  double x_px, y_px;
  std::int64_t from, to;

  double px() const noexcept { return std::hypot(x_px, y_px); }
  double frames() const noexcept { return static_cast<double>(to - from); }
};

std::vector<Step> steps_of(const DriftTrace& trace) {
  std::vector<Step> steps;
  const DriftPoint* before = nullptr;
  for (const DriftPoint& point : trace.points) {
    if (!known(point)) continue;
    if (before != nullptr) {
      steps.push_back({point.x_px - before->x_px, point.y_px - before->y_px,
                       trace.first_frame + (before - trace.points.data()),
                       trace.first_frame + (&point - trace.points.data())});
    }
    before = &point;
  }
  return steps;
}

/// Not by how large steps are in this recording, which may be nothing but jumps: a steady motion
/// goes on in the steps beside it.
bool is_jump(const std::vector<Step>& steps, std::size_t index) {
  const Step& step = steps[index];
  if (step.px() <= kLeastJumpPx) return false;
  std::vector<double> x, y;  // px a frame
  const std::size_t end = std::min(steps.size(), index + kStepsBeside + 1);
  for (std::size_t i = index - std::min(index, kStepsBeside); i < end; ++i) {
    if (i == index) continue;
    x.push_back(steps[i].x_px / steps[i].frames());
    y.push_back(steps[i].y_px / steps[i].frames());
  }
  if (x.empty()) return true;
  return std::hypot(step.x_px - middle_of(x) * step.frames(),
                    step.y_px - middle_of(y) * step.frames()) > kLeastJumpPx;
}

std::string frames_in_words(std::int64_t first, std::int64_t last) {
  return first == last ? fmt::format("frame {}", first)
                       : fmt::format("frames {} to {}", first, last);
}

/// "marker 3 at 30.0, 45.0", "markers 0, 1, 2".
std::string markers_in_words(const std::vector<std::size_t>& markers, const std::vector<Pick>& at) {
  if (markers.size() == 1) {
    const Pick& pick = at[markers[0]];
    return fmt::format("marker {} at {:.1f}, {:.1f}", markers[0], pick.x_px, pick.y_px);
  }
  const std::size_t shown = std::min(markers.size(), 2 * kMarkersShown);
  std::string text = fmt::format(
      "markers {}",
      fmt::join(markers.begin(), markers.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
  if (shown < markers.size()) text += fmt::format(" and {} more", markers.size() - shown);
  return text;
}

}  // namespace

std::vector<std::string> reasons_of(const std::vector<DriftPoint>& points,
                                    const MarkerTracks& tracks, int min_markers) {
  std::vector<std::string> reasons(points.size());
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (!known(points[i])) reasons[i] = reason_of(tracks, i, min_markers);
  }
  return reasons;
}

std::int64_t frames_known(const DriftTrace& trace) noexcept {
  return std::count_if(trace.points.begin(), trace.points.end(), known);
}

std::string advice_in_words(const std::string& option, std::int64_t known, std::int64_t frames,
                            double least_share) {
  const double share = static_cast<double>(known) / static_cast<double>(frames);
  constexpr double kSteps = 1000;
  const std::string lower = share < least_share ? fmt::format(" --min-drift-share {:g}",
                                                              std::floor(kSteps * share) / kSteps)
                                                : "";
  return fmt::format("\n  {}{}: {} of {} {} a drift then", option, lower, known,
                     counted(frames, "frame"), known == 1 ? "has" : "have");
}

std::string gaps_in_words(const DriftTrace& trace, const MarkerTracks& tracks,
                          const GapSettings& settings) {
  const int min_markers = settings.solved_by.min_markers;
  const Totals totals = totals_of(trace, tracks, min_markers);
  std::string text = fmt::format("no drift in {} of {}: {}", totals.frames,
                                 counted(trace.points.size(), "frame"), stretches_in_words(trace));
  text += fmt::format("\n  {} of {} {} needed; in {}, of {} in all", min_markers,
                      counted(tracks.markers(), "marker"), min_markers == 1 ? "is" : "are",
                      totals.frames == 1 ? "this frame" : "these frames",
                      totals.frames * static_cast<std::int64_t>(tracks.markers()));
  bool any = false;
  for (const auto& [count, what] : by_reason(totals.absences)) {
    if (count == 0) continue;
    text += fmt::format("{} {} {}", any ? "," : "", count, what);
    any = true;
  }
  if (!any) text += " none is missing";
  if (totals.disagreeing > 0) {
    text += fmt::format("; in {} they do not agree", counted(totals.disagreeing, "frame"));
  }
  text += "\nwhat may help:";
  text += fewer_markers(tracks, frames_known(trace), settings);
  text += other_reference(trace, tracks, settings);
  if (totals.absences.not_sought > 0) {
    text += "\n  --first-frame: leaves out the frames before the one the markers were found in";
  }
  if (totals.absences.not_fitted > 0 && !settings.gain_known) {
    text +=
        "\n  --gain, --offset, --read-noise: without them spots that are wide and dim are refused";
  }
  text +=
      "\n  --picks, or another --first-frame to find markers in: markers that are there all the "
      "time";
  if (totals.disagreeing + totals.absences.strayed > 0) text += " and move together";
  return text;
}

std::string jumps_in_words(const DriftTrace& trace, bool spare_markers) {
  const std::vector<Step> steps = steps_of(trace);
  std::size_t jumps = 0;
  const Step* largest = nullptr;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (!is_jump(steps, i)) continue;
    ++jumps;
    if (largest == nullptr || steps[i].px() > largest->px()) largest = &steps[i];
  }
  if (largest == nullptr) return {};
  std::string text = fmt::format("the drift jumps by {:.1f} px between frames {} and {}",
                                 largest->px(), largest->from, largest->to);
  if (jumps > 1) {
    text +=
        fmt::format(", and less in {} of {}", jumps - 1, counted(steps.size() - 1, "other step"));
  }
  return text +
         ": the sample jumped, or other spots were taken for the markers\n  look at these frames; "
         "--picks" +
         (spare_markers ? ", or a higher --min-markers, keeps" : " keeps") +
         " to markers that are there all the time";
}

std::string seldom_in_words(const std::vector<MarkerSeen>& markers, std::int64_t frames) {
  std::string text;
  std::size_t seldom = 0;
  for (std::size_t m = 0; m < markers.size(); ++m) {
    const MarkerSeen& seen = markers[m];
    if (static_cast<double>(seen.frames) >= kSeldomShare * static_cast<double>(frames)) continue;
    if (++seldom > kMarkersShown) continue;
    text +=
        fmt::format("{}marker {} at {:.1f}, {:.1f} was found in {} of {}", text.empty() ? "" : "\n",
                    m, seen.at.x_px, seen.at.y_px, seen.frames, counted(frames, "frame"));
    const char* before = ": ";
    for (const auto& [count, what] : by_reason(seen.missing)) {
      if (count > 0) text += fmt::format("{}{} {}", std::exchange(before, ", "), count, what);
    }
  }
  if (seldom > kMarkersShown) text += fmt::format("\nand {} more", seldom - kMarkersShown);
  return text;
}

std::string moved_in_words(const std::vector<MarkerMoved>& moved, const std::vector<Pick>& at,
                           std::int64_t first_frame) {
  std::string text;
  for (std::size_t i = 0; i < std::min(moved.size(), kMarkersShown); ++i) {
    const MarkerMoved& m = moved[i];
    text += fmt::format("{}{} is {:.2f} px from where it was from frame {} on",
                        text.empty() ? "" : "\n", markers_in_words({m.marker}, at), m.by_px,
                        first_frame + static_cast<std::int64_t>(m.frame));
    if (m.before + 1 < m.frame) {
      text += fmt::format(", and was seen there last in frame {}",
                          first_frame + static_cast<std::int64_t>(m.before));
    }
  }
  if (moved.size() > kMarkersShown)
    text += fmt::format("\nand {}", counted(moved.size() - kMarkersShown, "more such move"));
  if (!text.empty())
    text +=
        "\n  it slipped, or another spot was taken for it: it counts from its new place then, and "
        "the drift does not follow it";
  return text;
}

std::string apart_in_words(const std::vector<MarkersApart>& apart, const std::vector<Pick>& at,
                           std::int64_t first_frame) {
  std::string text;
  for (std::size_t i = 0; i < std::min(apart.size(), kMarkersShown); ++i) {
    const MarkersApart& a = apart[i];
    text += fmt::format(
        "{}{} and {} move apart by up to {:.2f} px (by more than {:g} px in {}): {}",
        text.empty() ? "" : "\n", markers_in_words(a.some, at), markers_in_words(a.others, at),
        a.most_px, kApartPx,
        frames_in_words(first_frame + static_cast<std::int64_t>(a.first),
                        first_frame + static_cast<std::int64_t>(a.last)),
        a.is_decided()
            ? "the drift is that of the latter, which are more"
            : "they are as many, so that nobody can tell which stayed with the sample; the drift "
              "is their mean, its standard deviation at least half of what they are apart, and "
              "none where they are too far apart to agree");
  }
  if (apart.size() > kMarkersShown)
    text += fmt::format("\nand {}", counted(apart.size() - kMarkersShown, "more such group"));
  return text;
}

}  // namespace driftd::tools
