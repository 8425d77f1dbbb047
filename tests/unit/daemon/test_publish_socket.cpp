// SPDX-License-Identifier: MIT
// Who may subscribe, to how much, and where the sockets are.
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>
#include <zmq.hpp>

#include "daemon/wire/peer_connection.hpp"
#include "daemon/wire/publish_socket.hpp"
#include "daemon/wire/wire_context.hpp"
#include "support/catch.hpp"

using namespace driftd::daemon;

namespace {

constexpr std::array<std::string_view, 2> kTopics = {"position", "markers"};

std::string endpoint(const char* name) {
  return "ipc:///tmp/driftd-test-socket-" + std::string(name) + "-" + std::to_string(getpid());
}

/// A subscriber that notices when its connection is ended.
class Subscriber {
 public:
  explicit Subscriber(const std::string& to) : socket(context_, zmq::socket_type::sub) {
    socket.set(zmq::sockopt::linger, 0);
    socket.set(zmq::sockopt::rcvtimeo, 0);
    socket.set(zmq::sockopt::reconnect_ivl, -1);
    watch_.init(socket, "inproc://watch", ZMQ_EVENT_DISCONNECTED);
    socket.connect(to);
  }
  bool disconnected() {
    while (watch_.check_event(0)) {
    }
    return watch_.ended;
  }
  bool receives() {
    zmq::message_t message;
    return socket.recv(message).has_value();
  }

 private:
  struct Watch : zmq::monitor_t {
    bool ended = false;
    void on_event_disconnected(const zmq_event_t&, const char*) override { ended = true; }
  };
  zmq::context_t context_{1};

 public:
  zmq::socket_t socket;

 private:
  Watch watch_;  ///< ends before what it watches
};

std::int64_t now_ns = 0;  // on the sockets' clock

struct Fixture {
  WireContext wire;
  PublishSocket published;

