// SPDX-License-Identifier: MIT
// The ZeroMQ sockets of driftd-stage, two for each group of axes: one that hears corrections, one
// that tells the daemon how the stage does. Both look for a daemon that is not there yet and find
// it again after a restart; neither ever waits. Each is made, called and destroyed by one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <zmq.hpp>

#include "clients/stage/correction.hpp"

namespace driftd::stage {

/// An endpoint of the daemon, connected to when somebody listens there.
class DaemonEndpoint {
 public:
  explicit DaemonEndpoint(std::string endpoint) : endpoint_(std::move(endpoint)) {}
  /// Looks where the daemon is, unless it did so a moment ago, and connects the socket there.
  /// @param heard  the socket's peer is alive: nothing to look for
  void look(zmq::socket_t& socket, bool heard, std::int64_t now_ns);
  /// The next look() looks, whether the peer is heard or not.
  void look_anew() { next_look_ns_ = 0; }
  bool connected() const { return !place_.empty(); }
  /// Why it is not connected, for people.
  const std::string& trouble() const { return trouble_; }

 private:
  std::string endpoint_;
  std::string place_;  ///< where the socket is connected to
  std::string trouble_;
  std::int64_t next_look_ns_ = 0;
};

/// It keeps the newest message alone, hence a socket for each topic.
class CorrectionSocket {
 public:
  CorrectionSocket(zmq::context_t& context, const std::string& endpoint, Group group);
  /// @param answers  the daemon is alive, though no correction comes. Where it is again, it may be
  ///     another one, at another place
  void look(bool answers, std::int64_t now_ns);
  /// The newest message that came; those before it are gone.
  std::optional<std::string> newest();
  void* handle() { return socket_.handle(); }

 private:
  zmq::socket_t socket_;
  DaemonEndpoint endpoint_;
  std::int64_t heard_ns_ = 0;
  bool answered_ = false;
};

/// What the daemon said to a report.
struct DaemonWord {
  bool ok = false;
  std::string code, error;  ///< of a refusal
  std::string state;        ///< of the lock
  std::string z_state;      ///< of the lock of z, where there is one
};

class ReportSocket {
 public:
  ReportSocket(zmq::context_t& context, const std::string& endpoint);
  /// Looks for the daemon and sends; a report that cannot leave at once is dropped.
  void send(const std::string& report, std::int64_t now_ns);
  std::optional<DaemonWord> receive();
  /// "" while the daemon answers; else why it does not, for people.
  std::string trouble(std::int64_t now_ns) const;
  void* handle() { return socket_.handle(); }

 private:
  zmq::socket_t socket_;
  DaemonEndpoint endpoint_;
  std::int64_t heard_ns_;  ///< or when it was made
};

}  // namespace driftd::stage
