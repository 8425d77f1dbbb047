// SPDX-License-Identifier: MIT
#include "clients/web/server.hpp"

#include "clients/web/peer_stream.hpp"
// Before all else: see there.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/http.hpp>
#include <cctype>
#include <cerrno>
#include <list>
#include <set>

#include "clients/web/listener.hpp"
#include "clients/web/request_rules.hpp"
#include "clients/web/viewer_socket.hpp"

namespace driftd::web {

namespace http = beast::http;

namespace {

constexpr std::chrono::seconds kForEnd{2};  // until the peer hangs up after its answer
constexpr std::size_t kRestBytes = std::size_t{256} * 1024;  // that come beside or after a request
/// What the system takes beyond what it could send already is old when it arrives.
constexpr int kUnsentBytes = 8 * 1024;
/// Of a file: what a proxy's buffers add is the proxy's.
constexpr int kFileBufferBytes = 64 * 1024;
/// Of the buffer that a request is read into: its headers and what came with them of its body.
constexpr std::size_t kReadBytes = std::size_t{16} * 1024;

std::string text_of(beast::string_view text) {
  return {text.data(), text.size()};
}

template <class Fields>
Request request_of(const Fields& fields) {
  Request request;
  const std::string target = text_of(fields.target());
  const std::size_t question = target.find('?');
  request.method = text_of(fields.method_string());
  request.path = target.substr(0, question);
  if (question != std::string::npos) request.query = target.substr(question + 1);
  for (const auto& field : fields) {
    std::string name = text_of(field.name_string());
    std::ranges::transform(name, name.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    request.headers.push_back({std::move(name), text_of(field.value())});
  }
  request.http_1_1 = fields.version() == 11;
  request.upgrade = websocket::is_upgrade(fields);
  return request;
}

using Parser = http::request_parser<http::string_body>;

void set_limits(Parser& parser) {
  parser.header_limit(static_cast<std::uint32_t>(Server::kMostHeaderBytes));
  parser.body_limit(Server::kMostBodyBytes);
}

/// Of a request that cannot be read.
Response refusal_of(error_code error) {
  if (error == http::error::header_limit || error == http::error::buffer_overflow)
    return {.status = 431,
            .body = "the headers of a request have at most " +
                    std::to_string(Server::kMostHeaderBytes) + " bytes\n"};
  if (error == http::error::body_limit)
    return {.status = 413,
            .body = "the body of a request has at most " + std::to_string(Server::kMostBodyBytes) +
                    " bytes\n"};
  return {.status = 400, .body = "this is not a request of HTTP/1.1\n"};
}

/// A connection until its answer has gone, or until it is a WebSocket.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  struct Others {
    std::list<std::weak_ptr<ViewerSocket>> viewers;
    /// Those whose answer the site has not given yet: no operation of theirs keeps them.
    std::set<std::shared_ptr<Connection>> answered_later;
  };

  /// @param peer  as Request::peer
  Connection(Stream stream, std::string peer, Site& site, Others& others)
      : stream_(std::move(stream)), peer_(std::move(peer)), site_(site), others_(others) {
    set_limits(parser_);
  }

  /// @param tls  null: it is plain
  void start(asio::ssl::context* tls) {
    stream_.next_layer().expires_after(Server::kForHeader);  // for the handshake, too
    if (tls == nullptr) return read_header();
    stream_.begin_tls(*tls).async_handshake(
        asio::ssl::stream_base::server,
        [self = shared_from_this()](error_code error) { self->take_handshake(error); });
  }

  void end() {
    stream_.next_layer().close();
    others_.answered_later.erase(shared_from_this());
  }

 private:
  void take_handshake(error_code error) {
    if (!error) {
      certificate_name_ = name_of_peer(stream_.tls()->native_handle());
      return read_header();
    }
    if (error.category() != asio::error::get_ssl_category() ||
        ERR_GET_REASON(static_cast<unsigned long>(error.value())) != SSL_R_HTTP_REQUEST)
      return;
    stream_.end_tls();
    finish({.status = 400, .body = "this is spoken to by TLS: the address begins with https://\n"});
  }

