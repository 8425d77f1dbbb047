// SPDX-License-Identifier: MIT
#include "clients/web/tool_replies.hpp"

#include <spdlog/fmt/fmt.h>
#include <spdlog/spdlog.h>

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

WrittenFiles write_values(const clients::CalibrationFile& file, const clients::KeyValues& values) {
  const auto written = clients::write_calibration(file, values);
  const bool restart = written && !clients::restart_keys(*written).empty();
  const bool reloads = written && !restart;
  return {clients::written_lines(file, values, written, !reloads), reloads, restart};
}

void load_written(Instance& instance, const WrittenFiles& written, std::int64_t now_ns,
                  const std::function<void(json said, const Loaded& loaded)>& done) {
  spdlog::info("{}: {}", instance.name(), fmt::join(written.lines, " "));
  if (!written.reloads) return done({{"lines", written.lines}, {"restart", written.restart}}, {});
  instance.command({{"command", "reload"}}, {}, now_ns,
                   [lines = written.lines, done](unsigned, const json& reply) mutable {
                     const bool ok = flag_of(reply, "ok");
                     const Loaded loaded = {
                         ok ? "Taken over by driftd: " + text_of(reply, "text") + '.'
                            : "Not taken over by driftd: " + text_of(reply, "error") + '.',
                         ok};
                     lines.push_back(loaded.sentence);
                     done({{"lines", lines}, {"restart", !ok}},
                          loaded);  // which takes over what a reload cannot
                   });
}

}  // namespace driftd::web
