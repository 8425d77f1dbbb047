// SPDX-License-Identifier: MIT
#include "daemon/command_handlers.hpp"

#include <set>
#include <string>

namespace driftd::daemon {
namespace {

/// What a refusal repeats of a request: the replies that nobody reads take up memory.
std::string beginning_of(const std::string& text) {
  constexpr std::size_t kMost = 40;
  return text.size() <= kMost ? text : text.substr(0, kMost) + "...";
}

void allow_only(const nlohmann::json& request, const std::set<std::string>& fields) {
  for (const auto& [key, value] : request.items()) {
    if (key == "command" || key == "id" || fields.count(key) != 0) continue;
    throw CommandRefused{Refusal::BadRequest,
                         "unknown field `" + beginning_of(key) + "` for command `" +
                             beginning_of(request["command"].get<std::string>()) + "`"};
  }
}

bool wants_find(const nlohmann::json& request) {
  if (!request.contains("find")) return false;
  if (!request["find"].is_boolean()) {
    throw CommandRefused{Refusal::BadRequest, "`find` is true or false"};
  }
  return request["find"].get<bool>();
}

}  // namespace

void CommandHandlers::carry_out(const Json& request, Answer answer, std::int64_t now_ns) {
  const auto name = request["command"].get<std::string>();
  if (name == "markers") {
    allow_only(request, {"find"});
    if (wants_find(request)) return markers_.find(std::move(answer), now_ns);
    return answer(Reply{.fields = {{"markers", markers_.markers()}}});
  }
  allow_only(request, {});
  if (name == "status") return answer(Reply{.fields = {{"status", status_()}}});
  if (name == "lock") return lock_.lock(std::move(answer), now_ns);
  if (name == "unlock") return lock_.unlock(std::move(answer), now_ns);
  if (name == "reset") return lock_.reset(std::move(answer), now_ns);
  if (name == "snapshot") return snapshots_.request(std::move(answer), now_ns);
  throw CommandRefused{Refusal::BadRequest,
                       "unknown command `" + beginning_of(name) +
                           "`; there are status, lock, unlock, reset, markers, snapshot"};
}

}  // namespace driftd::daemon
