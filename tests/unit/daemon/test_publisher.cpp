// SPDX-License-Identifier: MIT
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <string>
#include <thread>
#include <utility>

#include "daemon/loop/publisher.hpp"
#include "results_for_tests.hpp"
#include "support/catch.hpp"

using driftd::monotonic_ns;
using namespace driftd::daemon;
using driftd::daemon::test::driven;
using driftd::daemon::test::Reader;
using driftd::daemon::test::result_with_correction;
using driftd::daemon::test::subscribed;

namespace {

std::string endpoint(const char* name) {
  return "ipc:///tmp/driftd-test-" + std::string(name) + "-" + std::to_string(getpid());
}

PublisherSettings settings(const char* name, driftd::Clock clock = monotonic_ns) {
  return {.endpoints = {endpoint(name)},
          .send_queue_messages = 1000,
          .session = "0123456789abcdef",
          .corrections = {endpoint(name) + "-corrections"},
          .clock = clock};
}

}  // namespace

TEST_CASE("Publisher sends corrections and positions apart, with sequence and session") {
  WireContext wire;
  Publisher publisher(wire, settings("order"));
  publisher.start({});
  Reader reader(endpoint("order"));
  Reader driver(endpoint("order") + "-corrections");
  REQUIRE(subscribed(publisher));
  REQUIRE(driven(publisher));
  publisher.gate().open(3);
  REQUIRE(publisher.hand_over(result_with_correction(3)));
  REQUIRE(publisher.hand_over(result_with_correction(3)));
  for (std::uint64_t i = 0; i < 2; ++i) {
    const auto correction = driver.next();
    const auto position = reader.next();
    REQUIRE(correction);
    REQUIRE(position);
    REQUIRE(correction->first == "correction");
    REQUIRE(position->first == "position");
    REQUIRE(correction->second["seq"] == i);
    REQUIRE(correction->second["total_x_nm"] == -18.5);
    REQUIRE(correction->second["session"] == "0123456789abcdef");
    REQUIRE(correction->second["expires_ns"].get<std::int64_t>() > monotonic_ns());
    REQUIRE(position->second["seq"] == i);
    REQUIRE(position->second["x_nm"] == 0.5);
  }
  const auto sent = publisher.last_sent(3);
  REQUIRE(sent.total_nm.x == -18.5);
  REQUIRE(sent.total_nm.y == 7.75);
  REQUIRE(sent.handed_ns > 0);
  REQUIRE(sent.left_ns >= sent.handed_ns);
  REQUIRE(publisher.last_sent(4).total_nm.x == 0);
  REQUIRE(publisher.last_sent(4).handed_ns == 0);
  REQUIRE(publisher.broken() == 0);
}

TEST_CASE("Publisher tells that it has sent what the loop handed over, texts not") {
  WireContext wire;
  Publisher publisher(wire, settings("told"));
  std::atomic<std::uint64_t> told{0};
  std::atomic<std::uint64_t> sent_then{0};
  publisher.start({}, [&] {
    sent_then = publisher.sent();
    ++told;
  });
  publisher.send({.topic = TextMessage::Topic::Status, .fields = R"("n":1)"});
  while (publisher.sent() < 1) std::this_thread::yield();
  CHECK(told == 0);
  REQUIRE(publisher.hand_over(result_with_correction(3)));
  while (told == 0) std::this_thread::yield();
  CHECK(sent_then == 2);
}

TEST_CASE(
    "Publisher withholds corrections of a closed gate, of another lock and of a stale frame") {
  WireContext wire;
  Publisher publisher(wire, settings("withhold"));
  publisher.start({});
  Reader reader(endpoint("withhold"));
  reader.connect(endpoint("withhold") + "-corrections");
  REQUIRE(subscribed(publisher));
  REQUIRE(driven(publisher));
  publisher.hand_over(result_with_correction(1));  // never opened
  publisher.gate().open(2);
  publisher.hand_over(result_with_correction(1));  // another lock
  auto stale = result_with_correction(2);
  stale.expires_ns = monotonic_ns() - 1;
  publisher.hand_over(stale);
  for (int i = 0; i < 3; ++i) {
    const auto message = reader.next();
    REQUIRE(message);
    REQUIRE(message->first == "position");
  }
  // Each was computed before the loop knew of the one before.
  REQUIRE(publisher.withheld() == 1);
  REQUIRE(publisher.expired() == 2);
  REQUIRE(publisher.broken() == 1);
}

