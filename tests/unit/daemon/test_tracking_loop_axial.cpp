// SPDX-License-Identifier: MIT
// The tracking loop where z is measured: from widths, and from a reflected spot.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>

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

namespace {

using Kind = LoopCommand::Kind;

void order_z(Bench& bench, Kind kind) {
  bench.command_here(kind, {}, AxisGroup::Axial);
}

/// Of the sample, by the script and the stage's truth, as the last frame saw it.
double true_z_nm(const Bench& bench) {
  return bench.camera.script.back().z_nm + bench.camera.stage_z_nm;
}

}  // namespace

TEST_CASE("z is held by a lock of its own, and x and y are left alone") {
  Bench bench;
  measure_z(bench);
  bench.frames(20, {.z_nm = 40});
  order_z(bench, Kind::Lock);
  bench.frames(30, {.z_nm = 40});
  bench.frames(60, {.drift_nm = {7, -3}, .z_nm = 60});
  const LoopReport report = bench.run();
  CHECK(report.z.lock.state == control::LockState::Locked);
  CHECK(report.lock.state == control::LockState::Idle);
  CHECK(true_z_nm(bench) == Approx(40).margin(1));
  CHECK(bench.of("correction").empty());
  const auto corrections = bench.of("axial");
  REQUIRE(corrections.size() >= 60);
  CHECK(corrections.back()["lock_id"] == 1);
  CHECK(corrections.back()["total_z_nm"].get<double>() == Approx(-20).margin(1));
  CHECK(corrections.back()["probe"] == false);
  for (const auto& c : corrections) CHECK(std::abs(c["delta_z_nm"].get<double>()) <= 5);
  const auto positions = bench.of("position");
  CHECK(positions.front()["z_state"] == "idle");
  CHECK(positions.back()["z_state"] == "locked");
  CHECK(positions.back()["state"] == "idle");
  CHECK(positions.back()["set_z_nm"] == 0);
  CHECK(positions.back()["z_nm"].get<double>() == Approx(0).margin(1));
  CHECK(positions.back()["x_nm"].get<double>() == Approx(7).margin(0.5));
}

TEST_CASE("each lock takes and keeps its own zero") {
  Bench bench;
  measure_z(bench);
  order_z(bench, Kind::Lock);
  bench.frames(30, {.z_nm = 40});
  bench.command_here(Kind::Lock);  // while z is 10 nm from where it is held, and on its way back
  bench.frames(20, {.drift_nm = {5, 5}, .z_nm = 50});
  bench.frames(40, {.drift_nm = {5, 5}, .z_nm = 50});
  const std::size_t anew = bench.camera.script.size();
  order_z(bench, Kind::Unlock);
  bench.frames(5, {.drift_nm = {5, 5}, .z_nm = 80});
  order_z(bench, Kind::Lock);
  bench.frames(60, {.drift_nm = {5, 5}, .z_nm = 80});
  const LoopReport report = bench.run();
  CHECK(report.lock_id == 2);
  CHECK(report.z.lock_id == 3);
  const auto positions = bench.of("position");
  REQUIRE(positions.size() == anew + 65);
  CHECK(positions[anew - 1]["z_nm"].get<double>() == Approx(0).margin(1));
  // Held at 40 by a stage at -10; the sample then rose by 30, and that is the new zero.
  CHECK(true_z_nm(bench) == Approx(70).margin(1));
  CHECK(positions.back()["z_nm"].get<double>() == Approx(0).margin(1));
  for (std::size_t i = anew; i < positions.size(); ++i) {  // x and y never noticed
    CHECK(positions[i]["state"] == "locked");
    CHECK(positions[i]["x_nm"].get<double>() == Approx(0).margin(0.5));
  }
}

