// SPDX-License-Identifier: MIT
#include "daemon/wire/wire_context.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <zmq.hpp>

#include "config/endpoint.hpp"
#include "config/local_sockets.hpp"
#include "daemon/wire/connection_bound.hpp"
#include "daemon/wire/gatekeeper.hpp"

namespace driftd::daemon {
namespace {

constexpr int kHandshakeMs = 1500;  // libzmq's 30 s let a port scan keep descriptors for so long
/// More than the longest command of a CURVE handshake, with an identity of 32 bytes.
constexpr std::int64_t kKeyedHandshakeBytes = 320;
constexpr std::int64_t kOfEncryption = 64;  // what it adds to a message, and a little more

}  // namespace

WireContext::WireContext(config::AccessRules rules)
    : server_secret_(rules.server_secret),
      book_(std::move(rules)),
      gatekeeper_(std::make_unique<Gatekeeper>(book_, refusals_, ended_)) {}

WireContext::~WireContext() = default;

zmq::socket_t WireContext::socket(zmq::socket_type type) {
  zmq::socket_t socket(gatekeeper_->context(), type);
  socket.set(zmq::sockopt::handshake_ivl, kHandshakeMs);
  return socket;
}

std::uint64_t WireContext::revoked() const noexcept {
  return gatekeeper_->revoked();
}

AccessBook::Change WireContext::replace(config::AccessRules rules) {
  AccessBook::Change change = book_.replace(std::move(rules));
  if (change.fewer()) gatekeeper_->end_revoked();
  return change;
}

ConnectionBound& WireContext::bind(zmq::socket_t& socket, const Place& place) {
  try {
    ConnectionBound& bound =
        gatekeeper_->guard(socket, place.key, place.domain, [&](ConnectionBound& made) {
          for (const std::string& endpoint : place.endpoints) {
            bind_one(socket, place, endpoint, made);
          }
        });
    bound_[place.key] = bound.endpoints();
    return bound;
  } catch (const zmq::error_t& error) {
    throw SocketError(place.key + ": cannot bind " + place.endpoints.front() + ": " + error.what());
  }
}

/// libzmq takes a socket's options over into what it is bound to, when it is bound.
void WireContext::bind_one(zmq::socket_t& socket, const Place& place, const std::string& endpoint,
                           ConnectionBound& bound) {
  if (config::is_named(endpoint) && runtime_directory_.empty()) {
    runtime_directory_ = make_runtime_directory();
  }
  const std::string whole = config::endpoint_in(runtime_directory_, endpoint);
  const auto file = config::socket_file(whole);
  const bool keyed = config::is_tcp(whole) && !server_secret_.empty();
  socket.set(zmq::sockopt::zap_domain, place.domain);
  socket.set(zmq::sockopt::affinity, keyed ? kKeyedThread : kLocalThread);
  socket.set(
      zmq::sockopt::maxmsgsize,
      keyed ? std::max(kKeyedHandshakeBytes, place.most_bytes + kOfEncryption) : place.most_bytes);
  // The user id of a peer with a key is a message of libzmq's own, before the peer's first.
  socket.set(zmq::sockopt::rcvhwm, place.most_waiting + (keyed ? 1 : 0));
  socket.set(zmq::sockopt::curve_server, keyed);
  if (keyed) socket.set(zmq::sockopt::curve_secretkey, server_secret_);
  try {
    if (file) locks_.emplace_back(*file);
    socket.bind(whole);
  } catch (const std::exception& error) {
    throw SocketError(place.key + ": cannot bind " + whole + ": " + error.what());
  }
  bound.add_endpoint(socket.get(zmq::sockopt::last_endpoint), keyed);
  if (!file) return;
  // The umask may have closed it to the group. To write is to connect (unix(7)).
  constexpr mode_t kOwnerAndGroup = 0660;
  [[maybe_unused]] int refused = chmod(file->c_str(), kOwnerAndGroup);
  struct stat folder {};
  if (config::is_named(endpoint) && stat(runtime_directory_.c_str(), &folder) == 0) {
    refused = chown(file->c_str(), static_cast<uid_t>(-1), folder.st_gid);
  }
}

}  // namespace driftd::daemon
