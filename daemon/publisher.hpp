// SPDX-License-Identifier: MIT
// The publisher: one thread that owns the PUB socket, takes frame records from the loop and texts
// from housekeeping, and sends them. It stands between the loop and ZeroMQ because zmq_send()
// allocates, locks and was seen to take 35 ms once; the loop only fills a slot and wakes it. Every
// correction passes the CorrectionGate and an age limit on its way out.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "daemon/correction_gate.hpp"
#include "daemon/latency_histogram.hpp"
#include "daemon/latest_value.hpp"
#include "daemon/records.hpp"
#include "daemon/spsc_queue.hpp"

namespace driftd::daemon {

/// A socket that cannot be bound: the text names the endpoint and the reason.
struct SocketError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct PublisherSettings {
  std::string endpoint;
  int send_queue_messages = 1000;
  std::string session;  ///< 16 hex digits
};

/// A message of housekeeping's: `json` is the object's text without `v`, `seq`, `session` and
/// braces.
struct TextMessage {
  enum class Topic : std::uint8_t { Markers, Status, Event } topic = Topic::Event;
  std::string fields;
};

class Publisher {
 public:
  /// Binds. @throws SocketError
  explicit Publisher(const PublisherSettings& settings);
  ~Publisher();
  Publisher(const Publisher&) = delete;
  Publisher& operator=(const Publisher&) = delete;

  /// Starts the thread; `on_thread_start` runs on it first (scheduling).
  void start(std::function<void()> on_thread_start);
  /// Sends what is queued and ends the thread; idempotent.
  void stop() noexcept;

  // Tracking loop.
  /// False, with nothing taken, when the queue is full.
  bool hand_over(const FrameRecord& record) noexcept;
  bool busy() const noexcept { return frames_.full(); }
  /// Corrections withheld because they came too late to leave.
  std::uint64_t stale_corrections() const noexcept {
    return stale_corrections_.load(std::memory_order_relaxed);
  }
  /// The newest correction that did leave for this lock; zero when none has.
  control::Vec2 last_sent_total_nm(std::uint64_t lock_id) noexcept;

  // Housekeeping.
  CorrectionGate& gate() noexcept { return gate_; }
  /// False when the queue is full (the publisher does not get on): the message is not taken.
  bool send(TextMessage message);
  std::uint64_t withheld() const noexcept { return withheld_.load(std::memory_order_relaxed); }
  /// Heartbeat: grows with every message.
  std::uint64_t sent() const noexcept { return sent_.load(std::memory_order_relaxed); }
  /// Makes the thread look at its socket (subscriptions) without a message.
  void poke() noexcept { wake(); }
  bool idle() const noexcept { return frames_.empty() && texts_.empty(); }
  /// True once somebody has subscribed to a topic that `position` begins with.
  bool has_subscriber() const noexcept { return subscribed_.load(std::memory_order_relaxed); }
  const LatencyHistogram& total_latency() const noexcept { return total_; }
  const LatencyHistogram& publish_latency() const noexcept { return publish_; }

 private:
  struct Sent {
    std::uint64_t lock_id = 0;
    control::Vec2 total_nm;
  };
  class Socket;

  void run() noexcept;
  void publish(const FrameRecord& record);
  void publish(const TextMessage& message);
  void wake() noexcept;

  std::unique_ptr<Socket> socket_;
  std::string session_;
  SpscQueue<FrameRecord> frames_;
  SpscQueue<TextMessage> texts_;
  CorrectionGate gate_;
  LatestValue<Sent> last_sent_;
  LatencyHistogram total_, publish_;
  std::uint64_t sequence_[5] = {};
  std::atomic<int> signal_{0};
  std::atomic<bool> stopping_{false};
  std::atomic<bool> subscribed_{false};
  std::atomic<std::uint64_t> stale_corrections_{0};
  std::atomic<std::uint64_t> withheld_{0};
  std::atomic<std::uint64_t> sent_{0};
  std::thread thread_;
};

}  // namespace driftd::daemon
