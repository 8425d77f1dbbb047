// SPDX-License-Identifier: MIT
// The control half of the simulated camera without its sockets: what it answers to a GVCP packet,
// who may write, heartbeat, software triggers. GigeCamera owns it; its control thread calls
// answer_to() and check_heartbeat(), its stream thread the rest.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "simulator/device_registers.hpp"
#include "simulator/gvcp.hpp"
#include "simulator/stream_sender.hpp"

namespace driftd::simulator {

class GvcpControl {
 public:
  struct Peer {
    std::uint32_t address = 0;  ///< network byte order
    std::uint16_t port = 0;
    bool operator==(const Peer&) const = default;
  };
  /// What the camera's clock shows at a CLOCK_MONOTONIC, as ticks. Any thread.
  using Ticks = std::function<std::uint64_t(std::int64_t time_ns)>;

  /// All outlive it.
  GvcpControl(DeviceRegisters& registers, StreamSender& sender, Ticks ticks);

  /// What goes back to the peer; empty: nothing.
  std::vector<std::uint8_t> answer_to(std::span<const std::uint8_t> packet, const Peer& peer);
  void check_heartbeat();
  bool controlled() const;

  /// Whether a trigger came within the time, which it takes.
  bool take_trigger(std::chrono::nanoseconds timeout);
  /// Ends take_trigger(), now and later.
  void end_waiting();
  /// The power was cut: nobody is in control, and the registers are as when it comes on.
  void power_on();

 private:
  struct Request;
  struct Reply;

  Reply carry_out(const Request& request);
  Reply read_registers(const Request& request) const;
  Reply write_registers(const Request& request);
  Reply read_memory(const Request& request) const;
  Reply write_memory(const Request& request);
  void resend(const Request& request);
  gvcp::Status write(const Peer& peer, std::uint32_t address, std::span<const std::uint8_t> data);
  gvcp::Status change_privilege(const Peer& peer, std::uint32_t value);
  void release_control();

  DeviceRegisters& registers_;
  StreamSender& sender_;
  Ticks ticks_;

  mutable std::mutex control_mutex_;  ///< guards controller_ and last_heard_ns_
  std::optional<Peer> controller_;
  std::int64_t last_heard_ns_ = 0;

  std::mutex trigger_mutex_;
  std::condition_variable trigger_changed_;
  int triggers_pending_ = 0;
  bool ends_waiting_ = false;
};

}  // namespace driftd::simulator
