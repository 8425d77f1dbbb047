// SPDX-License-Identifier: MIT
#include "clients/stage/transport/tcp.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <memory>
#include <stdexcept>
#include <system_error>

namespace driftd::stage {

namespace {

/// 0, or why this address could not be connected to within the timeout.
int connect_one(int fd, const addrinfo& to, int timeout_ms) {
  if (::connect(fd, to.ai_addr, to.ai_addrlen) == 0) return 0;
  if (errno != EINPROGRESS) return errno;
  pollfd watched{.fd = fd, .events = POLLOUT, .revents = 0};
  int ready = -1;
  do {
    ready = ::poll(&watched, 1, timeout_ms);
  } while (ready < 0 && errno == EINTR);
  if (ready == 0) return ETIMEDOUT;
  if (ready < 0) return errno;
  int error = 0;
  socklen_t size = sizeof(error);
  if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) return errno;
  return error;
}

/// What is not acknowledged in time is dropped with the connection: a target must not arrive when
/// the cable is back. Where nothing is sent, a cable pulled shows with the first probe that is not
/// answered in that time (the timeout takes the place of TCP_KEEPCNT, tcp(7)).
void set_options(int fd) {
  const int on = 1;
  const int idle_s = 2;
  const int between_s = 1;
  const unsigned unacknowledged_ms = 500;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between_s, sizeof(between_s));
  ::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged_ms, sizeof(unacknowledged_ms));
}

}  // namespace

TcpAddress parse_tcp_address(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  std::string host = colon == std::string::npos ? "" : text.substr(0, colon);
  const std::string port = colon == std::string::npos ? "" : text.substr(colon + 1);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string::npos) {
    host.clear();
  }
  int number = 0;
  const char* end = port.data() + port.size();
  const auto parsed = std::from_chars(port.data(), end, number);
  if (host.empty() || parsed.ec != std::errc() || parsed.ptr != end || number < 1 ||
      number > 65535) {
    throw std::invalid_argument("device 'tcp://" + text +
                                "' is not tcp://HOST:PORT with a port of 1 to 65535");
  }
  return {.host = host, .port = port};
}

ByteStream connect_tcp(const TcpAddress& address, int timeout_ms) {
  const std::string name = "tcp://" + address.host + ":" + address.port;
  addrinfo wanted{};
  wanted.ai_family = AF_UNSPEC;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* raw = nullptr;
  const int looked_up = ::getaddrinfo(address.host.c_str(), address.port.c_str(), &wanted, &raw);
  if (looked_up != 0) {
    throw StageError(name + ": the host's address is not known (" + ::gai_strerror(looked_up) +
                     ")");
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> found(raw, ::freeaddrinfo);
  int error = 0;
  for (const addrinfo* one = raw; one != nullptr; one = one->ai_next) {
    const int fd =
        ::socket(one->ai_family, one->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, one->ai_protocol);
    if (fd < 0) {
      error = errno;
      continue;
    }
    ByteStream stream(fd, ByteStream::Kind::Socket, name, timeout_ms);
    error = connect_one(fd, *one, timeout_ms);
    if (error == 0) {
      set_options(fd);
      return stream;
    }
  }
  throw StageError(name + ": cannot connect " +
                   (error == ETIMEDOUT ? "within " + std::to_string(timeout_ms) + " ms"
                                       : "(" + std::system_category().message(error) + ")"));
}

}  // namespace driftd::stage
