// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "support/catch.hpp"
#include "tools/driftfit/axial_drift.hpp"
#include "tools/driftfit/drift_trace.hpp"
#include "unit/tools/driftfit/files.hpp"

namespace driftd::tools {
namespace {

Spot read_at(std::size_t marker, double z_nm, double sd_nm = 3) {
  return {.marker = static_cast<int>(marker),
          .reading = HeightReading::Read,
          .z_nm = static_cast<float>(z_nm),
          .z_sd_nm = static_cast<float>(sd_nm)};
}

double truth_nm(std::size_t frame) {
  return 100 * std::sin(static_cast<double>(frame) / 7);
}

/// Each marker at 50 nm more than the one before, of 3 nm of noise; `change` is told frame and
/// spot.
MarkerHeights heights_of(std::size_t markers, std::size_t frames,
                         const std::function<void(std::size_t, Spot&)>& change = {}) {
  std::mt19937 random(3);
  std::normal_distribution<double> noise(0, 3);
  MarkerHeights heights(markers);
  for (std::size_t frame = 0; frame < frames; ++frame) {
    std::vector<Spot> spots;
    for (std::size_t m = 0; m < markers; ++m) {
      spots.push_back(read_at(m, truth_nm(frame) + 50 * static_cast<double>(m) + noise(random)));
      if (change) change(frame, spots.back());
    }
    heights.add_frame(spots);
  }
  return heights;
}

double worst_nm(const AxialDrift& drift) {
  double worst = 0;
  for (std::size_t i = 0; i < drift.points.size(); ++i) {
    if (drift.points[i].markers > 0)
      worst =
          std::max(worst, std::abs(drift.points[i].z_nm - truth_nm(i) + truth_nm(drift.reference)));
  }
  return worst;
}

void unread(Spot& spot, HeightReading reading) {
  const int marker = spot.marker;
  spot = {};
  spot.marker = marker;
  spot.reading = reading;
}

TEST_CASE("heights of markers cancel, and the drift is 0 where it is to be") {
  const MarkerHeights heights = heights_of(5, 60);
  const AxialDrift drift = solve_axial_drift(heights, PlaceBegins(5), {.min_markers = 3});
  CHECK(frames_known(drift) == 60);
  CHECK(drift.points[0].z_nm == 0);
  CHECK(worst_nm(drift) < 8);  // six of the standard deviations of two means
  CHECK(drift.points[30].sd_nm == Approx(3 / std::sqrt(5.0)).margin(1.5));
  const AxialDrift other =
      solve_axial_drift(heights, PlaceBegins(5), {.reference = 20, .min_markers = 3});
  CHECK(other.reference == 20);
  CHECK(other.points[20].z_nm == 0);
  CHECK(other.points[40].z_nm == Approx(drift.points[40].z_nm - drift.points[20].z_nm).margin(0.1));
}

TEST_CASE("a marker that comes, goes or sinks makes no jump of the drift in z") {
  SECTION("comes and goes") {
    const auto change = [](std::size_t frame, Spot& spot) {
      if (spot.marker == 4 && (frame < 20 || frame % 3 == 0))
        unread(spot, HeightReading::OutOfRange);
    };
    const AxialDrift drift =
        solve_axial_drift(heights_of(5, 60, change), PlaceBegins(5), {.min_markers = 3});
    CHECK(frames_known(drift) == 60);
    CHECK(worst_nm(drift) < 8);
  }
  SECTION("sinks") {
    const auto change = [](std::size_t frame, Spot& spot) {
      if (spot.marker == 2 && frame >= 40) spot.z_nm -= 120;
    };
    const AxialDrift drift =
        solve_axial_drift(heights_of(5, 60, change), PlaceBegins(5), {.min_markers = 3});
    CHECK(worst_nm(drift) < 8);
    CHECK(drift.points[50].markers == 4);
  }
  SECTION("has a new place in x and y") {
    const auto change = [](std::size_t frame, Spot& spot) {
      if (frame >= 30) spot.z_nm += 60 * static_cast<float>(spot.marker == 1);
    };
    PlaceBegins places(4);
    places.add(1, 30);
    const AxialDrift drift =
        solve_axial_drift(heights_of(4, 60, change), places, {.min_markers = 4});
    CHECK(frames_known(drift) == 60);
    CHECK(worst_nm(drift) < 8);
  }
}

TEST_CASE("a frame in which too few markers have a z, or agree, has none and says why") {
  const auto change = [](std::size_t frame, Spot& spot) {
    if (frame == 7 && spot.marker > 0)
      unread(spot, spot.marker == 1 ? HeightReading::OutOfRange : HeightReading::TooDim);
    if (frame == 8) spot.z_nm += 150 * static_cast<float>(spot.marker);
  };
  const MarkerHeights heights = heights_of(3, 20, change);
  const AxialDriftSettings settings{.min_markers = 3};
  const AxialDrift drift = solve_axial_drift(heights, PlaceBegins(3), settings);
  CHECK(frames_known(drift) == 18);
  CHECK(drift.reasons[6].empty());
  CHECK(drift.reasons[7] ==
        "z of 1 of 3 markers read; 3 needed; 1 out of the curve's range; 1 too dim to tell z");
  CHECK_THAT(drift.reasons[8], Catch::Matchers::StartsWith("z of 3 of 3 markers read; ") &&
                                   Catch::Matchers::EndsWith(" agree; 3 needed"));
  CHECK(axial_gaps_in_words(drift, heights, PlaceBegins(3), settings, 100) ==
        "z has a drift in 18 of 20 frames; frame 107: " + drift.reasons[7] +
            "\n  --min-markers 1: z in 19 frames");
}

TEST_CASE("files of the drift have z beside x and y, empty in the CSV where there is none") {
  const TemporaryFolder folder;
  const DriftPoint lateral{.markers = 3, .x_px = 1, .y_px = -2, .x_sd_px = 0.01, .y_sd_px = 0.02};
  const DriftTrace trace{.points = {lateral, lateral, {}, lateral, lateral},
                         .reasons = {"", "", "none", "", ""},
                         .first_frame = 1,
                         .stack_frames = 6,
                         .pixel_nm = 100,
                         .axial = {{},
                                   {.markers = 3, .z_nm = 10, .sd_nm = 2},
                                   {},
                                   {.markers = 4, .z_nm = 20, .sd_nm = 1},
                                   {}},
                         .axial_reasons = {"dim", "", "dark", "", "far"}};
  const OutputFile csv(folder / "drift.csv"), text(folder / "drift.txt");
  write_drift_csv(csv, trace);
  CHECK(
      read_file(csv.temporary()) ==
      "frame,x_px,y_px,x_nm,y_nm,x_sd_nm,y_sd_nm,markers,missing,z_nm,z_sd_nm,z_markers,z_missing\n"
      "1,1.000000,-2.000000,100.0000,-200.0000,1.0000,2.0000,3,,,,0,dim\n"
      "2,1.000000,-2.000000,100.0000,-200.0000,1.0000,2.0000,3,,10.0000,2.0000,3,\n"
      "3,,,,,,,0,none,,,0,dark\n"
      "4,1.000000,-2.000000,100.0000,-200.0000,1.0000,2.0000,3,,20.0000,1.0000,4,\n"
      "5,1.000000,-2.000000,100.0000,-200.0000,1.0000,2.0000,3,,,,0,far\n");
  write_picasso_drift(text, trace);
  std::string expected;
  for (const char* z : {"1.0", "1.0", "1.0", "1.5", "2.0", "2.0"}) {
    expected += "1.000000000000000000e+00 -2.000000000000000000e+00 ";
    expected += std::string(z) + "00000000000000000e+01\r\n";
  }
  CHECK(read_file(text.temporary()) == expected);
}

TEST_CASE("where nothing has a z there is no drift, not 0") {
  MarkerHeights heights(3);
  for (int i = 0; i < 5; ++i) heights.add_frame({});
  const AxialDrift drift = solve_axial_drift(heights, PlaceBegins(3), {.min_markers = 1});
  CHECK(frames_known(drift) == 0);
  CHECK(drift.reasons[4] == "z of 0 of 3 markers read; 1 needed; 3 not found");
}

}  // namespace
}  // namespace driftd::tools
