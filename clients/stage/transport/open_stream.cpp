// SPDX-License-Identifier: MIT
#include "clients/stage/transport/open_stream.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <stdexcept>
#include <system_error>

#include "clients/stage/transport/serial_port.hpp"
#include "clients/stage/transport/tcp.hpp"

namespace driftd::stage {

namespace {

constexpr std::string_view kTcp = "tcp://";
constexpr std::string_view kUnixSocket = "unix:";
/// The answer to an earlier program's question may still be on its way.
constexpr int kQuietMs = 20;

ByteStream connect_unix(const std::string& path, int timeout_ms) {
  sockaddr_un there{};
  there.sun_family = AF_UNIX;
  path.copy(static_cast<char*>(there.sun_path), sizeof(there.sun_path) - 1);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  ByteStream stream(fd, ByteStream::Kind::Socket, std::string(kUnixSocket) + path, timeout_ms);
  const auto* address = reinterpret_cast<const sockaddr*>(&there);  // NOLINT: sockets' way
  if (fd < 0 || ::connect(fd, address, sizeof(there)) != 0) {
    throw StageError(stream.name() + ": cannot connect (" + std::system_category().message(errno) +
                     ")");
  }
  return stream;
}

}  // namespace

void check_device(const std::string& device, int baud) {
  if (device.starts_with(kTcp)) {
    parse_tcp_address(device.substr(kTcp.size()));
    return;
  }
  if (device.starts_with(kUnixSocket)) {
    const std::string path = device.substr(kUnixSocket.size());
    if (!path.starts_with("/") || path.size() >= sizeof(sockaddr_un::sun_path))
      throw std::invalid_argument("device '" + device +
                                  "' is not unix:/PATH with a path of at most 107 bytes");
    return;
  }
  if (!device.starts_with("/")) {
    throw std::invalid_argument("device '" + device +
                                "' is neither tcp://HOST:PORT nor the path of a serial line");
  }
  if (baud < 300 || baud > 12'000'000) {
    throw std::invalid_argument("baud is " + std::to_string(baud) + ", expected 300 to 12000000");
  }
}

ByteStream open_stream(const std::string& device, int baud, bool rts_cts, int timeout_ms) {
  if (device.starts_with(kUnixSocket))
    return connect_unix(device.substr(kUnixSocket.size()), timeout_ms);
  ByteStream stream =
      device.starts_with(kTcp)
          ? connect_tcp(parse_tcp_address(device.substr(kTcp.size())), timeout_ms)
          : open_serial(device, {.baud = baud, .rts_cts = rts_cts, .timeout_ms = timeout_ms});
  stream.discard_until_quiet(kQuietMs);
  return stream;
}

}  // namespace driftd::stage
