// SPDX-License-Identifier: MIT
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <random>
#include <thread>
#include <zmq.hpp>

#include "daemon/command_server.hpp"
#include "daemon/publisher.hpp"
#include "support/catch.hpp"

using driftd::daemon::CommandRefused;
using driftd::daemon::CommandServer;
using nlohmann::json;

namespace {

/// A server whose handler answers `echo`, refuses `no`, breaks on `throw` and attaches on `bytes`.
struct Fixture {
  std::string endpoint = "ipc:///tmp/driftd-test-commands-" + std::to_string(getpid());
  int handled = 0;
  CommandServer server{endpoint, [this](const json& request, json& reply, auto& attachment) {
                         ++handled;
                         const auto name = request["command"].get<std::string>();
                         if (name == "no") throw CommandRefused{"refused", "not now"};
                         if (name == "throw") throw std::runtime_error("broken");
                         if (name == "bytes") attachment = {1, 2, 3};
                         reply["echo"] = name;
                       }};
  zmq::context_t context;

  std::vector<std::string> exchange(zmq::socket_type type, const std::vector<std::string>& parts) {
    zmq::socket_t socket(context, type);
    socket.set(zmq::sockopt::linger, 0);
    socket.set(zmq::sockopt::rcvtimeo, 10);
    socket.connect(endpoint);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      socket.send(zmq::buffer(parts[i]),
                  i + 1 < parts.size() ? zmq::send_flags::sndmore : zmq::send_flags::none);
    }
    std::vector<std::string> reply;
    zmq::message_t part;
    for (int i = 0; i < 200 && !socket.recv(part); ++i) server.serve(10, -1);
    if (part.size() > 0) reply.push_back(part.to_string());
    while (!reply.empty() && part.more() && socket.recv(part)) reply.push_back(part.to_string());
    return reply;
  }
  json ask(const std::string& text) {
    const auto reply = exchange(zmq::socket_type::req, {text});
    REQUIRE(reply.size() == 1);
    return json::parse(reply[0]);
  }
};

}  // namespace

TEST_CASE("CommandServer answers REQ and DEALER peers and returns their id") {
  Fixture f;
  const json reply = f.ask(R"({"command":"echo","id":[1,"x"]})");
  REQUIRE(reply == json({{"ok", true}, {"id", {1, "x"}}, {"echo", "echo"}}));
  const auto dealt = f.exchange(zmq::socket_type::dealer, {R"({"command":"bytes"})"});
  REQUIRE(dealt.size() == 2);
  REQUIRE(json::parse(dealt[0])["ok"] == true);
  REQUIRE(dealt[1] == std::string("\1\2\3", 3));
}

TEST_CASE("CommandServer says why a request was refused") {
  Fixture f;
  const json refused = f.ask(R"({"command":"no","id":5})");
  REQUIRE(refused == json({{"ok", false}, {"id", 5}, {"code", "refused"}, {"error", "not now"}}));
  REQUIRE(f.ask(R"({"command":"throw"})")["error"] == "broken");
  for (const char* text :
       {"", "{", "[]", "3", "null", R"({"command":3})", R"({"x":1})", "\xff\xfe"}) {
    const json reply = f.ask(text);
    REQUIRE(reply["ok"] == false);
    REQUIRE(reply["code"] == "bad_request");
  }
  REQUIRE(f.handled == 2);
}

TEST_CASE("CommandServer survives garbage and still answers") {
  Fixture f;
  std::mt19937 generator(11);
  zmq::socket_t socket(f.context, zmq::socket_type::dealer);
  socket.set(zmq::sockopt::linger, 0);
  socket.connect(f.endpoint);
  for (int i = 0; i < 500; ++i) {
    const auto parts = generator() % 12;
    for (unsigned p = 0; p <= parts; ++p) {
      std::string bytes(generator() % 300, '\0');
      for (char& c : bytes) c = static_cast<char>(generator());
      socket.send(zmq::buffer(bytes), p < parts ? zmq::send_flags::sndmore : zmq::send_flags::none);
    }
    f.server.serve(0, -1);
  }
  REQUIRE(f.ask(R"({"command":"echo"})")["echo"] == "echo");
}

TEST_CASE("CommandServer names the endpoint that it cannot bind") {
  REQUIRE_THROWS_WITH(CommandServer("tcp://203.0.113.1:1", {}), contains("tcp://203.0.113.1:1"));
}
