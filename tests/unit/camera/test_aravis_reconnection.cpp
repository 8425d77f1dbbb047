// SPDX-License-Identifier: MIT
// The Aravis source on a simulated GigE Vision camera that goes, comes back, is another one or is
// busy, and after a stop. Each case has an address of its own.
#include <glib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <deque>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "support/catch.hpp"
#include "support/uniform_camera.hpp"

using driftd::kNanosecondsPerSecond;
using driftd::monotonic_ns;
using namespace driftd::camera;
using namespace driftd::test;
using namespace std::chrono_literals;

namespace {

/// A source's events one by one.
class Events {
 public:
  explicit Events(FrameSource& source) : source_(source) {}

  /// The next one; an empty note after a minute without any.
  SourceEvent next() {
    const std::int64_t end_ns = monotonic_ns() + 60 * kNanosecondsPerSecond;
    while (waiting_.empty() && monotonic_ns() < end_ns) {
      for (SourceEvent& event : source_.take_events()) waiting_.push_back(std::move(event));
      if (waiting_.empty()) std::this_thread::sleep_for(1ms);
    }
    if (waiting_.empty()) return {};
    SourceEvent event = std::move(waiting_.front());
    waiting_.pop_front();
    return event;
  }

  /// Passes over what comes before. False: there is none.
  bool pass(SourceEvent::Kind kind) {
    for (;;) {
      const SourceEvent event = next();
      if (event.kind == kind) return true;
      if (event.text.empty()) return false;
    }
  }

