// SPDX-License-Identifier: MIT
// A serial line by the kernel's terminal interface: raw, 8 data bits, no parity, one stop bit, any
// speed, for one program at a time. Works on a pseudo-terminal. FTDI adapters are driven by the
// kernel's ftdi_sio, which has 3 Mbaud and a latency timer of 1 ms, so that no USB library is
// needed. Any thread; opening does not wait for a carrier.
#pragma once

#include <filesystem>
#include <string>

#include "clients/stage/transport/byte_stream.hpp"

namespace driftd::stage {

struct SerialSettings {
  int baud = 115200;
  bool rts_cts = false;
  int timeout_ms = 500;
};

/// What came before is dropped, as is what an earlier program wrote and has not left yet. The
/// stream's remark() says when an FTDI adapter's latency timer could not be set to 1 ms. @throws
/// StageError
ByteStream open_serial(const std::string& path, const SerialSettings& settings);

/// Sets the latency timer of the FTDI adapter behind terminal `terminal` ("ttyUSB0") to 1 ms.
/// Returns what stayed slow and how to change it; empty when it is set, or is no FTDI adapter.
/// @param terminals /sys/class/tty, or a test's copy of it
std::string shorten_latency(int fd, const std::string& terminal,
                            const std::filesystem::path& terminals);

}  // namespace driftd::stage
