// SPDX-License-Identifier: MIT
#include "daemon/wire/peer_connection.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "config/local_sockets.hpp"

namespace driftd::daemon {
namespace {

bool leads_to(const std::string& endpoint, const sockaddr_storage& address) {
  if (const auto file = config::socket_file(endpoint)) {
    return address.ss_family == AF_UNIX &&
           *file == reinterpret_cast<const sockaddr_un*>(&address)->sun_path;
  }
  if (address.ss_family != AF_INET) return false;
  const auto port = ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
  return endpoint.ends_with(":" + std::to_string(port));
}

}  // namespace

bool is_connection_to(const std::vector<std::string>& endpoints, int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return false;
  return std::ranges::any_of(
      endpoints, [&](const std::string& endpoint) { return leads_to(endpoint, address); });
}

ino_t inode_of(int fd) {
  struct stat about {};
  return fstat(fd, &about) == 0 ? about.st_ino : 0;
}

std::string address_of_peer(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return "";
  if (address.ss_family == AF_INET) {
    std::array<char, INET_ADDRSTRLEN> text{};
    const auto* in = reinterpret_cast<const sockaddr_in*>(&address);
    return inet_ntop(AF_INET, &in->sin_addr, text.data(), text.size()) != nullptr ? text.data()
                                                                                  : "";
  }
  ucred peer{};
  size = sizeof(peer);
  if (address.ss_family != AF_UNIX || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) {
    return "";
  }
  return "localhost:" + std::to_string(peer.uid) + ':' + std::to_string(peer.gid) + ':' +
         std::to_string(peer.pid);
}

void end_connection(const std::vector<std::string>& endpoints, int fd) {
  // A copy stays what it is when libzmq closes the descriptor between the question and the end.
  const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  const int connection = copy >= 0 ? copy : fd;  // no copy when descriptors are used up
  if (is_connection_to(endpoints, connection)) shutdown(connection, SHUT_RDWR);
  if (copy >= 0) close(copy);
}

}  // namespace driftd::daemon
