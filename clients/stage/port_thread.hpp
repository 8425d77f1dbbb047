// SPDX-License-Identifier: MIT
// The thread that owns the controller's port: waits for corrections and for what the driver wants
// to do next, whichever comes first. Ends when told to; the stage then stays where it is.
#pragma once

#include <deque>
#include <span>
#include <string>
#include <thread>
#include <vector>
#include <zmq.hpp>

#include "clients/stage/driver.hpp"
#include "clients/stage/sockets.hpp"

namespace driftd::stage {

class PortThread {
 public:
  /// Starts it. All references outlive it. @throws std::system_error
  /// @param boards  the driver's
  PortThread(Driver& driver, std::span<Board* const> boards, zmq::context_t& context,
             const Config& config);
  /// Waits until the controller's present answer has come.
  ~PortThread();
  PortThread(const PortThread&) = delete;
  PortThread& operator=(const PortThread&) = delete;

  /// Why the thread has not the scheduling that was asked for; empty when it has.
  const std::string& refused_scheduling() const { return refused_scheduling_; }

 private:
  using Sockets = std::deque<CorrectionSocket>;
  void run(Driver& driver, Sockets& sockets) const;
  std::vector<std::string> newest(const Driver& driver, Sockets& sockets) const;
  void wait(std::span<CorrectionSocket* const> sockets, std::int64_t until_ns) const;

  const std::vector<Board*> boards_;

  int stop_fd_;
  int timer_fd_;
  std::string refused_scheduling_;
  std::thread thread_;
};

}  // namespace driftd::stage
