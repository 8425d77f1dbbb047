// SPDX-License-Identifier: MIT
// The least of HTTP that Prometheus needs, bounded in everything a stranger can ask for: GET and
// HEAD of a few pages, one request a connection, at most kMostConnections at once (the oldest makes
// room for a new one), kMostRequestBytes of request and kMostSeconds from its first byte to the
// last of the answer. One thread runs it; stop() may be called by any.
//
// Why not cpp-httplib: of the oldest version that would have to do (0.11.4, Debian 12's
// libcpp-httplib-dev) these bounds cannot be had. A worker thread, of eight, stays with a
// connection, and set_read_timeout() counts each read anew: eight peers that send a header line a
// second keep Prometheus out for as long as they like (tried: so after 16 s), and connections
// beyond them are accepted and kept without a limit (tried: 300). What
// tests/unit/clients/test_exporter.cpp asks of idle, slow and deaf peers tells whether another
// version, or another library, may take its place.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <string>
#include <string_view>

#include "clients/common/tcp_listener.hpp"

namespace driftd::exporter {

struct Page {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
};

struct HttpRequest {
  std::string_view path;    ///< without what follows a question mark
  std::string_view accept;  ///< the header's value; "" without one
};

using clients::ListenError;

class HttpServer {
 public:
  static constexpr std::size_t kMostConnections = 32;
  static constexpr std::size_t kMostRequestBytes = 8192;
  static constexpr std::int64_t kMostSeconds = 5;

  /// @param listen  ADDRESS:PORT, an IPv4 address or an IPv6 one in brackets; port 0: any
  /// @throws ListenError
  HttpServer(const std::string& listen, std::function<Page(const HttpRequest&)> serve);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// ADDRESS:PORT that is listened on.
  const std::string& address() const noexcept { return address_; }
  /// Serves until stop().
  void run();
  void stop() noexcept { stop_ = true; }

 private:
  struct Connection {
    int descriptor = -1;
    std::int64_t end_ns = 0;
    std::string received;
    std::string answer;
    std::size_t sent = 0;
    bool answered = false;  ///< sent as a whole: only its end is waited for
  };
  void turn();
  void accept_all();
  /// False when it is over.
  bool serve(Connection& connection, short events);
  bool read_some(Connection& connection);
  void answer(Connection& connection);

  std::function<Page(const HttpRequest&)> serve_;
  int listener_ = -1;
  std::string address_;
  std::list<Connection> connections_;  ///< the oldest first
  std::atomic<bool> stop_{false};
};

}  // namespace driftd::exporter
