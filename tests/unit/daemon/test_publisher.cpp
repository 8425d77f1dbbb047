// SPDX-License-Identifier: MIT
#include <unistd.h>

#include "daemon/publisher.hpp"
#include "records_for_tests.hpp"
#include "support/catch.hpp"

using namespace driftd::daemon;
using driftd::daemon::test::Reader;
using driftd::daemon::test::record_with_correction;
using driftd::daemon::test::subscribed;

namespace {

std::string endpoint(const char* name) {
  return "ipc:///tmp/driftd-test-" + std::string(name) + "-" + std::to_string(getpid());
}

PublisherSettings settings(const char* name) {
  return {endpoint(name), 1000, "0123456789abcdef"};
}

}  // namespace

TEST_CASE("Publisher sends a correction before its position, with sequence and session") {
  Publisher publisher(settings("order"));
  publisher.start({});
  Reader reader(endpoint("order"));
  REQUIRE(subscribed(publisher));
  publisher.gate().open(3);
  REQUIRE(publisher.hand_over(record_with_correction(3)));
  REQUIRE(publisher.hand_over(record_with_correction(3)));
  for (std::uint64_t i = 0; i < 2; ++i) {
    const auto correction = reader.next();
    const auto position = reader.next();
    REQUIRE(correction);
    REQUIRE(position);
    REQUIRE(correction->first == "correction");
    REQUIRE(position->first == "position");
    REQUIRE(correction->second["seq"] == i);
    REQUIRE(correction->second["total_x_nm"] == -18.5);
    REQUIRE(correction->second["session"] == "0123456789abcdef");
    REQUIRE(position->second["x_nm"] == 0.5);
  }
  const auto sent = publisher.last_sent_total_nm(3);
  REQUIRE(sent.x == -18.5);
  REQUIRE(publisher.last_sent_total_nm(4).x == 0);
}

TEST_CASE(
    "Publisher withholds corrections of a closed gate, of another lock and of a stale frame") {
  Publisher publisher(settings("withhold"));
  publisher.start({});
  Reader reader(endpoint("withhold"));
  REQUIRE(subscribed(publisher));
  publisher.hand_over(record_with_correction(1));  // never opened
  publisher.gate().open(2);
  publisher.hand_over(record_with_correction(1));  // another lock
  auto stale = record_with_correction(2);
  stale.expires_ns = monotonic_ns() - 1;
  publisher.hand_over(stale);
  for (int i = 0; i < 3; ++i) {
    const auto message = reader.next();
    REQUIRE(message);
    REQUIRE(message->first == "position");
  }
  REQUIRE(publisher.withheld() == 2);
  REQUIRE(publisher.stale_corrections() == 1);
}

TEST_CASE("Publisher refuses records that it cannot take and keeps those that it has") {
  Publisher publisher(settings("full"));  // not started: nothing is taken out
  int taken = 0;
  while (publisher.hand_over(record_with_correction(1))) ++taken;
  REQUIRE(taken == 64);
  REQUIRE(publisher.busy());
  publisher.start({});
  for (int i = 0; i < 2000 && publisher.sent() < 64; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  REQUIRE(publisher.sent() == 64);
  REQUIRE_FALSE(publisher.busy());
}

TEST_CASE("Publisher names the endpoint that it cannot bind") {
  Publisher first(settings("taken"));
  REQUIRE_THROWS_WITH(Publisher({"tcp://203.0.113.1:1", 1, ""}), contains("tcp://203.0.113.1:1"));
}

TEST_CASE("A subscriber that reads nothing blocks nobody") {
  Publisher publisher({endpoint("slow"), 10, "0123456789abcdef"});
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
    while (!publisher.hand_over(record_with_correction(0))) std::this_thread::yield();
  }
  for (int i = 0; i < 5000 && publisher.sent() < kRecords; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  REQUIRE(publisher.sent() == kRecords);
}
