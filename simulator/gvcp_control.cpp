// SPDX-License-Identifier: MIT
#include "simulator/gvcp_control.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/monotonic.hpp"

namespace driftd::simulator {

using gvcp::Command;
using gvcp::Status;

namespace {

constexpr std::uint32_t kPrivilegeMask = 0x3;  // exclusive, control

}  // namespace

struct GvcpControl::Request {
  Peer peer;
  Command command{};
  std::uint16_t id = 0;
  bool wants_answer = false;
  std::span<const std::uint8_t> data;
};

struct GvcpControl::Reply {
  Status status = Status::Success;
  std::vector<std::uint8_t> data;
  bool silent = false;
};

GvcpControl::GvcpControl(DeviceRegisters& registers, StreamSender& sender, Ticks ticks)
    : registers_(registers), sender_(sender), ticks_(std::move(ticks)) {}

std::vector<std::uint8_t> GvcpControl::answer_to(std::span<const std::uint8_t> packet,
                                                 const Peer& peer) {
  if (packet.size() < gvcp::kHeaderBytes || packet[0] != gvcp::kKey) return {};
  const std::size_t size =
      std::min<std::size_t>(gvcp::get16(&packet[4]), packet.size() - gvcp::kHeaderBytes);
  const Request request{peer, static_cast<Command>(gvcp::get16(&packet[2])),
                        gvcp::get16(&packet[6]), (packet[1] & gvcp::kFlagAckRequired) != 0,
                        packet.subspan(gvcp::kHeaderBytes, size)};
  const Reply reply = carry_out(request);
  if (reply.silent || !request.wants_answer) return {};
  std::vector<std::uint8_t> out(gvcp::kHeaderBytes);
  gvcp::put16(out.data(), static_cast<std::uint16_t>(reply.status));
  gvcp::put16(&out[2], static_cast<std::uint16_t>(static_cast<std::uint16_t>(request.command) + 1));
  gvcp::put16(&out[4], static_cast<std::uint16_t>(reply.data.size()));
  gvcp::put16(&out[6], request.id);
  out.insert(out.end(), reply.data.begin(), reply.data.end());
  return out;
}

bool GvcpControl::take_trigger(std::chrono::nanoseconds timeout) {
  std::unique_lock lock(trigger_mutex_);
  trigger_changed_.wait_for(lock, timeout,
                            [this] { return triggers_pending_ > 0 || ends_waiting_; });
  if (triggers_pending_ == 0) return false;
  --triggers_pending_;
  return true;
}

void GvcpControl::end_waiting() {
  const std::lock_guard lock(trigger_mutex_);
  ends_waiting_ = true;
  trigger_changed_.notify_all();
}

void GvcpControl::power_on() {
  const std::lock_guard lock(control_mutex_);
  controller_.reset();
  registers_.power_on();
}

bool GvcpControl::controlled() const {
  const std::lock_guard lock(control_mutex_);
  return controller_.has_value();
}

GvcpControl::Reply GvcpControl::carry_out(const Request& request) {
  {
    const std::lock_guard lock(control_mutex_);
    if (controller_ == request.peer) last_heard_ns_ = monotonic_ns();
  }
  switch (request.command) {
    case Command::Discovery: {
      Reply reply;
      reply.data.resize(gvcp::kDiscoveryBytes);
      reply.status = registers_.read(0, reply.data);
      return reply;
    }
    case Command::ReadRegister:
      return read_registers(request);
    case Command::WriteRegister:
      return write_registers(request);
    case Command::ReadMemory:
      return read_memory(request);
    case Command::WriteMemory:
      return write_memory(request);
    case Command::PacketResend:
      resend(request);
      return {Status::Success, {}, true};
  }
  return {Status::NotImplemented, {}, false};
}

GvcpControl::Reply GvcpControl::read_registers(const Request& request) const {
  Reply reply;
  if (request.data.empty() || request.data.size() % 4 != 0) {
    return {Status::InvalidParameter, {}, false};
  }
  for (std::size_t i = 0; i < request.data.size(); i += 4) {
    std::array<std::uint8_t, 4> word{};
    const std::uint32_t address = gvcp::get32(&request.data[i]);
    if (address % 4 != 0) return {Status::BadAlignment, {}, false};
    const Status status = registers_.read(address, word);
    if (status != Status::Success) return {status, {}, false};
    reply.data.insert(reply.data.end(), word.begin(), word.end());
  }
  return reply;
}

GvcpControl::Reply GvcpControl::write_registers(const Request& request) {
  Reply reply;
  reply.data.resize(4);
  if (request.data.empty() || request.data.size() % 8 != 0) {
    return {Status::InvalidParameter, {}, false};
  }
  for (std::size_t i = 0; i < request.data.size(); i += 8) {
    reply.status =
        write(request.peer, gvcp::get32(&request.data[i]), request.data.subspan(i + 4, 4));
    if (reply.status != Status::Success) break;
    gvcp::put16(&reply.data[2], static_cast<std::uint16_t>(i / 8 + 1));
  }
  return reply;
}

GvcpControl::Reply GvcpControl::read_memory(const Request& request) const {
  if (request.data.size() < 8) return {Status::InvalidParameter, {}, false};
  const std::uint16_t count = gvcp::get16(&request.data[6]);
  if (count == 0 || count > gvcp::kMaxDataBytes - 4) return {Status::InvalidParameter, {}, false};
  Reply reply;
  reply.data.assign(request.data.begin(), request.data.begin() + 4);
  reply.data.resize(4U + count);
  reply.status =
      registers_.read(gvcp::get32(request.data.data()), std::span(reply.data).subspan(4));
  if (reply.status != Status::Success) reply.data.clear();
  return reply;
}

GvcpControl::Reply GvcpControl::write_memory(const Request& request) {
  if (request.data.size() <= 4) return {Status::InvalidParameter, {}, false};
  const auto data = request.data.subspan(4);
  Reply reply;
  reply.status = write(request.peer, gvcp::get32(request.data.data()), data);
  reply.data.resize(4);
  if (reply.status == Status::Success) {
    gvcp::put16(&reply.data[2], static_cast<std::uint16_t>(data.size()));
  }
  return reply;
}

Status GvcpControl::write(const Peer& peer, std::uint32_t address,
                          std::span<const std::uint8_t> data) {
  if (address == gvcp::reg::kControlPrivilege && data.size() == 4) {
    return change_privilege(peer, gvcp::get32(data.data()));
  }
  {
    const std::lock_guard lock(control_mutex_);
    if (controller_ != peer) return Status::AccessDenied;
  }
  const Status status = registers_.write(address, data);
  if (status != Status::Success || data.size() != 4) return status;
  const std::uint32_t value = gvcp::get32(data.data());
  if (address == feature::kTriggerSoftware && value != 0) {
    const std::lock_guard lock(trigger_mutex_);
    ++triggers_pending_;
    trigger_changed_.notify_one();
  } else if (address == feature::kAcquisition) {
    const std::lock_guard lock(trigger_mutex_);
    triggers_pending_ = 0;
  } else if (address == gvcp::reg::kStreamPacketSize && (value & gvcp::kPacketSizeFireTest) != 0) {
    sender_.send_test_packet(registers_.acquisition());
  } else if (address == gvcp::reg::kTimestampControl && (value & 2) != 0) {
    const std::uint64_t ticks = ticks_(monotonic_ns());
    registers_.set(gvcp::reg::kTimestampHigh, static_cast<std::uint32_t>(ticks >> 32));
    registers_.set(gvcp::reg::kTimestampLow, static_cast<std::uint32_t>(ticks & 0xffffffffU));
  }
  return status;
}

Status GvcpControl::change_privilege(const Peer& peer, std::uint32_t value) {
  const std::lock_guard lock(control_mutex_);
  if (controller_ && controller_ != peer) return Status::AccessDenied;
  if ((value & kPrivilegeMask) == 0) {
    release_control();
    return Status::Success;
  }
  controller_ = peer;
  last_heard_ns_ = monotonic_ns();
  registers_.set(gvcp::reg::kControlPrivilege, value & kPrivilegeMask);
  registers_.set(gvcp::reg::kControllerPort, ntohs(peer.port));
  registers_.set(gvcp::reg::kControllerAddress, ntohl(peer.address));
  return Status::Success;
}

void GvcpControl::release_control() {
  controller_.reset();
  for (const std::uint32_t address :
       {gvcp::reg::kControlPrivilege, gvcp::reg::kControllerPort, gvcp::reg::kControllerAddress})
    registers_.set(address, 0);
  registers_.stop_acquisition();
}

void GvcpControl::check_heartbeat() {
  const std::lock_guard lock(control_mutex_);
  const auto timeout_ms = static_cast<std::int64_t>(registers_.get(gvcp::reg::kHeartbeatTimeout));
  if (controller_ && monotonic_ns() - last_heard_ns_ > timeout_ms * 1'000'000) release_control();
}

void GvcpControl::resend(const Request& request) {
  if (request.data.size() < 12) return;
  {
    // Comes from the client's stream socket: same host, another port.
    const std::lock_guard lock(control_mutex_);
    if (!controller_ || controller_->address != request.peer.address) return;
  }
  const std::uint32_t first = gvcp::get32(&request.data[4]) & 0xffffff;
  const std::uint32_t last = gvcp::get32(&request.data[8]) & 0xffffff;
  sender_.resend(gvcp::get16(&request.data[2]), first, last, registers_.acquisition());
}

}  // namespace driftd::simulator
