// SPDX-License-Identifier: MIT
#include "clients/web/listener.hpp"

#include <arpa/inet.h>
#include <spdlog/fmt/fmt.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "clients/web/server.hpp"
#include "config/local_sockets.hpp"

namespace driftd::web {
namespace {

constexpr std::string_view kUnix = "unix:";

using clients::Addresses;
using clients::fail_to_listen;

/// Null where it is no ADDRESS:PORT by number; of version 6 only [ADDRESS]:PORT is one.
Addresses resolve(std::string_view listen) {
  const bool bare = !listen.starts_with('[') && std::ranges::count(listen, ':') > 1;
  return clients::addresses_of(bare ? std::string_view{} : listen);
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
  if (path.size() >= sizeof(address.sun_path)) fail_to_listen(listen, ENAMETOOLONG);
  std::memcpy(address.sun_path, path.c_str(), path.size());
  struct stat about {};
  if (lstat(path.c_str(), &about) == 0 && S_ISSOCK(about.st_mode) &&
      config::probe("ipc://" + path).state == config::Listener::State::Nobody)
    unlink(path.c_str());
  const int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (descriptor < 0) fail_to_listen(listen, errno);
  const mode_t mask = umask(0117);  // owner and group may connect, from the socket's beginning on
  try {
    clients::bind_and_listen(descriptor, reinterpret_cast<const sockaddr*>(&address),
                             sizeof(address), listen);
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
  const int descriptor = clients::listen_on_tcp(*to, listen);
  return {descriptor, clients::name_of_socket(descriptor), 0};
}

std::string address_of_peer(const sockaddr_storage& from) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (from.ss_family == AF_INET) {
    sockaddr_in address{};
    std::memcpy(&address, &from, sizeof(address));
    inet_ntop(AF_INET, &address.sin_addr, text.data(), text.size());
  } else if (from.ss_family == AF_INET6) {
    sockaddr_in6 address{};
    std::memcpy(&address, &from, sizeof(address));
    unsigned char* const bytes = address.sin6_addr.s6_addr;
    if (IN6_IS_ADDR_V4MAPPED(&address.sin6_addr) != 0) {
      inet_ntop(AF_INET, bytes + 12, text.data(), text.size());
    } else {
      std::fill(bytes + 8, bytes + 16, static_cast<unsigned char>(0));
      inet_ntop(AF_INET6, bytes, text.data(), text.size());
    }
  }
  return text.data();
}

void remove_file(const Listener& listener) {
  if (!listener.address.starts_with(kUnix)) return;
  const std::string path = listener.address.substr(kUnix.size());
  if (inode_of(path) == listener.file) unlink(path.c_str());
}

}  // namespace driftd::web
