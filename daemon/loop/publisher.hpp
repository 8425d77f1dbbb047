// SPDX-License-Identifier: MIT
// The publisher: one thread that owns the PUB sockets, takes frame records from the loop and texts
// from housekeeping, and sends them. It stands between the loop and ZeroMQ because zmq_send()
// allocates, locks and was seen to take 35 ms once; the loop only fills a slot and wakes it. Every
// correction passes the Outlet of its lock on its way out.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "base/monotonic.hpp"
#include "base/process/latency_histogram.hpp"
#include "base/process/latest_value.hpp"
#include "base/process/spsc_queue.hpp"
#include "daemon/loop/loop_values.hpp"
#include "daemon/loop/outlet.hpp"
#include "daemon/loop/record_feed.hpp"
#include "daemon/wire/publish_socket.hpp"
#include "daemon/wire/text_message.hpp"
#include "daemon/wire/wire_context.hpp"

namespace driftd::daemon {

struct PublisherSettings {
  config::Endpoints endpoints;
  /// Messages kept for a subscriber that is slow, two seconds' at 500 frames/s; further ones are
  /// dropped for it.
  int send_queue_messages = 1000;
  std::string session;            ///< 16 hex digits
  config::Endpoints corrections;  ///< on a socket of their own
  /// Few: what a driver finds that stood still for a while, oldest first.
  int queued_corrections = 4;
  Clock clock = monotonic_ns;
};

class Publisher {
 public:
  /// Binds. @throws SocketError
  Publisher(WireContext& wire, const PublisherSettings& settings);
  ~Publisher();
  Publisher(const Publisher&) = delete;
  Publisher& operator=(const Publisher&) = delete;

  /// Starts the thread; `on_thread_start` runs on it first (scheduling).
  /// @param on_sent  called by its thread when what the loop handed over has been sent; no throw
  void start(std::function<void()> on_thread_start, std::function<void()> on_sent = {});
  /// Whom to tell what became of each result, where it is wanted. Before start().
  void set_feed(std::shared_ptr<RecordFeed> feed) { feed_ = std::move(feed); }
  /// Sends what is queued and ends the thread; idempotent.
  void stop() noexcept;

  // Tracking loop.
  /// Queues a result for sending. False when the queue is full: the result is not taken.
  bool hand_over(const FrameResult& result) noexcept;
  /// True when what was handed over does not leave in time: the queue is full, or a result has
  /// expired in it or on its way.
  bool is_behind(std::int64_t now_ns) noexcept;
  /// Something that was handed over has not been sent yet.
  bool is_sending() const noexcept { return done_.load(std::memory_order_acquire) < handed_; }
  Outlet& outlet(AxisGroup group) noexcept { return group == AxisGroup::Axial ? z_ : xy_; }
  // The outlet's, of x and y.
  using Sent = Outlet::Sent;
  std::uint64_t broken() const noexcept { return xy_.broken(); }
  Sent last_sent(std::uint64_t lock_id) noexcept { return xy_.last_sent(lock_id); }

  // Housekeeping.
  CorrectionGate& gate(AxisGroup group = AxisGroup::Lateral) noexcept {
    return outlet(group).gate();
  }
  /// Queues a message. False when the queue is full (the publisher stands still or is too slow):
  /// the message is not taken.
  bool send(TextMessage message);
  /// Corrections of both locks that did not leave: see Outlet.
  std::uint64_t withheld() const noexcept { return xy_.withheld() + z_.withheld(); }
  std::uint64_t expired() const noexcept { return xy_.expired() + z_.expired(); }
  std::uint64_t refused() const noexcept { return xy_.refused() + z_.refused(); }
  /// Heartbeat: grows with every message.
  std::uint64_t sent() const noexcept { return sent_.load(std::memory_order_relaxed); }
  /// Makes the thread look at its socket (subscriptions) without a message.
  void poke() noexcept { wake(); }
  bool idle() const noexcept { return frames_.empty() && texts_.empty(); }
  /// Whether all that was handed over and sent so far, pokes too, has been dealt with.
  bool settled() const noexcept {
    return dealt_with_.load(std::memory_order_acquire) == signal_.load(std::memory_order_acquire);
  }
  /// True once somebody has subscribed to a topic that `position` begins with.
  bool has_subscriber() const noexcept { return subscribed_.load(std::memory_order_relaxed); }
  /// The same for `correction`, and for `axial`.
  bool has_driver(AxisGroup group = AxisGroup::Lateral) const noexcept {
    return has_driver_[static_cast<std::size_t>(group)].load(std::memory_order_relaxed);
  }
  const LatencyHistogram& total_latency() const noexcept { return total_; }
  const LatencyHistogram& publish_latency() const noexcept { return publish_; }

 private:
  /// 128 ms at 500 frames/s; older ones could not leave anyway.
  static constexpr std::size_t kFrameSlots = 64;

  void run() noexcept;
  void publish_frames();
  void publish(const FrameResult& result);
  bool send_correction(const FrameResult& result);
  bool send_axial(const FrameResult& result);
  void publish(const TextMessage& message);
  void wake() noexcept;

  PublishSocket socket_;  ///< all but corrections
  PublishSocket corrections_;
  std::string session_;
  Clock clock_;
  SpscQueue<FrameResult> frames_;
  SpscQueue<TextMessage> texts_;
  Outlet xy_, z_;
  LatencyHistogram total_, publish_;
  std::uint64_t sequence_[4] = {};
  std::atomic<int> signal_{0};
  std::atomic<int> dealt_with_{0};  ///< the signal that the thread waits behind
  std::atomic<bool> stopping_{false};
  std::atomic<bool> subscribed_{false};
  std::array<std::atomic<bool>, kAxisGroups> has_driver_{};
  // The loop's: when each result that is under way expires, and what it has been told.
  std::array<std::int64_t, 2 * kFrameSlots> expiries_{};
  std::uint64_t handed_ = 0;
  std::uint64_t seen_late_ = 0;
  std::atomic<std::uint64_t> done_{0};
  std::atomic<std::uint64_t> late_{0};
  std::atomic<std::uint64_t> sent_{0};
  std::function<void()> on_sent_;
  std::shared_ptr<RecordFeed> feed_;
  std::thread thread_;
};

}  // namespace driftd::daemon
