// SPDX-License-Identifier: MIT
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <thread>
#include <zmq.hpp>

#include "daemon/wire/command_server.hpp"
#include "support/catch.hpp"
#include "support/source_dir.hpp"

using driftd::daemon::Answer;
using driftd::daemon::CommandRefused;
using driftd::daemon::CommandServer;
using driftd::daemon::Refusal;
using driftd::daemon::Reply;
using driftd::daemon::WireContext;
using nlohmann::json;

namespace {

/// A server whose handler answers `echo`, refuses `no`, breaks on `throw`, attaches on `bytes` and
/// leaves `later` for later.
struct Fixture {
  std::string endpoint = "ipc:///tmp/driftd-test-commands-" + std::to_string(getpid());
  int handled = 0;
  WireContext wire;
  std::vector<Answer> waiting;
  CommandServer server{
      wire,
      {endpoint},
      [this](const driftd::config::Client&, const json& request, const Answer& answer) {
        ++handled;
        const auto name = request["command"].get<std::string>();
        if (name == "no") throw CommandRefused{Refusal::Refused, "not now"};
        if (name == "throw") throw std::runtime_error("broken");
        if (name == "later") return waiting.push_back(answer);
        Reply reply{.fields = {{"echo", name}}};
        if (name == "bytes") reply.attachment = bytes;
        answer(reply);
      }};
  std::shared_ptr<const std::vector<std::uint8_t>> bytes =
      std::make_shared<const std::vector<std::uint8_t>>(std::vector<std::uint8_t>{1, 2, 3});
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
  const json reply = f.ask(R"({"command":"echo","id":"x"})");
  REQUIRE(reply == json({{"ok", true}, {"id", "x"}, {"echo", "echo"}}));
  const auto dealt = f.exchange(zmq::socket_type::dealer, {R"({"command":"bytes"})"});
  REQUIRE(dealt.size() == 2);
  REQUIRE(json::parse(dealt[0])["ok"] == true);
  REQUIRE(dealt[1] == std::string("\1\2\3", 3));
}

TEST_CASE("CommandServer says why a request was refused") {
  Fixture f;
  const json refused = f.ask(R"({"command":"no","id":5})");
  REQUIRE(refused == json({{"ok", false}, {"id", 5}, {"code", "refused"}, {"error", "not now"}}));
  const json broken = f.ask(R"({"command":"throw"})");
  REQUIRE(broken["error"] == "broken");
  REQUIRE(broken["code"] == "internal");
  for (const char* text :
       {"", "{", "[]", "3", "null", R"({"command":3})", R"({"x":1})", "\xff\xfe"}) {
    const json reply = f.ask(text);
    REQUIRE(reply["ok"] == false);
    REQUIRE(reply["code"] == "bad_request");
  }
  REQUIRE(f.handled == 2);
}

TEST_CASE("CommandServer returns ids that are numbers or short strings, and refuses others") {
  Fixture f;
  for (const json& id : {json(-1), json(2.5), json(""), json(std::string(256, 'a'))})
    REQUIRE(f.ask(json({{"command", "echo"}, {"id", id}}).dump())["id"] == id);
  REQUIRE(f.handled == 4);
  const std::string nested = std::string(2000, '[') + std::string(2000, ']');
  for (const std::string& id :
       {'"' + std::string(257, 'a') + '"', nested, std::string("[]"), std::string(R"({"a":1})"),
        std::string("null"), std::string("true")}) {
    const json reply = f.ask(R"({"command":"echo","id":)" + id + "}");
    REQUIRE(reply["code"] == "bad_request");
    REQUIRE_FALSE(reply.contains("id"));
  }
  REQUIRE(f.handled == 4);
}

TEST_CASE("CommandServer carries out the last part, and nothing of a message of too many") {
  Fixture f;
  std::vector<std::string> parts(6, "x");
  parts.emplace_back(R"({"command":"bytes"})");
  REQUIRE(f.exchange(zmq::socket_type::dealer, parts).size() == 2);  // seven parts
  REQUIRE(f.handled == 1);
  for (const auto& [type, delimiter] :
       {std::pair{zmq::socket_type::dealer, 0U}, {zmq::socket_type::req, 1U}}) {
    std::vector<std::string> many(parts.begin() + delimiter, parts.end());
    many.emplace_back(R"({"command":"echo","id":4})");
    const auto reply = f.exchange(type, many);
    REQUIRE(reply.size() == 1);
    REQUIRE(json::parse(reply[0])["code"] == "bad_request");
    REQUIRE(f.handled == 1);
  }
  REQUIRE(f.ask(R"({"command":"echo"})")["echo"] == "echo");
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
  WireContext wire;
  REQUIRE_THROWS_WITH(CommandServer(wire, {"tcp://203.0.113.1:1"}, {}),
                      contains("tcp://203.0.113.1:1"));
}

TEST_CASE("CommandServer answers in the order of the answers, each peer its own, each once") {
  Fixture f;
  zmq::socket_t first(f.context, zmq::socket_type::req);
  zmq::socket_t second(f.context, zmq::socket_type::dealer);
  for (zmq::socket_t* socket : {&first, &second}) {
    socket->set(zmq::sockopt::linger, 0);
    socket->set(zmq::sockopt::rcvtimeo, 5000);
    socket->connect(f.endpoint);
  }
  first.send(zmq::str_buffer(R"({"command":"later","id":"a"})"));
  while (f.waiting.empty()) f.server.serve(10, -1);
  second.send(zmq::str_buffer(R"({"command":"later","id":"b"})"));
  while (f.waiting.size() < 2) f.server.serve(10, -1);
  REQUIRE(f.ask(R"({"command":"echo"})")["echo"] == "echo");  // while two wait
  f.waiting[1](Reply{.fields = {{"n", 2}}});
  f.waiting[1](Reply{.fields = {{"n", 3}}});
  f.waiting[0](CommandRefused{Refusal::NoFrame, "away", {{"n", 1}}});
  zmq::message_t reply;
  REQUIRE(second.recv(reply));
  REQUIRE(json::parse(reply.to_string()) == json({{"ok", true}, {"id", "b"}, {"n", 2}}));
  REQUIRE(first.recv(reply));
  REQUIRE(json::parse(reply.to_string()) ==
          json({{"ok", false}, {"id", "a"}, {"code", "no_frame"}, {"error", "away"}, {"n", 1}}));
  second.set(zmq::sockopt::rcvtimeo, 0);
  REQUIRE_FALSE(second.recv(reply));
}

TEST_CASE("an attachment is shared by its replies and freed when their readers are gone") {
  Fixture f;
  f.bytes = std::make_shared<const std::vector<std::uint8_t>>(1'000'000, std::uint8_t{7});
  {
    zmq::socket_t sleeper(f.context, zmq::socket_type::dealer);
    sleeper.set(zmq::sockopt::linger, 0);
    sleeper.set(zmq::sockopt::rcvhwm, 1);
    sleeper.connect(f.endpoint);
    for (int i = 0; i < 20; ++i) sleeper.send(zmq::str_buffer(R"({"command":"bytes"})"));
    while (f.handled < 20) f.server.serve(10, -1);
    REQUIRE(f.bytes.use_count() > 1);
  }
  for (int i = 0; i < 5000 && f.bytes.use_count() > 1; ++i) f.server.serve(1, -1);
  REQUIRE(f.bytes.use_count() == 1);
}

TEST_CASE("CommandServer serves what has come, and 64 requests at most, before others get a turn") {
  Fixture f;
  zmq::socket_t flood(f.context, zmq::socket_type::dealer);
  flood.set(zmq::sockopt::linger, 0);
  flood.connect(f.endpoint);
  for (int i = 0; i < 300; ++i) flood.send(zmq::str_buffer(R"({"command":"echo"})"));
  int most = 0;
  for (int turn = 0; turn < 5000 && f.handled < 300; ++turn) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const int before = f.handled;
    f.server.serve(0, -1);
    most = std::max(most, f.handled - before);
  }
  REQUIRE(f.handled == 300);
  REQUIRE(most > 1);
  REQUIRE(most <= 64);
}

