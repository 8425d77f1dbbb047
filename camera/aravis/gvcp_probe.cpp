// SPDX-License-Identifier: MIT
#include "camera/aravis/gvcp_probe.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "base/monotonic.hpp"

namespace driftd::camera::aravis {
namespace {

constexpr std::uint16_t kGvcpPort = 3956;
constexpr std::uint8_t kDiscovery = 0x02;

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
  Answer answer{};
  return ask(kDiscovery, {}, timeout, answer) > 0;
}

std::string GvcpProbe::user_name(std::chrono::milliseconds timeout) noexcept {
  constexpr std::size_t kAt = 8 + 0xe8, kMost = 16;  // behind the header, as the register has it
  Answer answer{};
  if (ask(kDiscovery, {}, timeout, answer) < kAt + kMost) return {};
  const char* text = reinterpret_cast<const char*>(&answer[kAt]);
  return {text, strnlen(text, kMost)};
}

std::optional<std::uint32_t> GvcpProbe::read_register(std::uint32_t address,
                                                      std::chrono::milliseconds timeout) noexcept {
  constexpr std::uint8_t kReadRegister = 0x80;
  const auto byte = [](std::uint32_t value, unsigned shift) {
    return static_cast<std::uint8_t>(value >> shift & 0xFFU);
  };
  const std::array<std::uint8_t, 4> wanted{byte(address, 24), byte(address, 16), byte(address, 8),
                                           byte(address, 0)};
  Answer answer{};
  if (ask(kReadRegister, wanted, timeout, answer) < 12) return std::nullopt;
  std::uint32_t value = 0;
  for (std::size_t i = 8; i < 12; ++i) value = value << 8U | answer[i];
  return value;
}

std::optional<bool> GvcpProbe::controlled(std::chrono::milliseconds timeout) noexcept {
  constexpr std::uint32_t kControlPrivilege = 0x0a00;
  constexpr std::uint32_t kControlled = 0x3;  // exclusively, or with others reading
  const auto privilege = read_register(kControlPrivilege, timeout);
  if (!privilege) return std::nullopt;
  return (*privilege & kControlled) != 0;
}

std::size_t GvcpProbe::ask(std::uint8_t command, std::span<const std::uint8_t> data,
                           std::chrono::milliseconds timeout, Answer& answer) noexcept {
  if (socket_ < 0) return 0;
  request_ = request_ % 65535 + 1;  // request ids are never 0
  const auto high = static_cast<std::uint8_t>(request_ >> 8U);
  const auto low = static_cast<std::uint8_t>(request_ & 0xFFU);
  // GVCP header: key 0x42, flag "acknowledge", command, length, request id.
  std::array<std::uint8_t, 16> question{0x42, 0x01, 0x00, command, 0x00, 0x00, high, low};
  question[5] = static_cast<std::uint8_t>(data.size());
  std::copy(data.begin(), data.end(), question.begin() + 8);
  if (send(socket_, question.data(), 8 + data.size(), 0) < 0) return 0;

  const std::int64_t deadline_ns = monotonic_ns() + std::chrono::nanoseconds(timeout).count();
  for (;;) {
    const std::int64_t left_ns = deadline_ns - monotonic_ns();
    if (left_ns <= 0) return 0;
    const timespec wait = to_timespec(left_ns);
    pollfd poll_fd{.fd = socket_, .events = POLLIN, .revents = 0};
    if (ppoll(&poll_fd, 1, &wait, nullptr) == 0) return 0;
    const auto size = recv(socket_, answer.data(), answer.size(), 0);
    if (size < 0) return 0;  // nobody has that port
    // GVCP acknowledge: status, the command's number plus one, length, the request's id.
    if (size < 8 || answer[2] != 0 || answer[3] != command + 1) continue;
    if (answer[6] != high || answer[7] != low) continue;
    return answer[0] == 0 && answer[1] == 0 ? static_cast<std::size_t>(size) : 0;
  }
}

}  // namespace driftd::camera::aravis
