// SPDX-License-Identifier: MIT
#include "camera/aravis/gvcp_probe.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>

#include "base/monotonic.hpp"

namespace driftd::camera::aravis {
namespace {

constexpr std::uint16_t kGvcpPort = 3956;

}  // namespace

bool is_ipv4(const std::string& text) noexcept {
  in_addr address{};
  return inet_pton(AF_INET, text.c_str(), &address) == 1;
}

bool is_loopback(const std::string& address) noexcept {
  return is_ipv4(address) && address.starts_with("127.");
}

GvcpProbe::GvcpProbe(const std::string& address) {
  sockaddr_in camera{};
  camera.sin_family = AF_INET;
  camera.sin_port = htons(kGvcpPort);
  if (inet_pton(AF_INET, address.c_str(), &camera.sin_addr) != 1) return;
  socket_ = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket_ < 0) return;
  // Connected, so that only this camera's answers come in and an absent host shows as an error.
  if (connect(socket_, reinterpret_cast<const sockaddr*>(&camera), sizeof(camera)) != 0) {
    close(socket_);
    socket_ = -1;
  }
}

GvcpProbe::~GvcpProbe() {
  if (socket_ >= 0) close(socket_);
}

bool GvcpProbe::answered(std::chrono::milliseconds timeout) noexcept {
  if (socket_ < 0) return false;
  request_ = request_ % 65535 + 1;  // request ids are never 0
  const auto high = static_cast<std::uint8_t>(request_ >> 8U);
  const auto low = static_cast<std::uint8_t>(request_ & 0xFFU);
  // GVCP header: key 0x42, flag "acknowledge", DISCOVERY_CMD 0x0002, length 0, request id.
  const std::array<std::uint8_t, 8> question{0x42, 0x01, 0x00, 0x02, 0x00, 0x00, high, low};
  if (send(socket_, question.data(), question.size(), 0) < 0) return false;

  const std::int64_t deadline_ns = monotonic_ns() + std::chrono::nanoseconds(timeout).count();
  for (;;) {
    const std::int64_t left_ns = deadline_ns - monotonic_ns();
    if (left_ns <= 0) return false;
    const timespec wait = to_timespec(left_ns);
    pollfd poll_fd{.fd = socket_, .events = POLLIN, .revents = 0};
    if (ppoll(&poll_fd, 1, &wait, nullptr) == 0) return false;
    std::array<std::uint8_t, 1024> answer{};
    const auto size = recv(socket_, answer.data(), answer.size(), 0);
    if (size < 0) return false;  // nobody has that port
    // GVCP acknowledge: status 0, DISCOVERY_ACK 0x0003, length, the request's id.
    if (size >= 8 && answer[0] == 0 && answer[1] == 0 && answer[2] == 0x00 && answer[3] == 0x03 &&
        answer[6] == high && answer[7] == low) {
      return true;
    }
  }
}

}  // namespace driftd::camera::aravis
