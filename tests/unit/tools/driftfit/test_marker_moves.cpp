// SPDX-License-Identifier: MIT
// Markers that slip for good, and groups of markers that move apart: what becomes of the drift, of
// its standard deviation, and who is named.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

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

/// @param own  of a marker in a frame, beside the drift; NaN: it is not seen
template <class OwnMotion>
MarkerTracks tracks_with(int markers, double noise_px, const OwnMotion& own, unsigned seed = 5,
                         int frames = kFrames) {
  std::mt19937 random(seed);
  std::normal_distribution<double> noise(0, noise_px);
  MarkerTracks tracks(static_cast<std::size_t>(markers));
  for (int frame = 0; frame < frames; ++frame) {
    std::vector<Spot> spots;
    for (int m = 0; m < markers; ++m) {
      const Own off = own(m, frame);
      Spot spot{.frame = frame, .marker = m};
      spot.x_px = 30.0 * m + drift_x(frame) + off.x_px + noise(random);
      spot.y_px = 17.0 * m + drift_y(frame) + off.y_px + noise(random);
      spot.fit.x_sd_px = spot.fit.y_sd_px = static_cast<float>(noise_px);
      if (!std::isnan(spot.x_px)) spots.push_back(spot);
    }
    tracks.add_frame(spots);
  }
  return tracks;
}

struct Errors {
  int known = 0;
  double worst_px = 0;
  double worst_sd = 0;  ///< in standard deviations that are told, of a distance
  int wrong = 0;        ///< by more than six of these and 0.15 px
};

