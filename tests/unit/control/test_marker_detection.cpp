// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "support/catch.hpp"
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

DetectionResult detect_spot(const Spot& spot, const DetectionSettings& settings = {}) {
  Canvas canvas(96, 80, 100);
  canvas.add(spot);
  return detect(canvas.picture(4, 1), settings);
}

TEST_CASE("every spot of a field is found at its place, the best localised first") {
  for (unsigned seed = 1; seed <= 10; ++seed) {
    Canvas canvas(256, 240, 100, {0.3, -0.2});
    const std::vector<Spot> spots = random_spots(14, 240, 20, seed);
    for (const Spot& s : spots) canvas.add(s);
    const DetectionResult result = detect(canvas.picture(5, seed), {});
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
      // Equal widths: the order is that of amplitude, to the noise of the fits' uncertainty.
      REQUIRE(nearest->amplitude_adu < 1.3 * before_adu);
      before_adu = nearest->amplitude_adu;
    }
  }
}

TEST_CASE("there are no markers where there are none") {
  DetectionSettings settings;
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
  DetectionSettings settings;
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
  const DetectionResult all = detect(picture, {});
  DetectionSettings settings;
  settings.max_count = 5;
  const DetectionResult best = detect(picture, settings);
  REQUIRE(best.markers.size() == 5);
  for (std::size_t i = 0; i < 5; ++i) CHECK(best.markers[i].x_px == all.markers[i].x_px);
  CHECK(rejected_for(best, "5 better ones found"));
  settings.max_count = 0;
  CHECK(detect(picture, settings).markers.empty());
}

/// Ideal fits at chosen places: witnesses depend on nothing else.
DetectionResult judge_places(const std::vector<Vec2>& places, const DetectionSettings& settings) {
  std::vector<Candidate> candidates;
  std::vector<fitter::Localization> fits;
  for (const Vec2& p : places) {
    const int x = static_cast<int>(std::lround(p.x)), y = static_cast<int>(std::lround(p.y));
    candidates.push_back({.x_px = x,
                          .y_px = y,
                          .roi_x_px = x - 6,
                          .roi_y_px = y - 6,
                          .height_adu = 500,
                          .noise_adu = 5});
    fitter::Localization f{};
    f.x_px = static_cast<float>(p.x - (x - 6));
    f.y_px = static_cast<float>(p.y - (y - 6));
    f.sigma_x_px = f.sigma_y_px = 1.3F;
    f.amplitude_adu = 500;
    f.chi_square = 25 * 164;
    f.x_sd_px = f.y_sd_px = 0.001F * static_cast<float>(fits.size() + 1);
    f.status = fitter::FitStatus::ConvergedDecrease;
    fits.push_back(f);
  }
  return judge_candidates(candidates, fits, 1000, 1000, 0, 0, settings);
}

TEST_CASE("witnesses are a share of the markers, and only when there are enough") {
  DetectionSettings settings;
  settings.max_count = 64;
  struct Expected {
    int markers, witnesses;
  };
  for (const auto& [markers, witnesses] :
       {Expected{5, 0}, Expected{6, 1}, Expected{10, 2}, Expected{16, 3}, Expected{40, 8}}) {
    std::vector<Vec2> places;
    for (int row = 0; static_cast<int>(places.size()) < markers; ++row)
      for (int column = 0; column < 8 && static_cast<int>(places.size()) < markers; ++column)
        places.push_back({50.0 + 30 * column, 50.0 + 30 * row});
    const DetectionResult result = judge_places(places, settings);
    REQUIRE(result.markers.size() == static_cast<std::size_t>(markers));
    CHECK(std::count_if(result.markers.begin(), result.markers.end(), [](const Marker& m) {
            return m.role == MarkerRole::Witness;
          }) == witnesses);
  }
  settings.witness_fraction = 0;
  CHECK(judge_places({{50, 50}, {90, 50}, {130, 50}, {170, 50}, {210, 50}, {250, 50}}, settings)
            .markers[0]
            .role == MarkerRole::Tracking);
}

