// SPDX-License-Identifier: MIT
// A lock that goes back to the references of one before: by steps, within the limits, and not at
// all where the sample has moved since that was decided.
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "support/catch.hpp"
#include "unit/daemon/tracking_bench.hpp"

using namespace driftd;
using namespace driftd::daemon;
using control::LockState;
using driftd::daemon::test::Bench;
using driftd::daemon::test::ScriptedCamera;

namespace {

constexpr control::Vec2 kMovedNm{40, -25};
constexpr ScriptedCamera::Step kMoved{.drift_nm = kMovedNm};

/// Markers with references where the sample was before it moved.
void send_known_markers(Bench& bench) {
  const std::vector<control::Marker> markers = ScriptedCamera::markers();
  std::vector<control::MarkerReference> references;
  for (const control::Marker& marker : markers) {
    references.push_back({.place_px = {marker.x_px, marker.y_px},
                          .sigma_px = 1.4,
                          .amplitude_adu = 2000,
                          .variance_nm2 = 0.01,
                          .trusted = true});
  }
  LoopCommand command{.kind = LoopCommand::Kind::Markers};
  command.markers = make_marker_set(bench.config, markers);
  command.markers->estimator.set_references(references);
  bench.ports.commands.push(std::move(command));
}

struct Resumed : Bench {
  Resumed() {
    first_markers.clear();
    config.control.range_limit_nm = 100;
    config.drift.max_brightness_change = 10;  // whatever the bench's spots have
    config.drift.max_width_change = 1;
    at_here([this] { send_known_markers(*this); });
  }
  void resume_here(LockResumption resumption) {
    at_here([this, resumption] {
      LoopCommand command{.kind = LoopCommand::Kind::Lock};
      command.lock_id = ++lock_id;
      command.resumption = resumption;
      publisher.gate().open(lock_id);
      ports.commands.push(std::move(command));
    });
  }
  double last_x_nm(const char* topic, const char* field) const { return of(topic).back()[field]; }
};

}  // namespace

TEST_CASE("a resumed lock goes back by steps to where the sample was held") {
  Resumed bench;
  bench.frames(20, kMoved);
  bench.resume_here({.carried_nm = {}, .drift_nm = kMovedNm, .largest_move_nm = 50});
  bench.frames(80, kMoved);
  const LoopReport report = bench.run();
  const auto positions = bench.of("position");
  CHECK(positions[10]["x_nm"].get<double>() == Approx(40).margin(1));
  CHECK(positions[10]["y_nm"].get<double>() == Approx(-25).margin(1));
  REQUIRE(report.lock.state == LockState::Locked);
  CHECK(report.resumed);
  CHECK(positions.back()["x_nm"].get<double>() == Approx(0).margin(1));
  CHECK(positions.back()["y_nm"].get<double>() == Approx(0).margin(1));
  const auto corrections = bench.of("correction");
  REQUIRE(corrections.size() > 70);
  // From where the stage stands, and never by more than a step.
  CHECK(std::abs(corrections[0]["total_x_nm"].get<double>()) <= 5 + 1e-3);
  for (const auto& c : corrections) {
    REQUIRE(std::abs(c["delta_x_nm"].get<double>()) <= 5 + 1e-3);
    REQUIRE(std::abs(c["delta_y_nm"].get<double>()) <= 5 + 1e-3);
  }
  CHECK(corrections.back()["total_x_nm"].get<double>() == Approx(-40).margin(1));
  CHECK(corrections.back()["total_y_nm"].get<double>() == Approx(-25).margin(1));
}

TEST_CASE("a resumed lock takes no reference: it waits for the stage monitor alone") {
  Resumed bench;
  bench.config.lock.reference_frames = 60;
  bench.rest_moves_to_lock = 30;
  bench.frames(5, kMoved);
  bench.resume_here({.carried_nm = {}, .drift_nm = kMovedNm, .largest_move_nm = 50});
  bench.frames(60, kMoved);
  bench.run();
  const auto changes = bench.changes();
  REQUIRE(changes.size() == 2);
  CHECK(changes[1].state == LockState::Locked);
  CHECK(changes[1].frame_id >= 30);
  CHECK(changes[1].frame_id <= 40);
}

