// SPDX-License-Identifier: MIT
// The rules by which fitted candidates become markers, one at a time, on ideal fits: each limit
// from both sides, in fields that are not square.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "control/search/marker_detection.hpp"
#include "support/catch.hpp"
#include "support/default_settings.hpp"

namespace driftd::control {
namespace {

constexpr int kWidth = 300, kHeight = 180;
constexpr int kOffsetX = 640, kOffsetY = 12;

/// Candidates with their fits: a ROI of 13 px about each, noise 5, amplitude 500.
struct Found {
  std::vector<Candidate> candidates;
  std::vector<fitter::Localization> fits;
  DetectionSettings settings = driftd::test::default_detection_settings();

  std::size_t add(double x_px, double y_px, double height_adu = 500) {
    const int x = static_cast<int>(std::lround(x_px)), y = static_cast<int>(std::lround(y_px));
    candidates.push_back({.x_px = x,
                          .y_px = y,
                          .roi_x_px = x - 6,
                          .roi_y_px = y - 6,
                          .height_adu = height_adu,
                          .noise_adu = 5});
    fitter::Localization f{};
    f.x_px = static_cast<float>(x_px - (x - 6));
    f.y_px = static_cast<float>(y_px - (y - 6));
    f.sigma_x_px = f.sigma_y_px = 1.3F;
    f.amplitude_adu = static_cast<float>(height_adu);
    f.chi_square = 25 * 164;
    f.x_sd_px = f.y_sd_px = 0.01F;
    f.status = fitter::FitStatus::ConvergedDecrease;
    fits.push_back(f);
    return fits.size() - 1;
  }
  DetectionResult judge() const {
    return judge_candidates(candidates, fits, kWidth, kHeight, kOffsetX, kOffsetY, settings);
  }
  std::vector<FittedSpot> spots() const {
    return fitted_spots(candidates, fits, kOffsetX, kOffsetY, settings);
  }
  /// Why the only one is refused; empty: it is a marker.
  std::string reason() const {
    const DetectionResult result = judge();
    REQUIRE(result.markers.size() + result.rejected.size() == candidates.size());
    return result.rejected.empty() ? "" : result.rejected[0].reason;
  }
};

TEST_CASE("markers and refusals are told in sensor pixels") {
  Found found;
  found.add(100.25, 60.75);
  found.add(200.5, 120.25);
  found.fits[1].sigma_x_px = found.fits[1].sigma_y_px = 0.3F;
  const DetectionResult result = found.judge();
  REQUIRE(result.markers.size() == 1);
  CHECK(result.markers[0].id == 1);
  CHECK(result.markers[0].x_px == Approx(740.25));
  CHECK(result.markers[0].y_px == Approx(72.75));
  REQUIRE(result.rejected.size() == 1);
  CHECK(result.rejected[0].x_px == Approx(840.5));
  CHECK(result.rejected[0].y_px == Approx(132.25));
  CHECK(result.rejected[0].reason == "sigma in px 0.30 below 0.60");
}

TEST_CASE("the border is kept clear on each of the four sides") {
  // A ROI of 13 px and 4 px of clearance.
  const auto reason_at = [](double x, double y) {
    Found found;
    found.add(x, y);
    return found.reason();
  };
  CHECK(reason_at(10, 90) == "");
  CHECK(reason_at(9.9, 90) == "ROI's distance to the border in px 3.9 below 4.0");
  CHECK(reason_at(kWidth - 11, 90) == "");
  CHECK(reason_at(kWidth - 10.9, 90) == "ROI's distance to the border in px 3.9 below 4.0");
  CHECK(reason_at(150, 10) == "");
  CHECK(reason_at(150, 9.9) == "ROI's distance to the border in px 3.9 below 4.0");
  CHECK(reason_at(150, kHeight - 11) == "");
  CHECK(reason_at(150, kHeight - 10.9) == "ROI's distance to the border in px 3.9 below 4.0");
}

TEST_CASE("the width is the geometric mean of both axes") {
  Found found;
  found.add(100, 60);
  found.fits[0].sigma_x_px = 1;
  found.fits[0].sigma_y_px = 2.25F;
  found.settings.min_sigma_px = 1.45;
  found.settings.max_sigma_px = 1.55;
  CHECK(found.reason() == "");
  REQUIRE(found.spots().size() == 1);
  CHECK(found.spots()[0].sigma_px == Approx(1.5));
  found.settings.max_sigma_px = 1.48;
  CHECK(found.reason() == "sigma in px 1.50 above 1.48");
  found.settings.min_sigma_px = 1.52;
  CHECK(found.reason() == "sigma in px 1.50 below 1.52");
}

TEST_CASE("the SNR is that of the fit over the local noise") {
  Found found;
  found.add(100, 60);
  found.fits[0].amplitude_adu = 50;
  CHECK(found.reason() == "");
  found.fits[0].amplitude_adu = 49;
  CHECK(found.reason() == "SNR 9.8 below 10.0");
}

TEST_CASE("noise is that of the residuals where the background has neighbours in it, not less") {
  Found found;
  found.add(100, 60);
  found.fits[0].amplitude_adu = 49;  // of a noise of 5 in the background
  found.fits[0].chi_square = 164 * 4 * 4;
  CHECK(found.reason() == "");
  found.fits[0].amplitude_adu = 39;
  CHECK(found.reason() == "SNR 9.8 below 10.0");
  found.fits[0].chi_square = 164 * 9 * 9;
  found.fits[0].amplitude_adu = 51;  // residuals beyond the background's noise are the shape's
  CHECK(found.reason() == "");
  found.fits[0].chi_square = 0;  // whole counts have a noise of 0.29
  found.fits[0].amplitude_adu = 2.8F;
  CHECK(found.reason() == "SNR 9.7 below 10.0");
  found.fits[0].amplitude_adu = 3;
  CHECK(found.reason() == "");
}

TEST_CASE("the residuals may be three times the noise and the model's own error") {
  // Noise 5 and 2.5 % of the amplitude: 13.46; of 169 pixels 5 go to the parameters.
  Found found;
  found.add(100, 60);
  found.fits[0].chi_square = static_cast<float>(164 * 40.2 * 40.2);
  CHECK(found.reason() == "");
  found.fits[0].chi_square = static_cast<float>(164 * 40.7 * 40.7);
  CHECK(found.reason() == "residuals over expected noise 3.0 above 3.0");
  found.fits[0].chi_square = static_cast<float>(164 * 60.0 * 60.0);
  CHECK(found.reason() == "residuals over expected noise 4.5 above 3.0");
}

TEST_CASE("a fit that ran away or is no number is no spot, along either axis") {
  using Spoil = void (*)(fitter::Localization&);
  const Spoil spoils[] = {
      [](fitter::Localization& f) { f.x_px += 3.5F; },
      [](fitter::Localization& f) { f.x_px -= 3.5F; },
      [](fitter::Localization& f) { f.y_px += 3.5F; },
      [](fitter::Localization& f) { f.y_px -= 3.5F; },
      [](fitter::Localization& f) { f.x_px = NAN; },
      [](fitter::Localization& f) { f.y_px = NAN; },
      [](fitter::Localization& f) { f.sigma_x_px = NAN; },
      [](fitter::Localization& f) { f.sigma_y_px = NAN; },
      [](fitter::Localization& f) { f.amplitude_adu = NAN; },
      [](fitter::Localization& f) { f.chi_square = NAN; },
      [](fitter::Localization& f) { f.x_sd_px = NAN; },
      [](fitter::Localization& f) { f.y_sd_px = NAN; },
      [](fitter::Localization& f) { f.status = fitter::FitStatus::IterationLimit; },
      [](fitter::Localization& f) { f.status = fitter::FitStatus::NotConverged; },
  };
  for (std::size_t i = 0; i < std::size(spoils); ++i) {
    INFO("spoil " << i);
    Found found;
    found.add(100, 60);
    spoils[i](found.fits[0]);
    const DetectionResult result = found.judge();
    CHECK(result.markers.empty());
    REQUIRE(result.rejected.size() == 1);
    CHECK(result.rejected[0].reason == "no spot could be fitted");
    CHECK(result.rejected[0].x_px == Approx(100 + kOffsetX));  // the candidate's own place
    CHECK(result.rejected[0].y_px == Approx(60 + kOffsetY));
    CHECK(found.spots().empty());
  }
  Found near;  // within a quarter of the ROI, 3.25 px
  near.add(100, 60);
  near.fits[0].x_px += 1.8F;
  near.fits[0].y_px += 2.6F;
  CHECK(near.reason() == "");
  Found small;  // but at least 2 px
  small.settings.roi_px = 5;
  small.add(100, 60);
  small.fits[0].y_px += 1.9F;
  CHECK(small.judge().markers.size() == 1);
}

TEST_CASE("a spot with two candidates counts once, the brighter one's") {
  Found found;
  found.add(100, 60, 500);
  found.add(100.4, 60.8, 480);
  const DetectionResult result = found.judge();
  REQUIRE(result.markers.size() == 1);
  CHECK(result.markers[0].y_px == Approx(60 + kOffsetY));
  REQUIRE(result.rejected.size() == 1);
  CHECK(result.rejected[0].reason == "the same spot as another candidate");
  CHECK(found.spots().size() == 1);
  Found apart;  // 1.2 px: another spot, and too near
  apart.add(100, 60, 500);
  apart.add(100, 61.2, 480);
  CHECK(apart.judge().markers.empty());
  CHECK(apart.spots().size() == 2);
}

TEST_CASE("a neighbour of a tenth of the height disturbs, fitted or not, in every direction") {
  for (const Vec2 d : {Vec2{1, 0}, Vec2{-1, 0}, Vec2{0, 1}, Vec2{0, -1}}) {
    INFO(d.x << ' ' << d.y);
    const auto beside = [&](double distance_px, double height_adu) {
      Found found;
      found.add(150, 90);
      found.add(150 + distance_px * d.x, 90 + distance_px * d.y, height_adu);
      found.add(150 + 40 * d.x, 90 + 40 * d.y, height_adu);  // further away
      return found;
    };
    CHECK(beside(12.5, 60).judge().rejected[0].reason ==
          "distance to the next spot in px 12.5 below 13.0");
    CHECK(beside(13, 60).judge().markers.size() == 3);
    CHECK(beside(9, 45).judge().markers.size() == 1);  // the weak ones alone are disturbed
    Found unfitted = beside(9, 60);
    unfitted.fits[1].status = fitter::FitStatus::NotConverged;
    CHECK(unfitted.judge().markers.size() == 1);
    CHECK(unfitted.judge().markers[0].x_px == Approx(150 + 40 * d.x + kOffsetX));
    Found allowed = beside(9, 60);
    allowed.settings.min_distance_px = 8.5;
    CHECK(allowed.judge().markers.size() == 3);
    allowed.settings.min_distance_px = 9.5;
    CHECK(allowed.judge().markers.size() == 1);
  }
}

TEST_CASE("the best localised in both axes come first, and the rest is told") {
  Found found;
  for (int i = 0; i < 5; ++i) found.add(40 + 50.0 * i, 50 + 20.0 * i);
  const Vec2 sd_px[] = {
      {0.020, 0.001}, {0.001, 0.019}, {0.004, 0.004}, {0.005, 0.006}, {0.03, 0.03}};
  for (std::size_t i = 0; i < 5; ++i) {
    found.fits[i].x_sd_px = static_cast<float>(sd_px[i].x);
    found.fits[i].y_sd_px = static_cast<float>(sd_px[i].y);
  }
  found.settings.max_count = 4;
  const DetectionResult result = found.judge();
  REQUIRE(result.markers.size() == 4);
  const double order_px[] = {140, 190, 90, 40};
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(result.markers[i].id == i + 1);
    CHECK(result.markers[i].x_px == Approx(order_px[i] + kOffsetX));
  }
  REQUIRE(result.rejected.size() == 1);
  CHECK(result.rejected[0].reason == "4 better ones found");
}

TEST_CASE("the number of witnesses is rounded, at least one, at most half") {
  const auto witnesses = [](int markers, double fraction, int min_for_witness) {
    Found found;
    found.settings.max_count = 64;
    found.settings.witness_fraction = fraction;
    found.settings.min_for_witness = min_for_witness;
    for (int i = 0; i < markers; ++i) found.add(30 + 20.0 * (i % 12), 30 + 20.0 * (i / 12));
    const DetectionResult result = found.judge();
    REQUIRE(result.markers.size() == static_cast<std::size_t>(markers));
    return std::count_if(result.markers.begin(), result.markers.end(),
                         [](const Marker& m) { return m.role == MarkerRole::Witness; });
  };
  CHECK(witnesses(7, 0.25, 6) == 2);  // 1.75
  CHECK(witnesses(9, 0.25, 6) == 2);  // 2.25
  CHECK(witnesses(6, 0.01, 6) == 1);
  CHECK(witnesses(7, 0.9, 6) == 3);
  CHECK(witnesses(5, 0.9, 6) == 0);
  CHECK(witnesses(8, 0, 6) == 0);
  CHECK(witnesses(1, 0.5, 1) == 0);
}

TEST_CASE("witnesses spread along both axes") {
  // A line of twelve markers: three witnesses, and every marker has one within a third of it.
  for (const bool along_x : {true, false}) {
    Found found;
    found.settings.max_count = 64;
    found.settings.witness_fraction = 0.25;
    found.settings.min_distance_px = 5;
    for (int i = 0; i < 12; ++i) {
      found.add(along_x ? 20 + 14.0 * i : 150, along_x ? 90 : 12 + 14.0 * i);
      // Neighbours are as good as one another: quality says nothing of the place.
      found.fits.back().x_sd_px = 0.001F * static_cast<float>(1 + i * 5 % 12);
    }
    const DetectionResult result = found.judge();
    REQUIRE(result.markers.size() == 12);
    double worst_px = 0;
    for (const Marker& m : result.markers) {
      double nearest_px = 1e9;
      for (const Marker& w : result.markers)
        if (w.role == MarkerRole::Witness)
          nearest_px = std::min(nearest_px, std::hypot(m.x_px - w.x_px, m.y_px - w.y_px));
      worst_px = std::max(worst_px, nearest_px);
    }
    CHECK(worst_px <= 14 * 4);
  }
}

TEST_CASE("the fitted spots are all that could be fitted, each once, in sensor pixels") {
  Found found;
  found.add(100.25, 60.75);
  found.add(8.5, 170.25, 30);  // no marker: too weak and at the border
  found.add(250, 90);
  found.candidates[2].saturated = true;
  const std::vector<FittedSpot> spots = found.spots();
  REQUIRE(spots.size() == 2);
  CHECK(spots[0].place_px.x == Approx(100.25 + kOffsetX));
  CHECK(spots[0].place_px.y == Approx(60.75 + kOffsetY));
  CHECK(spots[0].amplitude_adu == Approx(500));
  CHECK(spots[1].place_px.x == Approx(8.5 + kOffsetX));
  CHECK(spots[1].place_px.y == Approx(170.25 + kOffsetY));
  const DetectionResult result = found.judge();
  REQUIRE(result.markers.size() == 1);
  CHECK(result.rejected.back().reason == "saturated");
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
    return judge_candidates(candidates, std::vector{f}, 100, 100, 0, 0,
                            driftd::test::default_detection_settings())
        .markers.size();
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
