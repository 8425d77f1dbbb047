// SPDX-License-Identifier: MIT
// A bare GigE Vision client for tests: single GVCP commands and raw stream packets, so that a test
// can be a second controller, fall silent or ask for one packet again. One thread.
#pragma once

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "simulator/gvcp.hpp"

namespace driftd::test {

namespace gvcp = simulator::gvcp;

/// A UDP socket on 127.0.0.1.
class UdpSocket {
 public:
  UdpSocket() : descriptor_(socket(AF_INET, SOCK_DGRAM, 0)) {
    sockaddr_in local{};
    local.sin_family = AF_INET;
    local.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(local);
    if (bind(descriptor_, reinterpret_cast<sockaddr*>(&local), sizeof(local)) != 0 ||
        getsockname(descriptor_, reinterpret_cast<sockaddr*>(&local), &length) != 0) {
      throw std::runtime_error("no socket for the test");
    }
    port_ = ntohs(local.sin_port);
    const int bytes = 4 << 20;
    setsockopt(descriptor_, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
  }
  ~UdpSocket() { close(descriptor_); }
  UdpSocket(const UdpSocket&) = delete;
  UdpSocket& operator=(const UdpSocket&) = delete;

  std::uint16_t port() const { return port_; }
  void send(const std::string& address, const std::vector<std::uint8_t>& packet) const {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(gvcp::kPort);
    inet_pton(AF_INET, address.c_str(), &to.sin_addr);
    sendto(descriptor_, packet.data(), packet.size(), 0, reinterpret_cast<sockaddr*>(&to),
           sizeof(to));
  }
  std::optional<std::vector<std::uint8_t>> receive(int timeout_ms) const {
    pollfd wait{descriptor_, POLLIN, 0};
    if (poll(&wait, 1, timeout_ms) <= 0) return std::nullopt;
    std::vector<std::uint8_t> packet(65536);
    const ssize_t bytes = recv(descriptor_, packet.data(), packet.size(), 0);
    if (bytes < 0) return std::nullopt;
    packet.resize(static_cast<std::size_t>(bytes));
    return packet;
  }

 private:
  int descriptor_;
  std::uint16_t port_ = 0;
};

struct GvcpAnswer {
  gvcp::Status status = gvcp::Status::Success;
  std::uint16_t command = 0;
  std::uint16_t id = 0;
  std::vector<std::uint8_t> data;
};

class GvcpClient {
 public:
  explicit GvcpClient(std::string address) : address_(std::move(address)) {}

  /// Sends a command and waits for the answer; none: nobody answered in time.
  std::optional<GvcpAnswer> ask(gvcp::Command command, const std::vector<std::uint32_t>& words,
                                int timeout_ms = 1000) {
    std::vector<std::uint8_t> data(words.size() * 4);
    for (std::size_t i = 0; i < words.size(); ++i) gvcp::put32(&data[4 * i], words[i]);
    socket_.send(address_, packet(command, data, gvcp::kFlagAckRequired));
    const auto raw = socket_.receive(timeout_ms);
    if (!raw || raw->size() < gvcp::kHeaderBytes) return std::nullopt;
    GvcpAnswer answer;
    answer.status = static_cast<gvcp::Status>(gvcp::get16(raw->data()));
    answer.command = gvcp::get16(raw->data() + 2);
    answer.id = gvcp::get16(raw->data() + 6);
    answer.data.assign(raw->begin() + gvcp::kHeaderBytes, raw->end());
    return answer;
  }
  /// Status of a register write; none: no answer.
  std::optional<gvcp::Status> write(std::uint32_t address, std::uint32_t value) {
    const auto answer = ask(gvcp::Command::WriteRegister, {address, value});
    if (!answer) return std::nullopt;
    return answer->status;
  }
  std::optional<std::uint32_t> read(std::uint32_t address, int timeout_ms = 1000) {
    const auto answer = ask(gvcp::Command::ReadRegister, {address}, timeout_ms);
    if (!answer || answer->status != gvcp::Status::Success || answer->data.size() != 4) {
      return std::nullopt;
    }
    return gvcp::get32(answer->data.data());
  }
  void send_raw(const std::vector<std::uint8_t>& bytes) { socket_.send(address_, bytes); }
  std::optional<std::vector<std::uint8_t>> receive_raw(int timeout_ms) {
    return socket_.receive(timeout_ms);
  }
  void ask_again(const UdpSocket& from, std::uint16_t frame_id, std::uint32_t first,
                 std::uint32_t last) {
    std::vector<std::uint8_t> data(12);
    gvcp::put16(&data[2], frame_id);
    gvcp::put32(&data[4], first);
    gvcp::put32(&data[8], last);
    from.send(address_, packet(gvcp::Command::PacketResend, data, 0));
  }
  std::uint16_t last_id() const { return id_; }

 private:
  std::vector<std::uint8_t> packet(gvcp::Command command, const std::vector<std::uint8_t>& data,
                                   std::uint8_t flags) {
    std::vector<std::uint8_t> bytes(gvcp::kHeaderBytes);
    bytes[0] = gvcp::kKey;
    bytes[1] = flags;
    gvcp::put16(&bytes[2], static_cast<std::uint16_t>(command));
    gvcp::put16(&bytes[4], static_cast<std::uint16_t>(data.size()));
    gvcp::put16(&bytes[6], ++id_);
    bytes.insert(bytes.end(), data.begin(), data.end());
    return bytes;
  }

  std::string address_;
  UdpSocket socket_;
  std::uint16_t id_ = 0;
};

}  // namespace driftd::test
