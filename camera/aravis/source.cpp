// SPDX-License-Identifier: MIT
// The Aravis source. Threads: Aravis' stream thread puts complete frames into the connection's
// mailbox; the tracking loop takes them in pop(), which touches nothing of Aravis or GLib; the
// supervisor watches the connection and makes it anew; the reaper closes lost ones.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <limits>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/monotonic.hpp"
#include "camera/aravis/connection.hpp"
#include "camera/aravis/gvcp_probe.hpp"
#include "camera/aravis/reaper.hpp"

namespace driftd::camera {
namespace {

using aravis::Connection;
using std::chrono::milliseconds;

/// An absent camera is asked for this often; a probe is one packet of 8 bytes.
constexpr milliseconds kProbeInterval{50};
/// A camera that is still there gets this long to close the old session before a new one starts.
constexpr milliseconds kCloseTime{1000};
/// The rate of the camera's clock is asked for so long after the loop wanted to know it.
constexpr std::int64_t kClockWantedNs = 2 * kNanosecondsPerSecond;
/// How often its temperature is asked for.
constexpr std::int64_t kTemperatureNs = 20 * kNanosecondsPerSecond;
/// How long the camera is left alone after it refused to set its line.
constexpr std::int64_t kLineAgainNs = kNanosecondsPerSecond;
/// Likewise after it refused another frame rate; and the longest time that it is slower.
constexpr std::int64_t kRateAgainNs = kNanosecondsPerSecond,
                       kLongestSlowNs = 20 * kNanosecondsPerSecond;
constexpr std::size_t kEventsKept = 256;
/// One buffer in the mailbox, one with the loop, one being filled, one ready.
constexpr int kFewestBuffers = 4;

void require(bool fulfilled, const std::string& message) {
  if (!fulfilled) throw CameraError("camera settings: " + message);
}

void validate(const AravisSettings& s) {
  require(
      s.region_x_px >= 0 && s.region_y_px >= 0 && s.region_width_px >= 0 && s.region_height_px >= 0,
      "the region must not be negative");
  require(std::isfinite(s.exposure_us) && s.exposure_us > 0, "exposure_us must be above 0");
  require(std::isfinite(s.gain_db), "gain_db must be a number");
  require(std::isfinite(s.frame_rate_hz) && s.frame_rate_hz >= 0,
          "frame_rate_hz must not be negative");
  require(s.trigger != Trigger::HardwareLine || !s.trigger_line.empty(),
          "a hardware trigger needs trigger_line");
  require(s.trigger != Trigger::Software || s.frame_rate_hz > 0,
          "a software trigger needs frame_rate_hz: it is sent at that rate");
  require(s.packet_size_bytes == 0 || (s.packet_size_bytes >= 220 && s.packet_size_bytes <= 16384),
          "packet_size_bytes must be 0 (automatic) or 220 to 16384");
  require(s.socket_buffer_bytes > 0, "socket_buffer_bytes must be above 0");
  // Below 1000 us Aravis' stream thread polls without waiting and loses half of the frames.
  require(s.packet_timeout_us >= 1000, "packet_timeout_us must be at least 1000");
  require(s.frame_retention_us >= s.packet_timeout_us,
          "frame_retention_us must be at least packet_timeout_us");
  require(s.buffers >= kFewestBuffers && s.buffers <= 1024, "buffers must be 4 to 1024");
  require(s.stall_timeout_ms > 0, "stall_timeout_ms must be above 0");
  require(s.reconnect_min_ms > 0 && s.reconnect_max_ms >= s.reconnect_min_ms,
          "reconnect_min_ms must be above 0 and at most reconnect_max_ms");
  require(s.heartbeat_timeout_ms >= 500, "heartbeat_timeout_ms must be at least 500");
}

class AravisSource final : public FrameSource {
 public:
  explicit AravisSource(const AravisSettings& settings)
      : shared_(settings), probed_(settings.id), probe_(std::in_place, probed_) {}

  ~AravisSource() override { stop(); }

