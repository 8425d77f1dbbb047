// SPDX-License-Identifier: MIT
// Which of the markers become witnesses.
#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "support/catch.hpp"
#include "support/default_settings.hpp"
#include "unit/control/detection_images.hpp"

namespace driftd::control {
namespace {

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
  DetectionSettings settings = driftd::test::default_detection_settings();
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
  DetectionSettings settings = driftd::test::default_detection_settings();
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

}  // namespace
}  // namespace driftd::control
