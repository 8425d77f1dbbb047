// SPDX-License-Identifier: MIT
#include <algorithm>
#include <random>

#include "support/catch.hpp"
#include "tools/driftfit/drift_gaps.hpp"

namespace driftd::tools {
namespace {

constexpr int kMarkers = 5;

/// Markers at places of their own that do not move; frame by frame how many of them are found.
MarkerTracks tracks_of(const std::vector<int>& found, const std::vector<Absences>& absences) {
  MarkerTracks tracks(kMarkers);
  for (std::size_t frame = 0; frame < found.size(); ++frame) {
    std::vector<Spot> spots;
    for (int m = 0; m < found[frame]; ++m) {
      Spot spot{.frame = static_cast<std::int64_t>(frame), .marker = m};
      spot.x_px = 11.0 * m + 3;
      spot.y_px = 90 - 17.0 * m;
      spot.fit.x_sd_px = spot.fit.y_sd_px = 0.02f;
      spots.push_back(spot);
    }
    tracks.add_frame(spots, absences[frame]);
  }
  return tracks;
}

struct Case {
  MarkerTracks tracks;
  DriftTrace trace;
};

Case case_of(const std::vector<int>& found, const std::vector<Absences>& absences,
             int min_markers) {
  Case c{tracks_of(found, absences), {}};
  c.trace.points = solve_drift(c.tracks, {.min_markers = min_markers}).points;
  c.trace.reasons = reasons_of(c.trace.points, c.tracks, min_markers);
  c.trace.first_frame = 100;
  return c;
}

TEST_CASE("a jump of the drift is told, by its frames, and slow or even drifts are not") {
  DriftTrace trace{.points = {}, .reasons = {}, .first_frame = 100};
  const auto add = [&](double x_px, double y_px, int markers = 3) {
    trace.points.push_back({.markers = markers, .x_px = x_px, .y_px = y_px});
  };
  CHECK(jumps_in_words(trace, true).empty());
  for (int i = 0; i < 8; ++i) add(0.05 * i, -0.02 * i);
  CHECK(jumps_in_words(trace, true).empty());
  add(99, 99, 0);    // not known
  add(0.35, -3.14);  // 3.0 px below the eighth, in y alone
  CHECK_THAT(jumps_in_words(trace, true), contains("jumps by 3.0 px between frames 107 and 109:"));
  add(-3.65, -3.14);  // 4.0 px, in x alone
  CHECK_THAT(
      jumps_in_words(trace, true),
      contains("jumps by 4.0 px between frames 109 and 110, and less in 1 of 8 other steps:"));
  trace.points.resize(8);
  add(0.35, -2.13);  // 1.99 px
  CHECK(jumps_in_words(trace, true).empty());
  trace.points.clear();
  for (const double x_px : {0.0, 0.1, 10.0})
    add(x_px, 0);  // of two steps the median is the smaller
  CHECK_THAT(jumps_in_words(trace, true), contains("jumps by 9.9 px between frames 101 and 102:"));
  CHECK_THAT(jumps_in_words(trace, true), contains("--picks, or a higher --min-markers, keeps to"));
  CHECK_THAT(jumps_in_words(trace, false),
             contains("--picks keeps to") && !contains("--min-markers"));
  trace.points.clear();
  for (const double x_px : {0.0, 5.0, 0.0}) add(x_px, 0);
  CHECK_THAT(jumps_in_words(trace, true), contains("and less in 1 of 1 other step:"));
  trace.points.clear();
  for (int i = 0; i < 8; ++i) add(3.0 * i, 0);  // each frame as much: a stage that scans
  CHECK(jumps_in_words(trace, true).empty());
}

TEST_CASE("jumps are told where most steps are jumps, and not after a long gap in a slow drift") {
  DriftTrace trace{.points = {}, .reasons = {}};
  const auto add = [&](double x_px, double y_px, int markers = 3) {
    trace.points.push_back({.markers = markers, .x_px = x_px, .y_px = y_px});
  };
  std::mt19937 random(3);
  std::uniform_real_distribution<double> anywhere(-8, 8);
  for (int i = 0; i < 60; ++i) i % 5 == 0 ? add(0, 0) : add(anywhere(random), anywhere(random));
  CHECK_THAT(jumps_in_words(trace, true), contains("of 58 other steps"));
  trace.points.clear();
  for (int i = 0; i < 60; ++i) add(i % 2 == 0 ? 0 : 5, 0);  // to and fro
  CHECK_THAT(jumps_in_words(trace, true),
             contains("jumps by 5.0 px between frames 0 and 1, and less in "
                      "58 of 58 other steps"));
  trace.points.clear();
  for (int i = 0; i < 60; ++i) add(0.1 * i, -0.1 * i, i > 10 && i < 40 ? 0 : 3);
  CHECK(jumps_in_words(trace, true).empty());  // 4.2 px in the gap
}

TEST_CASE("markers with new places, and those that move apart, are named with frame and way") {
  const std::vector<Pick> at = {{15, 14}, {50, 20}, {30.04, 45}, {62, 50}};
  CHECK(moved_in_words({}, at, 0).empty());
  CHECK_THAT(moved_in_words({{2, 40, 39, 1.497}}, at, 100),
             contains("marker 2 at 30.0, 45.0 is 1.50 px from where it was from frame 140 on\n"));
  CHECK_THAT(moved_in_words({{2, 40, 27, 1.497}}, at, 100),
             contains("from frame 140 on, and was seen there last in frame 127\n"));
  CHECK_THAT(moved_in_words(std::vector<MarkerMoved>(11), at, 0),
             contains("and 3 more such moves"));
  CHECK_THAT(moved_in_words(std::vector<MarkerMoved>(9), at, 0),
             contains("and 1 more such move\n"));
  CHECK(apart_in_words({}, at, 0).empty());
  const MarkersApart one{
      .some = {3}, .others = {0, 1, 2}, .most_px = 0.81, .first = 30, .last = 99};
  CHECK_THAT(apart_in_words({one}, at, 7),
             contains("marker 3 at 62.0, 50.0 and markers 0, 1, 2 move apart by up to 0.81 px (by "
                      "more than 0.25 px in frames 37 to 106): ") &&
                 contains("which are more"));
  const MarkersApart even{.some = {0, 3}, .others = {1, 2}, .most_px = 1, .first = 0, .last = 9};
  CHECK_THAT(
      apart_in_words({one, even}, at, 0),
      contains("which are more\nmarkers 0, 3 and markers 1, 2 move apart by up to 1.00 px") &&
          contains("nobody can tell"));
  CHECK_THAT(apart_in_words(std::vector<MarkersApart>(9, even), at, 0),
             contains("\nand 1 more such group") && !contains("such groups"));
  const MarkersApart once{.some = {3}, .others = {1}, .most_px = 0.81, .first = 30, .last = 30};
  CHECK_THAT(apart_in_words({once}, at, 7),
             contains("marker 3 at 62.0, 50.0 and marker 1 at 50.0, 20.0 move apart") &&
                 contains("(by more than 0.25 px in frame 37): "));
  MarkersApart many = even;
  many.others = std::vector<std::size_t>(40, 1);
  CHECK_THAT(apart_in_words({many}, at, 0), contains(" and 24 more move apart"));
}

TEST_CASE("a frame without drift says how many markers it has and why it lacks the others") {
  const Case c = case_of({5, 2, 0, 3, 1},
                         {{},
                          {.bad_pixels = 1, .not_fitted = 2},
                          {.not_sought = 5},
                          {.not_fitted = 2},
                          {.outside = 3, .strayed = 1}},
                         3);
  CHECK(c.trace.reasons ==
        std::vector<std::string>{
            "", "2 of 5 markers; 3 needed; 2 not fitted; 1 saturated or without contrast",
            "0 of 5 markers; 3 needed; 5 not sought yet", "",
            "1 of 5 markers; 3 needed; 1 apart from the others; 3 outside the frame"});
  CHECK(frames_known(c.trace) == 2);
  for (const std::string& reason : c.trace.reasons) {
    CHECK(std::count(reason.begin(), reason.end(), ',') == 0);  // it stands in a CSV
  }
}

TEST_CASE("markers that are enough but do not agree are told apart from markers that are missing") {
  const MarkerTracks tracks = tracks_of({3, 2, 4}, std::vector<Absences>(3));
  const std::vector<DriftPoint> unknown(3);
  CHECK(reasons_of(unknown, tracks, 3) ==
        std::vector<std::string>{"3 of 5 markers; fewer than 3 agree", "2 of 5 markers; 3 needed",
                                 "4 of 5 markers; fewer than 3 agree"});
  CHECK_THAT(
      gaps_in_words({.points = unknown, .reasons = {}}, tracks, {.solved_by = {.min_markers = 3}}),
      contains("; in 2 frames they do not agree") && contains("all the time and move together") &&
          !contains("--gain"));
}

TEST_CASE("the summary counts frames as the stack does, and names stretches") {
  const Case c = case_of({5, 2, 2, 2, 5, 5, 1, 5},
                         {{},
                          {.not_fitted = 3},
                          {.not_fitted = 3},
                          {.not_fitted = 3},
                          {},
                          {},
                          {.not_fitted = 3, .strayed = 1},
                          {}},
                         3);
  const std::string text = gaps_in_words(c.trace, c.tracks, {.solved_by = {.min_markers = 3}});
  CHECK_THAT(text, contains("no drift in 4 of 8 frames: 101 to 103, 106\n"));
  CHECK_THAT(text, contains("3 of 5 markers are needed; in these frames, of 20 in all 12 not "
                            "fitted, 1 apart from the others\n"));
}

TEST_CASE("what would help is said with its figure, and only where it would") {
  const std::vector<Absences> none(6);
  const auto advice = [](const Case& c, const GapSettings& settings) {
    return gaps_in_words(c.trace, c.tracks, settings);
  };
  // Four markers would do in all frames but one, three in all.
  const Case c = case_of({5, 4, 4, 3, 4, 5}, none, 5);
  CHECK_THAT(advice(c, {.solved_by = {.min_markers = 5}}),
             contains("--min-markers 3: 6 of 6 frames have a drift then"));
  CHECK_THAT(advice(c, {.solved_by = {.min_markers = 5}, .wanted_share = 0.8}),
             contains("--min-markers 4: 5 of 6 frames"));
  CHECK_THAT(advice(case_of({5, 0, 0, 0, 0, 0}, none, 5), {.solved_by = {.min_markers = 5}}),
             !contains("--min-markers"));
  CHECK_THAT(advice(c, {.solved_by = {.min_markers = 5}}),
             !contains("--gain") && !contains("--first-frame:"));

  std::vector<Absences> absences = none;
  absences[2].not_fitted = 1;
  absences[0].not_sought = 5;
  const Case not_fitted = case_of({0, 5, 4, 5, 5, 5}, absences, 5);
  CHECK_THAT(advice(not_fitted, {.solved_by = {.min_markers = 5}}),
             contains("--gain") && contains("--first-frame:"));
  CHECK_THAT(advice(not_fitted, {.solved_by = {.min_markers = 5}, .gain_known = true}),
             !contains("--gain"));
}

TEST_CASE("fewer markers are advised only where a drift comes of it") {
  // Two that contradict: whatever is asked for, nobody knows. Three of which one does: two decide.
  for (const int markers : {2, 3}) {
    MarkerTracks tracks(static_cast<std::size_t>(markers));
    for (int frame = 0; frame < 20; ++frame) {
      std::vector<Spot> spots;
      for (int m = 0; m < markers; ++m) {
        Spot spot{.frame = frame, .marker = m};
        spot.x_px = 20.0 * m + (m == 0 && frame >= 10 ? 2.5 : 0);
        spot.y_px = 5.0 * m;
        spot.fit.x_sd_px = spot.fit.y_sd_px = 0.02f;
        spots.push_back(spot);
      }
      tracks.add_frame(spots);
    }
    const DriftSettings settings{.reference = 0, .min_markers = markers};
    DriftTrace trace{.points = std::vector<DriftPoint>(20), .reasons = {}};
    for (int frame = 0; frame < 10; ++frame)
      trace.points[static_cast<std::size_t>(frame)].markers = markers;
    const std::string said = gaps_in_words(trace, tracks, {.solved_by = settings});
    CAPTURE(markers, said);
    CHECK((said.find("--min-markers 2: 20 of 20 frames have a drift then") != said.npos) ==
          (markers == 3));
    if (markers == 2) CHECK_THAT(said, !contains("--min-markers"));
  }
}

TEST_CASE("one frame without a drift is told in the singular") {
  const Case c = case_of({5, 2, 5}, {{}, {.not_fitted = 3}, {}}, 3);
  CHECK_THAT(gaps_in_words(c.trace, c.tracks, {}),
             contains("no drift in 1 of 3 frames: 101\n") &&
                 contains("in this frame, of 5 in all 3 not fitted\n"));
}

TEST_CASE("markers that are seldom found are named, with where they are and why") {
  std::vector<MarkerSeen> markers = {{{10, 20}, 150, {}},
                                     {{40.25, 31}, 30, {.not_fitted = 12, .strayed = 157}},
                                     {{7, 8.04}, 149, {.bad_pixels = 50}}};
  CHECK(seldom_in_words(markers, 199) ==
        "marker 1 at 40.2, 31.0 was found in 30 of 199 frames: 12 not fitted, 157 apart from the "
        "others\nmarker 2 at 7.0, 8.0 was found in 149 of 199 frames: 50 saturated or without "
        "contrast");
  markers.resize(1);
  CHECK(seldom_in_words(markers, 199).empty());
  CHECK_THAT(seldom_in_words(std::vector<MarkerSeen>(11), 9),
             contains("marker 7 at") && !contains("marker 8 at") && contains("\nand 3 more"));
}

TEST_CASE("many stretches are not all listed, but the longest is told") {
  std::vector<int> found;
  for (int i = 0; i < 40; ++i) found.push_back(i % 4 == 0 ? 0 : 5);
  found[30] = found[31] = 0;
  const Case c = case_of(found, std::vector<Absences>(found.size()), 3);
  CHECK_THAT(gaps_in_words(c.trace, c.tracks, {}),
             contains("no drift in 12 of 40 frames: 100, 104, ") &&
                 contains(" 128 and 2 more stretches, the longest of 3 frames\n"));
}

}  // namespace
}  // namespace driftd::tools
