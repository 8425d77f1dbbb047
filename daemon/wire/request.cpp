// SPDX-License-Identifier: MIT
#include "daemon/wire/request.hpp"

#include <variant>

namespace driftd::daemon {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxIdBytes = 256;  // a reply that nobody reads holds it, too

/// Looks at it without copying: nlohmann's copy and dump() recurse as deep as it is nested.
bool may_be_id(const json& id) {
  if (id.is_string()) return id.get_ref<const std::string&>().size() <= kMaxIdBytes;
  return id.is_number();
}

}  // namespace

json read_request(std::string_view text, std::size_t parts, json& id) {
  if (parts > kMaxRequestParts) {
    throw CommandRefused{Refusal::BadRequest,
                         "a request has at most " + std::to_string(kMaxRequestParts) + " parts"};
  }
  json request = json::parse(text, nullptr, false);
  if (request.is_discarded() || !request.is_object()) {
    throw CommandRefused{Refusal::BadRequest, "a request is one JSON object"};
  }
  if (request.contains("id")) {
    if (!may_be_id(request["id"])) {
      throw CommandRefused{Refusal::BadRequest, "`id` is a number or a string of at most " +
                                                    std::to_string(kMaxIdBytes) + " bytes"};
    }
    id = {{"id", request["id"]}};
  }
  if (!request.contains("command") || !request["command"].is_string()) {
    throw CommandRefused{Refusal::BadRequest, "a request needs a string `command`"};
  }
  return request;
}

std::string reply_text(const json& id, const Outcome& outcome) {
  json body = id;
  if (const auto* reply = std::get_if<Reply>(&outcome)) {
    body.update(reply->fields);
    body["ok"] = true;
  } else {
    const auto& refused = std::get<CommandRefused>(outcome);
    body.update(refused.fields);
    body["ok"] = false;
    body["code"] = name_of(refused.code);
    body["error"] = refused.text;
  }
  return body.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace driftd::daemon
