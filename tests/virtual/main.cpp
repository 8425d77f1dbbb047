// SPDX-License-Identifier: MIT
// driftd_in_virtual_time: does what it is told on standard input, one JSON object a line, and
// answers each by one.
//   {"op": "world", "scenario": FILE, "rate_hz": 500}       first of all
//   {"op": "start", "config": FILE, "environment": {}}      the daemon
//   {"op": "stop"}, {"op": "kill"}, {"op": "reload"}        as SIGTERM, SIGKILL and SIGHUP do
//   {"op": "advance", "seconds": 1.5}
//   {"op": "simulator", "command": "vanish", "seconds": 2}  what driftd-sim's control socket takes
//   {"op": "time_of_command", "seconds": 0.02}              passes with each answer to a client
//   {"op": "hold_corrections", "seconds": 0.04}             nobody has time to send them so long
//   {"op": "driver_period", "seconds": 0.01}                of the stage's driver, between two
//   {"op": "wish", "topics": ["truth", "position"]}         whose messages the answers bring, as
//   "topic {json}"
// Answers: {"ok": true, "now_ns": N, "subscribed": false, "messages": [...]}, or {"ok": false,
// "error": "..."}. Between them the daemon's sockets are served. It ends with its input.
// tests/integration/virtual_rig.py drives it.
#include <poll.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <csignal>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>

#include "simulator/scenario.hpp"
#include "tests/virtual/lab.hpp"

namespace {

using driftd::virtual_time::Lab;
using driftd::virtual_time::VirtualTime;
using nlohmann::json;

class Orders {
 public:
  explicit Orders(VirtualTime& time) : time_(time) {}

  std::string answer(const std::string& line) {
    json reply = {{"ok", true}};
    try {
      obey(json::parse(line), reply);
    } catch (const std::exception& error) {
      reply = {{"ok", false}, {"error", error.what()}};
    }
    reply["now_ns"] = time_.now_ns();
    reply["subscribed"] = lab_ && lab_->has_subscriber();
    reply["messages"] = json::array();
    if (lab_)
      for (std::string& message : lab_->take_messages())
        if (topics_.contains(message.substr(0, message.find(' '))))
          reply["messages"].push_back(std::move(message));
    return reply.dump();
  }
  void serve() {
    if (lab_) lab_->serve();
  }
  bool has_daemon() const { return lab_ && lab_->is_running(); }

 private:
  void obey(json order, json& reply) {
    const std::string op = order.at("op");
    order.erase("op");
    if (op == "world") {
      lab_.emplace(time_, driftd::simulator::load_scenario(order.at("scenario").get<std::string>()),
                   order.at("rate_hz").get<double>());
      return;
    }
    if (!lab_) throw std::invalid_argument("the first order is \"world\"");
    if (op == "start") {
      for (const auto& [name, value] : order.at("environment").items())
        setenv(name.c_str(), value.get<std::string>().c_str(), 1);
      lab_->start_daemon(order.at("config").get<std::string>());
    } else if (op == "stop") {
      lab_->stop_daemon();
    } else if (op == "kill") {
      lab_->kill_daemon();
    } else if (op == "reload") {
      lab_->reload_daemon();
    } else if (op == "time_of_command") {
      lab_->set_time_of_command(std::llround(1e9 * order.at("seconds").get<double>()));
    } else if (op == "advance") {
      lab_->advance(std::llround(1e9 * order.at("seconds").get<double>()));
    } else if (op == "hold_corrections") {
      lab_->hold_corrections(std::llround(1e9 * order.at("seconds").get<double>()));
    } else if (op == "driver_period") {
      lab_->set_driver_period(std::llround(1e9 * order.at("seconds").get<double>()));
    } else if (op == "simulator") {
      reply.update(json::parse(lab_->command_simulator(order.dump())));
    } else if (op == "wish") {
      for (const std::string topic : order.at("topics")) topics_.insert(topic);
    } else {
      throw std::invalid_argument("there is no order \"" + op + "\"");
    }
  }

  VirtualTime& time_;
  std::optional<Lab> lab_;
  std::set<std::string> topics_;
};

/// Lines of standard input; false at its end.
class Input {
 public:
  /// One that is there within `wait_ms`.
  std::optional<std::string> line(int wait_ms) {
    if (text_.find('\n') == std::string::npos) {
      pollfd input{STDIN_FILENO, POLLIN, 0};
      if (poll(&input, 1, wait_ms) > 0) read_more();
    }
    const std::size_t end = text_.find('\n');
    if (end == std::string::npos) return std::nullopt;
    std::string line = text_.substr(0, end);
    text_.erase(0, end + 1);
    return line;
  }
  bool ended() const { return ended_; }

 private:
  void read_more() {
    std::array<char, 4096> bytes{};
    const ssize_t count = read(STDIN_FILENO, bytes.data(), bytes.size());
    if (count > 0) text_.append(bytes.data(), static_cast<std::size_t>(count));
    ended_ = count <= 0;
  }
  std::string text_;
  bool ended_ = false;
};

}  // namespace

int main() {
  spdlog::set_default_logger(spdlog::stderr_color_mt("driftd"));
  spdlog::set_pattern("%^%l%$ %v");
  signal(SIGPIPE, SIG_IGN);  // NOLINT(cert-err33-c): cannot fail for SIGPIPE
  VirtualTime time;
  Orders orders(time);
  Input input;
  while (!input.ended()) {
    if (const auto line = input.line(orders.has_daemon() ? 0 : 20))
      std::cout << orders.answer(*line) << std::endl;
    else
      orders.serve();
  }
}
