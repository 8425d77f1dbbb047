// SPDX-License-Identifier: MIT
// SIGINT and SIGTERM as something to ask for instead of something that interrupts: blocked from
// construction on, and read from a signalfd; SIGHUP likewise, where it is asked for. Made once in
// main(), before any other thread.
#pragma once

namespace driftd {

class StopSignal {
 public:
  enum class Hangup { Ends, Counted };
  /// @param hangup  what SIGHUP does. @throws std::system_error
  explicit StopSignal(Hangup hangup = Hangup::Ends);
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  /// True once either signal has come.
  bool raised() noexcept { return count() > 0; }
  /// How often they have come; of those that came since the last call at most one of each kind.
  int count() noexcept;
  /// Whether SIGHUP has come since the last call.
  bool hung_up() noexcept;

 private:
  void read_all() noexcept;
  int descriptor_;
  int count_ = 0;
  bool hung_up_ = false;
};

}  // namespace driftd
