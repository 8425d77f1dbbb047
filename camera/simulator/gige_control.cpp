// SPDX-License-Identifier: MIT
// The control half of GigeCamera: GVCP commands, who may write, heartbeat.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <vector>

#include "base/monotonic.hpp"
#include "camera/simulator/device_clock.hpp"
#include "camera/simulator/gige_camera.hpp"

namespace driftd::simulator {

using gvcp::Command;
using gvcp::Status;

namespace {

constexpr int kPollMs = 20;
constexpr std::uint32_t kPrivilegeMask = 0x3;  // exclusive, control

}  // namespace

struct GigeCamera::Request {
  Peer peer;
  Command command{};
  std::uint16_t id = 0;
  bool wants_answer = false;
  std::span<const std::uint8_t> data;
};

struct GigeCamera::Reply {
  Status status = Status::Success;
  std::vector<std::uint8_t> data;
  bool silent = false;
};

GigeCamera::Socket::Socket(const std::string& address, bool shared)
    : descriptor_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
  sockaddr_in local{};
  local.sin_family = AF_INET;
  local.sin_port = htons(gvcp::kPort);
  inet_pton(AF_INET, address.c_str(), &local.sin_addr);
  const int on = 1;
  if (shared) setsockopt(descriptor_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (descriptor_ < 0 ||
      bind(descriptor_, reinterpret_cast<sockaddr*>(&local), sizeof(local)) != 0) {
    if (descriptor_ >= 0) close(descriptor_);
    throw std::runtime_error("cannot listen on " + address + " port " +
                             std::to_string(gvcp::kPort) + ": is another simulator there?");
  }
}

GigeCamera::Socket::~Socket() {
  close(descriptor_);
}

bool GigeCamera::controlled() const {
  const std::lock_guard lock(control_mutex_);
  return controller_.has_value();
}

void GigeCamera::run_control() {
  pthread_setname_np(pthread_self(), "sim-control");
  std::array<pollfd, 2> sockets = {
      {{control_socket_.get(), POLLIN, 0},
       {discovery_socket_ ? discovery_socket_->get() : -1, POLLIN, 0}}};
  while (!stopping_) {
    poll(sockets.data(), sockets.size(), kPollMs);
    for (const pollfd& socket : sockets) {
      if ((socket.revents & POLLIN) != 0) receive(socket.fd);
    }
    check_heartbeat();
  }
}

void GigeCamera::receive(int socket) {
  std::array<std::uint8_t, gvcp::kHeaderBytes + gvcp::kMaxDataBytes> packet{};
  sockaddr_in from{};
  socklen_t length = sizeof(from);
  const ssize_t bytes = recvfrom(socket, packet.data(), packet.size(), 0,
                                 reinterpret_cast<sockaddr*>(&from), &length);
  const bool from_loopback = ntohl(from.sin_addr.s_addr) >> 24 == 127;
  if (away_ || !from_loopback || bytes < static_cast<ssize_t>(gvcp::kHeaderBytes) ||
      packet[0] != gvcp::kKey) {
    return;
  }
  const std::size_t size = std::min<std::size_t>(
      gvcp::get16(&packet[4]), static_cast<std::size_t>(bytes) - gvcp::kHeaderBytes);
  const Request request{{from.sin_addr.s_addr, from.sin_port},
                        static_cast<Command>(gvcp::get16(&packet[2])),
                        gvcp::get16(&packet[6]),
                        (packet[1] & gvcp::kFlagAckRequired) != 0,
                        {&packet[gvcp::kHeaderBytes], size}};
  const Reply reply = answer(request);
  if (reply.silent || !request.wants_answer) return;
  std::vector<std::uint8_t> out(gvcp::kHeaderBytes);
  gvcp::put16(out.data(), static_cast<std::uint16_t>(reply.status));
  gvcp::put16(&out[2], static_cast<std::uint16_t>(static_cast<std::uint16_t>(request.command) + 1));
  gvcp::put16(&out[4], static_cast<std::uint16_t>(reply.data.size()));
  gvcp::put16(&out[6], request.id);
  out.insert(out.end(), reply.data.begin(), reply.data.end());
  // From the control socket even when a broadcast was answered: the reply carries our address.
  sendto(control_socket_.get(), out.data(), out.size(), 0, reinterpret_cast<sockaddr*>(&from),
         length);
}

GigeCamera::Reply GigeCamera::answer(const Request& request) {
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

GigeCamera::Reply GigeCamera::read_registers(const Request& request) const {
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

GigeCamera::Reply GigeCamera::write_registers(const Request& request) {
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

GigeCamera::Reply GigeCamera::read_memory(const Request& request) const {
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

GigeCamera::Reply GigeCamera::write_memory(const Request& request) {
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

Status GigeCamera::write(const Peer& peer, std::uint32_t address,
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
    const auto ticks = static_cast<std::uint64_t>(
        to_ticks(camera_time_ns(monotonic_ns()), model_.dialect.tick_hz));
    registers_.set(gvcp::reg::kTimestampHigh, static_cast<std::uint32_t>(ticks >> 32));
    registers_.set(gvcp::reg::kTimestampLow, static_cast<std::uint32_t>(ticks & 0xffffffffU));
  }
  return status;
}

Status GigeCamera::change_privilege(const Peer& peer, std::uint32_t value) {
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

void GigeCamera::release_control() {
  controller_.reset();
  for (const std::uint32_t address :
       {gvcp::reg::kControlPrivilege, gvcp::reg::kControllerPort, gvcp::reg::kControllerAddress})
    registers_.set(address, 0);
  registers_.stop_acquisition();
}

void GigeCamera::check_heartbeat() {
  const std::lock_guard lock(control_mutex_);
  const auto timeout_ms = static_cast<std::int64_t>(registers_.get(gvcp::reg::kHeartbeatTimeout));
  if (controller_ && monotonic_ns() - last_heard_ns_ > timeout_ms * 1'000'000) release_control();
}

void GigeCamera::resend(const Request& request) {
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
