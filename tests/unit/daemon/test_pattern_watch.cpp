// SPDX-License-Identifier: MIT
#include <cmath>
#include <memory>
#include <random>

#include "daemon/status/pattern_watch.hpp"
#include "support/catch.hpp"

using namespace driftd;
using namespace driftd::daemon;
using control::MarkerHealth;

namespace {

constexpr double kPixelNm = 110;
constexpr double kMrad = 1e-3, kPpm = 1e-6;

/// What the loop reports of ten markers, of which a pattern watch sees a hundred frames a second.
class Field {
 public:
  static constexpr std::size_t kMarkers = 10;
  static constexpr double kSdNm = 0.9;

  Field() {
    report_->count = kMarkers;
    for (std::size_t i = 0; i < kMarkers; ++i) {
      MarkersReport::Entry& e = report_->entries[i];
      e.marker.id = static_cast<std::uint32_t>(i + 1);
      e.reference = {.place_px = {30 + 40.0 * static_cast<double>(i % 4),
                                  20 + 60.0 * static_cast<double>(i % 3)},
                     .variance_nm2 = 1e-4};
      e.observation = {.fitted = true,
                       .x_sd_px = static_cast<float>(kSdNm / kPixelNm),
                       .y_sd_px = static_cast<float>(kSdNm / kPixelNm)};
      e.result.health = MarkerHealth::Good;
    }
  }
  MarkersReport::Entry& entry(std::size_t i) { return report_->entries[i]; }
  void frames(int count, double rotation_rad, double scale) {
    std::normal_distribution<double> noise(0, kSdNm);
    for (int n = 0; n < count; ++n) {
      report_->frame_id += 5;
      report_->arrival_ns += 10'000'000;
      // The sample shakes by much more than the pattern changes.
      const double shaken_nm = 300 * noise(random_);
      for (std::size_t i = 0; i < kMarkers; ++i) {
        const control::Vec2 p = report_->entries[i].reference.place_px;
        const double x_nm = (p.x - 90) * kPixelNm, y_nm = (p.y - 80) * kPixelNm;
        report_->entries[i].result.displacement_nm = {
            shaken_nm + scale * x_nm - rotation_rad * y_nm + noise(random_),
            -2 * shaken_nm + scale * y_nm + rotation_rad * x_nm + noise(random_)};
      }
      if (reads_z)
        for (std::size_t i = 0; i < kMarkers; ++i) {
          MarkersReport::Entry& e = report_->entries[i];
          const double x_nm = e.reference.place_px.x * kPixelNm;
          const double y_nm = e.reference.place_px.y * kPixelNm;
          e.reference.z_nm = 100.0 * static_cast<double>(i);
          e.reference.z_variance_nm2 = 1e-3;
          e.axial = {.reason = control::AxialReason::Measured,
                     .read = i != 4,
                     .z_nm = 0,
                     .sd_nm = 3,
                     .referenced = i != 4,
                     .displacement_nm =
                         shaken_nm + 3 / kSdNm * noise(random_) + 2e-3 * x_nm - 1e-3 * y_nm};
        }
      watch.see(*report_, kPixelNm);
      watch.see(*report_, kPixelNm);  // once more what it has seen
    }
  }

  PatternWatch watch;
  bool reads_z = false;

 private:
  std::unique_ptr<MarkersReport> report_ = std::make_unique<MarkersReport>();
  std::mt19937 random_{5};
};

}  // namespace

TEST_CASE("a pattern that turns and grows is told after a second, with its noise", "[pattern]") {
  Field field;
  CHECK(pattern_json(field.watch.change()).is_null());
  field.frames(300, 0, 0);
  field.frames(300, 0.4 * kMrad, -70 * kPpm);
  const nlohmann::json told = pattern_json(field.watch.change());
  const double sd_mrad = told["rotation_sd_mrad"], sd_ppm = told["scale_sd_ppm"];
  CHECK(std::abs(told["rotation_mrad"].get<double>() - 0.4) < 4 * sd_mrad);
  CHECK(std::abs(told["scale_ppm"].get<double>() + 70) < 4 * sd_ppm);
  // Ten markers some 6 um from their middle, a hundred frames: 0.9 nm / (6 um sqrt(1000)).
  CHECK(sd_mrad == Approx(0.0047).epsilon(0.4));
  CHECK(sd_ppm == Approx(1000 * sd_mrad));
  CHECK(told["markers_used"] == 10);
  CHECK(told["tilt_x_mrad"].is_null());
  CHECK(told["tilt_y_sd_mrad"].is_null());
}

TEST_CASE("what the pattern was is forgotten within a second or two", "[pattern]") {
  Field field;
  field.frames(300, 1 * kMrad, 0);
  field.frames(400, 0, 0);
  const control::PatternChange c = field.watch.change();
  CHECK(std::abs(c.rotation_rad) < 4 * c.rotation_sd_rad);
}

