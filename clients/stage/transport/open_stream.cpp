// SPDX-License-Identifier: MIT
#include "clients/stage/transport/open_stream.hpp"

#include <stdexcept>

#include "clients/stage/transport/serial_port.hpp"
#include "clients/stage/transport/tcp.hpp"

namespace driftd::stage {

namespace {

constexpr std::string_view kTcp = "tcp://";
/// The answer to an earlier program's question may still be on its way.
constexpr int kQuietMs = 20;

}  // namespace

void check_device(const std::string& device, int baud) {
  if (device.starts_with(kTcp)) {
    parse_tcp_address(device.substr(kTcp.size()));
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
  ByteStream stream =
      device.starts_with(kTcp)
          ? connect_tcp(parse_tcp_address(device.substr(kTcp.size())), timeout_ms)
          : open_serial(device, {.baud = baud, .rts_cts = rts_cts, .timeout_ms = timeout_ms});
  stream.discard_until_quiet(kQuietMs);
  return stream;
}

}  // namespace driftd::stage