  explicit Fixture(const char* name)
      : published(wire, {.key = "wire.publish",
                         .domain = "publish",
                         .endpoints = {endpoint(name)},
                         .queue_messages = 100,
                         .topics = kTopics,
                         .clock = []() noexcept { return now_ns; }}) {}
  /// Publishes, turn by turn, until the condition holds.
  bool until(const std::function<bool()>& condition, int turns = 5000) {
    for (int i = 0; i < turns; ++i) {
      if (condition()) return true;
      published.take_subscriptions();
      published.send("markers {}");
      published.send("status {}");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }
};

}  // namespace

TEST_CASE("a socket's subscriber is one to its first topic or a beginning of that") {
  for (const char* wanted : {"position ", "pos", ""}) {
    Fixture f("first");
    Subscriber other(endpoint("first"));
    other.socket.set(zmq::sockopt::subscribe, "markers ");
    REQUIRE(f.until([&] { return other.receives(); }));
    f.until([] { return false; }, 20);
    REQUIRE_FALSE(f.published.has_subscriber());
    Subscriber first(endpoint("first"));
    first.socket.set(zmq::sockopt::subscribe, wanted);
    REQUIRE(f.until([&] { return f.published.has_subscriber(); }));
  }
}

TEST_CASE("a socket's subscriber may want 16 things that nobody publishes, and no more") {
  for (const int foreign : {16, 17}) {
    Fixture f("foreign");
    Subscriber subscriber(endpoint("foreign"));
    for (int i = 0; i < foreign; ++i)
      subscriber.socket.set(zmq::sockopt::subscribe, "else" + std::to_string(i) + " ");
    subscriber.socket.set(zmq::sockopt::subscribe, "markers ");  // taken after the others
    if (foreign > 16) {
      REQUIRE(f.until([&] { return subscriber.disconnected(); }));
    } else {
      REQUIRE(f.until([&] { return subscriber.receives(); }));
      f.until([] { return false; }, 50);
      REQUIRE_FALSE(subscriber.disconnected());
    }
  }
}

TEST_CASE("what a socket's subscriber wants no longer is not counted") {
  Fixture f("no-longer");
  Subscriber subscriber(endpoint("no-longer"));
  for (int i = 0; i < 200; ++i) {
    const std::string topic = "else" + std::to_string(i) + " ";
    subscriber.socket.set(zmq::sockopt::subscribe, topic);
    subscriber.socket.set(zmq::sockopt::unsubscribe, topic);
  }
  subscriber.socket.set(zmq::sockopt::subscribe, "markers ");
  REQUIRE(f.until([&] { return subscriber.receives() || subscriber.disconnected(); }));
  f.until([] { return false; }, 50);
  REQUIRE_FALSE(subscriber.disconnected());
}

TEST_CASE("a socket's subscriber may repeat itself 512 times a minute, and no more") {
  constexpr std::int64_t kMinuteNs = 60'000'000'000;
  for (const std::int64_t one_more_after_ns : {kMinuteNs - 1, kMinuteNs}) {
    now_ns = 1'000;
    Fixture f("repeated");
    Subscriber subscriber(endpoint("repeated"));
    // The last one, to a topic of which nothing was sent before, is taken after the others.
    const auto repeat = [&](int times, const char* last) {
      for (int i = 1; i < times; ++i) subscriber.socket.set(zmq::sockopt::subscribe, "position ");
      subscriber.socket.set(zmq::sockopt::subscribe, last);
      return f.until([&] { return subscriber.receives() || subscriber.disconnected(); });
    };
    // The first minute begins with the first of them, on a clock that has run long enough.
    now_ns += kMinuteNs;
    REQUIRE(repeat(512, "markers "));
    REQUIRE_FALSE(subscriber.disconnected());
    now_ns += one_more_after_ns;
    subscriber.socket.set(zmq::sockopt::unsubscribe, "markers ");
    const bool too_many = one_more_after_ns < kMinuteNs;
    f.until([&] { return subscriber.disconnected(); }, too_many ? 5000 : 50);
    REQUIRE(subscriber.disconnected() == too_many);
    REQUIRE(f.wire.ended() == (too_many ? 1 : 0));
    if (too_many) continue;
    REQUIRE(repeat(511, "status "));
    REQUIRE_FALSE(subscriber.disconnected());
    now_ns += kMinuteNs - 1;
    subscriber.socket.set(zmq::sockopt::subscribe, "position ");
    REQUIRE(f.until([&] { return subscriber.disconnected(); }));
  }
  now_ns = 0;
}

TEST_CASE("a socket's turn takes what all its subscribers have sent") {
  Fixture f("many");
  std::vector<std::unique_ptr<Subscriber>> subscribers;
  for (int i = 0; i < 40; ++i) {
    subscribers.push_back(std::make_unique<Subscriber>(endpoint("many")));
    subscribers.back()->socket.set(zmq::sockopt::subscribe, "markers ");
  }
  for (const auto& subscriber : subscribers)
    REQUIRE(f.until([&] { return subscriber->receives(); }));
  for (const auto& subscriber : subscribers)
    subscriber->socket.set(zmq::sockopt::subscribe,
                           subscriber == subscribers.back() ? "position " : "markers ");
  for (int turn = 0; turn < 10 && !f.published.has_subscriber(); ++turn) {  // not one for each
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    f.published.take_subscriptions();
  }
  REQUIRE(f.published.has_subscriber());
}

namespace {

struct Pair {
  std::array<char, 41> open{}, secret{};
  Pair() { REQUIRE(zmq_curve_keypair(open.data(), secret.data()) == 0); }
};

/// A subscriber with a key.
struct Keyed {
  struct Watch : zmq::monitor_t {
    bool admitted = false, ended = false;
    void on_event_handshake_succeeded(const zmq_event_t&, const char*) override { admitted = true; }
    void on_event_disconnected(const zmq_event_t&, const char*) override { ended = true; }
  };
  zmq::context_t context{1};
  zmq::socket_t socket{context, zmq::socket_type::sub};
  std::unique_ptr<Watch> watch = std::make_unique<Watch>();

