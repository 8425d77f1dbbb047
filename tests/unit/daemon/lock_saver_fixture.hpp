// SPDX-License-Identifier: MIT
// One daemon after another with the same camera, configuration and state directory, as far as a
// lock that outlives them is concerned; the loop's end is played.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/state_file.hpp"
#include "daemon/resume/lock_recovery.hpp"
#include "housekeeping_for_tests.hpp"
#include "saved_lock_for_tests.hpp"
#include "support/catch.hpp"
#include "turned_until.hpp"

namespace driftd::daemon::test {

using control::LockState;
using Kind = LoopCommand::Kind;

inline constexpr std::int64_t kMs = 1'000'000;

struct DaemonsFixture {
  StateFolder folder;
  config::Config config = config::default_config();
  std::int64_t now_ns = 1000 * kMs;

  struct Run {
    PlayedLoop played;
    PlayedCamera source;
    Told told;
    LoopControl loop{played.ports};
    CameraWatch camera;
    StageChannel stage, z_stage;
    CorrectionGate gate, z_gate;
    std::shared_ptr<std::uint64_t> newest_lock = std::make_shared<std::uint64_t>(0);
    LockOrders orders{{.newest_id = newest_lock}, gate, loop, [] { return std::string(); }};
    LockOrders z_orders{{.group = AxisGroup::Axial, .newest_id = newest_lock}, z_gate, loop, [] {
                          return std::string();
                        }};
    LockSaver memory;
    LockRecovery interrupted;
    bool is_heard = true;

    Run(const config::Config& config, const std::string& session)
        : camera(config, source, loop, told.log),
          stage(config, session, played.ports, loop, told.log),
          z_stage(config, session, played.ports, loop, told.log, AxisGroup::Axial),
          memory(
              config, session, camera, loop, stage, z_stage, told.log,
              [] { return MarkerSizes{.spot_sigma_px = 1.35, .roi_px = 15, .saturation_adu = 0}; }),
          interrupted(config, memory, camera, loop, stage, z_stage, told.log,
                      [this](AxisGroup) { return is_heard; }) {
      source.described.description = "maker model 7 at 10.0.0.1";
      source.described.format = camera::PixelFormat::Mono12;
      source.described.width_px = 140;
      source.described.height_px = 110;
      source.described.offset_x_px = 1000;
      source.described.offset_y_px = 500;
      camera.look();
      interrupted.take(memory.recall());
    }
    std::size_t count(const std::string& code) const {
      const std::vector<std::string> codes = told.codes();
      return static_cast<std::size_t>(std::count(codes.begin(), codes.end(), code));
    }
    std::string last(const std::string& code) const {
      std::string text;
      for (const auto& event : told.events)
        if (event["code"] == code) text = event["text"];
      return text;
    }
    const LoopCommand* ordered(Kind kind) const {
      for (auto command = played.taken.rbegin(); command != played.taken.rend(); ++command)
        if (command->kind == kind) return &*command;
      return nullptr;
    }
  };
  std::unique_ptr<Run> run;

  DaemonsFixture() {
    config.control.range_limit_nm = 1000;
    config.control.travel_limit_nm = 3000;
    config.lock.max_jump_nm = 100;
    config.lock.max_drift_nm_per_s = 0;
    start("0000000000000001");
  }
  void start(const std::string& session) {
    run.reset();
    run = std::make_unique<Run>(config, session);
  }
  void turn(std::int64_t later_ms = 10) {
    now_ns += later_ms * kMs;
    run->played.turn();
    run->loop.refresh();
    run->orders.turn(now_ns);
    run->z_orders.turn(now_ns);
    run->interrupted.turn(run->orders, now_ns, &run->z_orders);
    run->memory.turn(now_ns);
  }
  void lock(LockState state, std::uint64_t lock_id, Vec2 total_nm = {}) {
    const std::array markers = {control::Marker{4, control::MarkerRole::Tracking, 1030, 526},
                                control::Marker{9, control::MarkerRole::Witness, 1095, 540}};
    run->played.tell_markers(1, markers);
    run->played.report.lock_id = lock_id;
    run->played.report.total_nm = total_nm;
    run->played.tell_state(state);
    turn();
  }
  /// Locks at (-40, 15) with two markers, and is gone.
  void lock_and_die() {
    run->played.report.travelled_nm = {700, 0};
    run->played.report.carried_nm = {5, 0};
    lock(LockState::Locked, 3, {-40, 15});
    start("0000000000000002");
  }
  /// The next daemon, which finds what is kept changed so.
  void start_with(const std::function<void(SavedLock&)>& change) {
    SavedLock lock = kept().value();
    change(lock);
    write_state(lock_file(config), to_text(lock));
    start("0000000000000003");
  }
  /// So many of its markers are found, and measured, moved by so much.
  void find(Vec2 moved_nm, int matched = 3) {
    REQUIRE(run->interrupted.wanted() != nullptr);
    run->interrupted.found(run->loop.send(LoopCommand{.kind = Kind::Markers}).value_or(0), matched);
    measure(moved_nm);
    const std::array markers = {control::Marker{4, control::MarkerRole::Tracking, 1030, 526}};
    run->played.tell_markers(2, markers);
    turn();
  }
  void measure(Vec2 moved_nm) {
    run->played.report.drift.valid = true;
    run->played.report.drift.drift_nm = moved_nm;
    run->played.report.tracked_ns = run->played.report.frame_ns = now_ns;
    run->played.report.time_ns = now_ns;
    run->played.tell();
  }
  /// Until the worker has written or removed.
  bool until(const std::function<bool()>& condition) {
    return turned_until(condition, [this] { run->memory.turn(now_ns); });
  }
  std::optional<SavedLock> kept() {
    const auto text = read_state(lock_file(config));
    if (!text) return std::nullopt;
    return read_saved_lock(*text);
  }
  bool is_written(const std::function<bool(const SavedLock&)>& condition) {
    return until([&] {
      const auto lock = kept();
      return lock && condition(*lock);
    });
  }
};

}  // namespace driftd::daemon::test
