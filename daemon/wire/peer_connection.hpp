// SPDX-License-Identifier: MIT
// One connection of a peer to a socket of ours, by its descriptor: libzmq owns that, tells its
// number and may close it at any time. Any thread.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace driftd::daemon {

/// Whether a descriptor is (still) a connection to one of these endpoints: libzmq may have closed
/// it, and its number may be another file's.
bool is_connection_to(const std::vector<std::string>& endpoints, int fd);

/// Ends it if it still is one. libzmq sees the end, and forgets the peer.
void end_connection(const std::vector<std::string>& endpoints, int fd);

/// What tells a connection from a later one with the same descriptor; 0 when there is none.
ino_t inode_of(int fd);

/// Who is at its other end, as libzmq has it: "192.168.1.7" or "localhost:UID:GID:PID"; "" where
/// that does not show any more.
std::string address_of_peer(int fd);

}  // namespace driftd::daemon
