// SPDX-License-Identifier: MIT
// One connection of a peer to a socket of ours, by its descriptor: libzmq owns that, tells its
// number and may close it at any time. Any thread.
#pragma once

#include <string>

namespace driftd::daemon {

/// Whether a descriptor is (still) a connection to this endpoint: libzmq may have closed it, and
/// its number may be another file's.
bool is_connection_to(const std::string& endpoint, int fd);

/// Ends it if it still is one. libzmq sees the end, and forgets the peer.
void end_connection(const std::string& endpoint, int fd);

}  // namespace driftd::daemon
