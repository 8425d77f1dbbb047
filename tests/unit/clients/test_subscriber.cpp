// SPDX-License-Identifier: MIT
#include "clients/common/subscriber.hpp"

#include "support/catch.hpp"

using driftd::clients::Message;
using driftd::clients::parse_message;
using driftd::clients::Subscriber;
using namespace std::chrono_literals;

namespace {

/// A PUB socket on an ephemeral port.
class Publisher {
 public:
  explicit Publisher(const std::string& endpoint = "tcp://127.0.0.61:*") {
    socket_.set(zmq::sockopt::linger, 0);
    socket_.bind(endpoint);
  }
  std::string endpoint() const { return socket_.get(zmq::sockopt::last_endpoint); }
  void send(const std::string& text) { socket_.send(zmq::buffer(text)); }
  void send(const std::string& topic, int seq, const std::string& session) {
    send(topic + R"( {"v":1,"seq":)" + std::to_string(seq) + R"(,"session":")" + session + "\"}");
  }
  /// Until the subscription has arrived, by sending what nobody counts.
  void wait_for(Subscriber& subscriber) {
    for (int i = 0; i < 500; ++i) {
      send("hello {}");
      if (subscriber.receive(10ms)) break;
    }
    while (subscriber.receive(50ms)) {
    }
  }

 private:
  zmq::context_t context_{1};
  zmq::socket_t socket_{context_, zmq::socket_type::pub};
};

}  // namespace

TEST_CASE("A message is a topic, a space and a JSON object") {
  const auto message = parse_message(R"(position {"x_nm": 1.5})");
  REQUIRE(message);
  CHECK(message->topic == "position");
  CHECK(message->body["x_nm"] == 1.5);
  CHECK(message->text == R"({"x_nm": 1.5})");
  for (const char* text : {"", "position", " {}", "position {", "position [1]", "position 3"}) {
    INFO(text);
    CHECK_FALSE(parse_message(text));
  }
}

TEST_CASE("Messages missing between two of a topic are counted, per topic") {
  Publisher publisher;
  Subscriber subscriber({publisher.endpoint()}, {});
  publisher.wait_for(subscriber);
  publisher.send("position", 10, "a");
  publisher.send("status", 0, "a");
  publisher.send("position", 14, "a");
  publisher.send("status", 1, "a");

  const std::uint64_t expected_lost[] = {0, 0, 3, 0};
  for (const std::uint64_t lost : expected_lost) {
    const auto message = subscriber.receive(2s);
    REQUIRE(message);
    CHECK(message->lost == lost);
    CHECK_FALSE(message->restarted);
  }
  CHECK(subscriber.lost() == 3);
}

TEST_CASE("A new session is a restart and not a loss") {
  Publisher publisher;
  Subscriber subscriber({publisher.endpoint()}, {});
  publisher.wait_for(subscriber);
  publisher.send("position", 10, "a");
  publisher.send("position", 25, "b");
  publisher.send("position", 26, "b");

  CHECK_FALSE(subscriber.receive(2s).value_or(Message{}).restarted);
  const auto restarted = subscriber.receive(2s);
  REQUIRE(restarted);
  CHECK(restarted->restarted);
  CHECK(restarted->lost == 0);
  CHECK_FALSE(subscriber.receive(2s).value_or(Message{}).restarted);
  CHECK(subscriber.lost() == 0);
}

TEST_CASE("What is not of the protocol is counted and skipped") {
  Publisher publisher;
  Subscriber subscriber({publisher.endpoint()}, {});
  publisher.wait_for(subscriber);
  publisher.send("nonsense");
  publisher.send("position", 1, "a");
  const auto message = subscriber.receive(2s);
  REQUIRE(message);
  CHECK(message->topic == "position");
  CHECK(subscriber.malformed() == 1);
}

TEST_CASE("A topic does not match a longer one that it begins") {
  Publisher publisher;
  Subscriber subscriber({publisher.endpoint()}, {"hello", "mark"});
  publisher.wait_for(subscriber);
  publisher.send("markers", 1, "a");
  publisher.send("mark", 7, "a");
  const auto message = subscriber.receive(2s);
  REQUIRE(message);
  CHECK(message->topic == "mark");
}

TEST_CASE("Several publishers come through one subscriber") {
  Publisher one;
  Publisher two;
  Subscriber subscriber({one.endpoint(), two.endpoint()}, {});
  one.wait_for(subscriber);
  two.wait_for(subscriber);
  one.send("position", 1, "a");
  two.send("truth", 900, "");
  std::vector<std::string> topics;
  for (int i = 0; i < 2; ++i) topics.push_back(subscriber.receive(2s).value_or(Message{}).topic);
  std::sort(topics.begin(), topics.end());
  CHECK(topics == std::vector<std::string>{"position", "truth"});
  CHECK(subscriber.lost() == 0);
}
