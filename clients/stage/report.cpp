// SPDX-License-Identifier: MIT
#include "clients/stage/report.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace driftd::stage {
namespace {

using Json = nlohmann::ordered_json;

/// Longer than any answer, shorter than what the daemon calls silence.
constexpr std::int64_t kNoAnswer_ns = 300'000'000;

std::string_view word_of(Condition condition) {
  switch (condition) {
    case Condition::Ready:
      return "ready";
    case Condition::ServoOff:
      return "servo_off";
    case Condition::NotReferenced:
      return "not_referenced";
    case Condition::Limit:
      return "limit";
    case Condition::Error:
      return "error";
    case Condition::Disconnected:
      break;
  }
  return "disconnected";
}

/// What the daemon takes of a text (docs/reference/protocol.md). A controller's text may be no
/// UTF-8, and control characters, six bytes each in JSON, would make a message longer than it
/// takes.
std::string shortened(const std::string& text) {
  constexpr std::size_t kMostBytes = 300;
  const auto valid = Json::parse(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace));
  auto result = valid.get<std::string>();
  std::ranges::replace_if(
      result, [](unsigned char c) { return c < ' ' || c == 127; }, ' ');
  if (result.size() <= kMostBytes) return result;
  std::size_t end = kMostBytes;
  while ((static_cast<unsigned char>(result[end]) & 0xC0U) == 0x80U) --end;  // within a character
  result.resize(end);
  return result;
}

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json axes_json(const DriverState& state) {
  Json axes = Json::array();
  for (const AxisState& shown : state.axes) {
    axes.push_back({{"axis", std::string(1, shown.letter)},
                    {"name", shortened(shown.axis.name)},
                    {"min_nm", shown.axis.min_nm},
                    {"max_nm", shown.axis.max_nm},
                    {"resolution_nm", shown.axis.resolution_nm},
                    {"closed_loop", shown.axis.closed_loop},
                    {"position_nm", or_null(shown.position_nm)},
                    {"target_nm", or_null(shown.target_nm)}});
  }
  return axes;
}

Json latency_json(const LatencySummary& latency) {
  const auto us = [&](double value) { return latency.count > 0 ? Json(value) : Json(nullptr); };
  return {{"n", latency.count},
          {"p50", us(latency.p50_us)},
          {"p99", us(latency.p99_us)},
          {"max", us(latency.max_us)}};
}

}  // namespace

Standing standing(const DriverState& state, std::int64_t waits_ns) {
  if (!state.connected) {
    return {"disconnected", state.trouble.empty() ? "not connected yet" : state.trouble, 0};
  }
  if (waits_ns > kNoAnswer_ns) {
    // The same words as long as it lasts: each change is an event of the daemon's.
    return {"error", "the controller has owed an answer for 0.3 s and more", 0};
  }
  const Health& health = state.health;
  if (health.condition != Condition::Ready)
    return {word_of(health.condition), health.text, health.error};
  if (!state.range_text.empty()) return {"limit", state.range_text, health.error};
  if (state.refuses) {
    const std::string& why = state.refusal.text;
    return {"error",
            why.empty() ? "the controller refused the last target and does not say why" : why,
            state.refusal.error};
  }
  return {"ready", "", health.error};
}

std::string report_json(const Introduction& introduction, DriverState state,
                        const LatencySummary& latency, std::int64_t waits_ns, bool ended,
                        std::int64_t now_ns) {
  Standing standing = stage::standing(state, waits_ns);
  if (ended) standing = {"stopped", "the driver has ended; the stage stays where it is", 0};
  const bool tells = state.connected && state.health.tells_on_target;
  Json report = {
      {"command", "stage"},
      {"instance", introduction.instance},
      {"driver", introduction.driver},
      {"description", shortened(state.description)},
      {"max_rate_hz", introduction.max_rate_hz},
      {"axes", axes_json(state)},
      {"state", standing.state},
      {"text", shortened(standing.text)},
      {"error", standing.error},
      {"on_target", tells ? Json(state.health.on_target) : Json(nullptr)},
      {"time_ns", state.position_ns != 0 ? state.position_ns : now_ns},
  };
  const std::string of = introduction.group == Group::Axial ? "z_" : "";
  report[of + "session"] = or_null(state.session);
  report[of + "lock_id"] = state.session ? Json(state.lock_id) : Json(nullptr);
  std::size_t i = 0;
  for (const char letter : letters_of(introduction.group)) {
    report[std::string("total_") + letter + "_nm"] =
        state.total_nm ? Json((*state.total_nm)[i]) : Json(nullptr);
    ++i;
  }
  report.update(Json{
      {"carried_out", state.carried_out},
      {"ignored", state.ignored},
      {"refused", state.refused},
      {"rate_hz", state.rate.per_second(now_ns)},
      {"latency_us", latency_json(latency)},
  });
  return report.dump();
}

std::string figures(DriverState state, const LatencySummary& latency, std::int64_t now_ns) {
  std::string text =
      fmt::format("{} corrections carried out, {:.0f} in the last second; {} ignored, {} refused",
                  state.carried_out, state.rate.per_second(now_ns), state.ignored, state.refused);
  if (latency.count > 0) {
    text +=
        fmt::format("; from driftd to the controller p50 {:.0f} us, p99 {:.0f} us, max {:.0f} us",
                    latency.p50_us, latency.p99_us, latency.max_us);
  }
  return text;
}

}  // namespace driftd::stage
