// SPDX-License-Identifier: MIT
#include "clients/web/listener.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <spdlog/fmt/fmt.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>

#include "clients/web/server.hpp"
#include "config/local_sockets.hpp"

namespace driftd::web {
namespace {

constexpr std::string_view kUnix = "unix:";
constexpr int kWaiting = 64;  // connections, until they are accepted

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

[[noreturn]] void fail(const std::string& listen, int error) {
  throw ListenError(
      fmt::format("cannot listen on {}: {}", listen, std::generic_category().message(error)));
}

/// Null where it is no ADDRESS:PORT by number.
Addresses resolve(std::string_view listen) {
  const std::size_t colon = listen.rfind(':');
  std::string host(listen.substr(0, colon == std::string_view::npos ? 0 : colon));
  const std::string port(colon == std::string_view::npos ? "" : listen.substr(colon + 1));
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  else if (host.find(':') != std::string::npos)
    host.clear();
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

std::string name_of(int descriptor) {
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

/// Binds and listens, or closes the descriptor and throws.
void bind_or_fail(int descriptor, const sockaddr* address, socklen_t size,
                  const std::string& listen) {
  if (bind(descriptor, address, size) == 0 && ::listen(descriptor, kWaiting) == 0) return;
  const int error = errno;
  close(descriptor);
  fail(listen, error);
}

/// 0: there is none.
ino_t inode_of(const std::string& path) {
  struct stat about {};
  return lstat(path.c_str(), &about) == 0 ? about.st_ino : 0;
}

Listener listen_on_file(const std::string& listen) {
  const std::string path = listen.substr(kUnix.size());
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) fail(listen, ENAMETOOLONG);
  std::memcpy(address.sun_path, path.c_str(), path.size());
  struct stat about {};
  if (lstat(path.c_str(), &about) == 0 && S_ISSOCK(about.st_mode) &&
      config::probe("ipc://" + path).state == config::Listener::State::Nobody)
    unlink(path.c_str());
  const int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (descriptor < 0) fail(listen, errno);
  const mode_t mask = umask(0117);  // owner and group may connect, from the socket's beginning on
  try {
    bind_or_fail(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof(address), listen);
  } catch (...) {
    umask(mask);
    throw;
  }
  umask(mask);
  return {descriptor, listen, inode_of(path)};
}

}  // namespace

bool is_of_this_computer(std::string_view listen) {
  if (listen.starts_with(kUnix)) return listen.size() > kUnix.size() && listen[kUnix.size()] == '/';
  const Addresses to = resolve(listen);
  if (to == nullptr) return false;
  if (to->ai_family == AF_INET) {
    sockaddr_in address{};
    std::memcpy(&address, to->ai_addr, sizeof(address));
    return ntohl(address.sin_addr.s_addr) >> 24U == 127;
  }
  sockaddr_in6 address{};
  if (to->ai_family != AF_INET6) return false;
  std::memcpy(&address, to->ai_addr, sizeof(address));
  return IN6_IS_ADDR_LOOPBACK(&address.sin6_addr) != 0;
}

Listener listen_on(const std::string& listen) {
  if (listen.starts_with(kUnix)) return listen_on_file(listen);
  const Addresses to = resolve(listen);
  if (to == nullptr)
    throw ListenError(
        fmt::format("cannot listen on \"{}\": allowed is ADDRESS:PORT, such as "
                    "127.0.0.1:19540 or [::1]:19540, by number, or unix:/PATH",
                    listen));
  const int descriptor = socket(to->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (descriptor < 0) fail(listen, errno);
  const int yes = 1;
  setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  bind_or_fail(descriptor, to->ai_addr, to->ai_addrlen, listen);
  return {descriptor, name_of(descriptor), 0};
}

void remove_file(const Listener& listener) {
  if (!listener.address.starts_with(kUnix)) return;
  const std::string path = listener.address.substr(kUnix.size());
  if (inode_of(path) == listener.file) unlink(path.c_str());
}

}  // namespace driftd::web