  void start() override {
    if (supervisor_.joinable()) return;
    reaper_.emplace([this](const Connection* connection) { return in_use_ == connection; });
    try {
      connect(false);
    } catch (const CameraError& error) {
      if (!shared_.settings.start_without_camera) throw;
      add_event(SourceEvent::Kind::ReconnectFailed, error.what());
    }
    stopping_ = false;
    supervisor_ = std::thread([this] { supervise(); });
  }

  void stop() noexcept override {
    if (supervisor_.joinable()) {
      {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
      }
      wake_.notify_all();
      supervisor_.join();
    }
    retract();
    in_use_ = held_ = nullptr;
    lent_ = nullptr;
    if (connection_) {
      poll_statistics();
      const bool there = may_answer();
      if (there) leave_in_order();
      reaper_->take(std::move(connection_), there);
    }
    reaper_.reset();
  }

  PopStatus pop(std::chrono::microseconds timeout, Frame& frame) noexcept override {
    const std::int64_t deadline_ns =
        monotonic_ns() + std::chrono::nanoseconds(std::max(timeout, timeout.zero())).count();
    for (;;) {
      const bool had_connection = held_ != nullptr;
      Connection* connection = use_offered();
      if (connection == nullptr && had_connection) return PopStatus::Disconnected;
      if (connection != nullptr) {
        if (aravis::FrameSlot* slot = connection->mailbox().take(lent_)) {
          lent_ = slot;
          frame = slot->frame;
          frames_.fetch_add(1, std::memory_order_relaxed);
          nudged_.store(false, std::memory_order_relaxed);
          return PopStatus::Frame;
        }
        if (nudged_.exchange(false, std::memory_order_relaxed)) return PopStatus::Timeout;
      }
      if (!shared_.doorbell.wait_until(deadline_ns)) {
        return offered_ != nullptr ? PopStatus::Timeout : PopStatus::Disconnected;
      }
    }
  }

  void nudge() noexcept override {
    nudged_.store(true, std::memory_order_relaxed);
    shared_.doorbell.ring();
  }

  bool rest(std::chrono::microseconds most) noexcept override {
    const auto has_news = [this] {
      return offered_ != held_ || held_ == nullptr || held_->mailbox().has_fresh();
    };
    const std::int64_t deadline_ns = monotonic_ns() + std::chrono::nanoseconds(most).count();
    while (!nudged_.load(std::memory_order_relaxed) && !has_news()) {
      if (most.count() <= 0 || !shared_.doorbell.wait_until(deadline_ns)) break;
    }
    return has_news();
  }

  /// The supervisor is woken without its mutex, so that it may take notice as late as it looks at
  /// the connection anyhow: 50 ms.
  void set_in_lock(bool in_lock) noexcept override {
    in_lock_.store(in_lock, std::memory_order_relaxed);
    wake_.notify_all();
  }

  void set_slowness(double share) noexcept override {
    slowness_.store(share, std::memory_order_relaxed);
    wake_.notify_all();
  }

  std::uint64_t order_exposure(const ExposureOrder& order) override {
    std::uint64_t number = 0;
    {
      const std::lock_guard lock(mutex_);
      exposure_ = order;
      number = ++exposure_orders_;
    }
    wake_.notify_all();
    return number;
  }

  ClockRate clock_rate(bool wanted) noexcept override {
    if (wanted) clock_wanted_ns_.store(monotonic_ns(), std::memory_order_relaxed);
    return clock_rate_.load(std::memory_order_relaxed);
  }

  SourceCounters counters() const noexcept override {
    SourceCounters counters;
    counters.frames = frames_.load(std::memory_order_relaxed);
    counters.superseded = shared_.superseded.load(std::memory_order_relaxed);
    counters.lost = shared_.lost.load(std::memory_order_relaxed);
    counters.incomplete = shared_.incomplete.load(std::memory_order_relaxed);
    counters.underruns = underruns_.load(std::memory_order_relaxed);
    counters.missing_packets = missing_packets_.load(std::memory_order_relaxed);
    counters.resent_packets = resent_packets_.load(std::memory_order_relaxed);
    counters.disconnects = disconnects_.load(std::memory_order_relaxed);
    counters.reconnects = reconnects_.load(std::memory_order_relaxed);
    counters.connected = offered_ != nullptr;
    counters.temperature_c = temperature_c_.load(std::memory_order_relaxed);
    return counters;
  }

