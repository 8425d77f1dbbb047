// SPDX-License-Identifier: MIT
// Markers that slip for good, and groups of markers that move apart: what becomes of the drift, of
// its standard deviation, and who is named.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "support/catch.hpp"
#include "tools/driftfit/drift_trace.hpp"

namespace driftd::tools {
namespace {

constexpr int kFrames = 100;

struct Own {
  double x_px = 0, y_px = 0;
};

double drift_x(int frame) {
  return 0.01 * frame;
}
double drift_y(int frame) {
  return std::sin(0.1 * frame);
}

/// @param own  of a marker in a frame, beside the drift
template <class OwnMotion>
MarkerTracks tracks_with(int markers, double noise_px, const OwnMotion& own) {
  std::mt19937 random(5);
  std::normal_distribution<double> noise(0, noise_px);
  MarkerTracks tracks(static_cast<std::size_t>(markers));
  for (int frame = 0; frame < kFrames; ++frame) {
    std::vector<Spot> spots;
    for (int m = 0; m < markers; ++m) {
      const Own off = own(m, frame);
      Spot spot{.frame = frame, .marker = m};
      spot.x_px = 30.0 * m + drift_x(frame) + off.x_px + noise(random);
      spot.y_px = 17.0 * m + drift_y(frame) + off.y_px + noise(random);
      spot.fit.x_sd_px = spot.fit.y_sd_px = static_cast<float>(noise_px);
      spots.push_back(spot);
    }
    tracks.add_frame(spots);
  }
  return tracks;
}

struct Errors {
  int known = 0;
  double worst_px = 0;
  double worst_sd = 0;  ///< in standard deviations that are told, of a distance
};

Errors errors_of(const std::vector<DriftPoint>& points) {
  Errors errors;
  for (int frame = 0; frame < kFrames; ++frame) {
    const DriftPoint& p = points[static_cast<std::size_t>(frame)];
    if (p.markers == 0) continue;
    ++errors.known;
    const double off_px =
        std::hypot(p.x_px - drift_x(frame) + drift_x(0), p.y_px - drift_y(frame) + drift_y(0));
    errors.worst_px = std::max(errors.worst_px, off_px);
    errors.worst_sd = std::max(errors.worst_sd, off_px / std::hypot(p.x_sd_px, p.y_sd_px));
  }
  return errors;
}

struct Slipping {
  int marker, frame;
  Own by;
};

void check_slips(int markers, double noise_px, const std::vector<Slipping>& slips) {
  CAPTURE(markers, noise_px, slips.front().frame, slips.front().by.x_px, slips.size());
  const auto still = solve_drift(tracks_with(markers, noise_px, [](int, int) { return Own{}; }),
                                 {.min_markers = 3});
  REQUIRE(still.moved.empty());
  const auto own = [&](int m, int frame) {
    Own off;
    for (const Slipping& slip : slips) {
      if (slip.marker != m || frame < slip.frame) continue;
      off.x_px += slip.by.x_px;
      off.y_px += slip.by.y_px;
    }
    return off;
  };
  const auto solution = solve_drift(tracks_with(markers, noise_px, own), {.min_markers = 3});
  const Errors errors = errors_of(solution.points);
  CHECK(errors.known == kFrames);
  // The noise of places that are known from fewer frames.
  CHECK(errors.worst_px < errors_of(still.points).worst_px + noise_px);
  REQUIRE(solution.moved.size() == slips.size());
  for (std::size_t i = 0; i < slips.size(); ++i) {
    const MarkerMoved& moved = solution.moved[i];
    CHECK(moved.marker == static_cast<std::size_t>(slips[i].marker));
    CHECK(std::abs(static_cast<int>(moved.frame) - slips[i].frame) <= 1);
    CHECK(moved.by_px ==
          Approx(std::hypot(slips[i].by.x_px, slips[i].by.y_px)).margin(2 * noise_px));
  }
  CHECK(solution.apart.empty());
}

TEST_CASE("one marker of three or four that slips for good costs no drift, and is named") {
  for (const int markers : {3, 4}) {
    for (const double noise_px : {0.003, 0.02, 0.03}) {
      for (const double slip_px : {0.3, 0.5, 1.0, 1.5, 2.2, 3.2}) {
        const Own by{0.8 * slip_px, -0.6 * slip_px};
        for (const int frame : {20, 50, 80}) check_slips(markers, noise_px, {{1, frame, by}});
        check_slips(markers, noise_px, {{1, 30, by}, {2, 60, {0, slip_px}}});
        check_slips(markers, noise_px, {{0, 47, by}, {2, 40, {0, slip_px}}});  // the reference's
        check_slips(markers, noise_px, {{1, 30, by}, {1, 60, {0, slip_px}}});
      }
    }
  }
}

TEST_CASE("in the frame of a slip those that stay decide, also where fewer of them are seen") {
  // Of seven three slip in frame 40, in which two of those that stay are seen.
  constexpr int kSlip = 40;
  const MarkerTracks tracks = tracks_with(7, 0.01, [](int m, int frame) {
    if (m < 3) return frame < kSlip ? Own{} : Own{-0.8, 0.7};
    const double dark = std::numeric_limits<double>::quiet_NaN();
    return frame == kSlip && m > 4 ? Own{dark, dark} : Own{};
  });
  const DriftSolution solution = solve_drift(tracks, {});
  const Errors errors = errors_of(solution.points);
  CHECK(errors.known == kFrames);
  CHECK(errors.worst_px < 0.05);
  REQUIRE(solution.moved.size() == 3);
  for (const MarkerMoved& moved : solution.moved) CHECK(moved.frame == kSlip);
}

TEST_CASE("slips of each marker in turn leave the drift alone") {
  std::vector<Slipping> slips;
  for (int m = 0; m < 5; ++m) slips.push_back({m, 10 + 15 * m, {1.5 * std::cos(m), std::sin(m)}});
  check_slips(5, 0.02, slips);
}

TEST_CASE("most markers that move together are the sample, whoever stays behind") {
  const auto own = [](int m, int frame) { return m > 0 && frame >= 40 ? Own{1, 0} : Own{}; };
  const auto solution = solve_drift(tracks_with(3, 0.02, own), {.min_markers = 3});
  REQUIRE(solution.moved.size() == 1);
  CHECK(solution.moved[0].marker == 0);
  CHECK(solution.moved[0].by_px == Approx(1).margin(0.05));
}

TEST_CASE("a marker that walks does not slip, but is told to move apart") {
  for (const double rate_px : {0.01, 0.03, 0.1}) {
    CAPTURE(rate_px);
    const auto own = [&](int m, int frame) { return m == 2 ? Own{rate_px * frame, 0} : Own{}; };
    const auto solution = solve_drift(tracks_with(4, 0.02, own), {.min_markers = 3});
    CHECK(solution.moved.empty());
    CHECK(errors_of(solution.points).known == kFrames);
    CHECK(errors_of(solution.points).worst_px < 0.12);
    REQUIRE(solution.apart.size() == 1);
    CHECK(solution.apart[0].is_decided());
    CHECK(solution.apart[0].some == std::vector<std::size_t>{2});
    CHECK(solution.apart[0].most_px == Approx(rate_px * kFrames).epsilon(0.15));
    const double since = 0.25 / rate_px;
    CHECK(std::abs(static_cast<double>(solution.apart[0].first) - since) <= 10);
    CHECK(solution.apart[0].last == kFrames - 1);
  }
}

/// Half of the markers go elsewhere, from frame 30 on; nobody can know that they are wrong.
template <class Way>
void check_halves(int markers, const Way& way, double most_px) {
  CAPTURE(markers, most_px);
  const auto own = [&](int m, int frame) { return m % 2 == 1 ? Own{way(frame), 0} : Own{}; };
  const auto solution =
      solve_drift(tracks_with(markers, 0.02, own), {.min_markers = std::min(markers, 3)});
  REQUIRE(solution.apart.size() == 1);
  const MarkersApart& apart = solution.apart[0];
  CHECK_FALSE(apart.is_decided());
  CHECK(apart.some.size() == static_cast<std::size_t>(markers / 2));
  for (const std::size_t m : apart.some) CHECK(m % 2 == apart.some[0] % 2);
  CHECK(apart.most_px == Approx(most_px).epsilon(0.15));
  CHECK(apart.first >= 25);
  CHECK(apart.last == kFrames - 1);
  CHECK(solution.moved.empty());
  const Errors errors = errors_of(solution.points);
  CHECK(errors.worst_sd < 4);
  CHECK(solution.points[20].x_sd_px < 0.1);
  for (std::size_t frame = 90; frame < kFrames; ++frame) {
    if (solution.points[frame].markers > 0) CHECK(solution.points[frame].x_sd_px < most_px);
  }
}

TEST_CASE("as many markers as stay move apart: they are named, and the drift is as uncertain") {
  for (const int markers : {2, 4, 6}) {
    for (const double most_px : {0.4, 0.6, 0.8, 1.2}) {
      check_halves(
          markers, [&](int frame) { return most_px * std::max(0, frame - 30) / 70; }, most_px);
      check_halves(
          markers, [&](int frame) { return frame >= 30 ? most_px : 0.0; }, most_px);
    }
  }
}

TEST_CASE("of two markers one slips far: frames after it have no drift, and both are named") {
  const auto own = [](int m, int frame) { return m == 1 && frame >= 60 ? Own{2, 0} : Own{}; };
  const auto solution = solve_drift(tracks_with(2, 0.02, own), {.min_markers = 2});
  CHECK(solution.points[59].markers == 2);
  CHECK(solution.points[60].markers == 0);
  REQUIRE(solution.apart.size() == 1);
  CHECK_FALSE(solution.apart[0].is_decided());
  CHECK(solution.apart[0].most_px == Approx(2).margin(0.05));
  CHECK(solution.apart[0].first == 60);
}

TEST_CASE("three markers against two decide; the two are named") {
  const auto own = [](int m, int frame) { return m > 2 ? Own{0, 0.008 * frame} : Own{}; };
  const auto solution = solve_drift(tracks_with(5, 0.02, own), {.min_markers = 3});
  REQUIRE(solution.apart.size() == 1);
  CHECK(solution.apart[0].is_decided());
  CHECK(solution.apart[0].some == std::vector<std::size_t>{3, 4});
  CHECK(errors_of(solution.points).known == kFrames);
  CHECK(errors_of(solution.points).worst_px < 0.12);
}

TEST_CASE("noise, even much of it, moves no marker and none apart") {
  for (const double noise_px : {0.01, 0.05, 0.2}) {
    for (const int markers : {2, 3, 6, 20}) {
      CAPTURE(noise_px, markers);
      const auto solution = solve_drift(
          tracks_with(markers, noise_px, [](int, int) { return Own{}; }), {.min_markers = 2});
      CHECK(solution.moved.empty());
      CHECK(solution.apart.empty());
    }
  }
}

}  // namespace
}  // namespace driftd::tools
