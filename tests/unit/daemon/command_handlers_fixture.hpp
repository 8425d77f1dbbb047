// SPDX-License-Identifier: MIT
// The command handlers with all of housekeeping behind them, a loop that takes what it is told, and
// a camera without frames.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>

#include "daemon/command_handlers.hpp"
#include "housekeeping_for_tests.hpp"

namespace driftd::daemon::test {

struct HandlersFixture {
  config::Config config = config::default_config();
  ChosenFitter fitter{
      .fitter = nullptr, .reason = {}, .estimator_reason = {}, .saturation_adu = 65535};
  PlayedLoop played;
  PlayedCamera source;
  Told told;
  CorrectionGate gate;
  LoopControl loop{played.ports};
  CameraWatch camera{config, source, loop, told.log};
  CorrectionGate z_gate;
  std::shared_ptr<std::uint64_t> newest_lock = std::make_shared<std::uint64_t>(0);
  std::string why_no_z = {};
  LockOrders orders{{.newest_id = newest_lock}, gate, loop, [] { return std::string(); }};
  LockOrders z_orders{{.group = AxisGroup::Axial, .newest_id = newest_lock}, z_gate, loop, [this] {
                        return why_no_z;
                      }};
  MoveOrders moves{config, loop, told.log};
  MoveOrders z_moves{config, loop, told.log, AxisGroup::Axial};
  MarkerKeeper keeper{config, fitter, camera, loop, told.log};
  Exposure exposure{
      config, source, camera, loop, keeper, told.log, [this] { return orders.pending(); }};
  Snapshots snapshots{[] { return 13; }, camera, loop};
  StageChannel stage{config, "session", played.ports, loop, told.log};
  StageChannel z_stage{config, "session", played.ports, loop, told.log, AxisGroup::Axial};
  Calibration calibration{config,
                          orders,
                          camera,
                          loop,
                          told.log,
                          [] { return std::string(); },
                          [] { return DriverTiming{}; }};
  SweepMemory sweep_memory{config, loop, z_stage, told.log};
  std::optional<AxialTravel> z_travel;
  AxialSweep sweep{config,       z_orders,
                   camera,       loop,
                   told.log,     [] { return std::string(); },
                   sweep_memory, [this] { return z_travel; }};
  LockSaver memory{config, "session", camera,   loop,
                   stage,  z_stage,   told.log, [] { return MarkerSizes{}; }};
  LockRecovery interrupted{config, memory,  camera,   loop,
                           stage,  z_stage, told.log, [](AxisGroup) {
                             return true; }};
  PatternWatch pattern;
  RecordKeeper record{config, "session", std::make_shared<RecordFeed>(1),
                      source, camera,    loop,
                      stage,  pattern,   told.log};
  FrameKeeper raw_frames{config, "session", loop, told.log};
  Places places{config, {}, {camera, loop, memory, interrupted, keeper, orders}, told.log};
  CommandHandlers handlers{
      orders,   moves,      interrupted, keeper,
      exposure, snapshots,  calibration, stage,
      record,   raw_frames, places,      [] {
                             return nlohmann::json{{"state", "holding"}}; }};

  /// Of a daemon that measures z.
  CommandHandlers z_handlers{
      orders,
      moves,
      interrupted,
      keeper,
      exposure,
      snapshots,
      calibration,
      stage,
      record,
      raw_frames,
      places,
      [] { return nlohmann::json::object(); },
      CommandHandlers::Axial{
          .lock = z_orders, .moves = z_moves, .stage = z_stage, .sweep = sweep, .is_held = [this] {
            return config.axial.hold;
          }}};

  HandlersFixture() {
    played.tell();
    loop.refresh();
  }
};

}  // namespace driftd::daemon::test
