// SPDX-License-Identifier: MIT
// HTTP and WebSocket for a page, bounded in everything a stranger can ask for: how many
// connections, bytes and seconds. One request a connection, plain or by TLS. What is served, and
// who is let in, a Site says. Boost.Beast is named in server.cpp and peer_stream.hpp alone. All in
// the thread that calls run(); stop() from it, too.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "clients/common/tcp_listener.hpp"
#include "clients/web/tls.hpp"

namespace driftd::web {

struct Header {
  std::string name;  ///< of a request in lower case
  std::string value;
};

struct Request {
  std::string method, path, query;  ///< query: what follows a question mark
  std::vector<Header> headers;      ///< in their order, repeated ones too
  bool http_1_1 = true;
  bool upgrade = false;  ///< to a WebSocket
  std::string body;
  std::string peer;              ///< address that it is from, of IPv6 the network; "" for a file
  std::string certificate_name;  ///< of the certificate that the peer has shown; "": none

  /// The first of that name, or "".
  std::string_view header(std::string_view lower_case_name) const;
};

struct Response {
  unsigned status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
  std::vector<Header> headers = {};
};

/// A WebSocket that is listened to.
class Viewer {
 public:
  Viewer() = default;
  Viewer(const Viewer&) = delete;
  Viewer& operator=(const Viewer&) = delete;
  virtual ~Viewer() = default;
  /// A slot whose name begins so goes when nothing else waits, and each two seconds. Of kHistory
  /// none gives its place to another; a picture is measured.
  static constexpr std::string_view kLater = "later ", kHistory = kLater,
                                    kPicture = "later picture";
  /// Sends a binary message when those before it have gone.
  /// @param slot  of those that wait, one of the same slot gives its place to this; empty: none
  /// does
  virtual void send(std::shared_ptr<const std::string> message, std::string_view slot) = 0;
  /// Of how many bytes the pixels of a picture are to be that its link takes in half a second;
  /// nothing: the last one has not arrived.
  virtual std::optional<std::size_t> room_for_picture() const = 0;
  virtual void drop() = 0;
};

/// What a Server serves. Each call is made by its thread.
class Site {
 public:
  Site() = default;
  Site(const Site&) = delete;
  Site& operator=(const Site&) = delete;
  virtual ~Site() = default;
  /// Asked when a request's headers have come, and before its body is read.
  virtual std::optional<Response> refuse(const Request& request) = 0;
  /// `done` is called once, now or later.
  virtual void answer(const Request& request, std::function<void(Response)> done) = 0;
  /// A WebSocket that refuse() let in. It lives until closed().
  virtual void opened(Viewer& viewer, const Request& request) = 0;
  /// False: it is dropped.
  virtual bool heard(Viewer& viewer, std::string_view text) = 0;
  virtual void closed(Viewer& viewer) = 0;
};

/// A request as a Server reads it; nothing where it refuses it by itself. For the fuzzers.
std::optional<Request> read_request(std::string_view bytes);

using clients::ListenError;

class Server {
 public:
  static constexpr std::size_t kMostConnections = 64;
  static constexpr std::size_t kMostViewers = 56;  ///< of these: others are still answered
  static constexpr std::size_t kMostHeaderBytes = 8192;
  /// Twice what driftd takes: to copy what is nested goes into it level by level, on the stack.
  static constexpr std::size_t kMostBodyBytes = 8192;
  static constexpr std::size_t kMostSaidBytes = 4096;  ///< by a WebSocket, at once
  static constexpr std::size_t kMostWaiting = 600;     ///< messages for a WebSocket
  static constexpr std::chrono::seconds kForHeader{5}, kForBody{10}, kForAnswer{10}, kDeaf{10};

  /// @param listen  ADDRESS:PORT, an IPv4 address or an IPv6 one in brackets, port 0: any; or
  ///   unix:/PATH, a socket that its owner and its group may connect to
  /// @throws ListenError
  Server(const std::string& listen, Site& site);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// What is listened on: ADDRESS:PORT or unix:/PATH.
  const std::string& address() const noexcept;
  /// Connections that begin from now on speak TLS, with these settings.
  void speak_tls(const TlsContext& context);
  /// Calls `turn` again and again while run() runs.
  void every(std::chrono::milliseconds period, std::function<void()> turn);
  /// Serves until stop().
  void run();
  void stop();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace driftd::web
