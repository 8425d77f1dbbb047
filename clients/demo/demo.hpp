// SPDX-License-Identifier: MIT
// The demonstration from start to report: a simulated sample drifts, the lock holds it, the camera
// goes away and comes back. Starts driftd-sim, driftd and driftd-web, and ends them again. The main
// thread.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/process/stop_signal.hpp"
#include "clients/common/command_client.hpp"
#include "clients/common/shown/daemon_view.hpp"
#include "clients/common/shown/display.hpp"
#include "clients/common/subscriber.hpp"
#include "clients/demo/child_process.hpp"
#include "clients/demo/claimed_folder.hpp"
#include "clients/demo/recording.hpp"
#include "clients/demo/report.hpp"
#include "clients/demo/stage_rig.hpp"
#include "config/config.hpp"

namespace driftd::clients {

struct DemoOptions {
  std::filesystem::path config, scenario;
  std::filesystem::path programs;  ///< where driftd and driftd-sim are
  std::filesystem::path output;
  const StageKind* stage = nullptr;  ///< an emulated controller moves the stage; null: none
  bool look = false;                 ///< the microscope and its page stay up until Ctrl-C
  double unlocked_s = 12, locked_s = 20, away_s = 2, recovered_s = 5;
};

/// The demo could not come to a report; what() is the sentence that says why.
struct DemoFailure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A folder for sockets that is gone with its owner.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::filesystem::path& path() const noexcept { return path_; }
  std::string ipc(const char* name) const { return "ipc://" + (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

class Demo {
 public:
  /// @throws config::ConfigError, DemoFailure, std::runtime_error where another demo writes there
  Demo(DemoOptions options, StopSignal& stop);

  /// Everything. Returns the report; its failures say whether the lock held.
  /// @throws DemoFailure; Interrupted by Ctrl-C or SIGTERM
  Report run();

 private:
  config::Config load();
  void start_stage();
  void calibrate();
  void start_simulator();
  void start_daemon();
  void start_page();
  /// z is held, too.
  bool holds_z() const noexcept;
  const std::string& newest_z_state() const noexcept;
  void watch_unlocked();
  void lock();
  void take_camera_away();
  Report finish();
  /// Until Ctrl-C.
  void let_look();
  /// What did not end as it should, in sentences.
  std::vector<std::string> stop_programs();

  /// Receives, records and shows until `done` (true) or for `seconds` (false).
  /// @throws DemoFailure when a program ended, Interrupted
  bool watch(const std::string& phase, double seconds, const std::function<bool()>& done = {});
  void check_programs();
  void wait_for(ChildProcess& program, const std::string& what, const std::function<bool()>& done,
                double most_s);
  std::vector<Line> truth_line() const;

  DemoOptions options_;
  ClaimedFolder output_;  ///< before anything is written there
  StopSignal& stop_;
  TemporaryFolder sockets_;
  config::Config config_;  ///< its sockets in that folder
  Subscriber subscriber_;
  CommandClient daemon_commands_;
  CommandClient simulator_commands_;
  Display display_;
  DaemonView view_;
  Recording recording_;
  Phases phases_;
  PerAxis shown_zero_nm_{};
  double shown_zero_z_nm_ = 0;
  std::string phase_;
  std::unique_ptr<ChildProcess> simulator_, daemon_, page_;
  std::string page_address_;
  std::unique_ptr<StageRig> stage_;
};

}  // namespace driftd::clients