TEST_CASE("what is bad for z holds z alone, and the reverse") {
  Bench bench;
  measure_z(bench);
  bench.config.control.coast_nm = 0;
  bench.command_here(Kind::Lock);
  order_z(bench, Kind::Lock);
  bench.frames(40);
  bench.frames(10, {.z_nm = 700});  // out of the curve's range
  const std::size_t back = bench.camera.script.size();
  bench.frames(40);
  bench.frames(10, {.drift_nm = {80, 0}});  // a jump beyond lock.max_jump_nm
  bench.run();
  const auto positions = bench.of("position");
  REQUIRE(positions.size() == back + 50);
  CHECK(positions[back - 1]["z_state"] == "holding");
  CHECK(positions[back - 1]["state"] == "locked");
  CHECK(positions[back - 1]["in_lock"] == false);
  CHECK(positions[back + 39]["z_state"] == "locked");
  CHECK(positions.back()["state"] == "holding");
  CHECK(positions.back()["z_state"] == "locked");
  for (const auto& c : bench.of("axial")) {
    const auto frame = c["frame_id"].get<std::size_t>();
    CHECK((frame <= back - 10 || frame > back));
  }
}

TEST_CASE("a jump of x and y begins no average of z anew while z is held") {
  for (const bool held : {true, false}) {
    Bench bench;
    measure_z(bench);
    bench.config.control.coast_nm = 0;
    bench.config.drift.average_frames = 8;
    bench.command_here(Kind::Lock);
    if (held) order_z(bench, Kind::Lock);
    bench.frames(40);
    bench.frames(10, {.drift_nm = {80, 0}});
    bench.run();
    const auto positions = bench.of("position");
    REQUIRE(positions.size() == 50);
    REQUIRE(positions.back()["state"] == "holding");
    REQUIRE(positions.back()["z_state"] == (held ? "locked" : "idle"));
    // A single frame is more than twice as uncertain as the mean of eight.
    const auto before_nm = positions[38]["z_sd_nm"].get<double>();
    for (std::size_t i = 42; i < 50; ++i) {
      const auto sd_nm = positions[i]["z_sd_nm"].get<double>();
      if (held)
        CHECK(sd_nm < 1.3 * before_nm);
      else
        CHECK(sd_nm > 1.5 * before_nm);
    }
  }
}

TEST_CASE("a stage of z that goes the other way is held, and not driven away") {
  Bench bench;
  measure_z(bench);
  bench.rest_moves_to_lock = control::StageMonitor::kMovesToJudge;
  bench.z_stage_gain = -1;
  order_z(bench, Kind::Lock);
  for (int i = 0; i < 300; ++i) bench.frames(1, {.z_nm = 0.8 * std::sin(0.9 * i)});
  double farthest_nm = 0;
  for (int i = 0; i < 300; ++i) {
    bench.frames(1, {.z_nm = 3 + 0.8 * std::sin(0.9 * i)});
    bench.at_here([&] { farthest_nm = std::max(farthest_nm, std::abs(true_z_nm(bench))); });
  }
  const LoopReport report = bench.run();
  CHECK(report.z.lock.state == control::LockState::Holding);
  CHECK(report.z.lock.reason == control::LockReason::StageNotFollowing);
  CHECK(report.z.stage == control::StageLooks::Reversed);
  CHECK(farthest_nm < 30);
}

TEST_CASE("images may be taken while both locks hold still") {
  Bench bench;
  measure_z(bench);
  bench.config.gate.average_s = 0.02;
  bench.command_here(Kind::Lock);
  bench.frames(60);
  order_z(bench, Kind::Lock);
  const std::size_t z = bench.camera.script.size();
  // More than x and y may, less than z.
  for (int i = 0; i < 60; ++i) bench.frames(1, {.z_nm = i % 2 == 0 ? 2.0 : -2.0});
  bench.frames(1, {.drift_nm = {20, 0}});  // of x alone
  bool seen = true;
  bench.at_here([&] { seen = bench.newest_report().all_in_lock(); });
  bench.frames(59, {.drift_nm = {20, 0}});
  order_z(bench, Kind::Unlock);
  bench.frames(10, {.drift_nm = {20, 0}});
  const LoopReport report = bench.run();
  const auto positions = bench.of("position");
  REQUIRE(positions.size() == z + 130);
  CHECK(positions[z - 1]["in_lock"] == true);
  CHECK(positions[z - 1]["in_lock_z"] == false);
  CHECK(positions[z + 5]["in_lock"] == false);  // z takes its reference
  CHECK(positions[z + 59]["in_lock"] == true);
  CHECK(positions[z + 59]["in_lock_z"] == true);
  CHECK(positions[z + 60]["in_lock"] == false);
  CHECK(positions[z + 60]["in_lock_z"] == true);
  CHECK_FALSE(seen);
  CHECK(positions.back()["in_lock"] == true);
  CHECK(report.all_in_lock());
}

