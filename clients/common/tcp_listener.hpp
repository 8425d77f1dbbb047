// SPDX-License-Identifier: MIT
// Sockets that programs with an HTTP server listen on: ADDRESS:PORT, by number.
#pragma once

#include <netdb.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

namespace driftd::clients {

/// what() is for people.
struct ListenError : std::runtime_error {
  using std::runtime_error::runtime_error;
};
[[noreturn]] void fail_to_listen(const std::string& listen, int error);

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;
/// Null where it is no ADDRESS:PORT by number.
Addresses addresses_of(std::string_view listen);

/// Binds and listens. @throws ListenError, with the descriptor closed
void bind_and_listen(int descriptor, const sockaddr* address, socklen_t size,
                     const std::string& listen);
/// A socket that does not block; the caller's. @throws ListenError
int listen_on_tcp(const addrinfo& to, const std::string& listen);
/// ADDRESS:PORT that it is bound to.
std::string name_of_socket(int descriptor);

}  // namespace driftd::clients
