// SPDX-License-Identifier: MIT
// The thread that lets peers in: it answers libzmq's question about each (a ZAP handler, ZeroMQ's
// RFC 27) by the access book, and keeps the bounds on connections. It holds the ZeroMQ context, so
// it is made before the sockets and destroyed after them. That there is a handler makes libzmq
// refuse ZMTP 1.0 and 2.0, whose frames can be written by an HTTP client. What takes long here, or
// is in demand by a flood, delays those who want in and nobody else.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>
#include <zmq.hpp>

#include "daemon/wire/access_book.hpp"
#include "daemon/wire/connection_bound.hpp"
#include "daemon/wire/refusals.hpp"

namespace driftd::daemon {

class Gatekeeper {
 public:
  /// Starts the thread.
  Gatekeeper(AccessBook& book, Refusals& refusals, std::atomic<std::uint64_t>& ended);
  ~Gatekeeper();
  Gatekeeper(const Gatekeeper&) = delete;
  Gatekeeper& operator=(const Gatekeeper&) = delete;

  zmq::context_t& context() noexcept { return context_; }

  /// A bound on the connections of a socket that is about to be bound; `bind` does that, and tells
  /// it the endpoints. The bound lives as long as this. @throws what bind does, zmq::error_t
  ConnectionBound& guard(zmq::socket_t& socket, const std::string& key, const std::string& domain,
                         const std::function<void(ConnectionBound&)>& bind);

  /// Ends the connections of those whom the book does not let in any more. The thread that guards.
  void end_revoked();
  /// Connections that were ended so.
  std::uint64_t revoked() const noexcept { return revoked_.load(); }

 private:
  enum class News : char { Bound = 'b', Revoked = 'r' };
  void run() noexcept;
  void answer_one();
  void tell(News news);

  AccessBook& book_;
  Refusals& refusals_;
  std::atomic<std::uint64_t>& ended_;
  std::atomic<std::uint64_t> revoked_{0};
  zmq::context_t context_;
  zmq::socket_t replies_;  ///< the thread's own once that runs
  zmq::socket_t news_;     ///< the thread's, too
  zmq::socket_t to_news_;
  std::mutex mutex_;  ///< of bounds_; each bound is the thread's
  std::vector<std::unique_ptr<ConnectionBound>> bounds_;
  std::thread thread_;
};

/// The I/O threads of the context, as ZMQ_AFFINITY has them: what strangers on a network send, and
/// what it costs to read, keeps nobody of this computer waiting.
inline constexpr std::uint64_t kLocalThread = 1;
inline constexpr std::uint64_t kKeyedThread = 2;

}  // namespace driftd::daemon