  void read_header() {
    http::async_read_header(
        stream_, buffer_, parser_,
        [self = shared_from_this()](error_code error, std::size_t) { self->take_header(error); });
  }

  void take_header(error_code error) {
    if (is_over(error)) return;
    if (error) return finish(refusal_of(error));
    request_ = request_of(parser_.get());
    request_.peer = peer_;
    request_.certificate_name = certificate_name_;
    if (auto refused = site_.refuse(request_)) return finish(std::move(*refused));
    if (request_.upgrade) return become_viewer();
    stream_.next_layer().expires_after(Server::kForBody);
    http::async_read(
        stream_, buffer_, parser_,
        [self = shared_from_this()](error_code problem, std::size_t) { self->take_body(problem); });
  }

  void take_body(error_code error) {
    if (is_over(error)) return;
    if (error) return finish(refusal_of(error));
    request_.body = std::move(parser_.get().body());
    stream_.next_layer().expires_never();  // how long an answer takes, the site knows
    others_.answered_later.insert(shared_from_this());
    site_.answer(request_, [weak = weak_from_this()](Response response) {
      const auto self = weak.lock();
      if (!self) return;
      self->others_.answered_later.erase(self);
      self->finish(std::move(response));
    });
  }

  void become_viewer() {
    std::erase_if(others_.viewers, [](const auto& viewer) { return viewer.expired(); });
    if (others_.viewers.size() >= Server::kMostViewers)
      return finish({.status = 503, .body = "too many look at this already\n"});
    const auto viewer = std::make_shared<ViewerSocket>(std::move(stream_), site_);
    others_.viewers.push_back(viewer);
    viewer->accept(parser_.get(), std::move(request_));
  }

  void finish(Response response) {
    written_.result(response.status);
    written_.version(11);
    written_.keep_alive(false);
    written_.set(http::field::content_type, response.type);
    for (const auto& headers : {security_headers(), std::span<const Header>(response.headers)})
      for (const Header& header : headers) written_.set(header.name, header.value);
    written_.body() = std::move(response.body);
    written_.prepare_payload();
    if (request_.method == "HEAD" || response.status == 304) written_.body().clear();
    stream_.next_layer().expires_after(Server::kForAnswer);
    http::async_write(
        stream_, written_, [self = shared_from_this()](error_code error, std::size_t) {
          if (error && error != http::error::end_of_stream) return;
          self->stream_.next_layer().expires_after(kForEnd);
          if (self->stream_.tls() == nullptr) return self->hang_up();
          self->stream_.tls()->async_shutdown([self](error_code) { self->hang_up(); });
        });
  }

  void hang_up() {
    error_code ignored;
    stream_.next_layer().socket().shutdown(asio::socket_base::shutdown_send, ignored);
    wait_for_end();
  }

  /// To close with bytes unread would take the answer away again: the peer closes first.
  void wait_for_end() {
    rest_.resize(kRestBytes / 16);
    stream_.next_layer().async_read_some(
        asio::buffer(rest_), [self = shared_from_this()](error_code error, std::size_t bytes) {
          self->rest_bytes_ += bytes;
          if (!error && self->rest_bytes_ < kRestBytes) self->wait_for_end();
        });
  }

  PeerStream stream_;
  std::string peer_, certificate_name_;
  Site& site_;
  Others& others_;
  beast::flat_buffer buffer_{kReadBytes};
  Parser parser_;
  http::response<http::string_body> written_;
  Request request_;
  std::vector<char> rest_;
  std::size_t rest_bytes_ = 0;
};

}  // namespace

