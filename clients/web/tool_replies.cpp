// SPDX-License-Identifier: MIT
#include "clients/web/tool_replies.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <utility>

#include "base/monotonic.hpp"
#include "clients/web/json_response.hpp"

namespace driftd::web {

using nlohmann::json;

Response refusal(const std::string& why) {
  return json_response(200, {{"ok", false}, {"error", why}});
}

Response answer_of(json said) {
  said["ok"] = true;
  return json_response(200, said);
}

std::string text_of(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

bool flag_of(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_boolean() && found->get<bool>();
}

json part_of(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() ? *found : json();
}

std::string may_not_write(const clients::CannotWrite& error, const std::filesystem::path& config,
                          const std::string& command) {
  return fmt::format(
      "driftd-web may not write there: {}. Run `driftctl --config {} {} --write` on the "
      "microscope's computer, as somebody who may",
      error.what(), config.string(), command);
}

void reload_written(Instance& instance, std::vector<std::string> lines, std::int64_t now_ns,
                    const std::function<void(json said)>& done) {
  instance.command(
      {{"command", "reload"}}, {}, now_ns,
      [lines = std::move(lines), done](unsigned, const json& reply) mutable {
        const bool ok = flag_of(reply, "ok");
        lines.push_back(ok ? "Taken over by driftd: " + text_of(reply, "text") + '.'
                           : "Not taken over by driftd: " + text_of(reply, "error") + '.');
        done({{"lines", lines}, {"restart", !ok}});  // which takes over what a reload cannot
      });
}

void check_taken_over(Instance& instance, json proposal, std::string_view keys,
                      const std::function<void(Response)>& done) {
  instance.command({{"command", "reload"}, {"check", true}}, {}, monotonic_ns(),
                   [proposal = std::move(proposal), keys = std::string(keys), done](
                       unsigned, const json& reply) mutable {
                     const json differs = reply.value("differs", json::array());
                     const bool waits = std::ranges::any_of(differs, [&keys](const json& key) {
                       return key.is_string() && key.get<std::string>().starts_with(keys);
                     });
                     json& written = proposal["written"];
                     if (waits && written["restart"] == false) {
                       written["lines"].push_back(
                           "Restart driftd: it does not go by them yet, as a reload was refused "
                           "or not ordered.");
                       written["restart"] = true;
                     }
                     done(json_response(200, proposal));
                   });
}

}  // namespace driftd::web
