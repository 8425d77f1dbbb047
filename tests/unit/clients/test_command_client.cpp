// SPDX-License-Identifier: MIT
#include "clients/common/command_client.hpp"

#include <functional>
#include <thread>

#include "support/catch.hpp"

using driftd::clients::CommandClient;
using driftd::clients::Refused;
using driftd::clients::Reply;
using driftd::clients::Unreachable;
using nlohmann::json;
using namespace std::chrono_literals;

namespace {

/// Answers one request from a ROUTER socket, as driftd does.
class OneAnswer {
 public:
  explicit OneAnswer(std::vector<std::string> parts) {
    socket_.set(zmq::sockopt::linger, 1000);
    socket_.set(zmq::sockopt::rcvtimeo, 5000);
    socket_.bind("tcp://127.0.0.62:*");
    endpoint_ = socket_.get(zmq::sockopt::last_endpoint);
    thread_ = std::thread([this, answer = std::move(parts)] { serve(answer); });
  }
  ~OneAnswer() { end(); }
  OneAnswer(const OneAnswer&) = delete;
  OneAnswer& operator=(const OneAnswer&) = delete;

  const std::string& endpoint() const { return endpoint_; }
  /// What was asked; to be called after the answer came.
  const std::string& asked() {
    end();
    return asked_;
  }

 private:
  void end() {
    if (thread_.joinable()) thread_.join();
  }
  void serve(const std::vector<std::string>& answer) {
    std::vector<zmq::message_t> request;
    do {
      zmq::message_t part;
      if (!socket_.recv(part)) return;
      request.push_back(std::move(part));
    } while (request.back().more());
    asked_ = request.back().to_string();
    request.pop_back();
    for (zmq::message_t& envelope : request) socket_.send(envelope, zmq::send_flags::sndmore);
    for (std::size_t i = 0; i < answer.size(); ++i) {
      socket_.send(zmq::buffer(answer[i]),
                   i + 1 < answer.size() ? zmq::send_flags::sndmore : zmq::send_flags::none);
    }
  }

  zmq::context_t context_{1};
  zmq::socket_t socket_{context_, zmq::socket_type::router};
  std::string endpoint_, asked_;
  std::thread thread_;
};

std::string code_of_refusal(const std::string& answer) {
  OneAnswer daemon({answer});
  CommandClient client(daemon.endpoint());
  try {
    client.request("lock");
  } catch (const Refused& refused) {
    return refused.code;
  }
  return "none";
}

}  // namespace

TEST_CASE("A command goes out as JSON and its reply comes back") {
  OneAnswer daemon({R"({"ok":true,"state":"referencing"})"});
  CommandClient client(daemon.endpoint());
  const Reply reply = client.request({{"command", "markers"}, {"find", true}});
  CHECK(reply.body["state"] == "referencing");
  CHECK(reply.attachment.empty());
  CHECK(json::parse(daemon.asked()) == json{{"command", "markers"}, {"find", true}});
}

TEST_CASE("What is no UTF-8 in a command goes out as U+FFFD") {
  OneAnswer daemon({R"({"ok":true})"});
  CommandClient(daemon.endpoint()).request({{"command", "place"}, {"note", "a\xff"}});
  CHECK(json::parse(daemon.asked())["note"] == "a\xEF\xBF\xBD");
}

TEST_CASE("A second part is kept byte by byte") {
  const std::string bytes("\0\1\xff\0", 4);
  OneAnswer daemon({R"({"ok":true})", bytes});
  CHECK(CommandClient(daemon.endpoint()).request("snapshot").attachment == bytes);
}

TEST_CASE("A refusal carries the daemon's reason and code") {
  OneAnswer daemon({R"({"ok":false,"error":"no markers are known yet","code":"refused"})"});
  CommandClient client(daemon.endpoint());
  CHECK_THROWS_WITH(client.request("lock"), "no markers are known yet");
}

TEST_CASE("What replies and refusals say is one line and steers no terminal") {
  OneAnswer daemon({R"({"ok":true,"by":"a\nb","list":["\u001b[2J",1]})"});
  const Reply reply = CommandClient(daemon.endpoint()).request("record");
  CHECK(reply.body["by"] == "a b");
  CHECK(reply.body["list"] == json({" [2J", 1}));
  OneAnswer other({R"({"ok":false,"error":"no\n\u009b2J","code":"refused"})"});
  CHECK_THROWS_WITH(CommandClient(other.endpoint()).request("lock"), "no   2J");
}

TEST_CASE("What is no reply of driftd is refused, not trusted") {
  CHECK(code_of_refusal(R"({"ok":false,"error":"e","code":"timeout"})") == "timeout");
  CHECK(code_of_refusal("hello") == "bad_reply");
  CHECK(code_of_refusal("[]") == "bad_reply");
  CHECK(code_of_refusal(R"({"state":"idle"})") == "bad_reply");
  CHECK(code_of_refusal(R"({"ok":"yes"})") == "bad_reply");
}

TEST_CASE("Nobody there: unreachable after the time-out, and the next request works") {
  // An endpoint where nobody listens: bound once to get a free port, then left.
  std::string endpoint;
  {
    OneAnswer gone({R"({"ok":true})"});
    endpoint = gone.endpoint();
    CommandClient(endpoint).request("status");
  }
  CommandClient client(endpoint, 50ms);
  CHECK_THROWS_AS(client.request("status"), Unreachable);
  CHECK_THROWS_AS(client.request("status"), Unreachable);
}