std::optional<Request> read_request(std::string_view bytes) {
  Parser parser;
  set_limits(parser);
  parser.eager(true);
  error_code error;
  parser.put(asio::buffer(bytes.data(), bytes.size()), error);
  if (!parser.is_header_done() || (error && error != http::error::need_more)) return std::nullopt;
  Request request = request_of(parser.get());
  request.body = parser.get().body();
  return request;
}

struct Server::Parts {
  Parts(const std::string& listen, Site& to_serve)
      : site(to_serve), bound(listen_on(listen)), listener(context, bound.descriptor) {}
  ~Parts() { remove_file(bound); }

  void accept() {
    listener.async_wait(asio::posix::stream_descriptor::wait_read, [this](error_code error) {
      if (error) return;
      accept_all();
      accept();
    });
  }

  void accept_all() {
    for (;;) {
      sockaddr_storage from{};
      socklen_t from_size = sizeof(from);
      const int descriptor = accept4(bound.descriptor, reinterpret_cast<sockaddr*>(&from),
                                     &from_size, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (descriptor < 0) {
        // Without a descriptor left the one that waits would be told of again and again.
        if (errno == EMFILE || errno == ENFILE) end_the_oldest();
        return;
      }
      std::erase_if(connections, [](const auto& c) { return c.expired(); });
      std::erase_if(others.viewers, [](const auto& v) { return v.expired(); });
      if (connections.size() + others.viewers.size() >= kMostConnections && !end_the_oldest()) {
        close(descriptor);
        continue;
      }
      if (from.ss_family == AF_UNIX)
        setsockopt(descriptor, SOL_SOCKET, SO_SNDBUF, &kFileBufferBytes, sizeof(kFileBufferBytes));
      else
        setsockopt(descriptor, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kUnsentBytes, sizeof(kUnsentBytes));
      sockaddr_storage bound_to{};
      socklen_t size = sizeof(bound_to);
      getsockname(descriptor, reinterpret_cast<sockaddr*>(&bound_to), &size);
      asio::generic::stream_protocol::socket socket(
          context, asio::generic::stream_protocol(bound_to.ss_family, 0), descriptor);
      const auto connection = std::make_shared<Connection>(Stream(std::move(socket)),
                                                           address_of_peer(from), site, others);
      connections.push_back(connection);
      connection->start(tls ? &*tls : nullptr);
    }
  }

  /// Of those that are no WebSockets; false where there is none.
  bool end_the_oldest() {
    if (connections.empty()) return false;
    if (const auto oldest = connections.front().lock()) oldest->end();
    connections.pop_front();
    return true;
  }

  void turn_later(asio::steady_timer& timer, std::chrono::milliseconds period,
                  std::function<void()> turn) {
    timer.expires_after(period);
    timer.async_wait([this, &timer, period, turn = std::move(turn)](error_code error) {
      if (error) return;
      turn();
      turn_later(timer, period, turn);
    });
  }

  Site& site;
  asio::io_context context{1};
  std::optional<asio::ssl::context> tls;  ///< of the connections from now on
  Listener bound;
  asio::posix::stream_descriptor listener;
  std::list<std::weak_ptr<Connection>> connections;  ///< the oldest first
  Connection::Others others;
  std::list<asio::steady_timer> timers;
};

Server::Server(const std::string& listen, Site& site)
    : parts_(std::make_unique<Parts>(listen, site)) {
  parts_->accept();
}

Server::~Server() = default;

const std::string& Server::address() const noexcept {
  return parts_->bound.address;
}

void Server::speak_tls(const TlsContext& context) {
  SSL_CTX* const settings = context.settings.get();
  SSL_CTX_up_ref(settings);
  parts_->tls.emplace(settings);
}

void Server::every(std::chrono::milliseconds period, std::function<void()> turn) {
  parts_->turn_later(parts_->timers.emplace_back(parts_->context), period, std::move(turn));
}

void Server::run() {
  parts_->context.run();
}

void Server::stop() {
  parts_->context.stop();
}

}  // namespace driftd::web
