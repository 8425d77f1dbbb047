// SPDX-License-Identifier: MIT
#include "daemon/peer_connection.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "config/local_sockets.hpp"

namespace driftd::daemon {

bool is_connection_to(const std::string& endpoint, int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return false;
  if (const auto file = config::socket_file(endpoint)) {
    return address.ss_family == AF_UNIX &&
           *file == reinterpret_cast<const sockaddr_un*>(&address)->sun_path;
  }
  if (address.ss_family != AF_INET) return false;
  const auto port = ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
  return endpoint.ends_with(":" + std::to_string(port));
}

void end_connection(const std::string& endpoint, int fd) {
  // A copy stays what it is when libzmq closes the descriptor between the question and the end.
  const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  const int connection = copy >= 0 ? copy : fd;  // no copy when descriptors are used up
  if (is_connection_to(endpoint, connection)) shutdown(connection, SHUT_RDWR);
  if (copy >= 0) close(copy);
}

}  // namespace driftd::daemon
