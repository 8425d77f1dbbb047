// SPDX-License-Identifier: MIT
// The socket that driftd-web listens on, and where it may be.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <string>
#include <string_view>

namespace driftd::web {

/// Whether only this computer's programs reach it: a loopback address or unix:/PATH. False, too,
/// where it is neither ADDRESS:PORT nor unix:/PATH.
bool is_of_this_computer(std::string_view listen);

struct Listener {
  int descriptor = -1;  ///< does not block; the caller's
  std::string address;  ///< ADDRESS:PORT or unix:/PATH
  ino_t file = 0;       ///< of unix:/PATH
};
/// A socket file that nobody listens at is replaced. @throws ListenError (server.hpp)
Listener listen_on(const std::string& listen);
/// Whom a connection is from, as one peer that may err so often: its address, of IPv6 its network
/// of 64 bits; "" where it is by a file.
std::string address_of_peer(const sockaddr_storage& from);
/// Before the descriptor is closed: the socket file goes, but none that another one has put there.
void remove_file(const Listener& listener);

}  // namespace driftd::web
