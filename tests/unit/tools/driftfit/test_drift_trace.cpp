// SPDX-License-Identifier: MIT
#include <cmath>
#include <random>

#include "support/catch.hpp"
#include "tools/driftfit/drift_trace.hpp"
#include "unit/tools/driftfit/files.hpp"

namespace driftd::tools {
namespace {

constexpr int kMarkers = 6, kFrames = 40;

double true_x(int frame) {
  return 0.05 * frame;
}
double true_y(int frame) {
  return std::sin(0.2 * frame);
}

Spot spot_of(int frame, int marker, double x_px, double y_px) {
  Spot spot{.frame = frame, .marker = marker, .x_px = x_px, .y_px = y_px};
  spot.fit.x_sd_px = spot.fit.y_sd_px = 0.01f;
  return spot;
}

/// @param seen  whether a marker is found in a frame
template <class Seen>
MarkerTracks tracks_with(double noise_px, const Seen& seen) {
  std::mt19937 random(1);
  std::normal_distribution<double> noise(0, noise_px);
  MarkerTracks tracks(kMarkers);
  for (int frame = 0; frame < kFrames; ++frame) {
    std::vector<Spot> spots;
    for (int m = 0; m < kMarkers; ++m) {
      if (!seen(frame, m)) continue;
      spots.push_back(spot_of(frame, m, 30.0 * m + true_x(frame) + noise(random),
                              17.0 * m + true_y(frame) + noise(random)));
    }
    tracks.add_frame(spots);
  }
  return tracks;
}

double worst_error(const std::vector<DriftPoint>& points, int reference) {
  double worst = 0;
  for (int frame = 0; frame < kFrames; ++frame) {
    const DriftPoint& p = points[static_cast<std::size_t>(frame)];
    worst = std::max({worst, std::abs(p.x_px - true_x(frame) + true_x(reference)),
                      std::abs(p.y_px - true_y(frame) + true_y(reference))});
  }
  return worst;
}

TEST_CASE("the drift is that of the markers, zero in the reference frame") {
  const auto tracks = tracks_with(0, [](int, int) { return true; });
  for (const std::size_t reference : {0u, 17u}) {
    const auto points = solve_drift(tracks, {.reference = reference}).points;
    REQUIRE(points.size() == kFrames);
    CHECK(worst_error(points, static_cast<int>(reference)) < 1e-9);
    CHECK(points[reference].x_px == 0);
  }
}

TEST_CASE("markers that come and go make no jump, though few see the reference") {
  // No marker is there all the time, and only two are in the reference frame.
  const auto tracks =
      tracks_with(0, [](int frame, int m) { return frame / 8 == m || frame / 8 + 1 == m; });
  const auto points = solve_drift(tracks, {.reference = 3}).points;
  CHECK(worst_error(points, 3) < 1e-4);
}

TEST_CASE("its standard deviation is that of its error") {
  const auto tracks = tracks_with(0.01, [](int, int) { return true; });
  const auto points = solve_drift(tracks, {}).points;
  double sum2 = 0;
  for (int frame = 1; frame < kFrames; ++frame) {
    const DriftPoint& p = points[static_cast<std::size_t>(frame)];
    CHECK(p.x_sd_px == Approx(0.01 / std::sqrt(kMarkers)).epsilon(0.8));
    const double off = p.x_px - true_x(frame) - points[0].x_px + true_x(0);
    sum2 += off * off;
  }
  // The reference's own error counts in each.
  CHECK(std::sqrt(sum2 / kFrames) < 3 * 0.01 / std::sqrt(kMarkers));
}

TEST_CASE("markers seen in one frame alone say nothing of its drift") {
  constexpr int kAlways = 3, kOnceInEach = 10;
  constexpr double kNoisePx = 0.03;
  std::mt19937 random(4);
  std::normal_distribution<double> noise(0, kNoisePx);
  MarkerTracks tracks(kAlways + kOnceInEach * kFrames);
  MarkerTracks few(kAlways);
  for (int frame = 0; frame < kFrames; ++frame) {
    std::vector<Spot> spots;
    for (int m = 0; m < kAlways; ++m) {
      spots.push_back(spot_of(frame, m, 30.0 * m + true_x(frame) + noise(random),
                              17.0 * m + true_y(frame) + noise(random)));
      spots.back().fit.x_sd_px = spots.back().fit.y_sd_px = static_cast<float>(kNoisePx);
    }
    few.add_frame(spots);
    for (int i = 0; i < kOnceInEach; ++i) {
      const int m = kAlways + kOnceInEach * frame + i;
      spots.push_back(spot_of(frame, m, 5.0 * i + true_x(frame), 60 - 5.0 * i + true_y(frame)));
    }
    tracks.add_frame(spots);
  }
  const auto points = solve_drift(tracks, {.reference = 7, .min_markers = 3}).points;
  const auto without_them = solve_drift(few, {.reference = 7, .min_markers = 3}).points;
  for (std::size_t i = 0; i < points.size(); ++i) {
    CHECK(points[i].markers == kAlways);
    CHECK(points[i].x_px == Approx(without_them[i].x_px).margin(1e-4));
    CHECK(points[i].y_px == Approx(without_them[i].y_px).margin(1e-4));
    CHECK(points[i].x_sd_px > 0.6 * kNoisePx / std::sqrt(kAlways));
  }
}

TEST_CASE("a marker counts from its second frame on, with what its place is uncertain by") {
  // The third marker is there in two frames, and the noise of the others is nearly nothing.
  const auto tracks =
      tracks_with(0.0, [](int frame, int m) { return m < 2 || (m == 2 && frame >= 38); });
  const auto points = solve_drift(tracks, {.min_markers = 2}).points;
  CHECK(points[37].markers == 2);
  CHECK(points[38].markers == 3);
  CHECK(points[39].markers == 3);
  // Two weights of 1 / s^2 and one of half of it; s with the floor of 0.3 nm.
  CHECK(points[39].x_sd_px == Approx(std::sqrt(1 / 2.5) * std::hypot(0.01, 0.003)).epsilon(0.03));
  CHECK(points[37].x_sd_px == Approx(std::sqrt(1 / 2.0) * std::hypot(0.01, 0.003)).epsilon(0.03));
}

TEST_CASE("one frame alone has the drift 0") {
  MarkerTracks tracks(3);
  tracks.add_frame(std::vector<Spot>{spot_of(0, 0, 3, 4), spot_of(0, 1, 30, 41)});
  const auto points = solve_drift(tracks, {.min_markers = 2}).points;
  CHECK(points[0].markers == 2);
  CHECK(points[0].x_px == 0);
  CHECK(points[0].y_px == 0);
}

TEST_CASE("a marker that was taken back has another place, before and after") {
  MarkerTracks tracks(3);
  for (int frame = 0; frame < kFrames; ++frame) {
    std::vector<Spot> spots;
    for (int m = 0; m < 3; ++m) {
      // Each jumps once, and no frame is without one that did.
      const int place = frame >= 10 + 5 * m ? 1 : 0;
      spots.push_back(spot_of(frame, m, 30.0 * m + true_x(frame) + 3 * place,
                              17.0 * m + true_y(frame) - 2 * place));
      spots.back().place = place;
    }
    tracks.add_frame(spots);
  }
  CHECK(worst_error(solve_drift(tracks, {.min_markers = 3}).points, 0) < 1e-4);
}

TEST_CASE("places that nothing ties to those before have no drift") {
  MarkerTracks tracks(3);
  for (int frame = 0; frame < kFrames; ++frame) {
    std::vector<Spot> spots;
    const int place = frame >= 20 ? 1 : 0;
    for (int m = 0; m < 3; ++m) {
      spots.push_back(spot_of(frame, m, 30.0 * m + true_x(frame), 17.0 * m + true_y(frame)));
      spots.back().place = place;
    }
    tracks.add_frame(spots);
  }
  const auto points = solve_drift(tracks, {.min_markers = 3}).points;
  CHECK(points[19].markers == 3);
  CHECK(points[20].markers == 0);
}

TEST_CASE("of three markers that contradict one another there is no drift") {
  MarkerTracks tracks(3);
  for (int frame = 0; frame < kFrames; ++frame) {
    const bool odd = frame == 9;
    tracks.add_frame(std::vector<Spot>{
        spot_of(frame, 0, 10 + true_x(frame), 20 + true_y(frame) + (odd ? 2.4 : 0)),
        spot_of(frame, 1, 30 + true_x(frame) - (odd ? 2.3 : 0), 80 + true_y(frame)),
        spot_of(frame, 2, 70 + true_x(frame), 40 + true_y(frame) - (odd ? 2.1 : 0))});
  }
  const auto points = solve_drift(tracks, {.min_markers = 3}).points;
  CHECK(points[8].markers == 3);
  CHECK(points[9].markers == 0);
  CHECK(points[10].markers == 3);
}

TEST_CASE("one marker that breaks loose does not pull the drift") {
  MarkerTracks tracks(kMarkers);
  for (int frame = 0; frame < kFrames; ++frame) {
    std::vector<Spot> spots;
    for (int m = 0; m < kMarkers; ++m) {
      const double loose_px = m == 2 && frame >= 10 ? 0.3 * (frame - 10) : 0;
      spots.push_back(spot_of(frame, m, 30.0 * m + true_x(frame) + loose_px + 0.002 * (m % 2),
                              17.0 * m + true_y(frame)));
    }
    tracks.add_frame(spots);
  }
  CHECK(worst_error(solve_drift(tracks, {}).points, 0) < 0.01);
}

TEST_CASE("without a reference named, the first frame that has a drift is it") {
  const auto tracks = tracks_with(0, [](int frame, int m) { return frame >= 4 || m < 2; });
  const auto points = solve_drift(tracks, {.reference = std::nullopt, .min_markers = 3}).points;
  CHECK(points[3].markers == 0);
  CHECK(points[4].x_px == 0);
  CHECK(points[20].x_px == Approx(true_x(20) - true_x(4)));
  CHECK(points[20].y_px == Approx(true_y(20) - true_y(4)));
}

TEST_CASE("too few markers make no drift; none in the reference, none at all") {
  const auto tracks = tracks_with(0, [](int frame, int m) { return frame != 5 ? true : m < 2; });
  CHECK(solve_drift(tracks, {.min_markers = 2}).points[5].markers == 2);
  const auto points = solve_drift(tracks, {.min_markers = 3}).points;
  CHECK(points[5].markers == 0);
  CHECK(points[6].markers > 0);
  for (const DriftPoint& p : solve_drift(tracks, {.reference = 5, .min_markers = 3}).points) {
    CHECK(p.markers == 0);
  }
}

TEST_CASE("Picasso's file has a line for every frame of the stack, gaps filled") {
  const TemporaryFolder folder;
  const OutputFile output(folder / "drift.txt");
  const DriftTrace trace{.points = {{.markers = 3, .x_px = 1, .y_px = -2},
                                    {},
                                    {.markers = 3, .x_px = 2, .y_px = 0},
                                    {}},
                         .reasons = {},
                         .first_frame = 1,
                         .stack_frames = 6,
                         .pixel_nm = 100};
  write_picasso_drift(output, trace);
  CHECK(read_file(output.temporary()) ==
        "1.000000000000000000e+00 -2.000000000000000000e+00\r\n"
        "1.000000000000000000e+00 -2.000000000000000000e+00\r\n"
        "1.500000000000000000e+00 -1.000000000000000000e+00\r\n"
        "2.000000000000000000e+00 0.000000000000000000e+00\r\n"
        "2.000000000000000000e+00 0.000000000000000000e+00\r\n"
        "2.000000000000000000e+00 0.000000000000000000e+00\r\n");
}

TEST_CASE("the CSV leaves out what is not known and says why") {
  const TemporaryFolder folder;
  const OutputFile output(folder / "drift.csv");
  const DriftTrace trace{
      .points = {{.markers = 3, .x_px = 1, .y_px = -2, .x_sd_px = 0.01, .y_sd_px = 0.02}, {}},
      .reasons = {"", "1 of 3 markers; 3 needed"},
      .first_frame = 7,
      .stack_frames = 9,
      .pixel_nm = 108};
  write_drift_csv(output, trace);
  CHECK(read_file(output.temporary()) ==
        "frame,x_px,y_px,x_nm,y_nm,x_sd_nm,y_sd_nm,markers,missing\n"
        "7,1.000000,-2.000000,108.0000,-216.0000,1.0800,2.1600,3,\n"
        "8,,,,,,,0,1 of 3 markers; 3 needed\n");
}

}  // namespace
}  // namespace driftd::tools