namespace {

/// Hands over a correction and says whether it left.
struct Line {
  explicit Line(const char* name, driftd::Clock clock = monotonic_ns)
      : publisher(wire, settings(name, clock)), driver(endpoint(name) + "-corrections") {
    publisher.start({});
    REQUIRE(driven(publisher));
  }
  bool leaves(const FrameResult& result) {
    const std::uint64_t sent = publisher.sent();
    const std::uint64_t stopped = not_left();
    REQUIRE(publisher.hand_over(result));
    for (int i = 0; i < 2000 && publisher.sent() == sent; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    REQUIRE(publisher.sent() == sent + 1);
    if (not_left() != stopped) return false;
    REQUIRE(driver.next()->second["frame_id"] == result.frame_id);
    return true;
  }
  std::uint64_t not_left() const {
    return publisher.withheld() + publisher.expired() + publisher.refused();
  }
  static FrameResult step(driftd::control::Vec2 total_nm, std::uint64_t chain = 0,
                          std::uint64_t lock_id = 5) {
    FrameResult result = result_with_correction(lock_id);
    result.correction.total_nm = total_nm;
    result.chain = chain;
    return result;
  }
  WireContext wire;
  Publisher publisher;
  Reader driver;
};

}  // namespace

TEST_CASE("what was computed on top of a correction that did not leave does not leave either") {
  Line line("chain");
  line.publisher.gate().open(5);
  REQUIRE(line.leaves(Line::step({3, -4})));
  auto late = Line::step({6, -8});
  late.expires_ns = monotonic_ns() - 1;
  REQUIRE_FALSE(line.leaves(late));
  REQUIRE_FALSE(line.leaves(Line::step({9, -12})));  // fresh, but a step from what never left
  REQUIRE(line.publisher.broken() == 1);
  REQUIRE(line.publisher.expired() == 2);
  REQUIRE(line.publisher.last_sent(5).total_nm.x == 3);
  REQUIRE(line.publisher.last_sent(5).total_nm.y == -4);
  REQUIRE(line.leaves(Line::step({4, -5}, 1)));
}

TEST_CASE("a correction outside its limits is refused where it leaves, against what left before") {
  using driftd::control::Vec2;
  for (const Vec2 bad : {Vec2{10.5, 0}, Vec2{-30.5, 0}, Vec2{-10, 20.5}, Vec2{-10, -20.5},
                         Vec2{std::nan(""), 0}, Vec2{-10, std::nan("")}}) {
    Line line("refuse");
    line.publisher.gate().open(5);
    REQUIRE(line.leaves(Line::step({-10, 0})));
    REQUIRE_FALSE(line.leaves(Line::step(bad)));
    REQUIRE(line.publisher.refused() == 1);
    REQUIRE(line.publisher.broken() == 1);
    REQUIRE(line.leaves(Line::step({-30, 20}, 1)));  // exactly the step limit of 20
  }
}

TEST_CASE("a new lock's first step is counted from 0, wherever the lock before had gone") {
  Line line("second");
  line.publisher.gate().open(5);
  for (double total = 15; total <= 90; total += 15)
    REQUIRE(line.leaves(Line::step({total, -total})));
  line.publisher.gate().open(6);
  REQUIRE(line.publisher.last_sent(6).total_nm.x == 0);
  REQUIRE_FALSE(line.leaves(Line::step({95, -95}, 0, 6)));
  REQUIRE(line.leaves(Line::step({-2, 3}, 1, 6)));
}

TEST_CASE("a correction leaves until its expiry, and none leaves without a lock") {
  static std::int64_t now_ns;
  now_ns = 7'000'000'000;
  Line line("expiry", []() noexcept { return now_ns; });
  line.publisher.gate().open(5);
  for (const int late_ns : {0, 1}) {
    FrameResult result = Line::step({3, -4});
    result.handed_ns = result.arrival_ns = now_ns - 1000;
    result.expires_ns = now_ns - late_ns;
    REQUIRE(line.leaves(result) == (late_ns == 0));
  }
  REQUIRE(line.publisher.expired() == 1);
  for (const std::uint64_t open : {0U, 1U}) {
    line.publisher.gate().open(open);
    FrameResult result = Line::step({3, -4}, line.publisher.broken(), 0);
    result.expires_ns = now_ns;
    REQUIRE_FALSE(line.leaves(result));
  }
  REQUIRE(line.publisher.withheld() == 2);
}

namespace {

std::atomic<int> calls_left{0};
/// Stands still once that many calls were made.
std::int64_t halting_time() noexcept {
  if (calls_left.fetch_sub(1) <= 0)
    while (calls_left.load() < 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return monotonic_ns();
}

}  // namespace

TEST_CASE("a correction leaves before the position of its frame") {
  calls_left = 1;  // it is on its way, and its time of leaving is asked for
  Line line("first", halting_time);
  Reader reader(endpoint("first"));
  REQUIRE(subscribed(line.publisher));
  line.publisher.gate().open(5);
  line.publisher.hand_over(Line::step({3, -4}));
  const auto early = reader.next(200);
  calls_left = 1'000'000;
  REQUIRE_FALSE(early);
  REQUIRE(line.driver.next());
  REQUIRE(reader.next());
}

TEST_CASE("a result waits for one text at most") {
  WireContext wire;
  Publisher publisher(wire, settings("texts", halting_time));
  calls_left = 1'000'000;
  bool is_first = true;
  publisher.start({}, [&] {  // when the first has left, a second comes while texts wait
    if (std::exchange(is_first, false)) publisher.hand_over(result_with_correction(0));
  });
  Reader reader(endpoint("texts"));
  REQUIRE(subscribed(publisher));
  calls_left = 0;
  publisher.hand_over(result_with_correction(0));  // the publisher stands still with it
  for (int text = 0; text < 3; ++text)
    REQUIRE(publisher.send({TextMessage::Topic::Event, R"("n":1)"}));
  calls_left = 1'000'000;
  for (const char* topic : {"position", "event", "position", "event", "event"}) {
    const auto message = reader.next();
    REQUIRE(message);
    CHECK(message->first == topic);
  }
}

TEST_CASE("behind: while a result waits beyond its time, and once for each that was late") {
  WireContext wire;
  Publisher publisher(wire, settings("behind"));  // not started: nothing is taken out
  REQUIRE_FALSE(publisher.is_behind(monotonic_ns()));
  auto result = result_with_correction(0);
  result.expires_ns = monotonic_ns() + 1'000'000'000;
  REQUIRE(publisher.hand_over(result));
  REQUIRE_FALSE(publisher.is_behind(result.expires_ns));
  REQUIRE(publisher.is_behind(result.expires_ns + 1));
  result.expires_ns += 500'000'000;
  REQUIRE(publisher.hand_over(result));
  REQUIRE(publisher.is_behind(result.expires_ns - 1));  // the first still is
  result.expires_ns = monotonic_ns() - 1;
  REQUIRE(publisher.hand_over(result));
  publisher.start({});
  for (int i = 0; i < 2000 && publisher.sent() < 3; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const std::int64_t now_ns = monotonic_ns() + 2'000'000'000;
  REQUIRE(publisher.is_behind(now_ns));  // the third was late
  REQUIRE_FALSE(publisher.is_behind(now_ns));
}

TEST_CASE("Publisher refuses records that it cannot take and keeps those that it has") {
  WireContext wire;
  Publisher publisher(wire, settings("full"));  // not started: nothing is taken out
  int taken = 0;
  while (publisher.hand_over(result_with_correction(1))) ++taken;
  REQUIRE(taken == 64);
  REQUIRE(publisher.is_behind(monotonic_ns()));
  publisher.start({});
  for (int i = 0; i < 2000 && publisher.sent() < 64; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  REQUIRE(publisher.sent() == 64);
  publisher.is_behind(monotonic_ns());
  REQUIRE_FALSE(publisher.is_behind(monotonic_ns()));
  // Nothing is remembered of the result that was not taken.
  REQUIRE_FALSE(publisher.is_behind(monotonic_ns() + 60'000'000'000));
}

TEST_CASE("Publisher names the endpoint that it cannot bind") {
  WireContext wire;
  Publisher first(wire, settings("taken"));
  REQUIRE_THROWS_WITH(Publisher(wire, {{"tcp://203.0.113.1:1"}, 1, "", {}}),
                      contains("tcp://203.0.113.1:1"));
}

TEST_CASE("A subscriber that reads nothing blocks nobody") {
  WireContext wire;
  Publisher publisher(
      wire, {{endpoint("slow")}, 10, "0123456789abcdef", {endpoint("slow") + "-corrections"}});
  publisher.start({});
  zmq::context_t context;
  zmq::socket_t sleeper(context, zmq::socket_type::sub);
  sleeper.set(zmq::sockopt::rcvhwm, 1);
  sleeper.set(zmq::sockopt::subscribe, "");
  sleeper.set(zmq::sockopt::linger, 0);
  sleeper.connect(endpoint("slow"));
  REQUIRE(subscribed(publisher));
  constexpr std::uint64_t kRecords = 20'000;  // far beyond every queue and socket buffer
  for (std::uint64_t i = 0; i < kRecords; ++i) {
    while (!publisher.hand_over(result_with_correction(0))) std::this_thread::yield();
  }
  for (int i = 0; i < 5000 && publisher.sent() < kRecords; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  REQUIRE(publisher.sent() == kRecords);
}
