// SPDX-License-Identifier: MIT
// The daemon, whole but for Aravis, before the simulator's camera, markers and stage, in virtual
// time: nothing happens but what advance() lets happen, in the order of its time, as fast as the
// machine can and with the same bits each time. A stage obeys the corrections as driftd-sim's does.
// One thread makes all calls.
#pragma once

#include <zmq.h>

#include <array>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/housekeeping.hpp"
#include "simulator/live_simulation.hpp"
#include "simulator/sim_wire.hpp"
#include "tests/virtual/virtual_camera.hpp"
#include "tests/virtual/virtual_time.hpp"

namespace driftd::virtual_time {

class Lab {
 public:
  /// @param rate_hz  of a camera that is not told any
  Lab(VirtualTime& time, const simulator::Scenario& scenario, double rate_hz);
  ~Lab();
  Lab(const Lab&) = delete;
  Lab& operator=(const Lab&) = delete;

  /// @throws what daemon::Housekeeping does
  void start_daemon(const std::filesystem::path& config);
  /// As SIGTERM does.
  void stop_daemon();
  /// As SIGKILL does, but that what was being written to the disk is written.
  void kill_daemon();
  /// As SIGHUP does.
  void reload_daemon();
  bool is_running() const noexcept { return service_ != nullptr; }

  void advance(std::int64_t duration_ns);
  /// Serves the daemon's clients for about a millisecond of real time; lets frames pass only where
  /// one waits for them.
  void serve();
  /// Each command that serve() sees answered lets so much time pass: for clients that ask until
  /// something has come about.
  void set_time_of_command(std::int64_t duration_ns) { time_of_command_ns_ = duration_ns; }
  /// For so long no correction leaves: the computer has no time for who sends them.
  void hold_corrections(std::int64_t duration_ns);
  /// The stage's driver takes a correction each so often, the newest that has come; 0: each at
  /// once.
  void set_driver_period(std::int64_t period_ns) { driver_period_ns_ = period_ns; }
  /// Somebody subscribed to positions.
  bool has_subscriber() const { return service_ && service_->publisher().has_subscriber(); }
  /// A command to the simulator, as driftd-sim takes it. @returns its reply
  std::string command_simulator(const std::string& request);
  /// "topic {json}" of the daemon, and "truth {json}", since the last call.
  std::vector<std::string> take_messages() { return std::exchange(messages_, {}); }

 private:
  struct Coming {
    std::vector<std::byte> image;
    std::uint64_t id;
    std::int64_t camera_time_ns, arrival_ns;
  };

  void expose();
  void keep_frame(const simulator::FramePlan& plan, const simulator::MadeFrame& made,
                  std::vector<std::byte> image);
  std::int64_t camera_time_ns(std::int64_t time_ns);
  void ask_clock();
  void watch_cable();
  void deliver();
  void end_daemon(bool in_order);
  void rest();
  void turn();
  void turn_service(int patience_ms);
  void settle();
  void release_corrections();
  void obey_corrections();
  void obey_waiting();
  std::int64_t next_event_ns() const noexcept;
  std::int64_t exposure_end_ns() const noexcept;

  VirtualTime& time_;
  simulator::Scenario scenario_;
  double rate_hz_;
  simulator::LiveSimulation simulation_;
  simulator::CorrectionReader corrections_;
  std::vector<std::string> messages_;
  std::uint64_t truths_ = 0;
  std::int64_t time_of_command_ns_ = 0;
  bool commands_wait_ = false;  ///< until that time has passed

  config::Config config_;
  std::unique_ptr<daemon::Housekeeping> service_;
  VirtualCamera* camera_ = nullptr;  ///< the service's
  std::unique_ptr<void, int (*)(void*)> context_{zmq_ctx_new(), zmq_ctx_term};
  /// Listens to the corrections, so that one does.
  std::vector<std::unique_ptr<void, int (*)(void*)>> drivers_;

  simulator::SensorSettings sensor_;
  std::int64_t period_ns_ = 0;
  std::int64_t exposure_ns_ = 0;  ///< when the next one begins
  std::int64_t turn_ns_ = 0;      ///< when housekeeping turns next
  std::int64_t release_ns_ = 0;   ///< corrections are held until then; 0: they are not
  std::int64_t driver_period_ns_ = 0, driver_free_ns_ = 0;
  /// The newest correction and the newest of z, for the driver; empty: none.
  std::array<std::string, 2> waiting_;
  std::int64_t popped_ns_ = 0;  ///< when the loop was given something last
  std::int64_t frame_ns_ = 0;   ///< when a frame was sent last
  std::int64_t clock_asked_ns_ = 0;
  /// When a camera that came back will be connected to; 0: it is not looked for.
  std::int64_t found_ns_ = 0;
  std::uint64_t frame_id_ = 0, frame_count_ = 0;
  std::deque<Coming> coming_;
  std::vector<std::byte> shown_;  ///< pixels of the frame that the loop has
};

}  // namespace driftd::virtual_time
