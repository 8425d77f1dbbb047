// SPDX-License-Identifier: MIT
// A WebSocket of a Server: what waits for it, in which order, and what its link takes. Private to
// server.cpp. All in its thread.
#pragma once

#include "clients/web/peer_stream.hpp"
// Before all else: see there.
#include <algorithm>
#include <boost/asio/steady_timer.hpp>
#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "base/monotonic.hpp"
#include "clients/web/picture_pace.hpp"
#include "clients/web/server.hpp"

namespace driftd::web {

namespace websocket = beast::websocket;

class ViewerSocket final : public Viewer, public std::enable_shared_from_this<ViewerSocket> {
 public:
  ViewerSocket(PeerStream stream, Site& site) : socket_(std::move(stream)), site_(site) {}
  ~ViewerSocket() override {
    if (opened_) site_.closed(*this);
  }
  ViewerSocket(const ViewerSocket&) = delete;
  ViewerSocket& operator=(const ViewerSocket&) = delete;

  template <class Fields>
  void accept(const Fields& fields, Request request) {
    beast::get_lowest_layer(socket_).expires_never();  // the WebSocket has its own time limits
    socket_.set_option(websocket::stream_base::timeout{.handshake_timeout = Server::kForHeader,
                                                       .idle_timeout = Server::kDeaf,
                                                       .keep_alive_pings = true});
    socket_.read_message_max(Server::kMostSaidBytes);
    socket_.auto_fragment(false);
    socket_.binary(true);
    socket_.control_callback([this](websocket::frame_type kind, beast::string_view text) {
      if (kind == websocket::frame_type::pong && text == std::to_string(pings_)) answered();
    });
    request_ = std::move(request);
    socket_.async_accept(fields, [self = shared_from_this()](error_code error) {
      if (error) return;
      self->opened_ = true;
      self->began_ns_ = self->later_ns_ = monotonic_ns();
      self->ping();
      self->site_.opened(*self, self->request_);
      self->read();
    });
  }

  void send(std::shared_ptr<const std::string> message, std::string_view slot) override {
    if (ended_) return;
    const bool replaces = !slot.empty() && slot != kHistory;
    std::deque<Waiting>& queue = slot.starts_with(kLater) ? later_ : waiting_;
    const auto found = std::ranges::find(queue, slot, &Waiting::slot);
    if (replaces && found != queue.end())
      found->message = std::move(message);
    else
      queue.push_back({std::string(slot), std::move(message)});
    if (slot == kPicture) picture_is_on_its_way_ = true;
    if (waiting_.size() + later_.size() > Server::kMostWaiting) return drop();
    if (now_.message == nullptr) begin_next();
  }

  std::optional<std::size_t> room_for_picture() const override {
    if (ended_ || picture_is_on_its_way_) return std::nullopt;
    return pace_.most_bytes();
  }

  void drop() override {
    ended_ = true;
    beast::get_lowest_layer(socket_).close();
  }

 private:
  struct Waiting {
    std::string slot;
    std::shared_ptr<const std::string> message;
  };

  void read() {
    socket_.async_read(said_, [self = shared_from_this()](error_code error, std::size_t) {
      if (error) return self->drop();
      const auto bytes = self->said_.cdata();
      const std::string text(static_cast<const char*>(bytes.data()), bytes.size());
      self->said_.consume(self->said_.size());
      if (!self->socket_.got_text() || !self->site_.heard(*self, text)) return self->drop();
      self->read();
    });
  }

  void begin_next() {
    constexpr std::int64_t kLaterEachNs = 2'000'000'000;
    const std::int64_t now_ns = monotonic_ns();
    now_ = {};
    if (ended_) return;
    const bool is_later =
        !later_.empty() && (waiting_.empty() || now_ns - later_ns_ >= kLaterEachNs);
    std::deque<Waiting>& from = is_later ? later_ : waiting_;
    if (is_later) later_ns_ = now_ns;
    if (from.empty()) return;
    now_ = std::move(from.front());
    from.pop_front();
    written_ = 0;
    if (now_.slot == kPicture) began_ns_ = now_ns;
    write();
  }

  /// Piece by piece, so that a link is deaf by what it takes and not by how long a message is.
  void write() {
    constexpr std::size_t kPieceBytes = std::size_t{32} * 1024;
    const std::size_t size = std::min(now_.message->size() - written_, kPieceBytes);
    const bool last = written_ + size == now_.message->size();
    deaf_.expires_after(Server::kDeaf);
    deaf_.async_wait([weak = weak_from_this()](error_code error) {
      const auto self = weak.lock();
      if (!error && self) self->drop();
    });
    socket_.async_write_some(
        last, asio::buffer(now_.message->data() + written_, size),
        [self = shared_from_this(), last](error_code error, std::size_t bytes) {
          self->deaf_.cancel();
          if (error) return self->drop();
          self->written_ += bytes;
          if (!last) return self->write();
          if (self->now_.slot == kPicture) self->ping_after_picture();
          self->begin_next();
        });
  }

  /// What is answered once all of before it has arrived, be it through a proxy.
  void ping() {
    const std::string text = std::to_string(++pings_);
    socket_.async_ping(websocket::ping_data(text.c_str()),
                       [self = shared_from_this()](error_code error) {
                         if (error) self->drop();
                       });
  }

  void ping_after_picture() {
    picture_bytes_ = now_.message->size();
    ping();
    picture_ping_ = pings_;
  }

  void answered() {
    const std::int64_t now_ns = monotonic_ns();
    if (picture_ping_ == pings_) {
      pace_.took(picture_bytes_, now_ns - began_ns_, now_ns);
      picture_is_on_its_way_ = false;
    } else if (!picture_is_on_its_way_) {
      pace_.set_way_ns(now_ns - began_ns_);
    }
  }

  websocket::stream<PeerStream> socket_;
  Site& site_;
  asio::steady_timer deaf_{socket_.get_executor()};
  Request request_;
  beast::flat_buffer said_;
  std::deque<Waiting> waiting_, later_;
  Waiting now_;  ///< on its way; without a message: none is
  std::size_t written_ = 0;
  std::int64_t later_ns_ = 0;  ///< when one of those that wait for the others went last
  PicturePace pace_;
  std::uint64_t pings_ = 0, picture_ping_ = 0;  ///< the last one, and that after the last picture
  std::int64_t began_ns_ = 0;                   ///< the picture, or the ping before all
  std::size_t picture_bytes_ = 0;
  bool picture_is_on_its_way_ = false;  ///< until the ping after it was answered
  bool opened_ = false, ended_ = false;
};

}  // namespace driftd::web
