// SPDX-License-Identifier: MIT
// A TCP connection to a controller, without Nagle's delay. Any thread; blocks for the timeout at
// most, apart from the look-up of a host's name.
#pragma once

#include <string>

#include "clients/stage/transport/byte_stream.hpp"

namespace driftd::stage {

struct TcpAddress {
  std::string host;
  std::string port;
};

/// HOST:PORT or [IPV6]:PORT. @throws std::invalid_argument
TcpAddress parse_tcp_address(const std::string& text);

/// @throws StageError
ByteStream connect_tcp(const TcpAddress& address, int timeout_ms);

}  // namespace driftd::stage