  Keyed(const Pair& own, const Pair& server) {
    socket.set(zmq::sockopt::linger, 0);
    socket.set(zmq::sockopt::reconnect_ivl, -1);
    socket.set(zmq::sockopt::curve_serverkey, server.open.data());
    socket.set(zmq::sockopt::curve_publickey, own.open.data());
    socket.set(zmq::sockopt::curve_secretkey, own.secret.data());
    socket.set(zmq::sockopt::subscribe, "markers ");
    watch->init(socket, "inproc://watch", ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED);
  }
  bool soon(bool Watch::*what) {
    for (int i = 0; i < 300 && !((*watch).*what); ++i) watch->check_event(100);
    return (*watch).*what;
  }
};

}  // namespace

TEST_CASE("a socket's subscriber is not taken for the one before with its descriptor") {
  const Pair server, alice, bob;
  driftd::config::AccessRules rules;
  rules.server_public = server.open.data();
  rules.server_secret = server.secret.data();
  const driftd::config::Roles observe{.observe = true, .stage = false, .command = false};
  rules.clients = {{alice.open.data(), {"alice", observe}}, {bob.open.data(), {"bob", observe}}};
  WireContext wire(rules);
  PublishSocket published(wire, {.key = "wire.publish",
                                 .domain = "publish",
                                 .endpoints = {"tcp://127.0.0.1:*"},
                                 .queue_messages = 100,
                                 .topics = kTopics});
  const std::string to = wire.bound("wire.publish").front();
  const auto settle = [] { std::this_thread::sleep_for(std::chrono::milliseconds(300)); };
  Keyed first(alice, server), second(bob, server);
  first.socket.connect(to);
  REQUIRE(first.soon(&Keyed::Watch::admitted));
  settle();  // until the subscription is there, which is not looked for yet
  int descriptor = 1023;
  while (descriptor > 0 && !is_connection_to({to}, descriptor)) --descriptor;
  first.watch.reset();
  first.socket.close();
  settle();
  std::vector<int> others;  // take up those before it but for one, which the peer needs
  while (others.empty() || others.back() < descriptor) others.push_back(dup(0));
  for (int i = 0; i < 2; ++i, others.pop_back()) close(others.back());
  second.socket.connect(to);
  REQUIRE(second.soon(&Keyed::Watch::admitted));
  settle();
  for (const int other : others) close(other);
  if (!is_connection_to({to}, descriptor)) WARN("it has another descriptor than the one before");
  published.take_subscriptions();
  rules.clients.erase(bob.open.data());
  wire.replace(rules);
  CHECK(second.soon(&Keyed::Watch::ended));
}

TEST_CASE("a socket's peer that does not say who it is is dropped") {
  Fixture f("silent");
  const int peer = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  endpoint("silent").substr(6).copy(address.sun_path, sizeof(address.sun_path) - 1);
  REQUIRE(connect(peer, reinterpret_cast<const sockaddr*>(&address),  // NOLINT(*-reinterpret-cast)
                  sizeof(address)) == 0);
  std::array<char, 256> greeting{};
  bool ended = false;
  for (int i = 0; i < 2 && !ended; ++i) {  // its greeting, then the end
    pollfd polled{peer, POLLIN, 0};
    REQUIRE(poll(&polled, 1, 10'000) == 1);  // libzmq's own limit is 30 s
    ended = read(peer, greeting.data(), greeting.size()) <= 0;
  }
  close(peer);
  REQUIRE(ended);
}

TEST_CASE("a socket's file is for owner and group, whatever the umask") {
  for (const mode_t mask : {mode_t{0077}, mode_t{0}}) {
    const mode_t before = umask(mask);
    const Fixture f("mode");
    umask(before);
    struct stat about {};
    REQUIRE(stat(endpoint("mode").substr(6).c_str(), &about) == 0);
    REQUIRE((about.st_mode & 0777) == 0660);
  }
}

TEST_CASE("a socket's endpoint that is in use is refused by its key, and free afterwards") {
  {
    const Fixture first("in-use");
    REQUIRE_THROWS_WITH(Fixture("in-use"),
                        contains("wire.publish: cannot bind " + endpoint("in-use")) &&
                            contains("process " + std::to_string(getpid())));
    REQUIRE(access(endpoint("in-use").substr(6).c_str(), F_OK) == 0);
  }
  REQUIRE_NOTHROW(Fixture("in-use"));
}

TEST_CASE("a socket's whole endpoint is known by its key") {
  WireContext wire;
  zmq::socket_t first = wire.socket(zmq::socket_type::pub);
  zmq::socket_t second = wire.socket(zmq::socket_type::pub);
  const driftd::config::Endpoints any = {"tcp://127.0.0.1:*"};
  wire.bind(first, {"wire.publish", "publish", any, 64, 1});
  wire.bind(second, {"wire.corrections", "corrections", {any[0], any[0]}, 64, 1});
  REQUIRE(wire.bound("wire.publish").size() == 1);
  REQUIRE(wire.bound("wire.corrections").size() == 2);
  const std::string port =
      wire.bound("wire.publish")[0].substr(std::string("tcp://127.0.0.1:").size());
  REQUIRE(std::stoi(port) > 0);
  REQUIRE(wire.bound("wire.publish") != wire.bound("wire.corrections"));
}
