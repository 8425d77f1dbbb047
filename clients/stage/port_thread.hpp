// SPDX-License-Identifier: MIT
// The thread that owns the controller's port: waits for corrections and for what the driver wants
// to do next, whichever comes first. Ends when told to; the stage then stays where it is.
#pragma once

#include <string>
#include <thread>
#include <zmq.hpp>

#include "clients/stage/driver.hpp"
#include "clients/stage/sockets.hpp"

namespace driftd::stage {

class PortThread {
 public:
  /// Starts it. All references outlive it. @throws std::system_error
  PortThread(Driver& driver, const Board& board, zmq::context_t& context, const Config& config);
  /// Waits until the controller's present answer has come.
  ~PortThread();
  PortThread(const PortThread&) = delete;
  PortThread& operator=(const PortThread&) = delete;

  /// Why the thread has not the scheduling that was asked for; empty when it has.
  const std::string& refused_scheduling() const { return refused_scheduling_; }

 private:
  void run(Driver& driver, const Board& board, CorrectionSocket& corrections) const;
  void wait(void* socket, std::int64_t until_ns) const;

  int stop_fd_;
  int timer_fd_;
  std::string refused_scheduling_;
  std::thread thread_;
};

}  // namespace driftd::stage
