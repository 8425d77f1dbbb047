// SPDX-License-Identifier: MIT
#include "clients/stage/correction.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "clients/stage/interface/stage.hpp"

namespace driftd::stage {
namespace {

using nlohmann::json;

/// False for NaN.
bool take_length(const json& body, const std::string& key, double& nm) {
  const auto found = body.find(key);
  if (found == body.end() || !found->is_number()) return false;
  nm = found->get<double>();
  return std::abs(nm) < kMetre_nm;
}

bool take_whole(const json& body, const char* key, std::int64_t& value) {
  const auto found = body.find(key);
  if (found == body.end() || !found->is_number_integer()) return false;
  value = found->get<std::int64_t>();
  return value >= 0;
}

}  // namespace

std::string_view letters_of(Group group) {
  return group == Group::Lateral ? "xy" : "z";
}

std::string_view topic_of(Group group) {
  return group == Group::Lateral ? "correction " : "axial ";
}

std::optional<Correction> parse_correction(std::string_view message, Group group) {
  if (!message.starts_with(topic_of(group))) return std::nullopt;
  message.remove_prefix(topic_of(group).size());
  const json body = json::parse(message, nullptr, /*allow_exceptions=*/false);
  if (!body.is_object()) return std::nullopt;
  const auto session = body.find("session");
  if (session == body.end() || !session->is_string()) return std::nullopt;
  Correction correction{.session = session->get<std::string>()};
  bool complete = !correction.session.empty() && take_whole(body, "lock_id", correction.lock_id) &&
                  take_whole(body, "sent_ns", correction.sent_ns) &&
                  take_whole(body, "expires_ns", correction.expires_ns);
  std::size_t i = 0;
  for (const char letter : letters_of(group)) {
    complete = complete &&
               take_length(body, std::string("total_") + letter + "_nm", correction.total_nm[i]) &&
               take_length(body, std::string("delta_") + letter + "_nm", correction.delta_nm[i]);
    ++i;
  }
  if (!complete) return std::nullopt;
  return correction;
}

}  // namespace driftd::stage
