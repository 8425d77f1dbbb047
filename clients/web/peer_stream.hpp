// SPDX-License-Identifier: MIT
// A connection, plain or by TLS, as one kind of stream: what reads and writes HTTP and WebSockets
// is compiled once for both. Private to server.cpp. All in its thread.
#pragma once

#include <utility>  // before Beast of Boost 1.74, which forgets it under C++20
// clang-format keeps the line above where it is by this one.
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <boost/beast/websocket.hpp>
#include <memory>

namespace driftd::web {

namespace asio = boost::asio;
namespace beast = boost::beast;
using beast::error_code;

using Stream = beast::basic_stream<asio::generic::stream_protocol>;

class PeerStream {
 public:
  using next_layer_type = Stream;  ///< where its time limits are
  using executor_type = Stream::executor_type;
  using Tls = beast::ssl_stream<Stream&>;

  explicit PeerStream(Stream stream) : socket_(std::make_unique<Stream>(std::move(stream))) {}

  executor_type get_executor() noexcept { return socket_->get_executor(); }
  Stream& next_layer() noexcept { return *socket_; }
  const Stream& next_layer() const noexcept { return *socket_; }

  /// From now on; the handshake is the caller's.
  Tls& begin_tls(asio::ssl::context& context) {
    tls_ = std::make_unique<Tls>(*socket_, context);
    speaks_tls_ = true;
    return *tls_;
  }
  /// What follows is plain. The stream of TLS stays: it may be who calls.
  void end_tls() noexcept { speaks_tls_ = false; }
  /// Null while it is plain.
  Tls* tls() noexcept { return speaks_tls_ ? tls_.get() : nullptr; }

  template <class Buffers, class Handler>
  void async_read_some(const Buffers& buffers, Handler&& handler) {
    if (speaks_tls_)
      tls_->async_read_some(buffers, std::forward<Handler>(handler));
    else
      socket_->async_read_some(buffers, std::forward<Handler>(handler));
  }

  template <class Buffers, class Handler>
  void async_write_some(const Buffers& buffers, Handler&& handler) {
    if (speaks_tls_)
      tls_->async_write_some(buffers, std::forward<Handler>(handler));
    else
      socket_->async_write_some(buffers, std::forward<Handler>(handler));
  }

 private:
  std::unique_ptr<Stream> socket_;
  std::unique_ptr<Tls> tls_;  // of *socket_
  bool speaks_tls_ = false;
};

// How a WebSocket ends: by its own last words, whatever is below.
inline void teardown(beast::role_type role, PeerStream& stream, error_code& error) {
  using beast::websocket::teardown;
  teardown(role, stream.next_layer().socket(), error);
}

template <class Handler>
void async_teardown(beast::role_type role, PeerStream& stream, Handler&& handler) {
  using beast::websocket::async_teardown;
  async_teardown(role, stream.next_layer().socket(), std::forward<Handler>(handler));
}

/// Nobody is there any more who would read an answer.
inline bool is_over(error_code error) {
  return error == beast::http::error::end_of_stream || error == beast::error::timeout ||
         (error && (error.category() == boost::system::system_category() ||
                    error.category() == asio::error::get_ssl_category() ||
                    error.category() == asio::ssl::error::get_stream_category()));
}

}  // namespace driftd::web