  SourceInfo info() const override {
    const std::lock_guard lock(mutex_);
    return info_;
  }

  std::vector<SourceEvent> take_events() override {
    const std::lock_guard lock(mutex_);
    std::vector<SourceEvent> events(std::make_move_iterator(events_.begin()),
                                    std::make_move_iterator(events_.end()));
    events_.clear();
    return events;
  }

 private:
  // ---- the tracking loop's side of the hand-over ----

  /// The connection on offer, announced as in use so that its memory stays (a hazard pointer). What
  /// was in use before is let go, the frame lent from it included.
  Connection* use_offered() noexcept {
    Connection* offered = offered_;
    if (offered == held_) return held_;
    lent_ = nullptr;
    for (;;) {
      in_use_ = offered;
      Connection* still = offered_;  // retracted before the announcement was seen?
      if (still == offered) break;
      offered = still;
    }
    held_ = offered;
    return held_;
  }

  // ---- connecting; start() and then the supervisor ----

  /// @param search  the camera is not where it was: look for its serial number on the network
  void connect(bool search) {
    aravis::OpenCamera opened = !identity_ ? aravis::open_camera(shared_.settings.id)
                                : search   ? aravis::open_camera(identity_->serial)
                                           : aravis::open_again(*identity_);
    const aravis::Identity identity = opened.identity;
    if (probed_ != identity.open_by) {
      probed_ = identity.open_by;
      probe_.emplace(probed_);
      probe_works_ = false;
    }
    aravis::require_control(opened);
    connection_ = std::make_unique<Connection>(std::move(opened), shared_);
    identity_ = identity;
    probe_answers();
    counted_ = {};
    {
      const std::lock_guard lock(mutex_);
      const std::uint64_t before = info_.connection;
      const std::uint64_t order = info_.exposure_order;
      const std::string problem = info_.exposure_problem;
      info_ = connection_->info();
      info_.exposure_order = order;
      info_.exposure_problem = problem;
      info_.connection = before + 1;
      if (before > 0) ++reconnects_;
    }
    add_event(SourceEvent::Kind::Connected, "connected to " + connection_->info().description);
    next_trigger_ns_ = monotonic_ns();
    line_is_high_ = false;
    next_line_ns_ = 0;
    has_slowness_ = obeyed_slowness_ = 0;
    next_rate_ns_ = 0;
    temperature_c_ = connection_->temperature_c();
    next_temperature_ns_ = monotonic_ns() + kTemperatureNs;
    offered_ = connection_.get();
    shared_.doorbell.ring();
  }

  bool probe_answers() noexcept {
    const bool answers = probe_->answered(kProbeInterval);
    probe_works_ = probe_works_ || answers;
    return answers;
  }

  void retract() noexcept {
    offered_ = nullptr;
    shared_.doorbell.ring();
  }

  void poll_statistics() noexcept {
    const aravis::StreamStatistics now = connection_->statistics();
    underruns_ += now.underruns - counted_.underruns;
    missing_packets_ += now.missing_packets - counted_.missing_packets;
    resent_packets_ += now.resent_packets - counted_.resent_packets;
    counted_ = now;
  }

  void lose(const std::string& why) {
    clock_rate_ = ClockRate{};
    retract();
    poll_statistics();
    ++disconnects_;
    add_event(SourceEvent::Kind::Disconnected,
              "lost " + connection_->info().description + ": " + why);
    const aravis::KnownPackets packets = connection_->packets();
    shared_.packets.fit = packets.fit;
    shared_.packets.do_not_fit = shared_.packets.do_not_fit || packets.do_not_fit;
    const bool there = probe_answers();
    if (there) leave_in_order();
    reaper_->take(std::move(connection_), there);
    // A camera that answers ends the old session in milliseconds, and refuses a new one until then.
    if (there) reaper_->wait_until_closed(kCloseTime);
  }

  // ---- the supervisor ----

