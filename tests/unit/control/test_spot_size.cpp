// SPDX-License-Identifier: MIT
// The spots' width and the ROI from a picture alone: right for every width, nothing where there is
// nothing, and said in words.
#include <algorithm>
#include <cmath>
#include <random>
#include <stop_token>
#include <string>
#include <vector>

#include "control/search/spot_size.hpp"
#include "support/catch.hpp"
#include "support/default_settings.hpp"
#include "unit/control/detection_images.hpp"

namespace driftd::control {
namespace {

using test::Canvas;
using test::Picture;
using test::Spot;

DetectionSettings open_settings() {
  DetectionSettings settings = driftd::test::default_detection_settings();
  settings.expected_sigma_px = 0;
  settings.roi_px = 0;
  settings.saturation_adu = 0;
  return settings;
}

SpotSize chosen_in(const Picture& picture, const DetectionSettings& settings = open_settings()) {
  return choose_spot_size(picture.pixels, picture.width_px, picture.height_px, settings);
}

bool says(const SpotSize& size, const std::string& words) {
  return size.reason.find(words) != std::string::npos;
}

/// Spots of one width in rows and columns of other distances, none on whole pixels.
std::vector<Spot> grid(int columns, int rows, Vec2 pitch_px, double sigma_px,
                       double amplitude_adu = 500) {
  std::vector<Spot> spots;
  for (int row = 0; row < rows; ++row)
    for (int column = 0; column < columns; ++column)
      spots.push_back({(column + 0.6) * pitch_px.x + 0.13 * row,
                       (row + 0.7) * pitch_px.y - 0.21 * column,
                       amplitude_adu * (1 + 0.1 * ((column + 2 * row) % 5)), sigma_px});
  return spots;
}

Picture picture_of(int width_px, int height_px, const std::vector<Spot>& spots,
                   double noise_adu = 5, unsigned seed = 1) {
  Canvas canvas(width_px, height_px, 300, {0.4, -0.3});
  for (const Spot& s : spots) canvas.add(s);
  return canvas.picture(noise_adu, seed);
}

TEST_CASE("sigma is found whatever it is, in wide pictures and in tall ones") {
  for (const double sigma_px :
       {0.8, 0.95, 1.13, 1.35, 1.6, 1.9, 2.3, 2.7, 3.2, 3.8, 4.5, 5.4, 6.4, 8.0})
    for (const bool wide : {true, false}) {
      const Vec2 pitch_px{11 * sigma_px + 8, 12.5 * sigma_px + 8};
      const int columns = wide ? 4 : 2;
      const int rows = wide ? 2 : 4;
      const int width_px = static_cast<int>((columns + 0.3) * pitch_px.x);
      const int height_px = static_cast<int>((rows + 0.3) * pitch_px.y);
      const SpotSize size =
          chosen_in(picture_of(width_px, height_px, grid(columns, rows, pitch_px, sigma_px)));
      INFO(sigma_px << " px in " << width_px << 'x' << height_px << ": " << size.reason);
      // Eight spots of SNR 100 tell their widths to better than 1 %; rounding to pixels and the
      // slope take the rest.
      CHECK(size.sigma_px == Approx(sigma_px).epsilon(0.02));
      CHECK(size.spots == 8);
      CHECK(size.spread_px < 0.03 * sigma_px);
    }
}

TEST_CASE("spots of ten times the noise are enough") {
  for (const double sigma_px : {1.0, 1.3, 2.2}) {
    const SpotSize size =
        chosen_in(picture_of(200, 160, grid(5, 4, {38, 36}, sigma_px, /*amplitude_adu=*/50)));
    INFO(sigma_px << " px: " << size.reason);
    CHECK(size.sigma_px == Approx(sigma_px).epsilon(0.05));
    CHECK(size.spots >= 16);
  }
}

TEST_CASE("the spread is that of the spots' widths") {
  std::vector<Spot> spots = grid(6, 5, {40, 34}, 2);
  std::mt19937 random(3);
  std::normal_distribution<double> normal(2, 0.15);
  for (Spot& s : spots) s.sigma_px = normal(random);
  const SpotSize size = chosen_in(picture_of(250, 190, spots));
  INFO(size.reason);
  CHECK(size.spots == 30);
  CHECK(size.sigma_px == Approx(2).margin(3 * 1.25 * 0.15 / std::sqrt(30)));
  // The median absolute deviation of 30 has a standard deviation of some 20 %.
  CHECK(size.spread_px == Approx(0.15).epsilon(0.5));
}

TEST_CASE("nothing is chosen where there is nothing, and it says so") {
  const auto none = [](const Picture& picture) {
    const SpotSize size = chosen_in(picture);
    INFO(picture.width_px << 'x' << picture.height_px << ": " << size.reason);
    CHECK_FALSE(size.chosen());
    CHECK(says(size, "nothing chosen: no spot of sigma 0.7 to 10 px"));
    CHECK(says(size, std::to_string(picture.width_px) + " x " + std::to_string(picture.height_px)));
  };
  SECTION("noise of many kinds") {
    for (unsigned seed = 1; seed <= 12; ++seed)
      none(Canvas(310, 200, 40.0 * seed).picture(0.4 * seed, seed));
  }
  SECTION("a uniform picture") {
    for (const double level : {0.0, 65535.0}) none(Canvas(128, 90, level).picture(0, 1));
  }
  SECTION("slopes and a vignette") {
    for (const Vec2 slope : {Vec2{3, 2}, Vec2{-0.7, 11}})
      none(Canvas(150, 131, 3000, slope).picture(4, 2));
    Canvas canvas(256, 200, 0);
    for (int y = 0; y < 200; ++y)
      for (int x = 0; x < 256; ++x)
        canvas.at(x, y) = 3000 - 0.06 * (std::pow(x - 100, 2) + std::pow(y - 130, 2));
    none(canvas.picture(20, 3));
  }
  SECTION("hot pixels, alone, in pairs and in blocks of four") {
    Canvas canvas(140, 128, 100);
    for (int i = 0; i < 8; ++i) {
      const double height = 300.0 * (i + 1);
      canvas.at(16 + 13 * i, 20) += height;
      for (const int along : {0, 1}) {
        canvas.at(16 + 13 * i + along, 50) += height;
        canvas.at(16 + 13 * i, 80 + along) += height;
        canvas.at(16 + 13 * i + along, 110) += height;
        canvas.at(16 + 13 * i + along, 111) += height;
      }
    }
    none(canvas.picture(5, 4));
  }
  SECTION("edges and bad lines") {
    Canvas canvas(170, 128, 100);
    for (int i = 0; i < 128; ++i) {
      canvas.at(i, 30) = 300;
      canvas.at(90, i) = 900;
      for (int x = 0; x < 20; ++x) canvas.at(x, i) += 1000;
    }
    none(canvas.picture(5, 5));
  }
  SECTION("noise that neighbouring pixels share") {
    std::mt19937 random(5);
    std::normal_distribution<double> normal;
    std::vector<double> white(202 * 152);
    for (double& v : white) v = normal(random);
    Canvas canvas(200, 150, 400);
    for (int y = 0; y < 150; ++y)
      for (int x = 0; x < 200; ++x)
        for (int v = 0; v < 3; ++v)
          for (int u = 0; u < 3; ++u)
            canvas.at(x, y) += 8 * white[static_cast<std::size_t>((y + v) * 202 + x + u)];
    const SpotSize size = chosen_in(canvas.picture(0, 1));
    INFO(size.reason);
    CHECK_FALSE(size.chosen());
  }
  SECTION("pictures smaller than a spot") {
    for (const auto& [width, height] : {std::pair{1, 1}, {3, 200}, {200, 3}, {4, 5}, {6, 6}})
      none(Canvas(width, height, 100).picture(9, 1));
  }
}

TEST_CASE("what most spots share counts, not the brightest and not the widest") {
  std::vector<Spot> spots = grid(4, 3, {38, 45}, 1.4, 150);
  spots.push_back({170, 70, 3000, 6.5});  // out of focus
  Canvas canvas(230, 150, 300);
  for (const Spot& s : spots) canvas.add(s);
  for (int i = 0; i < 40; ++i) {  // a ring, such as a bead far out of focus has
    const double angle = 2 * std::acos(-1.0) * i / 40;
    canvas.add({190 + 8 * std::cos(angle), 118 + 8 * std::sin(angle), 200, 1.2});
  }
  for (int i = 0; i < 20; ++i) canvas.at(11 * i + 3, (37 * i) % 150) += 4000;  // hot pixels
  const SpotSize size = chosen_in(canvas.picture(5, 2));
  INFO(size.reason);
  CHECK(size.sigma_px == Approx(1.4).epsilon(0.03));
  CHECK(size.spots >= 8);  // some have a hot pixel within reach
}

TEST_CASE("one spot is enough") {
  const SpotSize size = chosen_in(picture_of(90, 70, {{51.3, 30.8, 300, 2.2}}));
  CHECK(size.sigma_px == Approx(2.2).epsilon(0.03));
  CHECK(size.neighbour_px == 0);
  CHECK(says(size, "the median of 1 spot;"));
}

TEST_CASE("saturated spots are not measured, and are told of where there are no others") {
  std::vector<Spot> spots = grid(4, 3, {40, 36}, 1.7, 300);
  for (std::size_t i = 0; i < spots.size(); i += 2) spots[i].amplitude_adu = 6000;
  DetectionSettings settings = open_settings();
  settings.saturation_adu = 1000;
  const auto clipped = [](Picture picture) {
    for (auto& p : picture.pixels) p = std::min<std::uint16_t>(p, 1000);
    return picture;
  };
  const SpotSize size = chosen_in(clipped(picture_of(175, 125, spots)), settings);
  INFO(size.reason);
  CHECK(size.sigma_px == Approx(1.7).epsilon(0.03));
  CHECK(size.spots == 6);
  for (Spot& s : spots) s.amplitude_adu = 6000;
  const SpotSize none = chosen_in(clipped(picture_of(175, 125, spots)), settings);
  CHECK_FALSE(none.chosen());
  CHECK(says(none, "without saturated pixels"));
}

TEST_CASE("two pictures of the same spots give the same") {
  const std::vector<Spot> spots = grid(5, 3, {40, 45}, 1.5, 80);
  const SpotSize one = chosen_in(picture_of(215, 150, spots, 5, 1));
  const SpotSize other = chosen_in(picture_of(215, 150, spots, 5, 2));
  CHECK(one.sigma_px == Approx(other.sigma_px).epsilon(0.05));
  CHECK(one.roi_px == other.roi_px);
}

TEST_CASE("a picture too small for a ROI has a sigma and no ROI, and says why") {
  const SpotSize size = chosen_in(picture_of(40, 17, {{19.6, 8.2, 400, 2.5}}, 2));
  INFO(size.reason);
  CHECK(size.sigma_px == Approx(2.5).epsilon(0.1));
  CHECK(size.roi_px == 0);
  CHECK_FALSE(size.chosen());
  CHECK(says(size, "40 x 17"));
}

TEST_CASE("what is given is kept, and the other is chosen to it") {
  const Picture picture = picture_of(190, 140, grid(4, 3, {42, 40}, 2.1));
  DetectionSettings settings = open_settings();
  SECTION("sigma: the ROI is ten times that") {
    settings.expected_sigma_px = 2;
    const SpotSize size = chosen_in(picture, settings);
    CHECK(size.sigma_px == 2);
    CHECK(size.roi_px == 21);
    CHECK(size.spots == 12);
    CHECK(says(size, "sigma 2.00 px as given"));
  }
  SECTION("a sigma that no spot has") {
    settings.expected_sigma_px = 6;
    const SpotSize size = chosen_in(picture, settings);
    CHECK_FALSE(size.chosen());
    CHECK(says(size, "no spot of sigma 6.0 px"));
  }
  SECTION("the ROI") {
    settings.roi_px = 16;
    const SpotSize size = chosen_in(picture, settings);
    CHECK(size.sigma_px == Approx(2.1).epsilon(0.03));
    CHECK(size.roi_px == 16);
    CHECK(says(size, "ROI of 16 px as given"));
  }
}

TEST_CASE("the markers of a dense field are found with what was chosen, not with the default") {
  // 8.2 and 9 px apart with sigma 1.3: in a ROI of 13 px each has four neighbours.
  const std::vector<Spot> spots = grid(9, 6, {8.2, 9}, 1.3);
  Canvas canvas(130, 110, 200);
  for (const Spot& s : spots) canvas.add({s.x_px + 25, s.y_px + 25, s.amplitude_adu, s.sigma_px});
  const Picture picture = canvas.picture(5, 3);
  DetectionSettings settings = driftd::test::default_detection_settings();
  settings.max_count = 64;
  CHECK(test::detect(picture, settings).markers.empty());
  DetectionSettings open = open_settings();
  open.max_count = 64;
  const SpotSize size = chosen_in(picture, open);
  INFO(size.reason);
  CHECK(size.neighbour_px == Approx(8.2).margin(0.3));
  CHECK(size.roi_px == 7);
  const DetectionResult found = test::detect(picture, settings_for(size, open));
  REQUIRE(found.markers.size() == spots.size());
  for (const Marker& m : found.markers)
    CHECK(std::any_of(spots.begin(), spots.end(), [&](const Spot& s) {
      return std::hypot(s.x_px + 25 - m.x_px, s.y_px + 25 - m.y_px) < 0.1;
    }));
}

TEST_CASE("other widths than that chosen are no markers, and the user's limits still hold") {
  DetectionSettings settings = open_settings();
  settings.min_sigma_px = 0.6;
  settings.max_sigma_px = 8;
  SpotSize size;
  CHECK(settings_for(size, settings).roi_px == 0);  // nothing chosen
  size.sigma_px = 2;
  size.roi_px = 19;
  const DetectionSettings narrowed = settings_for(size, settings);
  CHECK(narrowed.expected_sigma_px == 2);
  CHECK(narrowed.roi_px == 19);
  CHECK(narrowed.min_sigma_px == 1);
  CHECK(narrowed.max_sigma_px == 4);
  size.sigma_px = 1;
  CHECK(settings_for(size, settings).min_sigma_px == 0.6);
  size.sigma_px = 6;
  CHECK(settings_for(size, settings).max_sigma_px == 8);
}

TEST_CASE("a search that is asked to stop ends with nothing") {
  std::stop_source source;
  source.request_stop();
  const Picture picture = picture_of(190, 140, grid(4, 3, {42, 40}, 2.1));
  CHECK_FALSE(
      choose_spot_size(picture.pixels, 190, 140, open_settings(), source.get_token()).chosen());
}

}  // namespace
}  // namespace driftd::control
