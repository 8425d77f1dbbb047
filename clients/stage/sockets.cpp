// SPDX-License-Identifier: MIT
#include "clients/stage/sockets.hpp"

#include <nlohmann/json.hpp>

#include "base/monotonic.hpp"
#include "clients/common/find_daemon.hpp"

namespace driftd::stage {
namespace {

constexpr int kReconnectMs = 50;  // a daemon that restarts is heard again soon
constexpr std::int64_t kLookAgain_ns = kNanosecondsPerSecond / 5;
/// When one was connected to, and is silent: the next one is nearly always at the same place.
constexpr std::int64_t kLookElsewhere_ns = 2 * kNanosecondsPerSecond;
constexpr std::int64_t kSilence_ns = 2 * kNanosecondsPerSecond;
/// A report that says "stopped" is worth so much of a wait at the end.
constexpr int kLingerMs = 200;

std::string text_at(const nlohmann::json& body, const char* key) {
  const auto found = body.find(key);
  return found != body.end() && found->is_string() ? found->get<std::string>() : "";
}

}  // namespace

void DaemonEndpoint::look(zmq::socket_t& socket, bool heard, std::int64_t now_ns) {
  if ((heard && connected()) || now_ns < next_look_ns_) return;
  next_look_ns_ = now_ns + (connected() ? kLookElsewhere_ns : kLookAgain_ns);
  try {
    const std::string place = clients::find_endpoint(endpoint_);
    trouble_.clear();
    if (place == place_) return;
    socket.connect(place);
    if (connected()) socket.disconnect(place_);
    place_ = place;
  } catch (const std::exception& error) {  // nobody listens, or this user may not connect
    trouble_ = error.what();
  }
}

CorrectionSocket::CorrectionSocket(zmq::context_t& context, const std::string& endpoint,
                                   Group group)
    : socket_(context, zmq::socket_type::sub), endpoint_(endpoint) {
  socket_.set(zmq::sockopt::linger, 0);
  socket_.set(zmq::sockopt::conflate, 1);
  socket_.set(zmq::sockopt::reconnect_ivl, kReconnectMs);
  socket_.set(zmq::sockopt::subscribe, std::string(topic_of(group)));
}

void CorrectionSocket::look(bool answers, std::int64_t now_ns) {
  const bool again = answers && !answered_;
  answered_ = answers;
  if (again) endpoint_.look_anew();
  endpoint_.look(socket_, !again && (answers || now_ns - heard_ns_ < kSilence_ns), now_ns);
}

std::optional<std::string> CorrectionSocket::newest() {
  std::optional<std::string> message;
  zmq::message_t part;
  while (socket_.recv(part, zmq::recv_flags::dontwait)) message = part.to_string();
  if (message) heard_ns_ = monotonic_ns();
  return message;
}

ReportSocket::ReportSocket(zmq::context_t& context, const std::string& endpoint)
    : socket_(context, zmq::socket_type::dealer), endpoint_(endpoint), heard_ns_(monotonic_ns()) {
  socket_.set(zmq::sockopt::linger, kLingerMs);
  socket_.set(zmq::sockopt::immediate, true);  // no queue for a daemon that is away
  socket_.set(zmq::sockopt::sndhwm, 4);
  socket_.set(zmq::sockopt::rcvhwm, 64);
  socket_.set(zmq::sockopt::reconnect_ivl, kReconnectMs);
}

void ReportSocket::send(const std::string& report, std::int64_t now_ns) {
  endpoint_.look(socket_, now_ns - heard_ns_ < kSilence_ns, now_ns);
  socket_.send(zmq::buffer(report), zmq::send_flags::dontwait);
}

std::optional<DaemonWord> ReportSocket::receive() {
  zmq::message_t part;
  if (!socket_.recv(part, zmq::recv_flags::dontwait)) return std::nullopt;
  while (part.more()) {  // the last one counts
    if (!socket_.recv(part, zmq::recv_flags::dontwait)) return std::nullopt;
  }
  heard_ns_ = monotonic_ns();
  const auto body = nlohmann::json::parse(part.to_string_view(), nullptr, false);
  if (!body.is_object() || !body.contains("ok") || !body["ok"].is_boolean()) return std::nullopt;
  return DaemonWord{.ok = body["ok"].get<bool>(),
                    .code = text_at(body, "code"),
                    .error = text_at(body, "error"),
                    .state = text_at(body, "state"),
                    .z_state = text_at(body, "z_state")};
}

std::string ReportSocket::trouble(std::int64_t now_ns) const {
  if (now_ns - heard_ns_ < kSilence_ns) return "";
  if (!endpoint_.trouble().empty()) return endpoint_.trouble();
  return endpoint_.connected() ? "driftd does not answer" : "driftd has not been looked for yet";
}

}  // namespace driftd::stage
