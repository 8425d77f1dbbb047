// SPDX-License-Identifier: MIT
#include "clients/web/page_site.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "base/monotonic.hpp"
#include "clients/web/json_response.hpp"

namespace driftd::web {
namespace {

using nlohmann::json;

std::shared_ptr<const std::string> shared(std::string message) {
  return std::make_shared<const std::string>(std::move(message));
}

/// The value of `instance=` in what follows the question mark; names need no escaping.
std::string_view instance_of(std::string_view query) {
  constexpr std::string_view kKey = "instance=";
  while (!query.empty()) {
    const std::string_view part = query.substr(0, query.find('&'));
    if (part.starts_with(kKey)) return part.substr(kKey.size());
    query.remove_prefix(std::min(query.size(), part.size() + 1));
  }
  return {};
}

}  // namespace

PageSite::PageSite(std::vector<InstanceOptions> instances, Page page, Rules rules,
                   std::optional<Sessions> sessions, std::string version)
    : page_(std::move(page)),
      rules_(std::move(rules)),
      sessions_(std::move(sessions)),
      version_(std::move(version)) {
  for (std::size_t i = 0; i < instances.size(); ++i) {
    const auto tell = [this, i](const auto& message, std::string_view slot) {
      for (auto& [viewer, tab] : tabs_)
        if (tab.instance == instances_[i].get()) viewer->send(message, slot);
    };
    const auto show = [this, i](const auto& message, const View& view) {
      for (auto& [viewer, tab] : tabs_)
        if (tab.instance == instances_[i].get() && view_of(*viewer, tab) == view)
          viewer->send(message, Viewer::kPicture);
    };
    instances_.push_back(std::make_unique<Instance>(context_, std::move(instances[i]), tell, show));
    tools_.push_back(std::make_unique<Tools>(*instances_.back(), tell));
  }
  told_changes_.resize(instances_.size());
}

Instance* PageSite::find(std::string_view name) {
  if (name.empty()) return instances_.front().get();
  const auto found = std::ranges::find_if(
      instances_, [name](const auto& instance) { return instance->name() == name; });
  return found == instances_.end() ? nullptr : found->get();
}

Tools& PageSite::tools_of(const Instance& instance) {
  const auto is_it = [&](const auto& one) { return one.get() == &instance; };
  return *tools_[static_cast<std::size_t>(std::ranges::find_if(instances_, is_it) -
                                          instances_.begin())];
}

std::optional<View> PageSite::view_of(const Viewer& viewer, const Tab& tab) {
  const auto room = viewer.room_for_picture();
  if (!tab.wants.images || !room) return std::nullopt;
  return View{tab.wants.region, *room};
}

Wanted PageSite::wanted_of(const Instance& instance) const {
  Wanted wanted;
  for (const auto& [viewer, tab] : tabs_) {
    if (tab.instance != &instance) continue;
    wanted.tabs = true;
    wanted.spectrum = wanted.spectrum || tab.wants.spectrum;
    if (const auto view = view_of(*viewer, tab);
        view && std::ranges::find(wanted.images, *view) == wanted.images.end())
      wanted.images.push_back(*view);
  }
  return wanted;
}

void PageSite::turn() {
  const std::int64_t now_ns = monotonic_ns();
  for (std::size_t i = 0; i < instances_.size(); ++i) {
    Instance& instance = *instances_[i];
    instance.turn(wanted_of(instance), now_ns);
    tools_[i]->turn(now_ns);
    if (std::exchange(told_changes_[i], instance.changes()) == instance.changes()) continue;
    for (auto& [viewer, tab] : tabs_)
      if (tab.instance == &instance) viewer->send(shared(hello(instance, tab.session)), {});
  }
  if (sessions_ && now_ns - sessions_looked_at_ns_ >= kNanosecondsPerSecond) {
    sessions_looked_at_ns_ = now_ns;
    for (const auto& [viewer, tab] : tabs_) sessions_->use(tab.session, now_ns);
    sessions_->end_idle(now_ns);
    drop_strangers();
  }
}

void PageSite::let_in(std::vector<Login> logins) {
  sessions_->set(std::move(logins));
  drop_strangers();
}

void PageSite::drop_strangers() {
  for (auto& [viewer, tab] : tabs_)
    if (sessions_->find(tab.session) == nullptr) viewer->drop();
}

std::string PageSite::session_of(const Request& request) {
  return sessions_ ? sessions_->of(request, monotonic_ns()) : std::string();
}

std::string PageSite::csrf_of(const std::string& session) const {
  if (!sessions_) return rules_.token;
  const Session* const found = sessions_->find(session);
  return found == nullptr ? std::string() : found->csrf;
}

std::string PageSite::forbidden_to(const std::string& session) const {
  if (!sessions_) return {};
  const Session* const found = sessions_->find(session);
  if (found != nullptr && found->login.may_operate) return {};
  return "this page only shows: the login " + (found == nullptr ? "" : found->login.name) +
         " has the role observe";
}

std::string PageSite::hello(const Instance& instance, const std::string& session) const {
  json names = json::array();
  for (const auto& one : instances_) names.push_back(one->name());
  const config::Config& config = instance.config();
  const Session* const login = sessions_ ? sessions_->find(session) : nullptr;
  const std::string why =
      instance.why_observe().empty() ? forbidden_to(session) : instance.why_observe();
  return packed(
      {{"kind", "hello"},
       {"instances", names},
       {"instance", instance.name()},
       {"version", version_},
       {"role", instance.may_operate() && why.empty() ? "operate" : "observe"},
       {"why_observe", why},
       {"csrf", csrf_of(session)},
       {"login", login == nullptr ? json() : json(login->login.name)},
       {"logs_out", login != nullptr && !login->login.token_hash.empty()},
       {"config",
        {{"pixel_size_nm", config.optics.pixel_size_nm},
         {"gain_e_per_adu", config.camera.gain_e_per_adu},
         {"exposure_us", config.camera.exposure_us},
         {"gain_db", config.camera.gain_db},
         {"frame_rate_hz", config.camera.frame_rate_hz},
         {"saturation_adu", config.camera.saturation_adu},
         {"tolerance_nm", config.gate.tolerance_nm},
         {"max_range_nm", config.control.range_limit_nm},
         {"z_max_range_nm", config.axial.range_limit_nm},
         {"stage_is_calibrated", config.stage.acquaint == control::AcquaintWhen::Held}}}});
}

std::optional<Response> PageSite::refuse(const Request& request) {
  if (auto refused = refuse_request(request, rules_, csrf_of(session_of(request)))) return refused;
  if (request.upgrade && find(instance_of(request.query)) == nullptr)
    return Response{.status = 404, .body = "there is no such instance\n"};
  return std::nullopt;
}

void PageSite::answer(const Request& request, std::function<void(Response)> done) {
  const std::string session = session_of(request);
  const bool is_in = !sessions_ || !session.empty();
  if (request.path == kLoginPath)
    return done(request.method == "POST" ? log_in(request) : json_response(200, {{"in", is_in}}));
  if (request.path == kLogoutPath && sessions_) {
    Response gone = json_response(200, {{"in", false}});
    gone.headers.push_back(sessions_->log_out(session));
    drop_strangers();
    return done(gone);
  }
  if (request.method != "POST")
    return done(
        serve_file(page_, request.path == "/" && !is_in ? "/login.html" : request.path, request));
  const json asked = json::parse(request.body, nullptr, /*allow_exceptions=*/false);
  const auto names = [&asked](const char* what) {
    return asked.contains(what) && asked[what].is_object() && asked[what].contains(what) &&
           asked[what][what].is_string();
  };
  const bool whole = asked.is_object() && asked.contains("command") != asked.contains("tool") &&
                     (names("command") || names("tool")) &&
                     (!asked.contains("instance") || asked["instance"].is_string());
  if (!whole)
    return done(
        {.status = 400,
         .body = "a command is {\"instance\":\"NAME\",\"command\":{\"command\":\"lock\"}}\n"});
  Instance* const instance = find(asked.value("instance", ""));
  if (instance == nullptr) return done({.status = 404, .body = "there is no such instance\n"});
  if (names("tool"))
    return tools_of(*instance).use(asked["tool"], forbidden_to(session), monotonic_ns(), done);
  instance->command(asked["command"], forbidden_to(session), monotonic_ns(),
                    [done = std::move(done)](unsigned status, const json& reply) {
                      done(json_response(status, reply));
                    });
}

Response PageSite::log_in(const Request& request) {
  constexpr std::int64_t kTellNs = 10 * kNanosecondsPerSecond;
  const std::int64_t now_ns = monotonic_ns();
  const auto token = token_in(request.body);
  if (!sessions_ || !token)
    return {.status = 400, .body = "a login is {\"token\":\"...\"}, where one is asked for\n"};
  if (!attempts_.may_try(request.peer, now_ns))
    return {.status = 429,
            .body = "too many wrong tokens came from here: wait for 10 s\n",
            .headers = {{"Retry-After", "10"}}};
  if (auto cookie = sessions_->log_in(*token, now_ns)) {
    sessions_->log_out(sessions_->of(request, now_ns));  // the one that it takes the place of
    Response in = json_response(200, {{"in", true}});
    in.headers.push_back(std::move(*cookie));
    return in;
  }
  attempts_.was_wrong(request.peer, now_ns);
  if (now_ns - wrong_told_ns_ >= kTellNs) {
    wrong_told_ns_ = now_ns;
    spdlog::warn("a wrong token from {}, of {} since the start",
                 request.peer.empty() ? "the socket" : request.peer, attempts_.wrong());
  }
  return {.status = 401, .body = "this token is nobody's\n"};
}

void PageSite::opened(Viewer& viewer, const Request& request) {
  Tab& tab = tabs_[&viewer];
  tab.instance = find(instance_of(request.query));
  tab.session = session_of(request);
  if (sessions_ && tab.session.empty()) return viewer.drop();  // it ended meanwhile
  viewer.send(shared(hello(*tab.instance, tab.session)), {});
  for (auto& past : {tab.instance->past(), tools_of(*tab.instance).past()})
    for (const std::string& message : past) viewer.send(shared(message), {});
  for (std::string& message : tab.instance->day())
    viewer.send(shared(std::move(message)), Viewer::kHistory);
}

bool PageSite::heard(Viewer& viewer, std::string_view text) {
  return take_wants(text, tabs_[&viewer].wants);
}

void PageSite::closed(Viewer& viewer) {
  tabs_.erase(&viewer);
}

}  // namespace driftd::web
