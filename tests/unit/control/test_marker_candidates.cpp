// SPDX-License-Identifier: MIT
// Where in a picture a marker may be: the candidates, their height and noise, and their ROIs.
#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "support/catch.hpp"
#include "support/default_settings.hpp"
#include "unit/control/detection_images.hpp"

namespace driftd::control {
namespace {

using test::Canvas;
using test::Picture;
using test::Spot;

TEST_CASE("a candidate tells height and noise of its place, wherever the background leads") {
  // Noise grows along x in one picture and along y in the other; the background slopes.
  for (const bool along_x : {true, false}) {
    Canvas canvas(300, 160, 200, {2.2, 3.1});
    const Spot spots[] = {{14, 40, 400, 1.3}, {250, 15, 400, 1.3}, {50, 146, 400, 1.3}};
    for (const Spot& s : spots) canvas.add(s);
    const Picture quiet = canvas.picture(2, 7), loud = canvas.picture(8, 8);
    Picture mixed = quiet;
    for (int y = 0; y < 160; ++y)
      for (int x = 0; x < 300; ++x)
        if (along_x ? x >= 150 : y >= 80) {
          const auto i = static_cast<std::size_t>(y * 300 + x);
          mixed.pixels[i] = loud.pixels[i];
        }
    const auto found =
        find_candidates(mixed.pixels, 300, 160, driftd::test::default_detection_settings());
    REQUIRE(found.size() >= 3);
    for (const Spot& s : spots) {
      INFO("spot at " << s.x_px << ' ' << s.y_px);
      const auto c = std::find_if(found.begin(), found.end(), [&](const Candidate& candidate) {
        return std::hypot(candidate.x_px - s.x_px, candidate.y_px - s.y_px) < 2;
      });
      REQUIRE(c != found.end());
      const bool is_loud = along_x ? s.x_px >= 150 : s.y_px >= 80;
      CHECK(c->noise_adu == Approx(is_loud ? 8 : 2).epsilon(0.15));
      CHECK(c->height_adu == Approx(400).epsilon(0.15));
      CHECK(c->roi_x_px == c->x_px - 6);
      CHECK(c->roi_y_px == c->y_px - 6);
    }
  }
}

TEST_CASE("the brightest candidates come first, and of texture no more than can be fitted") {
  Canvas canvas(700, 600, 100);
  for (int y = 4; y < 600; y += 8)
    for (int x = 4; x < 700; x += 8) {
      const double height = 300 + (x * 7 + y * 13) % 200;
      for (int v = -3; v <= 3; ++v)
        for (int u = -3; u <= 3; ++u) {
          if (x + u >= 700 || y + v >= 600) continue;
          canvas.at(x + u, y + v) += height * std::exp(-(u * u + v * v) / (2 * 1.3 * 1.3));
        }
    }
  const auto found = find_candidates(canvas.picture(1, 1).pixels, 700, 600,
                                     driftd::test::default_detection_settings());
  CHECK(found.size() == 4096);
  CHECK(std::is_sorted(found.begin(), found.end(), [](const Candidate& a, const Candidate& b) {
    return a.height_adu > b.height_adu;
  }));
}

TEST_CASE("the height is that of a spot of the expected width, whatever that is, wide or tall") {
  for (const double sigma_px : {1.0, 2.5})
    for (const auto& [width, height] : {std::pair{240, 130}, {130, 240}}) {
      DetectionSettings settings = driftd::test::default_detection_settings();
      settings.expected_sigma_px = sigma_px;
      Canvas canvas(width, height, 100);
      const Spot spots[] = {{30, 35, 400, sigma_px}, {width - 30.0, height - 35.0, 400, sigma_px}};
      for (const Spot& s : spots) canvas.add(s);
      const auto found = find_candidates(canvas.picture(1, 3).pixels, width, height, settings);
      REQUIRE(found.size() == 2);
      for (const Candidate& c : found) CHECK(c.height_adu == Approx(400).epsilon(0.04));
    }
}

TEST_CASE("a curved background and dead pixels are no noise") {
  for (const bool along_x : {true, false}) {
    Canvas canvas(200, 170, 100);
    for (int y = 0; y < 170; ++y)
      for (int x = 0; x < 200; ++x) canvas.at(x, y) += 0.03 * std::pow(along_x ? x : y, 2);
    canvas.add({101, 84, 400, 1.3});
    Picture picture = canvas.picture(2, 5);
    for (int i = 0; i < 170; i += 6)  // 1 in 36 is dead
      for (int x = 1; x < 200; x += 6) picture.pixels[static_cast<std::size_t>(i * 200 + x)] = 0;
    const auto found =
        find_candidates(picture.pixels, 200, 170, driftd::test::default_detection_settings());
    const auto spot = std::find_if(found.begin(), found.end(), [](const Candidate& c) {
      return std::hypot(c.x_px - 101, c.y_px - 84) < 2;
    });
    REQUIRE(spot != found.end());
    // Linear interpolation between tiles of 33 px leaves up to 4 of the curve.
    CHECK(spot->noise_adu < 3.5);
  }
}

TEST_CASE(
    "a single tile is the whole picture, and a picture of one row of tiles is read to its end") {
  Canvas canvas(60, 47, 100);
  canvas.add({30, 22, 900, 1.3});
  const Picture quiet = canvas.picture(3, 1), loud = canvas.picture(9, 2);
  Picture mixed = quiet;
  for (int y = 0; y < 47; ++y)
    for (int x = 40; x < 60; ++x)
      mixed.pixels[static_cast<std::size_t>(y * 60 + x)] =
          loud.pixels[static_cast<std::size_t>(y * 60 + x)];
  const auto found =
      find_candidates(mixed.pixels, 60, 47, driftd::test::default_detection_settings());
  REQUIRE_FALSE(found.empty());
  // 3 in two thirds of it, 9 in the rest, of which what lies beyond three deviations is clipped.
  CHECK(found[0].noise_adu > 4.2);
  for (const auto& [width, height] : {std::pair{2000, 34}, {34, 2000}}) {
    Canvas strip(width, height, 100);
    strip.add({width - 17.0, height - 17.0, 400, 1.3});
    const auto last = find_candidates(strip.picture(2, 1).pixels, width, height,
                                      driftd::test::default_detection_settings());
    REQUIRE(last.size() == 1);
    CHECK(last[0].noise_adu == Approx(2).epsilon(0.15));
  }
}

TEST_CASE("the filter's own threshold is 5.5 times the noise that it leaves") {
  // Half of the spots at the threshold pass: noise is as often up as down.
  const auto found_share = [](double times) {
    // A difference of Gaussians of 1.3 and 3.9 px leaves 0.183 of white noise of 1, and 0.4 of a
    // spot of 1.
    const double amplitude = times * 4 * 0.183 / 0.4;
    DetectionSettings settings = driftd::test::default_detection_settings();
    settings.min_snr = 0.1;
    std::size_t found = 0, spots = 0;
    for (unsigned seed = 1; seed <= 2; ++seed) {
      Canvas canvas(330, 300, 100);
      std::vector<Spot> places;
      for (int y = 20; y < 290; y += 20)
        for (int x = 20; x < 320; x += 20)
          places.push_back({static_cast<double>(x), static_cast<double>(y), amplitude, 1.3});
      for (int y = 0; y < 300; ++y)
        for (int x = 0; x < 330; ++x) {
          const int u = (x + 10) % 20 - 10, v = (y + 10) % 20 - 10;
          if (x < 10 || y < 10 || x >= 310 || y >= 290) continue;
          canvas.at(x, y) += amplitude * std::exp(-(u * u + v * v) / (2 * 1.3 * 1.3));
        }
      spots += places.size();
      found += find_candidates(canvas.picture(4, seed).pixels, 330, 300, settings).size();
    }
    return static_cast<double>(found) / static_cast<double>(spots);
  };
  const double share = found_share(5.5);
  CHECK(share > 0.42);
  CHECK(share < 0.58);
}

TEST_CASE("without noise the rounding to counts is what a spot has to exceed") {
  Canvas canvas(90, 70, 100);
  canvas.add({44, 33, 60, 1.3});
  const auto found = find_candidates(canvas.picture(0, 1).pixels, 90, 70,
                                     driftd::test::default_detection_settings());
  REQUIRE(found.size() == 1);
  CHECK(found[0].x_px == 44);
  CHECK(found[0].y_px == 33);
  CHECK(found[0].noise_adu == Approx(0.29));
}

TEST_CASE("half the SNR asked for makes a candidate, less does not") {
  const auto candidates = [](double snr) {
    DetectionSettings settings = driftd::test::default_detection_settings();
    settings.min_snr = 40;
    std::size_t count = 0;
    for (unsigned seed = 1; seed <= 5; ++seed) {
      Canvas canvas(90, 70, 100);
      canvas.add({44, 33, 5 * snr, 1.3});
      count += find_candidates(canvas.picture(5, seed).pixels, 90, 70, settings).size();
    }
    return count;
  };
  CHECK(candidates(25) == 5);
  CHECK(candidates(15) == 0);
}

TEST_CASE("two spots six pixels apart are two candidates, two equal pixels one") {
  Canvas canvas(90, 70, 100);
  canvas.add({40, 33, 500, 1.3});
  canvas.add({44, 37.5, 450, 1.3});
  CHECK(find_candidates(canvas.picture(4, 1).pixels, 90, 70,
                        driftd::test::default_detection_settings())
            .size() == 2);
  for (const Vec2 middle : {Vec2{40.5, 33}, Vec2{40, 33.5}, Vec2{40.5, 33.5}}) {
    Canvas even(90, 70, 100);  // its highest pixels are exactly alike
    even.add({middle.x, middle.y, 500, 1.3});
    CHECK(find_candidates(even.picture(0, 1).pixels, 90, 70,
                          driftd::test::default_detection_settings())
              .size() == 1);
  }
}

TEST_CASE("a saturated pixel anywhere in the ROI counts, and none outside") {
  DetectionSettings settings = driftd::test::default_detection_settings();
  settings.saturation_adu = 1000;
  const auto saturated = [&](int x, int y, double level) {
    Canvas canvas(120, 70, 100);
    canvas.add({75, 33, 500, 1.3});
    Picture picture = canvas.picture(0, 1);
    picture.pixels[static_cast<std::size_t>(y * 120 + x)] = static_cast<std::uint16_t>(level);
    for (const Candidate& c : find_candidates(picture.pixels, 120, 70, settings))
      if (c.x_px == 75 && c.y_px == 33) return c.saturated;
    FAIL("the spot is not there");
    return false;
  };
  CHECK(saturated(75, 33, 1000));
  CHECK_FALSE(saturated(75, 33, 999));
  for (const int x : {69, 81})
    for (const int y : {27, 39}) CHECK(saturated(x, y, 1000));
  CHECK_FALSE(saturated(68, 33, 1000));
  CHECK_FALSE(saturated(82, 33, 1000));
  CHECK_FALSE(saturated(75, 26, 1000));
  CHECK_FALSE(saturated(75, 40, 1000));
  settings.saturation_adu = 0;  // not checked
  CHECK_FALSE(saturated(75, 33, 65535));
}

TEST_CASE("a picture may be as small as a ROI, along either side") {
  for (const auto& [width, height] : {std::pair{13, 60}, {60, 13}, {13, 13}}) {
    Canvas canvas(width, height, 100);
    canvas.add({6, 6, 3000, 1.3});
    const auto found = find_candidates(canvas.picture(1, 1).pixels, width, height,
                                       driftd::test::default_detection_settings());
    REQUIRE(found.size() == 1);
    CHECK(found[0].roi_x_px == 0);
    CHECK(found[0].roi_y_px == 0);
  }
  for (const auto& [width, height] : {std::pair{12, 60}, {60, 12}}) {
    Canvas canvas(width, height, 100);
    canvas.add({6, 6, 3000, 1.3});
    CHECK(find_candidates(canvas.picture(1, 1).pixels, width, height,
                          driftd::test::default_detection_settings())
              .empty());
  }
}

TEST_CASE("a candidate's ROI can always be cut, at the rim too") {
  std::mt19937 random(9);
  std::uniform_real_distribution<double> x(-1, 64), y(-1, 50);
  for (const int roi_px : {8, 13}) {
    DetectionSettings settings = driftd::test::default_detection_settings();
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

}  // namespace
}  // namespace driftd::control