TEST_CASE("each lock keeps its own limits, after a reload, too") {
  Bench bench;
  measure_z(bench);
  bench.config.control.range_limit_nm = 20;
  bench.config.axial.step_limit_nm = 3;
  bench.config.axial.rate_limit_nm_per_s = 1e6;
  bench.config.axial.range_limit_nm = 120;
  bench.command_here(Kind::Lock);
  order_z(bench, Kind::Lock);
  bench.frames(30);
  bench.frames(40, {.drift_nm = {18, 0}, .z_nm = 80});  // beyond the range of x and y
  bench.at_here([&bench] {
    bench.config.axial.step_limit_nm = 2;
    bench.reload();
  });
  const std::size_t reloaded = bench.camera.script.size();
  bench.frames(60, {.drift_nm = {-18, 0}, .z_nm = 20});
  const LoopReport report = bench.run();
  CHECK(report.lock.state == control::LockState::Locked);
  CHECK(report.z.lock.state == control::LockState::Locked);
  const auto largest = [&](const char* topic, const char* key, bool after) {
    double nm = 0;
    for (const auto& c : bench.of(topic))
      if ((c["frame_id"].get<std::size_t>() > reloaded) == after)
        nm = std::max(nm, std::abs(c[key].get<double>()));
    return nm;
  };
  CHECK(largest("correction", "delta_x_nm", false) == 5);
  CHECK(largest("correction", "delta_x_nm", true) == 5);
  CHECK(largest("axial", "delta_z_nm", false) == 3);
  CHECK(largest("axial", "delta_z_nm", true) == 2);
  CHECK(largest("axial", "total_z_nm", false) == Approx(80).margin(2));
}

TEST_CASE("what the driver of one stage says holds the lock of that stage, and is told as its") {
  for (const AxisGroup group : {AxisGroup::Lateral, AxisGroup::Axial}) {
    Bench bench;
    measure_z(bench);
    bench.command_here(Kind::Lock);
    order_z(bench, Kind::Lock);
    bench.frames(30);
    bench.at_here(
        [&bench, group] { bench.ports.of(group).stage_says = control::StageSays::Error; });
    bench.frames(10);
    const LoopReport report = bench.run();
    const bool of_z = group == AxisGroup::Axial;
    const LockReport& held = of_z ? report.z : report;
    const LockReport& other = of_z ? static_cast<const LockReport&>(report) : report.z;
    CHECK(held.lock.state == control::LockState::Holding);
    CHECK(other.lock.state == control::LockState::Locked);
    const auto newest = [](LockPorts& ports) {
      LockChange change;
      while (ports.lock_changes.pop(change)) continue;
      return change;
    };
    const LockChange xy = newest(bench.ports), z = newest(bench.ports.z);
    CHECK(xy.group == AxisGroup::Lateral);
    CHECK(z.group == AxisGroup::Axial);
    CHECK((of_z ? z : xy).state == control::LockState::Holding);
    CHECK((of_z ? xy : z).state == control::LockState::Locked);
  }
}

TEST_CASE("stale frames hold both locks") {
  Bench bench;
  measure_z(bench);
  bench.command_here(Kind::Lock);
  order_z(bench, Kind::Lock);
  bench.frames(40);
  bench.frames(20, {.late_ns = 200'000'000});
  const LoopReport report = bench.run();
  CHECK(report.lock.state == control::LockState::Holding);
  CHECK(report.z.lock.state == control::LockState::Holding);
  CHECK(report.z.lock.reason == report.lock.reason);
}