TEST_CASE("so many frames does a resumed lock still wait for") {
  Resumed bench;
  bench.rest_moves_to_lock = 30;
  bench.frames(5, kMoved);
  bench.resume_here({.carried_nm = {}, .drift_nm = kMovedNm, .largest_move_nm = 50});
  bench.frames(10, kMoved);
  const LoopReport report = bench.run();
  REQUIRE(report.lock.state == LockState::Referencing);
  CHECK(report.reference_left > 10);
  CHECK(report.reference_left < 30);
}

TEST_CASE("what was corrected before counts against the range of a resumed lock") {
  Resumed bench;
  bench.at_here([&bench] {
    LoopCommand command{.kind = LoopCommand::Kind::Travelled};
    command.travelled_nm = {300, 400};
    bench.ports.commands.push(std::move(command));
  });
  bench.frames(20, kMoved);
  // The way back is -40 in x: of a range of 100, 20 are left.
  bench.resume_here({.carried_nm = {-80, 0}, .drift_nm = kMovedNm, .largest_move_nm = 50});
  bench.frames(80, kMoved);
  const LoopReport report = bench.run();
  for (const auto& c : bench.of("correction")) REQUIRE(c["total_x_nm"].get<double>() >= -20 - 1e-3);
  CHECK(bench.of("correction").back()["total_x_nm"].get<double>() == Approx(-20));
  CHECK(report.carried_nm.x == -80);
  CHECK(report.travelled_nm.x == 300);
  CHECK(report.travelled_nm.y == 400);
}

TEST_CASE("a lock is not resumed where the sample has moved since it was decided") {
  Resumed bench;
  bench.config.lock.reference_timeout_s = 0.2;
  bench.frames(20, kMoved);
  bench.resume_here(
      {.carried_nm = {}, .drift_nm = {kMovedNm.x, kMovedNm.y + 51}, .largest_move_nm = 50});
  bench.frames(150, kMoved);
  const LoopReport report = bench.run();
  CHECK(report.lock.state == LockState::Idle);
  CHECK(report.lock.reason == control::LockReason::ReferenceTimeout);
  CHECK(bench.of("correction").empty());
}

TEST_CASE("a lock is resumed once the sample is back from where it had moved meanwhile") {
  Resumed bench;
  bench.frames(20, {.drift_nm = {kMovedNm.x, kMovedNm.y + 60}});
  bench.resume_here({.carried_nm = {}, .drift_nm = kMovedNm, .largest_move_nm = 50});
  bench.frames(30, {.drift_nm = {kMovedNm.x, kMovedNm.y + 60}});
  bench.frames(40, kMoved);
  bench.run();
  const auto changes = bench.changes();
  REQUIRE(changes.size() == 2);
  CHECK(changes[1].state == LockState::Locked);
  CHECK(changes[1].frame_id >= 50);
}

TEST_CASE("after a resumed lock the next one takes references, and the whole range") {
  Resumed bench;
  bench.frames(20, kMoved);
  bench.resume_here({.carried_nm = {-80, 0}, .drift_nm = kMovedNm, .largest_move_nm = 50});
  bench.frames(40, kMoved);
  bench.command_here(LoopCommand::Kind::Unlock);
  bench.frames(5, kMoved);
  bench.command_here(LoopCommand::Kind::Lock);
  bench.frames(40, kMoved);
  const LoopReport report = bench.run();
  REQUIRE(report.lock.state == LockState::Locked);
  CHECK_FALSE(report.resumed);
  CHECK(report.carried_nm.x == 0);
  CHECK(bench.of("position").back()["x_nm"].get<double>() == Approx(0).margin(1));
  CHECK(std::abs(bench.of("correction").back()["total_x_nm"].get<double>()) < 2);
}
