// SPDX-License-Identifier: MIT
// Housekeeping's end of the tracking loop's ports: sends the loop commands, tells which of them it
// has taken, shows its newest reports and destroys what it gives back. Housekeeping thread; nothing
// here waits for the loop.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "daemon/loop/tracking_loop.hpp"

namespace driftd::daemon {

class LoopControl {
 public:
  explicit LoopControl(LoopPorts& ports) : ports_(ports) {}

  /// Sends a command and returns its number, for has_taken(). Where the loop's queue is full, it
  /// sends and returns nothing.
  [[nodiscard]] std::optional<std::uint64_t> send(LoopCommand command);
  /// Whether the loop has taken the command of this number; report() is then from after it.
  bool has_taken(std::uint64_t number) const noexcept { return report().commands_taken >= number; }
  bool has_taken_all() const noexcept { return has_taken(sent_); }
  /// Sends new settings as soon as the queue has room, in place of others that still wait.
  void change_settings(std::unique_ptr<LoopSettings> settings);

  /// Takes over the newest reports and destroys what the loop gave back.
  void refresh();
  /// As of the last refresh().
  const LoopReport& report() const noexcept { return ports_.report.reading(); }
  const MarkersReport& markers() const noexcept { return ports_.markers.reading(); }
  /// The locks' changes one by one, first those of x and y; false when there is none left.
  bool next_change(LockChange& change) noexcept {
    return ports_.lock_changes.pop(change) || ports_.z.lock_changes.pop(change);
  }
  /// Calibrations of a group that are over, one by one; null when there is none left. Each is what
  /// was sent in its command.
  std::unique_ptr<StageRun> next_calibration(AxisGroup group) {
    std::unique_ptr<StageRun> run;
    ports_.of(group).retired_calibrations.pop(run);
    return run;
  }
  FrameCopies& frames() noexcept { return ports_.frame_copy; }
  /// Lets a recording go on: its first frame was searched for markers.
  void let_recording_go_on() noexcept;

 private:
  void send_settings();

  LoopPorts& ports_;
  std::uint64_t sent_ = 0;
  std::unique_ptr<LoopSettings> settings_;  // to be sent
};

}  // namespace driftd::daemon
