// SPDX-License-Identifier: MIT
// One calibration of a stage, from the command that starts it to its end, as the daemon tells it;
// the progress is shown on standard error. Ctrl-C has the stage sent back to its start. One thread.
#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/process/stop_signal.hpp"
#include "clients/common/command_client.hpp"

namespace driftd::clients {

/// On a terminal one line that is written anew, else a line for each phase and at most one a
/// second.
class ProgressLine {
 public:
  ProgressLine();
  /// @param progress  0 to 1; empty: not told
  void show(const std::string& phase, std::optional<double> progress, const std::string& text);
  /// A line that stays.
  void say(const std::string& text);
  /// What is shown next begins a new line.
  void end();
  bool on_terminal() const { return terminal_; }

 private:
  bool terminal_;
  bool open_ = false;  ///< the cursor stands behind a line that is not ended
  std::string phase_, shown_;
  std::chrono::steady_clock::time_point last_{};
};

struct CalibrationRequest {
  nlohmann::json fields = nlohmann::json::object();  ///< of `calibrate`; missing: the daemon's
};

/// @param timeout  of a single request; the daemon is taken for gone after two of them, and for
///   stuck when it told nothing new for fifteen, but for the fit, which may take three minutes
/// @returns the daemon's last word, in which `phase` is "done" and `result` is an object
/// @throws Refused when the daemon refused the run or what it found, Unreachable when it is gone,
///   std::runtime_error when the run ended in any other way; each says where the stage is
nlohmann::json run_calibration(CommandClient& client, StopSignal& stop,
                               const CalibrationRequest& request,
                               std::chrono::milliseconds timeout);

}  // namespace driftd::clients
