// SPDX-License-Identifier: MIT
#include "clients/common/tcp_listener.hpp"

#include <spdlog/fmt/fmt.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

namespace driftd::clients {
namespace {

constexpr int kWaiting = 64;  // connections, until they are accepted

}  // namespace

void fail_to_listen(const std::string& listen, int error) {
  throw ListenError(
      fmt::format("cannot listen on {}: {}", listen, std::generic_category().message(error)));
}

Addresses addresses_of(std::string_view listen) {
  const std::size_t colon = listen.rfind(':');
  std::string host(listen.substr(0, colon == std::string_view::npos ? 0 : colon));
  const std::string port(colon == std::string_view::npos ? "" : listen.substr(colon + 1));
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  const bool digits = !port.empty() && port.size() <= 5 &&
                      std::ranges::all_of(port, [](char c) { return c >= '0' && c <= '9'; });
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE;
  addrinfo* found = nullptr;
  if (host.empty() || !digits || std::stoi(port) > 65535 ||
      getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0)
    return {nullptr, &freeaddrinfo};
  return {found, &freeaddrinfo};
}

void bind_and_listen(int descriptor, const sockaddr* address, socklen_t size,
                     const std::string& listen) {
  if (bind(descriptor, address, size) == 0 && ::listen(descriptor, kWaiting) == 0) return;
  const int error = errno;
  close(descriptor);
  fail_to_listen(listen, error);
}

int listen_on_tcp(const addrinfo& to, const std::string& listen) {
  const int descriptor = socket(to.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (descriptor < 0) fail_to_listen(listen, errno);
  const int yes = 1;
  setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  bind_and_listen(descriptor, to.ai_addr, to.ai_addrlen, listen);
  return descriptor;
}

std::string name_of_socket(int descriptor) {
  sockaddr_storage bound{};
  socklen_t size = sizeof(bound);
  std::array<char, 64> host{};
  std::array<char, 8> port{};
  auto* address = reinterpret_cast<sockaddr*>(&bound);
  if (getsockname(descriptor, address, &size) != 0 ||
      getnameinfo(address, size, host.data(), host.size(), port.data(), port.size(),
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return "?";
  return bound.ss_family == AF_INET6 ? fmt::format("[{}]:{}", host.data(), port.data())
                                     : fmt::format("{}:{}", host.data(), port.data());
}

}  // namespace driftd::clients