 private:
  FrameSource& source_;
  std::deque<SourceEvent> waiting_;
};

/// A simulator in a process of its own, which can be stopped as a busy camera is.
class SeparateSimulator {
 public:
  explicit SeparateSimulator(const std::string& address) : process_(fork()) {
    if (process_ < 0) throw std::runtime_error("no process for the simulator");
    if (process_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // it ends with the test, however that ends
    try {
      const Simulator simulator(address);
      for (;;) pause();
    } catch (const std::exception&) {
      _exit(1);
    }
  }
  ~SeparateSimulator() {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  SeparateSimulator(const SeparateSimulator&) = delete;
  SeparateSimulator& operator=(const SeparateSimulator&) = delete;

  void stop_for(std::chrono::milliseconds time) const {
    kill(process_, SIGSTOP);
    std::this_thread::sleep_for(time);
    kill(process_, SIGCONT);
  }

 private:
  pid_t process_;
};

}  // namespace

TEST_CASE("after an absence the camera is set up anew by itself") {
  Simulator simulator("127.0.41.6");
  AravisSettings settings = settings_for("127.0.41.6");
  settings.id = GENERATE("127.0.41.6", ".6");  // by address; by serial number
  const auto source = make_aravis_source(settings);
  source->start();
  Frame frame;
  std::uint64_t id = 0;
  for (int absence = 1; absence <= 2; ++absence) {
    REQUIRE(pop_until(*source, PopStatus::Frame, frame));
    id = frame.id;
    simulator.frames.away = true;
    REQUIRE(pop_until(*source, PopStatus::Disconnected, frame));
    std::this_thread::sleep_for(300ms);
    simulator.frames.away = false;
    REQUIRE(pop_until(*source, PopStatus::Frame, frame));
    CHECK(frame.id > id);
    CHECK(frame.width_px == 128);
    CHECK(is_uniform(frame));
    CHECK(source->info().exposure_us == Approx(1500));
    CHECK(source->counters().disconnects == static_cast<std::uint64_t>(absence));
    CHECK(source->counters().reconnects == static_cast<std::uint64_t>(absence));
  }
}

TEST_CASE("a loss that ends within one wait is told, and what was counted before it stays") {
  g_log_set_always_fatal(G_LOG_LEVEL_CRITICAL);  // Aravis is given nothing of the old connection
  Simulator simulator("127.0.41.22");
  simulator.frames.packet_loss = 0.05;
  AravisSettings settings = settings_for("127.0.41.22");
  settings.packet_size_bytes = 1000;
  settings.stall_timeout_ms = 200;
  const auto source = make_aravis_source(settings);
  source->start();
  Frame frame;
  for (int i = 0; i < 60; ++i) REQUIRE(pop_until(*source, PopStatus::Frame, frame));
  simulator.frames.packet_loss = 0;
  for (int i = 0; i < 60; ++i) REQUIRE(pop_until(*source, PopStatus::Frame, frame));
  const std::uint64_t resent = source->counters().resent_packets;
  const std::uint64_t connection = source->info().connection;
  CHECK(resent > 0);

  simulator.frames.silent_until = simulator.frames.frame_count + 100;  // half a second
  PopStatus status = PopStatus::Frame;
  while (status == PopStatus::Frame && source->info().connection == connection) {
    status = source->pop(20s, frame);
  }
  CHECK(status == PopStatus::Disconnected);
  for (int i = 0; i < 60; ++i) {
    REQUIRE(pop_until(*source, PopStatus::Frame, frame));
    CHECK(is_uniform(frame));
  }
  CHECK(source->info().connection > connection);
  CHECK(source->counters().resent_packets >= resent);
}

TEST_CASE("the wait between attempts doubles up to the longest, and starts anew with each loss") {
  constexpr std::int64_t kLongestNs = kNanosecondsPerSecond;
  const std::string address = "127.0.41.23";
  auto simulator = std::make_unique<Simulator>(address, "WANTED");
  const auto exchange_for = [&](const char* serial) {
    simulator.reset();
    simulator = std::make_unique<Simulator>(address, serial);
  };
  AravisSettings settings = settings_for(address);
  settings.reconnect_min_ms = 10;
  settings.reconnect_max_ms = 1000;
  const auto source = make_aravis_source(settings);
  source->start();
  Events events(*source);
  Frame frame;
  REQUIRE(pop_until(*source, PopStatus::Frame, frame));

  exchange_for("ANOTHER");
  REQUIRE(events.pass(SourceEvent::Kind::Disconnected));
  std::int64_t before_ns = 0;
  for (int longest = 0; longest < 2;) {
    const SourceEvent event = events.next();
    REQUIRE(event.kind == SourceEvent::Kind::ReconnectFailed);
    CHECK(event.text.find("answers in place of the one with serial number WANTED") !=
          std::string::npos);
    const std::int64_t waited_ns = before_ns == 0 ? 0 : event.time_ns - before_ns;
    CHECK(waited_ns < kLongestNs * 5 / 2);  // without a longest it would be 2.56 s
    longest = waited_ns >= kLongestNs ? longest + 1 : 0;
    before_ns = event.time_ns;
  }
  exchange_for("WANTED");  // during the wait: the next attempt finds it
  REQUIRE(events.pass(SourceEvent::Kind::Connected));
  REQUIRE(pop_until(*source, PopStatus::Frame, frame));

  exchange_for("ANOTHER");
  REQUIRE(events.pass(SourceEvent::Kind::Disconnected));
  const SourceEvent first = events.next();
  const SourceEvent second = events.next();
  REQUIRE(first.kind == SourceEvent::Kind::ReconnectFailed);
  REQUIRE(second.kind == SourceEvent::Kind::ReconnectFailed);
  CHECK(second.time_ns - first.time_ns < kLongestNs);
}

TEST_CASE(
    "a camera that somebody holds is had as soon as it is let go, however long the pause is") {
  Simulator simulator("127.0.41.26");
  const auto holder = make_aravis_source(settings_for("127.0.41.26"));
  holder->start();
  AravisSettings settings = settings_for("127.0.41.26");
  settings.id = GENERATE("127.0.41.26", ".26");  // by address; by serial number
  settings.reconnect_min_ms = settings.reconnect_max_ms = 60'000;
  settings.start_without_camera = true;
  const auto source = make_aravis_source(settings);
  source->start();
  Events events(*source);
  for (int attempt = 0; attempt < 2; ++attempt) {  // at the start, and at once after it
    const SourceEvent event = events.next();
    CHECK(event.kind == SourceEvent::Kind::ReconnectFailed);
    CHECK(event.text.find("is controlled by another program") != std::string::npos);
  }
  const std::int64_t let_go_ns = monotonic_ns();
  holder->stop();
  REQUIRE(events.pass(SourceEvent::Kind::Connected));
  CHECK(monotonic_ns() - let_go_ns < 30 * kNanosecondsPerSecond);
}

TEST_CASE("a source that was stopped sends triggers again after its next start") {
  Simulator simulator("127.0.41.24");
  AravisSettings settings = settings_for("127.0.41.24");
  settings.trigger = Trigger::Software;
  settings.frame_rate_hz = 50;
  const auto source = make_aravis_source(settings);
  Frame frame;
  for (int round = 0; round < 2; ++round) {
    source->start();
    for (int i = 0; i < 5; ++i) REQUIRE(source->pop(10s, frame) == PopStatus::Frame);
    source->stop();
  }
}

TEST_CASE("triggers that a busy camera held up are left out, not caught up") {
  const SeparateSimulator simulator("127.0.41.25");
  AravisSettings settings = settings_for("127.0.41.25");
  settings.trigger = Trigger::Software;
  settings.frame_rate_hz = 50;
  settings.start_without_camera = true;  // it may need some time
  const auto source = make_aravis_source(settings);
  source->start();
  Frame frame;
  REQUIRE(pop_until(*source, PopStatus::Frame, frame));
  const std::uint64_t id_before = frame.id;
  simulator.stop_for(400ms);  // 20 triggers; Aravis asks again after 500 ms
  const std::int64_t resumed_ns = monotonic_ns();
  const std::int64_t end_ns = resumed_ns + kNanosecondsPerSecond / 5;
  while (monotonic_ns() < end_ns) source->pop(20ms, frame);
  const auto since = static_cast<std::uint64_t>((monotonic_ns() - resumed_ns) / 20'000'000);
  CHECK(source->info().connection == 1);
  CHECK(frame.id > id_before);
  CHECK(frame.id - id_before <= since + 4);
}
