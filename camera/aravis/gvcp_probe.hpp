// SPDX-License-Identifier: MIT
// GvcpProbe: asks one GigE Vision address whether a camera is there, with a single discovery packet
// (GigE Vision control protocol, GVCP). Opening a camera that is away blocks Aravis for 2.5 s; this
// takes no longer than it is told, so the supervisor can ask often and open at the right moment.
#pragma once

#include <chrono>
#include <string>

namespace driftd::camera::aravis {

class GvcpProbe {
 public:
  /// @param address  IPv4 in dotted form; anything else makes a probe that never gets an answer
  explicit GvcpProbe(const std::string& address);
  ~GvcpProbe();
  GvcpProbe(const GvcpProbe&) = delete;
  GvcpProbe& operator=(const GvcpProbe&) = delete;

  /// Sends one question and waits for its answer.
  bool answered(std::chrono::milliseconds timeout) noexcept;

 private:
  int socket_ = -1;
  unsigned request_ = 0;
};

/// Whether `text` is an IPv4 address in dotted form.
bool is_ipv4(const std::string& text) noexcept;
/// Whether it lies in 127.0.0.0/8.
bool is_loopback(const std::string& address) noexcept;

}  // namespace driftd::camera::aravis