TEST_CASE("a turn that makes outliers of the outer markers is seen all the same", "[pattern]") {
  Field field;
  for (const std::size_t i : {0U, 3U, 8U}) field.entry(i).result.health = MarkerHealth::Outlier;
  field.frames(300, 2 * kMrad, 0);
  const control::PatternChange c = field.watch.change();
  CHECK(c.markers == 10);
  CHECK(std::abs(c.rotation_rad - 2 * kMrad) < 4 * c.rotation_sd_rad);
}

TEST_CASE("markers that are not seen take no part, and come back", "[pattern]") {
  Field field;
  field.frames(200, 0, 0);
  for (const MarkerHealth health : {MarkerHealth::FitFailed, MarkerHealth::OutsideFrame,
                                    MarkerHealth::Implausible, MarkerHealth::Unreferenced}) {
    field.entry(2).result.health = health;
    field.frames(200, 0, 0);
    CHECK(field.watch.change().markers == 9);
    field.entry(2).result.health = MarkerHealth::Good;
    field.frames(200, 0, 0);
    CHECK(field.watch.change().markers == 10);
  }
  field.entry(2).observation.fitted = false;
  field.frames(200, 0, 0);
  CHECK(field.watch.change().markers == 9);
}

TEST_CASE("a pattern that tilts is told where markers have a z", "[pattern]") {
  Field field;
  field.reads_z = true;
  field.frames(300, 0, 0);
  const control::PatternChange c = field.watch.change();
  REQUIRE(c.tilted);
  CHECK(std::abs(c.tilt_rad.x - 2 * kMrad) < 4 * c.tilt_sd_rad.x);
  CHECK(std::abs(c.tilt_rad.y + 1 * kMrad) < 4 * c.tilt_sd_rad.y);
  CHECK(c.tilt_sd_rad.x < 0.1 * kMrad);
  CHECK(pattern_json(c)["tilt_y_mrad"].get<double>() == Approx(1000 * c.tilt_rad.y));
}

TEST_CASE("what no marker tells any more is not told for ever", "[pattern]") {
  Field field;
  field.reads_z = true;
  field.frames(300, 0, 0);
  field.reads_z = false;
  for (std::size_t i = 0; i < Field::kMarkers; ++i) field.entry(i).axial = {};
  field.frames(200, 0, 0);
  CHECK_FALSE(field.watch.change().tilted);
  CHECK(field.watch.change().measured);
  for (std::size_t i = 0; i < Field::kMarkers; ++i) field.entry(i).observation.fitted = false;
  field.frames(200, 0, 0);
  CHECK_FALSE(field.watch.change().measured);
}

TEST_CASE("a new reference is a new zero, at once", "[pattern]") {
  Field field;
  field.frames(300, 5 * kMrad, 200 * kPpm);
  for (std::size_t i = 0; i < Field::kMarkers; ++i) field.entry(i).reference.place_px.x += 0.01;
  field.frames(1, 0, 0);
  const control::PatternChange c = field.watch.change();
  REQUIRE(c.measured);
  CHECK(std::abs(c.rotation_rad) < 4 * c.rotation_sd_rad);
  CHECK(std::abs(c.scale) < 4 * c.scale_sd);
  CHECK(c.rotation_sd_rad > 2e-5);  // of one frame
}

TEST_CASE("a record's row has what status has, and nothing where nothing is", "[pattern]") {
  const record::PatternRow row = pattern_row({.measured = true,
                                              .rotation_rad = 1e-4,
                                              .rotation_sd_rad = 2e-5,
                                              .scale = 3e-6,
                                              .scale_sd = 4e-6,
                                              .markers = 7},
                                             99);
  CHECK(row.time_ns == 99);
  CHECK(row.markers_used == 7);
  CHECK(row.rotation_mrad == Approx(0.1));
  CHECK(row.rotation_sd_mrad == Approx(0.02));
  CHECK(row.scale_ppm == Approx(3));
  CHECK(row.scale_sd_ppm == Approx(4));
  CHECK(std::isnan(row.tilt_x_mrad));
  const record::PatternRow tilted =
      pattern_row({.tilted = true, .tilt_rad = {1e-3, 2e-3}, .tilt_sd_rad = {3e-3, 4e-3}}, 1);
  CHECK(std::isnan(tilted.rotation_mrad));
  CHECK(tilted.markers_used == 0);
  CHECK(tilted.tilt_x_mrad == Approx(1));
  CHECK(tilted.tilt_y_mrad == Approx(2));
  CHECK(tilted.tilt_x_sd_mrad == Approx(3));
  CHECK(tilted.tilt_y_sd_mrad == Approx(4));
}
