// SPDX-License-Identifier: MIT
// From a picture to markers: all that is there is found, and nothing else.
#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "support/default_settings.hpp"
#include "unit/control/detection_images.hpp"

namespace driftd::control {
namespace {

using test::Canvas;
using test::detect;
using test::Picture;
using test::Spot;

/// Spots at least `apart_px` from each other and from the border; amplitudes of 100 .. 1000.
std::vector<Spot> random_spots(int count, int side_px, double apart_px, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> place(20, side_px - 20), amplitude(100, 1000);
  std::vector<Spot> spots;
  while (static_cast<int>(spots.size()) < count) {
    const Spot s{place(random), place(random), amplitude(random), 1.3};
    if (std::all_of(spots.begin(), spots.end(), [&](const Spot& other) {
          return std::hypot(s.x_px - other.x_px, s.y_px - other.y_px) > apart_px;
        }))
      spots.push_back(s);
  }
  return spots;
}

bool rejected_for(const DetectionResult& result, const std::string& reason) {
  return std::any_of(result.rejected.begin(), result.rejected.end(), [&](const Rejection& r) {
    return r.reason.find(reason) != std::string::npos;
  });
}

DetectionResult detect_spot(const Spot& spot, const DetectionSettings& settings =
                                                  driftd::test::default_detection_settings()) {
  Canvas canvas(96, 80, 100);
  canvas.add(spot);
  return detect(canvas.picture(4, 1), settings);
}

TEST_CASE("every spot of a field is found at its place, the best localised first") {
  for (unsigned seed = 1; seed <= 10; ++seed) {
    Canvas canvas(256, 240, 100, {0.3, -0.2});
    const std::vector<Spot> spots = random_spots(14, 240, 20, seed);
    for (const Spot& s : spots) canvas.add(s);
    const DetectionResult result =
        detect(canvas.picture(5, seed), driftd::test::default_detection_settings());
    REQUIRE(result.markers.size() == spots.size());
    double before_adu = 1e9;
    for (std::size_t i = 0; i < result.markers.size(); ++i) {
      const Marker& m = result.markers[i];
      REQUIRE(m.id == i + 1);
      const auto nearest =
          std::min_element(spots.begin(), spots.end(), [&](const Spot& a, const Spot& b) {
            return std::hypot(a.x_px - m.x_px, a.y_px - m.y_px) <
                   std::hypot(b.x_px - m.x_px, b.y_px - m.y_px);
          });
      // The weakest of amplitude 100 has 5 / 100 * sqrt(2 / pi) = 0.04 px; four times that.
      REQUIRE(std::hypot(nearest->x_px - m.x_px, nearest->y_px - m.y_px) < 0.16);
      // Equal widths: the order is that of amplitude, but each uncertainty is known to some 15 %.
      REQUIRE(nearest->amplitude_adu < 1.5 * before_adu);
      before_adu = nearest->amplitude_adu;
    }
  }
}

TEST_CASE("there are no markers where there are none") {
  DetectionSettings settings = driftd::test::default_detection_settings();
  settings.max_count = 64;
  SECTION("noise of many kinds, even for a lenient judge") {
    settings.min_snr = 5;
    settings.border_px = 0;
    for (unsigned seed = 1; seed <= 12; ++seed) {
      const Canvas canvas(256, 200, 40.0 * seed);
      const DetectionResult result = detect(canvas.picture(0.5 * seed, seed), settings);
      INFO("seed " << seed);
      CHECK(result.markers.empty());
    }
  }
  SECTION("a uniform picture") {
    for (const double level : {0.0, 100.0, 65535.0})
      CHECK(detect(Canvas(128, 100, level).picture(0, 1), settings).markers.empty());
  }
  SECTION("gradients, without noise and with") {
    for (const double noise : {0.0, 3.0})
      for (const Vec2 slope : {Vec2{0.05, 0}, Vec2{3, 2}, Vec2{0.7, 11}})
        CHECK(detect(Canvas(150, 131, 500, slope).picture(noise, 2), settings).markers.empty());
  }
  SECTION("vignetting") {
    Canvas canvas(256, 256, 0);
    for (int y = 0; y < 256; ++y)
      for (int x = 0; x < 256; ++x)
        canvas.at(x, y) = 3000 - 0.08 * (std::pow(x - 128, 2) + std::pow(y - 128, 2));
    CHECK(detect(canvas.picture(20, 3), settings).markers.empty());
  }
  SECTION("hot pixels, alone and in pairs") {
    Canvas canvas(128, 128, 100);
    for (int i = 0; i < 8; ++i) {
      canvas.at(16 + 13 * i, 30) = 500.0 * (i + 1);
      canvas.at(16 + 13 * i, 70) = canvas.at(17 + 13 * i, 70) = 500.0 * (i + 1);
      canvas.at(16 + 13 * i, 100) = canvas.at(16 + 13 * i, 101) = 500.0 * (i + 1);
    }
    CHECK(detect(canvas.picture(5, 4), settings).markers.empty());
  }
  SECTION("edges, bad lines and columns") {
    Canvas canvas(128, 128, 100);
    for (int i = 0; i < 128; ++i) {
      canvas.at(i, 30) = 300;
      canvas.at(90, i) = 900;
      for (int x = 0; x < 20; ++x) canvas.at(x, i) += 1000;
    }
    CHECK(detect(canvas.picture(5, 5), settings).markers.empty());
  }
  SECTION("a picture smaller than a ROI") {
    CHECK(find_candidates(Canvas(12, 100, 1).picture(0, 1).pixels, 12, 100, settings).empty());
  }
}

TEST_CASE("each reason to reject a spot is found and named") {
  DetectionSettings settings = driftd::test::default_detection_settings();
  const Spot good{48.3, 40.2, 500, 1.3};
  REQUIRE(detect_spot(good).markers.size() == 1);
  SECTION("SNR") {
    settings.min_snr = 200;
    settings.expected_sigma_px = 1.3;
    // Half the SNR asked for passes the filter, so that the judge can tell why it is not enough.
    CHECK(rejected_for(detect_spot(good, settings), "SNR"));
  }
  SECTION("too narrow") {
    settings.min_sigma_px = 1.6;
    CHECK(rejected_for(detect_spot(good, settings), "sigma in px 1.30 below 1.60"));
  }
  SECTION("too wide") {
    settings.max_sigma_px = 1.1;
    CHECK(rejected_for(detect_spot(good, settings), "sigma in px 1.30 above 1.10"));
  }
  SECTION("saturation") {
    settings.saturation_adu = 500;
    CHECK(rejected_for(detect_spot(good, settings), "saturated"));
    settings.saturation_adu = 800;
    CHECK(detect_spot(good, settings).markers.size() == 1);
  }
  SECTION("border: ROI of 13 and 4 px clearance need 10 px") {
    for (const Spot& s : {Spot{9.5, 40}, Spot{86, 40}, Spot{48, 9}, Spot{48, 70.5}, Spot{1, 1}}) {
      const DetectionResult result = detect_spot(s);
      CHECK(result.markers.empty());
      CHECK(rejected_for(result, "border"));
    }
    CHECK(detect_spot({10.5, 40}).markers.size() == 1);
    CHECK(detect_spot({84.5, 68.5}).markers.size() == 1);
  }
  SECTION("a neighbour, bright or half as bright") {
    for (const double brightness : {500.0, 250.0}) {
      Canvas canvas(96, 80, 100);
      canvas.add(good);
      canvas.add({good.x_px + 8, good.y_px, brightness, 1.3});
      const Picture picture = canvas.picture(4, 1);
      CHECK(rejected_for(detect(picture, settings), "distance to the next spot"));
      CHECK(detect(picture, settings).markers.empty());
      settings.min_distance_px = 7;
      CHECK_FALSE(detect(picture, settings).markers.empty());
      settings.min_distance_px = 0;
    }
  }
  SECTION("two spots merged into one") {
    for (const double apart_px : {3.3, 4.0, 5.0, 6.0}) {
      Canvas canvas(96, 80, 100);
      canvas.add(good);
      canvas.add({good.x_px + apart_px, good.y_px, 500, 1.3});
      CHECK(detect(canvas.picture(4, 1), settings).markers.empty());
    }
  }
}

TEST_CASE("the best max_count are kept, the others are told") {
  Canvas canvas(256, 256, 100);
  for (const Spot& s : random_spots(14, 256, 20, 3)) canvas.add(s);
  const Picture picture = canvas.picture(5, 1);
  const DetectionResult all = detect(picture, driftd::test::default_detection_settings());
  DetectionSettings settings = driftd::test::default_detection_settings();
  settings.max_count = 5;
  const DetectionResult best = detect(picture, settings);
  REQUIRE(best.markers.size() == 5);
  for (std::size_t i = 0; i < 5; ++i) CHECK(best.markers[i].x_px == all.markers[i].x_px);
  CHECK(rejected_for(best, "5 better ones found"));
  settings.max_count = 0;
  CHECK(detect(picture, settings).markers.empty());
}

TEST_CASE("positions are sensor pixels: the region's offset is added") {
  Canvas canvas(96, 80, 100);
  canvas.add({48, 40, 500, 1.3});
  const Picture picture = canvas.picture(4, 1);
  const DetectionSettings settings = driftd::test::default_detection_settings();
  const auto candidates = find_candidates(picture.pixels, 96, 80, settings);
  const auto fits = test::fit_candidates(picture, candidates, settings);
  const DetectionResult result = judge_candidates(candidates, fits, 96, 80, 640, 12, settings);
  REQUIRE(result.markers.size() == 1);
  CHECK(result.markers[0].x_px == Approx(688).margin(0.1));
  CHECK(result.markers[0].y_px == Approx(52).margin(0.1));
}

}  // namespace
}  // namespace driftd::control
