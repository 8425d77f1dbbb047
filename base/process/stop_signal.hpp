// SPDX-License-Identifier: MIT
// SIGINT and SIGTERM as something to ask for instead of something that interrupts: blocked from
// construction on, and read from a signalfd. Made once in main(), before any other thread.
#pragma once

namespace driftd {

class StopSignal {
 public:
  /// @throws std::system_error
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  /// True once either signal has come.
  bool raised() noexcept { return count() > 0; }
  /// How often they have come; of those that came since the last call at most one of each kind.
  int count() noexcept;

 private:
  int descriptor_;
  int count_ = 0;
};

}  // namespace driftd