TEST_CASE("witnesses and tracking markers both cover the field and both take from all qualities") {
  std::mt19937 random(8);
  std::uniform_real_distribution<double> place(40, 960);
  DetectionSettings settings;
  settings.max_count = 40;
  for (int run = 0; run < 20; ++run) {
    std::vector<Vec2> places;
    while (places.size() < 40) {
      const Vec2 p{place(random), place(random)};
      if (std::all_of(places.begin(), places.end(),
                      [&](const Vec2& q) { return std::hypot(p.x - q.x, p.y - q.y) > 20; }))
        places.push_back(p);
    }
    const DetectionResult result = judge_places(places, settings);
    REQUIRE(result.markers.size() == 40);
    double quadrants[2][4] = {}, ids[2] = {};
    for (const Marker& m : result.markers) {
      const int role = m.role == MarkerRole::Witness ? 1 : 0;
      quadrants[role][(m.x_px > 500 ? 1 : 0) + (m.y_px > 500 ? 2 : 0)] += 1;
      ids[role] += m.id;
    }
    for (int q = 0; q < 4; ++q) {
      const double here = quadrants[0][q] + quadrants[1][q];
      if (here >= 8) CHECK(quadrants[1][q] >= 1);
      if (here >= 4) CHECK(quadrants[0][q] >= 1);
    }
    // Mean rank of 8 witnesses, one from each eighth: within half an eighth of the middle.
    CHECK(std::abs(ids[1] / 8 - 20.5) <= 2.5);
  }
}

TEST_CASE("positions are sensor pixels: the region's offset is added") {
  Canvas canvas(96, 80, 100);
  canvas.add({48, 40, 500, 1.3});
  const Picture picture = canvas.picture(4, 1);
  const auto candidates = find_candidates(picture.pixels, 96, 80, {});
  const auto fits = test::fit_candidates(picture, candidates, {});
  const DetectionResult result = judge_candidates(candidates, fits, 96, 80, 640, 12, {});
  REQUIRE(result.markers.size() == 1);
  CHECK(result.markers[0].x_px == Approx(688).margin(0.1));
  CHECK(result.markers[0].y_px == Approx(52).margin(0.1));
}

TEST_CASE("a candidate's ROI can always be cut, at the rim too") {
  std::mt19937 random(9);
  std::uniform_real_distribution<double> x(-1, 64), y(-1, 50);
  for (const int roi_px : {8, 13}) {
    DetectionSettings settings;
    settings.roi_px = roi_px;
    for (unsigned run = 0; run < 30; ++run) {
      Canvas canvas(64, 50, 100);
      canvas.add({x(random), y(random), 2000, 1.3});
      for (const Candidate& c : find_candidates(canvas.picture(4, run).pixels, 64, 50, settings)) {
        REQUIRE((c.roi_x_px >= 0 && c.roi_x_px + roi_px <= 64));
        REQUIRE((c.roi_y_px >= 0 && c.roi_y_px + roi_px <= 50));
        REQUIRE((c.x_px >= c.roi_x_px && c.x_px < c.roi_x_px + roi_px));
      }
    }
  }
}

TEST_CASE("fits that failed or are no numbers make no markers") {
  const std::vector<Candidate> candidates(
      1, {.x_px = 50, .y_px = 50, .roi_x_px = 44, .roi_y_px = 44, .height_adu = 9, .noise_adu = 1});
  fitter::Localization good{};
  good.x_px = good.y_px = 6;
  good.sigma_x_px = good.sigma_y_px = 1.3F;
  good.amplitude_adu = 500;
  good.x_sd_px = good.y_sd_px = 0.01F;
  good.status = fitter::FitStatus::ConvergedStep;
  const auto markers = [&](const fitter::Localization& f) {
    return judge_candidates(candidates, std::vector{f}, 100, 100, 0, 0, {}).markers.size();
  };
  REQUIRE(markers(good) == 1);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (float fitter::Localization::*field :
       {&fitter::Localization::x_px, &fitter::Localization::y_px, &fitter::Localization::sigma_x_px,
        &fitter::Localization::amplitude_adu, &fitter::Localization::chi_square,
        &fitter::Localization::y_sd_px}) {
    fitter::Localization bad = good;
    bad.*field = nan;
    CHECK(markers(bad) == 0);
  }
  fitter::Localization bad = good;
  bad.status = fitter::FitStatus::IterationLimit;
  CHECK(markers(bad) == 0);
  bad = good;
  bad.x_px = 11;  // the fit ran to another spot
  CHECK(markers(bad) == 0);
}

}  // namespace
}  // namespace driftd::control
