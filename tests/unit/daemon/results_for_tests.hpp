// SPDX-License-Identifier: MIT
// Results of frames and sockets that the daemon's tests share.
#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <zmq.hpp>

#include "base/monotonic.hpp"
#include "daemon/loop/loop_values.hpp"

namespace driftd::daemon::test {

inline FrameResult result_with_correction(std::uint64_t lock_id) {
  FrameResult result;
  result.frame_id = 813;
  result.camera_time_ns = 1625998044;
  result.arrival_ns = monotonic_ns();
  result.handed_ns = result.arrival_ns + 1000;
  result.expires_ns = result.arrival_ns + 10'000'000'000;
  result.state = control::LockState::Locked;
  result.drift.valid = true;
  result.drift.drift_nm = {0.5, -0.25};
  result.drift.frame_drift_nm = {0.6, -0.3};
  result.drift.covariance_nm2 = {0.04, 0.001, 0.09};
  result.drift.markers_used = 12;
  result.drift.markers_total = 13;
  result.drift.witness_valid = true;
  result.drift.witness_nm = {0.3, 0.1};
  result.drift.witnesses_used = 3;
  result.has_correction = true;
  result.lock_id = lock_id;
  result.correction = {{-18.5, 7.75}, {-0.125, 0.25}, control::kLimitNone};
  result.limits = {.step_nm = 20, .low_nm = {-400, -300}, .high_nm = {350, 250}};
  return result;
}

/// A subscriber to one endpoint that waits for what it asks for.
class Reader {
 public:
  explicit Reader(const std::string& endpoint, const std::string& topic = "")
      : socket_(context_, zmq::socket_type::sub) {
    socket_.set(zmq::sockopt::subscribe, topic);
    socket_.set(zmq::sockopt::rcvtimeo, 2000);
    socket_.connect(endpoint);
  }
  /// To another publisher beside the first; between the two there is no order.
  void connect(const std::string& endpoint) { socket_.connect(endpoint); }
  /// Topic and object of the next message; nothing after `timeout_ms` without one.
  std::optional<std::pair<std::string, nlohmann::json>> next(int timeout_ms = 2000) {
    socket_.set(zmq::sockopt::rcvtimeo, timeout_ms);
    zmq::message_t message;
    if (!socket_.recv(message)) return std::nullopt;
    const std::string text = message.to_string();
    const auto space = text.find(' ');
    return std::pair{text.substr(0, space), nlohmann::json::parse(text.substr(space + 1))};
  }

 private:
  zmq::context_t context_{1};
  zmq::socket_t socket_;
};

/// Waits, poking, until the publisher has seen a subscriber.
template <typename Publisher>
bool subscribed(Publisher& publisher) {
  for (int i = 0; i < 2000 && !publisher.has_subscriber(); ++i) {
    publisher.poke();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return publisher.has_subscriber();
}

/// The same for a subscriber to corrections.
template <typename Publisher>
bool driven(Publisher& publisher) {
  for (int i = 0; i < 2000 && !publisher.has_driver(); ++i) {
    publisher.poke();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return publisher.has_driver();
}

}  // namespace driftd::daemon::test
