// SPDX-License-Identifier: MIT
// Whose a connection is while descriptors pass from one to the next, and who has to go.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>
#include <zmq.hpp>

#include "daemon/wire/connection_bound.hpp"
#include "daemon/wire/peer_connection.hpp"
#include "support/catch.hpp"

using namespace driftd::daemon;

namespace {

bool soon(const std::function<bool()>& condition) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

/// Behind what libzmq has said to it.
bool has_ended(int peer) {
  std::array<char, 256> bytes{};
  ssize_t came = 1;
  while (came > 0) came = recv(peer, bytes.data(), bytes.size(), MSG_DONTWAIT);
  return came == 0;
}

/// A socket with one endpoint; the test is the gatekeeper's thread.
struct Fixture {
  zmq::context_t context{1};
  zmq::socket_t listening{context, zmq::socket_type::router};
  std::atomic<std::uint64_t> ended{0};
  Refusals refusals;
  ConnectionBound bound{context, listening, "wire.commands", "commands", {ended, refusals}};
  sockaddr_in address{};

  explicit Fixture(bool keyed = true) {
    listening.set(zmq::sockopt::linger, 0);
    address = open(keyed);
  }
  sockaddr_in open(bool keyed) {
    listening.bind("tcp://127.0.0.1:*");
    const std::string endpoint = listening.get(zmq::sockopt::last_endpoint);
    bound.add_endpoint(endpoint, keyed);
    sockaddr_in opened{};
    opened.sin_family = AF_INET;
    opened.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    opened.sin_port =
        htons(static_cast<std::uint16_t>(std::stoi(endpoint.substr(endpoint.rfind(':') + 1))));
    return opened;
  }
  /// The daemon's descriptors of connections; those of the peers lead elsewhere.
  std::vector<int> there() const {
    std::vector<int> fds;
    for (int fd = 3; fd < 1024; ++fd) {
      int listens = 0;
      socklen_t size = sizeof(listens);
      if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens == 0 &&
          is_connection_to(bound.endpoints(), fd))
        fds.push_back(fd);
    }
    return fds;
  }
  /// At any port but that of `address`, which is free at other addresses of this computer.
  int bound_to(in_addr_t from) const {
    const int peer = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in own{};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = htonl(from);
    socklen_t size = sizeof(own);
    auto* const any = reinterpret_cast<sockaddr*>(&own);  // NOLINT(*-cast)
    REQUIRE(bind(peer, any, size) == 0);
    REQUIRE(getsockname(peer, any, &size) == 0);
    if (own.sin_port != address.sin_port) return peer;
    const int other = bound_to(from);
    close(peer);
    return other;
  }
  /// A peer that says nothing. @returns its own descriptor
  int come(in_addr_t from = INADDR_LOOPBACK) const {
    const std::size_t before = there().size();
    const int peer = bound_to(from);
    REQUIRE(connect(peer, reinterpret_cast<const sockaddr*>(&address),  // NOLINT(*-cast)
                    sizeof(address)) == 0);
    REQUIRE(soon([&] { return there().size() == before + 1; }));
    return peer;
  }
  void go(int peer) const {
    const std::size_t before = there().size();
    close(peer);
    REQUIRE(soon([&] { return there().size() == before - 1; }));
  }
  std::uint64_t ended_for(const std::string& who_stays) {
    return bound.end_others([&](const std::string& user_id) { return user_id == who_stays; });
  }
};

}  // namespace

TEST_CASE("connections: who has said who it is stays known when an older one is seen to go") {
  Fixture f;
  for (int i = 0; i < 40; ++i) f.go(f.come());  // more events than are taken at once
  const int peer = f.come();
  const int fd = f.there().front();
  f.bound.introduce(fd, inode_of(fd), "key A");
  for (int i = 0; i < 5; ++i) f.bound.take_events();
  CHECK(f.ended_for("key A") == 0);
  CHECK(f.ended_for("key B") == 1);
  close(peer);
  REQUIRE(soon([&] { return f.there().empty(); }));
  const int stranger = f.come();
  REQUIRE(f.there().front() == fd);
  CHECK(f.ended_for("key A") == 0);  // nothing was taken back from a stranger
  CHECK(soon([&] { return f.there().empty(); }));
  close(stranger);
}

