// SPDX-License-Identifier: MIT
// The tracking loop where z is measured: from widths, and from a reflected spot.
#include <cmath>
#include <iostream>

#include "support/allocation_watch.hpp"
#include "support/catch.hpp"
#include "unit/control/axial_scene.hpp"
#include "unit/daemon/tracking_bench.hpp"

using namespace driftd;
using namespace driftd::daemon;
using driftd::daemon::test::Bench;

namespace {

void measure_z(Bench& bench) {
  bench.config.axial.method = control::AxialMethod::Astigmatic;
  bench.config.axial.read =
      std::make_shared<const control::BrightnessCurves>(std::vector{control::test::huang_curve()});
}

}  // namespace

TEST_CASE("z is published beside x and y, from the lock's reference") {
  Bench bench;
  measure_z(bench);
  bench.command_here(LoopCommand::Kind::Lock);
  bench.frames(30, {.z_nm = 20});
  bench.frames(30, {.drift_nm = {3, 0}, .z_nm = 95});
  const LoopReport report = bench.run();
  REQUIRE(report.measures_z);
  REQUIRE(report.axial.valid);
  CHECK(report.axial.z_nm == Approx(75).margin(1));
  CHECK(report.axial.from_crossing_nm == Approx(100).margin(3));
  CHECK(report.axial.markers_used == 5);
  const auto positions = bench.of("position");
  REQUIRE(positions.size() == 60);
  CHECK(positions[25]["z_nm"].get<double>() == Approx(0).margin(1));
  CHECK(positions[45]["z_nm"].get<double>() == Approx(75).margin(1));
  CHECK(positions[45]["frame_z_nm"].get<double>() == Approx(75).margin(1));
  CHECK(positions[45]["z_sd_nm"].get<double>() > 0);
  CHECK(positions[45]["witness_z_nm"].is_null());
  bench.ports.markers.refresh();
  const MarkersReport& markers = bench.ports.markers.reading();
  CHECK(markers.measures_z);
  CHECK(markers.entries[0].axial.z_nm == Approx(125).margin(3));  // with its height of 30
  CHECK(markers.entries[0].axial.displacement_nm == Approx(75).margin(2));
}

TEST_CASE("z that cannot be read is null, and x and y go on") {
  Bench bench;
  measure_z(bench);
  bench.command_here(LoopCommand::Kind::Lock);
  bench.frames(30);
  bench.frames(10, {.z_nm = 650});
  bench.frames(10);
  bench.frames(10, {.saturated = true});
  bench.run();
  const auto positions = bench.of("position");
  REQUIRE(positions.size() == 60);
  for (std::size_t i = 30; i < 40; ++i) {
    CHECK(positions[i]["z_nm"].is_null());
    CHECK(positions[i]["z_sd_nm"].is_null());
    CHECK(positions[i]["frame_z_nm"].is_null());
    CHECK(positions[i]["valid"] == true);
  }
  CHECK(positions[45]["z_nm"].get<double>() == Approx(0).margin(1));
}

TEST_CASE("saturated markers are told from dark ones") {
  for (const bool bright : {true, false}) {
    Bench bench;
    measure_z(bench);
    bench.frames(20);
    bench.frames(5, {.markers_shown = bright, .saturated = true});
    const LoopReport report = bench.run();
    CHECK_FALSE(report.axial.valid);
    CHECK(report.axial.reason ==
          (bright ? control::AxialReason::Saturated : control::AxialReason::Dark));
  }
}

TEST_CASE("without a method there is no z on the wire, but null") {
  Bench bench;
  bench.frames(20);
  const LoopReport report = bench.run();
  CHECK_FALSE(report.measures_z);
  for (const auto& p : bench.of("position"))
    for (const char* key : {"z_nm", "z_sd_nm", "frame_z_nm", "frame_z_sd_nm", "witness_z_nm"})
      REQUIRE((p.contains(key) && p[key].is_null()));
}

TEST_CASE("where z is measured the loop's thread neither allocates nor frees") {
  if (!driftd::test::can_watch()) {
    std::cout << "SKIPPED: the sanitizer owns the allocator\n";
    return;
  }
  Bench bench;
  measure_z(bench);
  bench.command_here(LoopCommand::Kind::Lock);
  bench.frames(10);
  bench.camera.watch_after = 10;
  bench.frames(40, {.drift_nm = {4, 1}, .z_nm = 30});
  bench.frames(10, {.z_nm = 900});
  bench.frames(10, {.markers_shown = false});
  bench.frames(10, {.saturated = true});
  bench.at_here([&bench] {  // what a reload with another curve sends
    bench.config.axial.read = std::make_shared<const control::BrightnessCurves>(
        std::vector{control::test::huang_curve(1.5)});
    bench.reload();
  });
  bench.frames(40, {.z_nm = 30});
  const LoopReport report = bench.run();
  CHECK(report.axial.valid);
  REQUIRE(driftd::test::watched_allocations() == 0);
}

namespace {

/// The third of the bench's spots, which moves with the drift, is the reflected one.
void reflect(Bench& bench, bool with_markers) {
  config::Config& c = bench.config;
  c.axial.method = control::AxialMethod::Reflection;
  c.reflection = {.x_px = daemon::test::kOffsetXPx + 53.6,
                  .y_px = daemon::test::kOffsetYPx + 46.9,
                  .roi_px = 24,
                  .nm_per_px = 40,
                  .angle_deg = 180};
  bench.ports.reflection = make_reflection_reader(c, camera::PixelFormat::Mono16);
  bench.first_markers = daemon::test::ScriptedCamera::markers();
  bench.first_markers.erase(bench.first_markers.begin() + 2);
  if (!with_markers) bench.first_markers.clear();
}

}  // namespace

TEST_CASE("a reflected spot is z by its place, from the markers' reference") {
  Bench bench;
  reflect(bench, true);
  bench.command_here(LoopCommand::Kind::Lock);
  bench.stage_obeys = false;
  bench.frames(20, {.drift_nm = {50, 0}});
  bench.frames(20, {.drift_nm = {65, 10}});
  bench.run();
  const auto positions = bench.of("position");
  REQUIRE(positions.size() == 40);
  CHECK(positions[18]["z_nm"].get<double>() == Approx(0).margin(0.5));
  CHECK(positions[30]["z_nm"].get<double>() == Approx(-6).margin(0.5));
  CHECK(positions[30]["z_sd_nm"].get<double>() < 2);
  CHECK(positions[30]["valid"] == true);
}

TEST_CASE("without markers there may be z alone") {
  const auto report_after = [](daemon::test::ScriptedCamera::Step last) {
    Bench bench;
    reflect(bench, false);
    bench.frames(20);
    bench.frames(10, last);
    return bench.run();
  };
  const LoopReport moved = report_after({.drift_nm = {100, 30}});  // a pixel along x
  CHECK(moved.axial.valid);
  CHECK(moved.axial.z_nm == Approx(-40).margin(0.5));
  CHECK_FALSE(moved.drift.valid);
  const LoopReport gone = report_after({.drift_nm = {1000, 0}});  // to the region's edge
  CHECK_FALSE(gone.axial.valid);
  CHECK(gone.axial.reason == control::AxialReason::OutOfRange);
  CHECK(report_after({.markers_shown = false}).axial.reason == control::AxialReason::Dark);
  CHECK(report_after({.saturated = true}).axial.reason == control::AxialReason::Saturated);
}
