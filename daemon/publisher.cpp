// SPDX-License-Identifier: MIT
#include "daemon/publisher.hpp"

#include <array>
#include <string_view>
#include <zmq.hpp>

#include "daemon/clock.hpp"
#include "daemon/messages.hpp"

namespace driftd::daemon {
namespace {

constexpr std::size_t kFrameSlots =
    64;  // 128 ms at 500 frames/s; older ones could not leave anyway
constexpr std::size_t kTextSlots = 256;
/// More than any topic. Without a limit libzmq allocates whatever length a peer announces.
constexpr std::int64_t kMaxSubscriptionBytes = 4096;
enum Sequence : std::size_t { Position, Correction, Markers, Status, Event };
constexpr std::array<std::string_view, 3> kTextTopics = {"markers", "status", "event"};

}  // namespace

/// XPUB: a PUB socket that tells of subscriptions, so that a recording can wait for its reader.
class Publisher::Socket {
 public:
  explicit Socket(const PublisherSettings& settings) : xpub_(context_, zmq::socket_type::xpub) {
    xpub_.set(zmq::sockopt::sndhwm, settings.send_queue_messages);
    xpub_.set(zmq::sockopt::maxmsgsize, kMaxSubscriptionBytes);
    xpub_.set(zmq::sockopt::linger, 500);
    try {
      xpub_.bind(settings.endpoint);
    } catch (const zmq::error_t& error) {
      throw SocketError("wire.publish: cannot bind " + settings.endpoint + ": " + error.what());
    }
  }
  void send(std::string_view text) {
    // Never blocks: an XPUB socket drops for the subscriber whose queue is full.
    xpub_.send(zmq::buffer(text), zmq::send_flags::dontwait);
  }
  /// Takes what subscribers said; true when one wants positions.
  bool take_subscriptions() {
    bool wants_positions = false;
    zmq::message_t message;
    while (xpub_.recv(message, zmq::recv_flags::dontwait)) {
      const std::string_view text = message.to_string_view();
      wants_positions |= !text.empty() && text[0] == 1 &&
                         std::string_view("position ").substr(0, text.size() - 1) == text.substr(1);
    }
    return wants_positions;
  }

 private:
  zmq::context_t context_{1};
  zmq::socket_t xpub_;
};

Publisher::Publisher(const PublisherSettings& settings)
    : socket_(std::make_unique<Socket>(settings)),
      session_(settings.session),
      frames_(kFrameSlots),
      texts_(kTextSlots) {}

Publisher::~Publisher() {
  stop();
}

void Publisher::start(std::function<void()> on_thread_start) {
  thread_ = std::thread([this, on_start = std::move(on_thread_start)] {
    if (on_start) on_start();
    run();
  });
}

void Publisher::stop() noexcept {
  stopping_.store(true);
  wake();
  if (thread_.joinable()) thread_.join();
}

void Publisher::wake() noexcept {
  signal_.fetch_add(1, std::memory_order_release);
  signal_.notify_one();
}

bool Publisher::hand_over(const FrameRecord& record) noexcept {
  const bool taken = frames_.push(record);
  wake();
  return taken;
}

bool Publisher::send(TextMessage message) {
  const bool taken = texts_.push(std::move(message));
  wake();
  return taken;
}

control::Vec2 Publisher::last_sent_total_nm(std::uint64_t lock_id) noexcept {
  last_sent_.refresh();
  const Sent& sent = last_sent_.reading();
  return sent.lock_id == lock_id ? sent.total_nm : control::Vec2{};
}

void Publisher::run() noexcept {
  FrameRecord record;
  TextMessage message;
  for (;;) {
    const int seen = signal_.load(std::memory_order_acquire);
    const bool last_round = stopping_.load();
    if (socket_->take_subscriptions()) subscribed_.store(true, std::memory_order_relaxed);
    while (frames_.pop(record)) publish(record);
    while (texts_.pop(message)) {
      publish(message);
      while (frames_.pop(record)) publish(record);
    }
    if (last_round) return;
    signal_.wait(seen, std::memory_order_acquire);
  }
}

void Publisher::publish(const FrameRecord& record) {
  MessageBuffer buffer;
  if (record.has_correction) {
    const bool fresh = monotonic_ns() <= record.expires_ns;
    const bool sent = fresh && gate_.pass(record.lock_id, [&] {
      socket_->send(
          format_correction(buffer, sequence_[Correction]++, session_, record, monotonic_ns()));
    });
    if (sent) {
      last_sent_.writing() = {record.lock_id, record.correction.total_nm};
      last_sent_.publish();
    } else if (fresh) {
      withheld_.fetch_add(1, std::memory_order_relaxed);
    } else {
      stale_corrections_.fetch_add(1, std::memory_order_relaxed);
    }
  }
  const std::int64_t corrected_ns = monotonic_ns();
  socket_->send(format_position(buffer, sequence_[Position]++, session_, record));
  const std::int64_t done_ns = record.has_correction ? corrected_ns : monotonic_ns();
  publish_.record(done_ns - record.handed_ns);
  total_.record(done_ns - record.arrival_ns);
  sent_.fetch_add(1, std::memory_order_relaxed);
}

void Publisher::publish(const TextMessage& message) {
  const auto topic = static_cast<std::size_t>(message.topic);
  std::string text(kTextTopics[topic]);
  text += R"( {"v":1,"seq":)" + std::to_string(sequence_[Markers + topic]++) + R"(,"session":")" +
          session_ + "\"," + message.fields + "}";
  socket_->send(text);
  sent_.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace driftd::daemon
