// SPDX-License-Identifier: MIT
// What the daemon publishes, seen where it is handed to libzmq (linked with --wrap=zmq_send): every
// message, in the order of its socket, however slow a subscriber would be. Written by the
// publisher's thread; taken by any.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace driftd::virtual_time {

/// "topic {json}", those since the last call.
std::vector<std::string> take_sent_messages();
/// A computer that has no time for the publisher's thread: while they are held, that thread waits
/// with the next correction.
void hold_corrections(bool held);
/// Replies to commands, so far.
std::uint64_t sent_replies();

}  // namespace driftd::virtual_time
