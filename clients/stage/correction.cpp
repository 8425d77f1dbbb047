// SPDX-License-Identifier: MIT
#include "clients/stage/correction.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

#include "clients/stage/interface/stage.hpp"

namespace driftd::stage {
namespace {

using nlohmann::json;

/// False for NaN.
bool take_length(const json& body, const char* key, double& nm) {
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

std::optional<Correction> parse_correction(std::string_view message) {
  constexpr std::string_view kTopic = "correction ";
  if (!message.starts_with(kTopic)) return std::nullopt;
  message.remove_prefix(kTopic.size());
  const json body = json::parse(message, nullptr, /*allow_exceptions=*/false);
  if (!body.is_object()) return std::nullopt;
  const auto session = body.find("session");
  if (session == body.end() || !session->is_string()) return std::nullopt;
  Correction correction{.session = session->get<std::string>()};
  const bool complete = !correction.session.empty() &&
                        take_whole(body, "lock_id", correction.lock_id) &&
                        take_whole(body, "sent_ns", correction.sent_ns) &&
                        take_whole(body, "expires_ns", correction.expires_ns) &&
                        take_length(body, "total_x_nm", correction.total_nm[0]) &&
                        take_length(body, "total_y_nm", correction.total_nm[1]) &&
                        take_length(body, "delta_x_nm", correction.delta_nm[0]) &&
                        take_length(body, "delta_y_nm", correction.delta_nm[1]);
  if (!complete) return std::nullopt;
  return correction;
}

}  // namespace driftd::stage