  void supervise() {
    milliseconds backoff = first_backoff();
    while (!sleep_for(milliseconds(0))) {
      if (connection_) {
        watch();
        backoff = first_backoff();
      } else {
        reconnect(backoff);
      }
    }
  }

  void watch() {
    const std::int64_t watch_ns =
        std::clamp(shared_.settings.stall_timeout_ms / 5, 2, 50) * std::int64_t{1'000'000};
    const bool triggering = shared_.settings.trigger == Trigger::Software;
    const std::int64_t until_trigger_ns = next_trigger_ns_ - monotonic_ns();
    if (sleep_for(std::chrono::nanoseconds(triggering ? std::min(watch_ns, until_trigger_ns)
                                                      : watch_ns))) {
      return;
    }
    std::string why;
    if (triggering && monotonic_ns() >= next_trigger_ns_) why = send_trigger();
    poll_statistics();
    const std::int64_t now_ns = monotonic_ns();
    if (why.empty()) why = connection_->loss(now_ns);
    if (why.empty())
      clock_rate_ = connection_->clock_rate(now_ns, now_ns - clock_wanted_ns_ < kClockWantedNs);
    if (!why.empty()) return lose(why);
    if (line_is_due(now_ns)) tell_line(now_ns);
    if (rate_is_due(now_ns)) change_rate(now_ns);
    adjust_exposure();
    if (!connection_) return;
    if (connection_->heartbeat_is_due(now_ns) && may_answer()) connection_->keep_control(now_ns);
    if (now_ns >= next_temperature_ns_) ask_temperature(now_ns);
  }

  /// Under the mutex.
  [[nodiscard]] bool exposure_is_due() const noexcept {
    return connection_ && exposure_orders_ != info_.exposure_order;
  }

  void adjust_exposure() {
    ExposureOrder order;
    std::uint64_t number = 0;
    {
      const std::lock_guard lock(mutex_);
      if (!exposure_is_due()) return;
      order = exposure_;
      number = exposure_orders_;
    }
    AravisSettings wanted = shared_.settings;
    wanted.exposure_us = order.exposure_us.value_or(wanted.exposure_us);
    wanted.gain_db = order.gain_db.value_or(wanted.gain_db);
    std::string problem = "the camera does not answer";
    try {
      if (may_answer()) {
        restore_rate();
        problem = connection_->adjust_exposure(wanted, order);
        keep_exposure(wanted, order, problem.empty());
      }
    } catch (const CameraError& error) {
      // What it exposes with is not known: connected anew it is set to what it had before.
      problem = error.what();
      lose(problem);
    }
    const std::lock_guard lock(mutex_);
    if (connection_) {
      const SourceInfo& now = connection_->info();
      info_.exposure_us = now.exposure_us;
      info_.exposure_range_us = now.exposure_range_us;
      info_.gain_db = now.gain_db;
      info_.gain_range_db = now.gain_range_db;
      info_.frame_rate_hz = now.frame_rate_hz;
    }
    info_.exposure_order = number;
    info_.exposure_problem = std::move(problem);
  }

  /// What the camera took of an order, it is given again when it is connected again.
  void keep_exposure(const AravisSettings& wanted, const ExposureOrder& order, bool as_ordered) {
    const SourceInfo& took = connection_->info();
    if (order.exposure_us)
      shared_.settings.exposure_us = as_ordered ? wanted.exposure_us : took.exposure_us;
    if (order.gain_db && (as_ordered || !std::isnan(took.gain_db)))
      shared_.settings.gain_db = as_ordered ? wanted.gain_db : took.gain_db;
  }

  [[nodiscard]] bool line_is_due(std::int64_t now_ns) const noexcept {
    return connection_ && connection_->has_output() && now_ns >= next_line_ns_ &&
           in_lock_.load(std::memory_order_relaxed) != line_is_high_;
  }

  /// Before the connection ends: nobody sets line and frame rate afterwards.
  void leave_in_order() noexcept {
    if (line_is_high_ != false) connection_->set_output(false);
    restore_rate();
  }

  void restore_rate() noexcept {
    if (has_slowness_ != 0 && connection_->set_slowness(0).empty()) has_slowness_ = 0;
  }

