// SPDX-License-Identifier: MIT
// From StageOptions::device to an open line: tcp://HOST:PORT, unix:/PATH of a program that listens
// there, or the path of a serial line.
#pragma once

#include <string>

#include "clients/stage/transport/byte_stream.hpp"

namespace driftd::stage {

/// Whether open_stream() could take it. @throws std::invalid_argument that says why not
void check_device(const std::string& device, int baud);

/// Opens `device` with nothing left to read. @throws StageError
ByteStream open_stream(const std::string& device, int baud, bool rts_cts, int timeout_ms);

}  // namespace driftd::stage
