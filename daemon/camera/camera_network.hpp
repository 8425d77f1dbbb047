// SPDX-License-Identifier: MIT
// Warns, once for each camera that is connected, when it is on a network with others: GigE Vision
// protects nothing. Housekeeping thread; reads one small file then.
#pragma once

#include <string>

#include "daemon/events/event_log.hpp"

namespace driftd::daemon {

/// The address at the end of "vendor model serial at 192.168.7.2"; "" where there is none.
std::string address_in(const std::string& description);

class CameraNetwork {
 public:
  explicit CameraNetwork(EventLog& events) : events_(events) {}
  /// @param description  of the camera that is connected, or was last
  void look(const std::string& description);

 private:
  EventLog& events_;
  std::string known_;
};

}  // namespace driftd::daemon