  [[nodiscard]] bool is_slow_too_long(std::int64_t now_ns) const noexcept {
    return has_slowness_ != 0 && now_ns - slow_since_ns_ > kLongestSlowNs;
  }

  [[nodiscard]] bool rate_is_due(std::int64_t now_ns) const noexcept {
    return connection_ && now_ns >= next_rate_ns_ &&
           (slowness_.load(std::memory_order_relaxed) != obeyed_slowness_ ||
            is_slow_too_long(now_ns));
  }

  /// A camera that refuses to be slower stays as it is; one that refuses to be as configured again
  /// is told again.
  void change_rate(std::int64_t now_ns) {
    next_rate_ns_ = now_ns + kRateAgainNs;
    if (!connection_->info().rate_can_change || !may_answer()) return;
    const double wish = slowness_.load(std::memory_order_relaxed);
    const double share = is_slow_too_long(now_ns) ? 0 : wish;
    const std::string why = connection_->set_slowness(share);
    if (!why.empty())
      add_event(SourceEvent::Kind::Note, "the camera does not change its frame rate" +
                                             std::string(share > 0 ? ": " : " back: ") + why);
    if (!why.empty() && share == 0) return;
    if (why.empty()) has_slowness_ = share;
    obeyed_slowness_ = wish;
    slow_since_ns_ = now_ns;
    next_rate_ns_ = 0;
  }

  /// A camera that did not answer may have obeyed all the same.
  void tell_line(std::int64_t now_ns) {
    if (!line_is_due(now_ns)) return;
    next_line_ns_ = now_ns + kLineAgainNs;
    if (!may_answer()) return;
    const bool high = in_lock_.load(std::memory_order_relaxed);
    const std::string why = connection_->set_output(high);
    if (why.empty()) {
      line_is_high_ = high;
      next_line_ns_ = 0;
      return;
    }
    line_is_high_.reset();
    add_event(SourceEvent::Kind::Note, "the camera's " + shared_.settings.in_lock_line +
                                           " is not set to " + (high ? "high: " : "low: ") + why);
  }

  /// False where the camera is known to be away: its missing answer would take seconds. Where the
  /// probe does not work nobody knows, and the camera is asked.
  bool may_answer() noexcept { return probe_answers() || !probe_works_; }

  void ask_temperature(std::int64_t now_ns) {
    next_temperature_ns_ = now_ns + kTemperatureNs;
    if (std::isnan(temperature_c_)) return;  // it told none when it was connected
    if (may_answer()) temperature_c_ = connection_->temperature_c();
  }

  /// @returns why the camera did not take it; empty when it did
  std::string send_trigger() {
    const auto period_ns = static_cast<std::int64_t>(static_cast<double>(kNanosecondsPerSecond) /
                                                     shared_.settings.frame_rate_hz);
    next_trigger_ns_ = std::max(next_trigger_ns_ + period_ns, monotonic_ns());
    try {
      connection_->software_trigger();
    } catch (const CameraError& error) {
      return error.what();
    }
    return "";
  }

  /// @returns false when the camera could not be had; an event says why
  bool try_to_connect(bool search) {
    try {
      connect(search);
      return true;
    } catch (const CameraError& error) {
      add_event(SourceEvent::Kind::ReconnectFailed, error.what());
      return false;
    }
  }

  /// One attempt. Opening a camera that is away blocks for seconds and learns of its return late,
  /// so where the probe is known to work, the attempt waits for its answer.
  void reconnect(milliseconds& backoff) {
    const milliseconds longest(shared_.settings.reconnect_max_ms);
    const auto answers = [this] { return probe_answers(); };
    bool away = !answers();
    if (away && probe_works_) {
      away = !wait_for(longest, answers);
      if (!away) backoff = first_backoff();
      if (away && aravis::is_ipv4(shared_.settings.id)) return;  // it can be nowhere else
    }
    const bool held = !away && probe_->controlled(kProbeInterval) == true;
    if (try_to_connect(away && probe_works_)) return;
    if (away) {
      wait_for(backoff, answers);
    } else if (held) {  // by a program that lives, or one that died a moment ago
      wait_for(backoff, [this] { return probe_->controlled(kProbeInterval) == false; });
    } else {
      sleep_for(backoff);
    }
    backoff = std::min(backoff * 2, longest);
  }

