// SPDX-License-Identifier: MIT
// Housekeeping: makes the pipeline and its own parts from a configuration, joins them, and turns on
// the calling thread. Everything on that thread may allocate, log and throw;
// nothing on it waits for the loop, for a frame or for a search, so that each turn ends within
// milliseconds.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/process/watchdog.hpp"
#include "config/config.hpp"
#include "daemon/calibration/axial_sweep.hpp"
#include "daemon/calibration/calibration.hpp"
#include "daemon/camera/camera_network.hpp"
#include "daemon/camera/camera_watch.hpp"
#include "daemon/camera/snapshots.hpp"
#include "daemon/command_handlers.hpp"
#include "daemon/events/event_log.hpp"
#include "daemon/events/hook_runner.hpp"
#include "daemon/exposure.hpp"
#include "daemon/loop/loop_control.hpp"
#include "daemon/markers/marker_keeper.hpp"
#include "daemon/orders/lock_orders.hpp"
#include "daemon/orders/move_orders.hpp"
#include "daemon/pipeline.hpp"
#include "daemon/places/places.hpp"
#include "daemon/recorder/frame_keeper.hpp"
#include "daemon/recorder/record_keeper.hpp"
#include "daemon/reload.hpp"
#include "daemon/resume/lock_recovery.hpp"
#include "daemon/resume/lock_saver.hpp"
#include "daemon/resume/stage_memory.hpp"
#include "daemon/resume/sweep_memory.hpp"
#include "daemon/stage/stage_channel.hpp"
#include "daemon/status/pattern_watch.hpp"
#include "daemon/status/reporter.hpp"
#include "daemon/wire/command_server.hpp"
#include "daemon/wire/wire_context.hpp"

namespace driftd::daemon {

class Housekeeping {
 public:
  /// Composes and binds; starts nothing yet. @throws config::ConfigError, SocketError,
  /// RealTimeError, camera::CameraError
  /// @param source  takes the place of the one that is configured; null: none does
  Housekeeping(config::Config config, const std::filesystem::path& file,
               std::unique_ptr<camera::FrameSource> source = nullptr);
  ~Housekeeping();
  Housekeeping(const Housekeeping&) = delete;
  Housekeeping& operator=(const Housekeeping&) = delete;

  /// Until SIGTERM, SIGINT or the end of a recording. SIGHUP reloads the configuration. The caller
  /// has blocked these three signals in every thread. @throws camera::CameraError
  void run();

  // What run() does, for whoever has a clock of their own (tests/virtual).
  void start();
  void turn(int patience_ms);  ///< negative: commands wait
  /// A stage that is calibrated goes back to its start before finish(), as long as there is time.
  void bring_back();
  /// Until the loop tells of its end, too, so that nothing is kept of it as interrupted.
  bool is_coming_back() const noexcept {
    return calibration_.is_moving() || sweep_.is_moving() ||
           loop_.report().z.lock.state == control::LockState::Calibrating;
  }
  static constexpr std::int64_t kMostWayBackNs = 4'000'000'000;  ///< systemd waits for ten
  void finish();
  void reload();
  /// After run(): what ended it is that driftd is to start anew.
  bool starts_anew() const noexcept { return starts_anew_; }
  /// Somebody left the daemon before unlocked: lock.at_start does not lock. Before run().
  void stay_unlocked() noexcept { lock_.end_at_start(); }
  bool stays_unlocked() const noexcept {
    return lock_.is_at_start_over() || places_.was_asked() || markers_.are_chosen();
  }
  /// Somebody waits for what the loop answers.
  bool is_asked() const noexcept;
  /// A thread of its own looks for markers, evaluates a calibration, reads or writes a place,
  /// begins or ends a record, or begins to save raw frames.
  bool is_calculating() const noexcept {
    return markers_.is_searching() || calibration_.is_evaluating() || sweep_.is_evaluating() ||
           sweep_.pending() || places_.is_at_disk() || record_.pending() ||
           raw_frames_.is_beginning();
  }
  const Publisher& publisher() noexcept { return pipeline_.publisher(); }

 private:
  void hold_recording();
  void refuse_pending();
  void collect();  ///< what the loop and the source gave back or tell
  void take_signals();
  void ask_reload(const Answer& answer) { reload_asked_.push_back(answer); }
  void ask_start_anew(bool checks, const Answer& answer);
  nlohmann::json lost_with(const config::Config& after);
  nlohmann::json status();
  Reply access(const config::Client& client) const;
  StageForLock stage_for_lock(StageChannel& stage);
  std::string no_z_to_lock_by();
  std::optional<CommandHandlers::Axial> axial_handlers();
  bool orders_pending() const noexcept {
    return lock_.pending() || z_lock_.pending() || sweep_.pending();
  }
  std::string nothing_to_lock_by() const;
  std::string why_z_is_idle() const;

  config::Config config_;
  std::int64_t start_ns_;
  std::string session_;
  std::int64_t hold_until_ns_ = 0;  ///< a recording; 0: not held
  WireContext wire_;
  Pipeline pipeline_;
  LoopControl loop_;
  EventLog events_;
  HookRunner hook_;
  PatternWatch pattern_;
  Reporter reporter_;
  CameraWatch camera_;
  CameraNetwork camera_network_;
  StageChannel stage_, z_stage_;
  LockSaver memory_;
  StageMemory stage_memory_;
  SweepMemory sweep_memory_;
  LockRecovery interrupted_;
  MarkerKeeper markers_;
  Exposure exposure_;
  std::shared_ptr<std::uint64_t> newest_lock_ = std::make_shared<std::uint64_t>(0);
  std::shared_ptr<std::uint64_t> newest_move_ = std::make_shared<std::uint64_t>(0);
  LockOrders lock_, z_lock_;
  MoveOrders moves_, z_moves_;
  Places places_;
  Snapshots snapshots_;
  Calibration calibration_;
  AxialSweep sweep_;
  RecordKeeper record_;
  FrameKeeper raw_frames_;
  CommandHandlers handlers_;
  CommandServer commands_;
  Reload reload_;
  Watchdog watchdog_;
  int signal_fd_ = -1;
  std::vector<Answer> reload_asked_;  ///< by command, in this turn
  bool stop_ = false, starts_anew_ = false;
};

}  // namespace driftd::daemon
