// SPDX-License-Identifier: MIT
// The recorder: a thread of ordinary priority that writes records, and housekeeping's way to it.
// Nothing here waits for the disk: orders are taken when the thread comes to them, and a thread
// that a dead disk keeps is left behind at the end.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "daemon/recorder/leavable_thread.hpp"
#include "daemon/recorder/recorder_desk.hpp"

namespace driftd::daemon {

class Recorder {
 public:
  /// Starts the thread. @param feed  what the loop and the publisher fill
  explicit Recorder(std::shared_ptr<RecordFeed> feed);
  /// quit()
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // Housekeeping.
  RecorderDesk& desk() noexcept { return *desk_; }
  /// Ends the recording and the thread; waits for it a few seconds. False when it had to be left
  /// behind. Idempotent.
  bool quit() noexcept;

 private:
  std::shared_ptr<RecorderDesk> desk_;
  LeavableThread thread_;
};

}  // namespace driftd::daemon
