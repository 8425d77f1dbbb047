// SPDX-License-Identifier: MIT
// The side of the ROI: what limits it, from both sides of each limit, and what is said of it.
#include <string>
#include <vector>

#include "control/search/roi_choice.hpp"
#include "support/catch.hpp"
#include "support/default_settings.hpp"

namespace driftd::control {
namespace {

constexpr ImageSize kImage{400, 300};

DetectionSettings open_settings() {
  DetectionSettings settings = driftd::test::default_detection_settings();
  settings.roi_px = 0;
  settings.border_px = 4;
  settings.max_count = 256;
  return settings;
}

/// Ten pairs, 60 px apart from each other.
std::vector<MeasuredSpot> pairs(Vec2 apart_px, double sigma_px = 2) {
  std::vector<MeasuredSpot> spots;
  for (int i = 0; i < 10; ++i) {
    const double x_px = 60 + 60.0 * (i % 5);
    const double y_px = 100 + 80.0 * (i / 5);
    spots.push_back({x_px, y_px, sigma_px, 500});
    spots.push_back({x_px + apart_px.x, y_px + apart_px.y, sigma_px, 400});
  }
  return spots;
}

bool says(const RoiChoice& choice, const std::string& words) {
  return choice.reason.find(words) != std::string::npos;
}

TEST_CASE("a lone spot has ten sigma, within what the fitter takes") {
  const std::vector<MeasuredSpot> spots = {{200, 150, 1, 500}};
  const auto side = [&](double sigma_px) {
    return choose_roi(sigma_px, spots, {}, kImage, open_settings()).roi_px;
  };
  CHECK(side(0.4) == 5);
  CHECK(side(0.8) == 9);
  CHECK(side(1.3) == 13);
  CHECK(side(2.3) == 23);
  CHECK(side(6.2) == 63);
  CHECK(side(10) == 63);
  const RoiChoice choice = choose_roi(2.3, spots, {}, kImage, open_settings());
  CHECK(choice.neighbour_px == 0);
  CHECK(says(choice, "ROI of 23 px, ten sigma"));
  CHECK(
      says(choose_roi(9, spots, {}, kImage, open_settings()), "ROI of 63 px, the widest there is"));
}

TEST_CASE("neighbours narrow the ROI to their distance, but not below five sigma") {
  for (const bool along_x : {true, false}) {
    const auto side = [&](double apart_px) {
      const auto spots = pairs(along_x ? Vec2{apart_px, 0} : Vec2{0, -apart_px});
      return choose_roi(2, spots, {}, kImage, open_settings()).roi_px;
    };
    CHECK(side(19.2) == 19);
    CHECK(side(18.9) == 17);
    CHECK(side(15.1) == 15);
    CHECK(side(11.0) == 11);
    CHECK(side(8) == 21);  // none is alone in five sigma: nothing is gained by less than ten
  }
  const RoiChoice choice = choose_roi(2, pairs({9, 12}), {}, kImage, open_settings());
  CHECK(choice.roi_px == 15);
  CHECK(choice.neighbour_px == Approx(15));
  CHECK(says(choice,
             "ROI of 15 px: one of 17 px would serve 0 of 20 spots (nearer neighbours: 20; too "
             "near the border: 0)"));
}

TEST_CASE("one spot in ten may be lost for a wide ROI") {
  std::vector<MeasuredSpot> spots = pairs({30, 0});
  spots[1].x_px = spots[0].x_px + 13;
  CHECK(choose_roi(2, spots, {}, kImage, open_settings()).roi_px == 21);
  spots[3].x_px = spots[2].x_px + 13;
  CHECK(choose_roi(2, spots, {}, kImage, open_settings()).roi_px == 13);
  SECTION("more than one where as many markers as are wanted remain") {
    DetectionSettings settings = open_settings();
    settings.max_count = 16;
    CHECK(choose_roi(2, spots, {}, kImage, settings).roi_px == 21);
    settings.max_count = 17;
    CHECK(choose_roi(2, spots, {}, kImage, settings).roi_px == 13);
  }
}

TEST_CASE("a neighbour is whatever is a tenth as bright, and is not the spot itself") {
  const std::vector<MeasuredSpot> spots = {{200.3, 149.6, 2, 500}};
  const auto side = [&](double x_px, double y_px, double height_adu) {
    std::vector<Candidate> others(1);
    others[0].x_px = static_cast<int>(x_px);
    others[0].y_px = static_cast<int>(y_px);
    others[0].height_adu = height_adu;
    return choose_roi(2, spots, others, kImage, open_settings()).roi_px;
  };
  CHECK(side(200, 165, 51) == 15);
  CHECK(side(200, 165, 49) == 21);
  CHECK(side(200, 150, 500) == 21);
}

TEST_CASE("the border narrows the ROI") {
  // 4 px of clearance beside half a ROI: 12.5 px leave 17, as 13 px would not 19.
  for (const MeasuredSpot& s :
       {MeasuredSpot{12.5, 150, 2, 500}, MeasuredSpot{200, 12.5, 2, 500},
        MeasuredSpot{386.5, 150, 2, 500}, MeasuredSpot{200, 286.5, 2, 500}}) {
    const RoiChoice choice = choose_roi(2, std::vector{s}, {}, kImage, open_settings());
    CHECK(choice.roi_px == 17);
    CHECK(says(choice, "0 of 1 spot (nearer neighbours: 0; too near the border: 1)"));
  }
  const std::vector<MeasuredSpot> at_the_rim = {{3, 150, 2, 500}};
  const RoiChoice none = choose_roi(2, at_the_rim, {}, kImage, open_settings());
  CHECK(none.roi_px == 21);
  CHECK(says(none, "leave no spot alone in any"));
}

TEST_CASE("the image narrows the ROI, or has no room for any") {
  const std::vector<MeasuredSpot> spots = {{50, 12, 2, 500}};
  const RoiChoice narrow = choose_roi(2, spots, {}, {100, 24}, open_settings());
  CHECK(narrow.roi_px == 15);
  CHECK(says(narrow, "all that the image's size allows"));
  for (const ImageSize size : {ImageSize{100, 18}, ImageSize{18, 100}}) {
    const RoiChoice none = choose_roi(2, spots, {}, size, open_settings());
    CHECK(none.roi_px == 0);
    CHECK(says(none, "no ROI: "));
    CHECK(says(none, "11 px"));
  }
}

TEST_CASE("a ROI that is given is kept; a distance that is given does not depend on it") {
  DetectionSettings settings = open_settings();
  settings.min_distance_px = 10;
  CHECK(choose_roi(2, pairs({12, 0}), {}, kImage, settings).roi_px == 21);
  settings.roi_px = 14;
  const RoiChoice given = choose_roi(2, pairs({12, 0}), {}, kImage, settings);
  CHECK(given.roi_px == 14);
  CHECK(given.neighbour_px == Approx(12));
  CHECK(says(given, "ROI of 14 px as given"));
}

}  // namespace
}  // namespace driftd::control