TEST_CASE("z is moved under its lock, and x and y stay") {
  Bench bench;
  measure_z(bench);
  bench.command_here(Kind::Lock);
  order_z(bench, Kind::Lock);
  bench.frames(40);
  bench.at_here([&bench] {
    LoopCommand command{.kind = Kind::Move, .group = AxisGroup::Axial};
    command.move = std::make_unique<control::MovePath>();
    command.move->id = 1;
    command.move->count = 1;
    command.move->places[0] = {{60, 0}, 500, 0};
    bench.ports.commands.push(std::move(command));
  });
  bench.frames(150);
  const LoopReport report = bench.run();
  CHECK(report.z.move.end == control::MoveEnd::Done);
  CHECK(true_z_nm(bench) == Approx(60).margin(1));
  const auto positions = bench.of("position");
  CHECK(positions.back()["set_z_nm"].get<double>() == Approx(60).margin(0.5));
  CHECK(positions.back()["set_x_nm"] == 0);
  CHECK(positions.back()["x_nm"].get<double>() == Approx(0).margin(0.5));
}

TEST_CASE("what was withheld of z is taken back, and x and y go on") {
  Bench bench;
  measure_z(bench);
  bench.command_here(Kind::Lock);
  order_z(bench, Kind::Lock);
  bench.frames(40);
  bench.at_here([&bench] { bench.publisher.gate(AxisGroup::Axial).close(); });
  const std::size_t closed = bench.camera.script.size();
  bench.frames(20, {.drift_nm = {4, 0}, .z_nm = 30});
  const LoopReport report = bench.run();
  CHECK(bench.publisher.outlet(AxisGroup::Axial).withheld() > 0);
  CHECK(bench.publisher.outlet(AxisGroup::Lateral).withheld() == 0);
  for (const auto& c : bench.of("axial")) CHECK(c["frame_id"].get<std::size_t>() <= closed);
  CHECK(report.lock.state == control::LockState::Locked);
  CHECK(bench.of("correction").back()["frame_id"] == closed + 20);
  CHECK(std::abs(report.z.total_nm.x) <= 5);  // one step at most is still under way
}

TEST_CASE("where z is held the loop's thread neither allocates nor frees") {
  if (!driftd::test::can_watch()) {
    std::cout << "SKIPPED: the sanitizer owns the allocator\n";
    return;
  }
  Bench bench;
  measure_z(bench);
  bench.command_here(Kind::Lock);
  order_z(bench, Kind::Lock);
  bench.frames(10);
  bench.camera.watch_after = 10;
  bench.frames(40, {.drift_nm = {4, 1}, .z_nm = 30});
  bench.frames(10, {.z_nm = 900});
  bench.frames(5, {.status = camera::PopStatus::Timeout});
  bench.frames(10, {.markers_shown = false});
  bench.frames(5, {.late_ns = 200'000'000});
  bench.frames(40, {.z_nm = 30});
  order_z(bench, Kind::Unlock);
  order_z(bench, Kind::Lock);
  bench.frames(40, {.z_nm = 30});
  const LoopReport report = bench.run();
  CHECK(report.z.lock.state == control::LockState::Locked);
  REQUIRE(driftd::test::watched_allocations() == 0);
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

TEST_CASE("a zero that x and y give to a reflected spot begins its figures anew") {
  Bench bench;
  reflect(bench, true);
  bench.stage_obeys = false;
  bench.frames(20);
  bench.frames(100, {.drift_nm = {30, 0}});  // 12 nm of z, an rms of 2 nm over the last seconds
  bench.command_here(LoopCommand::Kind::Lock);
  bench.frames(15, {.drift_nm = {30, 0}});
  const LoopReport report = bench.run();
  CHECK(bench.of("position")[110]["z_nm"].get<double>() == Approx(-12).margin(0.5));
  CHECK(report.z.drift.drift_nm.x == Approx(0).margin(0.5));
  CHECK(report.z.rms_x_nm < 0.5);
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