  [[nodiscard]] milliseconds first_backoff() const {
    return milliseconds(shared_.settings.reconnect_min_ms);
  }

  /// Waits until `done`, which it asks at intervals. @returns false when the time is over or the
  /// source stops
  template <typename Done>
  bool wait_for(milliseconds time, const Done& done) {
    const std::int64_t deadline_ns = monotonic_ns() + std::chrono::nanoseconds(time).count();
    while (monotonic_ns() < deadline_ns && !sleep_for(kProbeInterval)) {
      if (done()) return true;
    }
    return false;
  }

  /// Less long where the line, the frame rate or the exposure has to be set. @returns true when the
  /// source is to stop
  bool sleep_for(std::chrono::nanoseconds time) {
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, time, [this] {
      const std::int64_t now_ns = monotonic_ns();
      return stopping_ || line_is_due(now_ns) || rate_is_due(now_ns) || exposure_is_due();
    });
    return stopping_;
  }

  void add_event(SourceEvent::Kind kind, std::string text) {
    const std::lock_guard lock(mutex_);
    if (events_.size() == kEventsKept) events_.pop_front();
    events_.push_back({.kind = kind, .time_ns = monotonic_ns(), .text = std::move(text)});
  }

  aravis::SourceShared shared_;

  // Hand-over between supervisor and loop. in_use_ is written by the loop alone.
  std::atomic<bool> nudged_{false};
  std::atomic<Connection*> offered_{nullptr};
  std::atomic<Connection*> in_use_{nullptr};
  std::atomic<std::int64_t> clock_wanted_ns_{-kClockWantedNs};
  std::atomic<ClockRate> clock_rate_{};
  static_assert(std::atomic<ClockRate>::is_always_lock_free);
  Connection* held_ = nullptr;         // the loop's
  aravis::FrameSlot* lent_ = nullptr;  // the loop's: the frame it has, in held_

  // The supervisor's.
  std::unique_ptr<Connection> connection_;
  std::optional<aravis::Identity> identity_;
  std::string probed_;  // where the probe asks
  std::optional<aravis::GvcpProbe> probe_;
  bool probe_works_ = false;  // it has had an answer from where it asks
  std::int64_t next_trigger_ns_ = 0;
  std::int64_t next_temperature_ns_ = 0;
  double has_slowness_ = 0, obeyed_slowness_ = 0;  ///< what the camera was told, and by which wish
  std::int64_t slow_since_ns_ = 0, next_rate_ns_ = 0;
  std::optional<bool> line_is_high_;  ///< nothing: a camera that did not answer was told
  std::int64_t next_line_ns_ = 0;
  aravis::StreamStatistics counted_;
  std::optional<aravis::Reaper> reaper_;
  std::thread supervisor_;

  std::atomic<std::uint64_t> frames_{0};
  std::atomic<std::uint64_t> underruns_{0};
  std::atomic<std::uint64_t> missing_packets_{0};
  std::atomic<std::uint64_t> resent_packets_{0};
  std::atomic<std::uint64_t> disconnects_{0};
  std::atomic<std::uint64_t> reconnects_{0};
  std::atomic<bool> in_lock_{false};
  std::atomic<double> slowness_{0};
  std::atomic<double> temperature_c_{std::numeric_limits<double>::quiet_NaN()};

  mutable std::mutex mutex_;  // never taken by pop()
  std::condition_variable wake_;
  bool stopping_ = false;
  SourceInfo info_;
  ExposureOrder exposure_;  ///< the last one ordered
  std::uint64_t exposure_orders_ = 0;
  std::deque<SourceEvent> events_;
};

}  // namespace

std::unique_ptr<FrameSource> make_aravis_source(const AravisSettings& settings) {
  validate(settings);
  return std::make_unique<AravisSource>(settings);
}

}  // namespace driftd::camera