TEST_CASE("connections: a crowd of one address makes room in its own ranks") {
  const bool keyed = GENERATE(true, false);
  Fixture f(keyed);
  const auto come = [&](in_addr_t from) {
    const int peer = f.come(from);
    f.bound.take_events();
    return peer;
  };
  std::vector<int> peers;
  if (keyed) peers.push_back(come(INADDR_LOOPBACK + 1));  // slow to say who it is
  while (peers.size() < 200) peers.push_back(come(INADDR_LOOPBACK));
  const std::vector<int> all = f.there();
  peers.push_back(f.come(keyed ? INADDR_LOOPBACK : INADDR_LOOPBACK + 1));
  REQUIRE(soon([&] {
    f.bound.take_events();
    return f.ended > 0;
  }));
  CHECK(soon([&] { return f.there().size() == all.size(); }));
  // The one of the other address stays, first or last; without keys an established program stays,
  // too: of the crowd the newest goes.
  const int other = keyed ? peers.front() : peers.back();
  const int gone = keyed ? peers[1] : peers[199];
  CHECK(soon([&] { return has_ended(gone); }));
  CHECK_FALSE(has_ended(other));
  for (const int peer : peers) close(peer);
}

TEST_CASE("connections: where all have said who they are, it is the next one that has to go") {
  Fixture f;
  std::vector<int> peers;
  for (int i = 0; i < 200; ++i) {
    peers.push_back(f.come());
    f.bound.take_events();
  }
  const std::vector<int> all = f.there();
  for (const int fd : all) f.bound.introduce(fd, inode_of(fd), "key A");
  peers.push_back(f.come());
  REQUIRE(soon([&] {
    f.bound.take_events();
    return f.ended > 0;
  }));
  REQUIRE(soon([&] { return f.there().size() == all.size(); }));
  const bool same = f.there() == all;
  CHECK(same);
  for (const int peer : peers) close(peer);
}

TEST_CASE("connections: one that two users' messages claim is ended") {
  Fixture f;
  const int peer = f.come();
  const int fd = f.there().front();
  f.bound.introduce(fd, inode_of(fd), "key A");  // of a connection before it that had said so
  f.bound.introduce(fd, inode_of(fd), "key A");
  f.bound.take_events();
  CHECK(f.ended == 0);
  f.bound.introduce(fd, inode_of(fd), "key B");
  f.bound.take_events();
  CHECK(f.ended == 1);
  CHECK(soon([&] { return f.there().empty(); }));
  close(peer);
}

TEST_CASE(
    "connections: of many addresses with one each, the newest goes without keys, else the oldest") {
  const bool keyed = GENERATE(true, false);
  Fixture f(keyed);
  std::vector<int> peers;
  for (in_addr_t i = 0; i < 201; ++i) {
    peers.push_back(f.come(INADDR_LOOPBACK + (i * 100) % 201));
    f.bound.take_events();
  }
  REQUIRE(soon([&] {
    f.bound.take_events();
    return f.ended > 0;
  }));
  const int gone = keyed ? peers.front() : peers.back();
  CHECK(soon([&] { return has_ended(gone); }));
  CHECK(soon([&] { return f.there().size() == 200; }));
  for (const int peer : peers) close(peer);
}

TEST_CASE("connections: a crowd at one endpoint takes no room at another") {
  Fixture f(false);
  std::vector<int> peers;
  const auto come = [&](int count) {
    for (int i = 0; i < count; ++i) {
      peers.push_back(f.come());
      f.bound.take_events();
    }
  };
  come(150);
  f.address = f.open(true);
  come(150);
  REQUIRE(soon([&] {  // one more, and what came before is dealt with
    f.bound.take_events();
    return f.there().size() == peers.size();
  }));
  CHECK(f.ended == 0);
  for (const int peer : peers) close(peer);
}
