// SPDX-License-Identifier: MIT
#include "clients/web/instance.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/monotonic.hpp"
#include "clients/common/find_daemon.hpp"
#include "clients/common/measure/advice.hpp"
#include "clients/web/request_rules.hpp"
#include "config/endpoint.hpp"
#include "config/local_sockets.hpp"

namespace driftd::web {
namespace {

using nlohmann::json;

constexpr std::int64_t kMs = 1'000'000;
constexpr std::int64_t kFlushNs = 45 * kMs;    // 60 ms, by turns of 20
constexpr std::int64_t kStatusNs = 900 * kMs;  // each second, whatever the daemon's interval is
constexpr std::int64_t kSilentNs = 3 * kNanosecondsPerSecond;
constexpr std::int64_t kSnapshotNs = 90 * kMs;  // at most ten a second, by turns of 20 ms
constexpr std::int64_t kSnapshotWaitNs = 5 * kNanosecondsPerSecond;
constexpr std::int64_t kMarkersNs = 200 * kMs;
constexpr std::int64_t kSpectrumNs = 2 * kNanosecondsPerSecond;
constexpr std::int64_t kAccessNs = 10 * kNanosecondsPerSecond;
constexpr std::int64_t kConnectNs = 500 * kMs;
constexpr std::int64_t kCommandNs = 10 * kNanosecondsPerSecond;
constexpr std::size_t kMostCommandBytes = 4000;  // driftd takes 4096, and an `id` is added
constexpr std::size_t kMostEvents = 200;
constexpr std::size_t kMinute = 1200;  // samples, each 50 ms
constexpr int kMostAtOnce = 20'000;    // messages of a turn
constexpr std::string_view kPosition = "position ";

std::string local_one(const config::Endpoints& endpoints) {
  const auto local = std::ranges::find_if_not(endpoints, config::is_tcp);
  return local != endpoints.end() ? *local : endpoints.front();
}

json refusal(const char* code, const std::string& why) {
  return {{"ok", false}, {"code", code}, {"error", why}};
}

}  // namespace

Instance::Instance(zmq::context_t& context, InstanceOptions options, Tell tell, Show show)
    : context_(context),
      options_(std::move(options)),
      tell_(std::move(tell)),
      show_(std::move(show)) {}

std::string Instance::why_observe() const {
  if (!options_.operate) return "this page only shows: driftd-web was started without --operate";
  if (daemon_lets_ == Lets::Observe)
    return "this page only shows: driftd gives its user the role " + roles_;
  return {};
}

Instance::Endpoints Instance::endpoints() const {
  const config::Wire& wire = options_.config.wire;
  Endpoints all = {local_one(wire.publish), local_one(wire.corrections), local_one(wire.commands)};
  for (std::string* endpoint : {&all.publish, &all.corrections, &all.commands}) {
    if (options_.in_folder && config::is_named(*endpoint))
      endpoint->insert(std::string_view("ipc://").size(), options_.name + '/');
    *endpoint = clients::find_endpoint(*endpoint);
  }
  return all;
}

/// A daemon that was started anew may listen where its file says by now.
void Instance::follow_wire() {
  if (options_.file.empty()) return;
  try {
    options_.config.wire = config::load(options_.file).wire;
  } catch (const config::ConfigError&) {  // as it was read before
  }
}

void Instance::connect(std::int64_t now_ns) {
  follow_wire();
  try {
    at_ = endpoints();
    clients::listener_at(at_.commands);
  } catch (const clients::Unreachable& error) {
    return say_gone(error.what());
  } catch (const clients::BadEndpoint& error) {
    if (connected_ns_ == 0) throw;  // at the start that is wrong usage
    return say_gone(error.what());
  }
  published_ = std::make_unique<Inbox>(
      context_, at_.publish, std::vector<std::string>{"position", "markers", "status", "event"},
      Inbox::Keep::All);
  // A socket of its own, which the role may not allow.
  corrections_ = std::make_unique<Inbox>(
      context_, at_.corrections, std::vector<std::string>{"correction"}, Inbox::Keep::Newest);
  axial_corrections_ = std::make_unique<Inbox>(
      context_, at_.corrections, std::vector<std::string>{"axial"}, Inbox::Keep::Newest);
  observe_ = std::make_unique<Requests>(context_, at_.commands);
  if (options_.operate) operate_ = std::make_unique<Requests>(context_, at_.commands);
  connected_ns_ = now_ns;
  access_ns_ = status_ns_ = 0;
  status_due_ = true;
  status_asked_ = snapshot_asked_ = false;
}

void Instance::disconnect() {
  observe_->give_up();
  if (operate_ != nullptr) operate_->give_up();
  published_.reset();
  corrections_.reset();
  axial_corrections_.reset();
  observe_.reset();
  operate_.reset();
}

void Instance::turn(const Wanted& wanted, std::int64_t now_ns) {
  tabs_ = wanted.tabs;
  if (published_ == nullptr) {
    if (now_ns < connect_again_ns_) return;
    connect_again_ns_ = now_ns + kConnectNs;
    connect(now_ns);
    if (published_ == nullptr) return;
  }
  // Corrections first: a position is shown with the one that it led to, or the one before.
  for (Inbox* const inbox : {corrections_.get(), axial_corrections_.get()})
    if (const auto message = inbox->next())
      if (const auto read = clients::parse_message(*message)) correction_.update(read->body);
  for (int i = 0; i < kMostAtOnce; ++i) {
    const auto message = published_->next();
    if (!message) break;
    if (message->starts_with(kPosition))
      take_position(message->substr(kPosition.size()));
    else if (const auto read = clients::parse_message(*message))
      take(*read, now_ns);
  }
  tell_events();
  observe_->turn(now_ns);
  if (operate_ != nullptr) operate_->turn(now_ns);
  if (now_ns - access_ns_ >= kAccessNs) ask_access(now_ns);
  if (status_due_ || now_ns - status_ns_ >= kStatusNs) ask_status(now_ns);
  ask_snapshot(wanted, now_ns);
  if (now_ns - flushed_ns_ >= kFlushNs) flush(now_ns);
  tell_spectrum(wanted.spectrum, now_ns);
  if (now_ns - std::max(status_ns_, connected_ns_) >= kSilentNs) {
    say_gone("driftd at " + at_.commands + " has not answered for 3 s");
    disconnect();  // it may be in another folder by now
  }
}

void Instance::take(const clients::Message& message, std::int64_t now_ns) {
  take_session(message.body);
  if (message.topic == "status") take_status(message.body, now_ns);
  if (message.topic == "event") take_event(message.body);
  if (message.topic == "markers") {
    markers_ = markers_message(message.body, options_.config.camera.gain_e_per_adu);
    markers_due_ = true;
  }
}

void Instance::take_session(const json& body) {
  const auto session = body.find("session");
  if (session == body.end() || !session->is_string() || *session == session_) return;
  session_ = session->get<std::string>();
  correction_ = nullptr;
  forget_markers();
  access_ns_ = 0;
  read_config();
}

void Instance::forget_markers() {
  if (!markers_.is_object() || markers_["markers"].empty()) return;
  markers_ = markers_message(json::object(), 0);
  markers_due_ = true;
}

void Instance::read_config() {
  ++changes_;
  if (options_.file.empty()) return;
  try {
    options_.config = config::load(options_.file);
  } catch (const config::ConfigError& error) {
    spdlog::warn("{}: as it was read before: {}", options_.name, error.what());
  }
}

void Instance::take_position(std::string_view position) {
  const auto sample = sample_of(position, correction_);
  if (!sample) return;
  if (!minute_.empty() && sample->t_s < minute_.back().t_s) minute_.clear();  // another clock
  history_.add(*sample);
  recent_.add(sample->frame_id, sample->t_s, sample->frame_nm);
  places_are_new_ = true;
  if (sieve_.passes(sample->t_s)) fresh_.push_back(*sample);
}

void Instance::take_status(const json& status, std::int64_t now_ns) {
  if (!gone_.empty()) spdlog::info("{}: driftd is there", options_.name);
  gone_.clear();
  status_ns_ = now_ns;
  status_ = status;
  const json& markers = status_.value("markers", json());
  if (markers.is_object() && markers.value("tracking", json()) == 0 &&
      markers.value("witness", json()) == 0)
    forget_markers();
  tell({{"kind", "status"}, {"status", status_}}, "status");
  tell_advice();
}

void Instance::tell_advice() {
  try {
    json advice = {{"kind", "advice"}, {"advice", clients::to_json(clients::advice_of(status_))}};
    if (std::exchange(advice_, advice) != advice) tell(advice, "advice");
  } catch (const json::exception&) {
    advice_ = nullptr;  // a status of another version
  }
}

void Instance::take_event(const json& event) {
  events_.push_back(event);
  ++fresh_events_;
  if (events_.size() > kMostEvents) events_.pop_front();
  status_due_ = true;
  const auto code = event.find("code");
  if (code == event.end()) return;
  if (*code == "access_changed") access_ns_ = 0;
  if (*code == "configuration_reloaded") read_config();
}

void Instance::tell_events() {
  const std::size_t fresh = std::min(std::exchange(fresh_events_, 0), events_.size());
  if (fresh == 0) return;
  const auto first = events_.end() - static_cast<std::ptrdiff_t>(fresh);
  tell({{"kind", "event"}, {"events", json(std::vector<json>(first, events_.end()))}}, {});
}

void Instance::ask_status(std::int64_t now_ns) {
  if (status_asked_) return;  // an event since then leaves it due: the answer may be from before
  status_asked_ = observe_->send(
      {{"command", "status"}}, now_ns + kSilentNs, [this](std::optional<clients::Reply> reply) {
        status_asked_ = false;
        if (reply && reply->body.contains("status") && reply->body["status"].is_object())
          take_status(reply->body["status"], monotonic_ns());
      });
  if (status_asked_) status_due_ = false;
}

void Instance::ask_access(std::int64_t now_ns) {
  const bool sent = observe_->send(
      {{"command", "access"}}, now_ns + kSilentNs, [this](std::optional<clients::Reply> reply) {
        if (!reply) return;
        const Lets before = std::exchange(daemon_lets_, Lets::Observe);
        const json& body = reply->body;
        const auto roles = body.find("roles");
        if (roles != body.end())
          roles_ = roles->is_string() ? roles->get<std::string>() : "none that is known here";
        else  // a daemon that does not know the question has no roles
          roles_ = "command";
        if (roles_.find("command") != std::string::npos) daemon_lets_ = Lets::Operate;
        if (daemon_lets_ != before) ++changes_;
      });
  if (sent) access_ns_ = now_ns;
}

void Instance::ask_snapshot(const Wanted& wanted, std::int64_t now_ns) {
  if (wanted.images.empty() || snapshot_asked_ || now_ns - snapshot_ns_ < kSnapshotNs) return;
  views_ = wanted.images;
  snapshot_asked_ = observe_->send(
      {{"command", "snapshot"}}, now_ns + kSnapshotWaitNs,
      [this](std::optional<clients::Reply> reply) {
        snapshot_asked_ = false;
        if (!reply || !reply->body.contains("frame")) return;
        const Snapshot snapshot = {reply->body["frame"], std::move(reply->attachment),
                                   options_.config.camera.saturation_adu};
        for (const View& view : views_)
          if (auto message = image_message(snapshot, view))
            show_(std::make_shared<const std::string>(std::move(*message)), view);
      });
  if (snapshot_asked_) snapshot_ns_ = now_ns;
}

void Instance::flush(std::int64_t now_ns) {
  flushed_ns_ = now_ns;
  if (!fresh_.empty()) {
    if (tabs_) tell(samples_message(fresh_, false), {});
    minute_.insert(minute_.end(), fresh_.begin(), fresh_.end());
    fresh_.clear();
    while (minute_.size() > kMinute) minute_.pop_front();
  }
  if (const auto news = history_.news()) tell(*news, Viewer::kHistory);
  if (markers_due_ && now_ns - markers_told_ns_ >= kMarkersNs) {
    markers_due_ = false;
    markers_told_ns_ = now_ns;
    tell(markers_, "later markers");
  }
}

void Instance::tell_spectrum(bool wanted, std::int64_t now_ns) {
  if (!wanted || !places_are_new_ || now_ns - spectrum_ns_ < kSpectrumNs) return;
  places_are_new_ = false;
  spectrum_ns_ = now_ns;
  if (const auto spectrum = recent_.spectrum()) tell(*spectrum, "later spectrum");
}

void Instance::say_gone(const std::string& reason) {
  if (reason == gone_) return;
  spdlog::warn("{}: {}", options_.name, reason);
  gone_ = reason;
  tell({{"kind", "gone"}, {"reason", gone_}}, {});
}

void Instance::tell(const json& header, std::string_view slot) {
  if (tabs_) tell_(std::make_shared<const std::string>(packed(header)), slot);
}

std::vector<std::string> Instance::past() const {
  std::vector<std::string> messages;
  if (!gone_.empty()) messages.push_back(packed({{"kind", "gone"}, {"reason", gone_}}));
  if (gone_.empty() && status_.is_object())
    messages.push_back(packed({{"kind", "status"}, {"status", status_}}));
  if (gone_.empty() && advice_.is_object()) messages.push_back(packed(advice_));
  messages.push_back(packed(samples_message({minute_.begin(), minute_.end()}, true)));
  if (markers_.is_object()) messages.push_back(packed(markers_));
  messages.push_back(packed({{"kind", "event"}, {"past", true}, {"events", events_}}));
  return messages;
}

void Instance::whole_picture(std::int64_t now_ns, Requests::Done done) {
  const bool sent = observe_ != nullptr &&
                    observe_->send({{"command", "snapshot"}}, now_ns + kSnapshotWaitNs, done);
  if (!sent) done(std::nullopt);
}

std::vector<std::string> Instance::day() const {
  std::vector<std::string> messages;
  for (const json& part : history_.parts()) messages.push_back(packed(part));
  return messages;
}

void Instance::command(const json& command, const std::string& forbidden, std::int64_t now_ns,
                       Answer answer) {
  const std::string name = command.value("command", "");
  if (name == "stage")
    return answer(403,
                  refusal("forbidden", "reports of a stage come from its driver, not from a page"));
  // As many at once as there are connections would be as many whole frames in memory.
  if (name == "snapshot")
    return answer(403, refusal("forbidden", "a page gets its pictures by the stream (/ws)"));
  // A longer one would end the connection, and with it what others wait for.
  if (command.dump(-1, ' ', false, json::error_handler_t::replace).size() > kMostCommandBytes)
    return answer(413, refusal("bad_request", "a command has at most " +
                                                  std::to_string(kMostCommandBytes) + " bytes"));
  const bool acts = !only_observes(command);
  if (acts && !forbidden.empty()) return answer(403, refusal("forbidden", forbidden));
  if (acts && !may_operate()) return answer(403, refusal("forbidden", why_observe()));
  Requests* const requests = acts ? operate_.get() : observe_.get();
  const bool sent =
      requests != nullptr &&
      requests->send(command, now_ns + kCommandNs, [answer](std::optional<clients::Reply> reply) {
        if (reply) return answer(200, std::move(reply->body));
        answer(504, refusal("unreachable",
                            "driftd has not answered; it may still carry the command out"));
      });
  if (!sent)
    answer(502, refusal("unreachable",
                        gone_.empty() ? "driftd is not connected; nothing was sent" : gone_));
}

}  // namespace driftd::web