TEST_CASE("what is there at the end is answered, however much, and what comes later is dropped") {
  Fixture f;
  zmq::socket_t peer(f.context, zmq::socket_type::dealer);
  peer.set(zmq::sockopt::linger, 0);
  peer.set(zmq::sockopt::rcvtimeo, 2000);
  peer.connect(f.endpoint);
  const auto ask = [&peer](const char* text) {
    peer.send(zmq::str_buffer(""), zmq::send_flags::sndmore),
        peer.send(zmq::buffer(std::string(text)));
  };
  ask(R"({"command":"later"})");
  for (int i = 0; i < 500 && f.handled < 1; ++i) f.server.serve(10, -1);
  constexpr int kMore = 100;  // than serve() takes at once
  for (int i = 0; i < kMore; ++i) ask(R"({"command":"status"})");
  std::this_thread::sleep_for(std::chrono::seconds(1));  // they are on their way
  f.server.end();
  f.waiting.at(0)(Reply{});  // the handler's business, and of no use any more
  CHECK(f.handled > 1);
  int answered = 0;
  zmq::message_t part;
  for (; answered < f.handled - 1; ++answered) do
      REQUIRE(peer.recv(part));
    while (part.more());
  CHECK(answered == kMore);
}

TEST_CASE("the codes of refusals are those of docs/reference/protocol.md") {
  std::ifstream page(driftd::test::source_dir() / "docs/reference/protocol.md");
  std::set<std::string> documented;
  bool in_table = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("| code |")) in_table = true;
    if (!line.starts_with("|")) in_table = false;
    if (in_table && line.starts_with("| `"))
      documented.insert(line.substr(3, line.find('`', 3) - 3));
  }
  std::set<std::string> known;
  for (const auto& [refusal, name] : driftd::daemon::kRefusals) known.insert(name);
  REQUIRE(documented == known);
}