Errors errors_of(const std::vector<DriftPoint>& points) {
  Errors errors;
  int zero = -1;  // the first frame that has a drift
  for (int frame = 0; frame < static_cast<int>(points.size()); ++frame) {
    const DriftPoint& p = points[static_cast<std::size_t>(frame)];
    if (p.markers == 0) continue;
    ++errors.known;
    if (zero < 0) zero = frame;
    const double off_px = std::hypot(p.x_px - drift_x(frame) + drift_x(zero),
                                     p.y_px - drift_y(frame) + drift_y(zero));
    errors.worst_px = std::max(errors.worst_px, off_px);
    const double off_sd = off_px / std::hypot(p.x_sd_px, p.y_sd_px);
    errors.worst_sd = std::max(errors.worst_sd, off_sd);
    errors.wrong += off_sd > 6 && off_px > 0.15 ? 1 : 0;
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

TEST_CASE("a slip shows where two frames are on each side of it") {
  for (const int markers : {3, 5}) {
    for (const int frame : {2, 3, 4, 95, 96, 97, 98})
      check_slips(markers, 0.005, {{1, frame, {0.4, -0.3}}});
    // Of the first frame alone, or the last, nobody can say whether it was fitted wrongly.
    for (const int frame : {1, 99}) {
      const auto own = [&](int m, int at) { return m == 1 && at >= frame ? Own{0.4, 0} : Own{}; };
      const auto solution = solve_drift(tracks_with(markers, 0.005, own), {.min_markers = 3});
      CHECK(solution.moved.empty());
      CHECK(errors_of(solution.points).known == kFrames);
      CHECK(errors_of(solution.points).worst_px < 0.03);
    }
  }
}

TEST_CASE("in short recordings, too, noise is no slip") {
  for (const int frames : {6, 8, 10, 11, 12, 15}) {
    for (unsigned seed = 0; seed < 100; ++seed) {
      std::mt19937 random(seed);
      std::lognormal_distribution<double> dim(0, 0.7);
      std::vector<double> noise;
      const int markers = 3 + static_cast<int>(seed % 9);
      for (int m = 0; m < markers; ++m) noise.push_back(0.03 * dim(random));
      std::normal_distribution<double> normal;
      MarkerTracks tracks(static_cast<std::size_t>(markers));
      for (int frame = 0; frame < frames; ++frame) {
        std::vector<Spot> spots;
        for (int m = 0; m < markers; ++m) {
          const double sd_px = noise[static_cast<std::size_t>(m)];
          Spot spot{.frame = frame, .marker = m};
          spot.x_px = 30.0 * m + sd_px * normal(random);
          spot.y_px = 17.0 * m + sd_px * normal(random);
          spot.fit.x_sd_px = spot.fit.y_sd_px = static_cast<float>(sd_px);
          spots.push_back(spot);
        }
        tracks.add_frame(spots);
      }
      CAPTURE(frames, seed);
      CHECK(solve_drift(tracks, {.min_markers = 3}).moved.empty());
    }
  }
}

TEST_CASE("of three markers one may creep by a pixel, and the drift is that of the two") {
  for (const double most_px : {0.5, 0.8, 1.0, 1.5}) {
    CAPTURE(most_px);
    const auto own = [&](int m, int frame) {
      return m == 1 ? Own{most_px * frame / kFrames, 0} : Own{};
    };
    const auto solution = solve_drift(tracks_with(3, 0.01, own), {.min_markers = 3});
    const Errors errors = errors_of(solution.points);
    CHECK(errors.known == kFrames);
    CHECK(errors.worst_px < 0.1);
    REQUIRE(solution.apart.size() == 1);
    CHECK(solution.apart[0].some == std::vector<std::size_t>{1});
    CHECK(solution.apart[0].is_decided());
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

/// Half of the markers go elsewhere; nobody can know that they are wrong.
/// @param first, last  between which they begin to be a quarter of a pixel apart
template <class Way>
void check_halves(int markers, const Way& way, double most_px, std::size_t first,
                  std::size_t last) {
  CAPTURE(markers, most_px, first);
  const auto own = [&](int m, int frame) { return m % 2 == 1 ? Own{way(frame), 0} : Own{}; };
  const auto solution =
      solve_drift(tracks_with(markers, 0.02, own), {.min_markers = std::min(markers, 3)});
  REQUIRE(solution.apart.size() == 1);
  const MarkersApart& apart = solution.apart[0];
  CHECK_FALSE(apart.is_decided());
  CHECK(apart.some.size() == static_cast<std::size_t>(markers / 2));
  for (const std::size_t m : apart.some) CHECK(m % 2 == apart.some[0] % 2);
  CHECK(apart.most_px == Approx(most_px).epsilon(0.15));
  CHECK(apart.first >= first);
  CHECK(apart.first <= last);
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
      const auto first = static_cast<std::size_t>(30 + 0.25 / most_px * 70);
      check_halves(
          markers, [&](int frame) { return most_px * std::max(0, frame - 30) / 70; }, most_px,
          first - 3, first + 5);
      for (const int slip : {30, 37, 42})
        check_halves(
            markers, [&](int frame) { return frame >= slip ? most_px : 0.0; }, most_px,
            static_cast<std::size_t>(slip), static_cast<std::size_t>(slip));
    }
  }
}

TEST_CASE("nor does it matter how many of each half are seen in a frame") {
  const double dark = std::numeric_limits<double>::quiet_NaN();
  int frames = 0, wrong = 0;
  for (const int markers : {2, 4, 6}) {
    for (const double by_px : {0.5, 0.8, 1.5}) {
      for (unsigned seed = 0; seed < 20; ++seed) {
        std::mt19937 random(seed);
        const int slip = 5 + static_cast<int>(random() % 50);
        std::vector<bool> lit;
        for (int i = 0; i < 60 * markers; ++i) lit.push_back(random() % 8 != 0);
        const auto own = [&](int m, int frame) {
          if (!lit[static_cast<std::size_t>(60 * m + frame)]) return Own{dark, dark};
          return m < markers / 2 && frame >= slip ? Own{0.8 * by_px, -0.6 * by_px} : Own{};
        };
        const auto solution = solve_drift(tracks_with(markers, 0.02, own, seed, 60),
                                          {.min_markers = std::min(markers, 3)});
        CAPTURE(markers, by_px, seed, slip);
        CHECK(solution.moved.empty());
        const Errors errors = errors_of(solution.points);
        frames += errors.known;
        wrong += errors.wrong;
      }
    }
  }
  INFO(wrong << " of " << frames << " drifts are wrong");
  // Drifts of frames that show more of the one half or of the other are what places come from, too.
  CHECK(wrong < 0.003 * frames);
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
  const auto last = [](int m, int frame) { return m == 1 && frame >= 97 ? Own{2, 0} : Own{}; };
  REQUIRE(solve_drift(tracks_with(2, 0.02, last), {.min_markers = 2}).apart.size() == 1);
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

TEST_CASE("wrong fits, each of one marker in one frame, move no markers apart") {
  const double dark = std::numeric_limits<double>::quiet_NaN();
  int known = 0, wrong = 0, apart = 0;
  for (const int frames : {6, 8, 15, 25, 40, 100}) {
    for (unsigned seed = 0; seed < 50; ++seed) {
      std::mt19937 random(seed);
      std::uniform_real_distribution<double> uniform(0, 1);
      const int markers = 4 + static_cast<int>(seed % 6);
      std::vector<Own> all(static_cast<std::size_t>(markers * frames));
      for (Own& own : all) own = uniform(random) < 0.3 ? Own{dark, dark} : Own{};
      for (int frame = 0; frame < frames; ++frame) {
        const double by_px = 0.5 + 2 * uniform(random), angle = 6.28 * uniform(random);
        const auto m = static_cast<int>(random() % static_cast<unsigned>(markers));
        Own& own = all[static_cast<std::size_t>(frame * markers + m)];
        if (uniform(random) < 0.3 && !std::isnan(own.x_px))
          own = {by_px * std::cos(angle), by_px * std::sin(angle)};
      }
      const auto own = [&](int m, int frame) {
        return all[static_cast<std::size_t>(frame * markers + m)];
      };
      const auto solution =
          solve_drift(tracks_with(markers, 0.02, own, seed, frames), {.min_markers = 3});
      const Errors errors = errors_of(solution.points);
      known += errors.known;
      wrong += errors.wrong;
      apart += static_cast<int>(solution.apart.size());
    }
  }
  INFO(wrong << " of " << known << " drifts are wrong, " << apart << " groups are apart");
  CHECK(known > 8000);
  CHECK(wrong == 0);
  // By chance one is fitted wrongly in two frames in turn, in nearly the same way.
  CHECK(apart < 10);
}

TEST_CASE("a wrong fit hides no markers that are apart by less") {
  const auto own = [](int m, int frame) {
    if (m == 0 && frame == 30) return Own{0, 2};
    return m == 1 ? Own{0.006 * frame, 0} : Own{};
  };
  for (const int frames : {40, 100}) {
    const auto solution = solve_drift(
        tracks_with(
            2, 0.01, [&](int m, int at) { return own(m, at * 100 / frames); }, 5, frames),
        {.min_markers = 2});
    REQUIRE(solution.apart.size() == 1);
    CHECK(solution.apart[0].most_px < 1.2);
    CHECK(errors_of(solution.points).worst_sd < 4);
  }
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

// 0.8 s of CPU time; 26 s where each step that noise makes is compared with all markers.
TEST_CASE("many markers in a long recording are searched for slips as fast as they are solved") {
  constexpr int kLong = 2000, kMany = 40;
  const auto own = [](int m, int frame) { return m == 7 && frame >= 1500 ? Own{0.4, 0} : Own{}; };
  const auto solution = solve_drift(tracks_with(kMany, 0.05, own, 5, kLong), {.min_markers = 3});
  REQUIRE(solution.moved.size() == 1);
  CHECK(solution.moved[0].marker == 7);
  CHECK(std::abs(static_cast<int>(solution.moved[0].frame) - 1500) <= 1);
  CHECK(solution.apart.empty());
}

}  // namespace
}  // namespace driftd::tools
