// SPDX-License-Identifier: MIT
#include "daemon/loop/publisher.hpp"

#include <array>
#include <string_view>

#include "base/monotonic.hpp"
#include "daemon/loop/messages.hpp"

namespace driftd::daemon {
namespace {

constexpr std::size_t kTextSlots = 256;
enum Sequence : std::size_t { Position, Markers, Status, Event };
constexpr std::array<std::string_view, 3> kTextTopics = {"markers", "status", "event"};
constexpr std::array<std::string_view, 4> kTopics = {"position", "markers", "status", "event"};
/// Of x and y, and of z: in the order of AxisGroup.
constexpr std::array<std::string_view, kAxisGroups> kCorrectionTopics = {"correction", "axial"};

}  // namespace

Publisher::Publisher(WireContext& wire, const PublisherSettings& settings)
    : socket_(wire, {.key = "wire.publish",
                     .domain = "publish",
                     .endpoints = settings.endpoints,
                     .queue_messages = settings.send_queue_messages,
                     .topics = kTopics}),
      corrections_(wire, {.key = "wire.corrections",
                          .domain = "corrections",
                          .endpoints = settings.corrections,
                          .queue_messages = settings.queued_corrections,
                          .topics = kCorrectionTopics,
                          .few_unread = true}),
      session_(settings.session),
      clock_(settings.clock),
      frames_(kFrameSlots),
      texts_(kTextSlots) {}

Publisher::~Publisher() {
  stop();
}

void Publisher::start(std::function<void()> on_thread_start, std::function<void()> on_sent) {
  on_sent_ = std::move(on_sent);
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

bool Publisher::hand_over(const FrameResult& result) noexcept {
  const bool taken = frames_.push(result);
  if (taken) expiries_[handed_++ % expiries_.size()] = result.expires_ns;
  wake();
  return taken;
}

bool Publisher::is_behind(std::int64_t now_ns) noexcept {
  const std::uint64_t late = late_.load(std::memory_order_relaxed);
  const std::uint64_t done = done_.load(std::memory_order_acquire);
  const bool one_was_late = late != seen_late_;
  seen_late_ = late;
  const bool one_is_late = done < handed_ && expiries_[done % expiries_.size()] < now_ns;
  return one_was_late || one_is_late || frames_.full();
}

bool Publisher::send(TextMessage message) {
  const bool taken = texts_.push(std::move(message));
  wake();
  return taken;
}

void Publisher::run() noexcept {
  TextMessage message;
  for (;;) {
    const int seen = signal_.load(std::memory_order_acquire);
    const bool last_round = stopping_.load();
    publish_frames();
    while (texts_.pop(message)) {
      publish(message);
      publish_frames();
    }
    // Subscriptions come after what waits to leave, which they would delay by a few microseconds.
    corrections_.take_subscriptions();
    socket_.take_subscriptions();
    subscribed_.store(socket_.has_subscriber(), std::memory_order_relaxed);
    for (std::size_t group = 0; group < kAxisGroups; ++group)
      has_driver_[group].store(corrections_.has_subscriber(group), std::memory_order_relaxed);
    dealt_with_.store(seen, std::memory_order_release);
    if (last_round) return;
    signal_.wait(seen, std::memory_order_acquire);
  }
}

void Publisher::publish_frames() {
  FrameResult result;
  bool any = false;
  for (; frames_.pop(result); any = true) publish(result);
  if (any && on_sent_) on_sent_();
}

void Publisher::publish(const FrameResult& result) {
  const bool left = result.has_correction && send_correction(result);
  const bool z_left = result.z.has_correction && send_axial(result);
  const std::int64_t corrected_ns = clock_();
  MessageBuffer buffer;
  socket_.send(format_position(buffer, sequence_[Position]++, session_, result));
  const bool corrects = result.has_correction || result.z.has_correction;
  const std::int64_t done_ns = corrects ? corrected_ns : clock_();
  publish_.record(done_ns - result.handed_ns);
  total_.record(done_ns - result.arrival_ns);
  if (feed_ && feed_->wanted.load(std::memory_order_relaxed))
    feed_->sent.push({result.handed_ns, done_ns, left, z_left});
  if (done_ns > result.expires_ns) late_.fetch_add(1, std::memory_order_relaxed);
  done_.fetch_add(1, std::memory_order_release);
  sent_.fetch_add(1, std::memory_order_relaxed);
}

bool Publisher::send_correction(const FrameResult& result) {
  return xy_.pass(result, result, clock_, [&](std::uint64_t seq) {
    MessageBuffer buffer;
    corrections_.send(format_correction(buffer, seq, session_, result, clock_()));
  });
}

bool Publisher::send_axial(const FrameResult& result) {
  return z_.pass(result, result.z, clock_, [&](std::uint64_t seq) {
    MessageBuffer buffer;
    corrections_.send(format_axial(buffer, seq, session_, result, clock_()));
  });
}

void Publisher::publish(const TextMessage& message) {
  const auto topic = static_cast<std::size_t>(message.topic);
  std::string text(kTextTopics[topic]);
  text += R"( {"v":1,"seq":)" + std::to_string(sequence_[Markers + topic]++) + R"(,"session":")" +
          session_ + "\"," + message.fields + "}";
  socket_.send(text);
  sent_.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace driftd::daemon
