// SPDX-License-Identifier: MIT
#include "clients/common/plain.hpp"

#include <utility>

#include "base/yaml/scalar.hpp"

namespace driftd::clients {

std::string plain(std::string text) {
  return yaml::printable(std::move(text), ' ');
}

nlohmann::json parse_plain(std::string_view message) {
  using nlohmann::json;
  constexpr int kDeepest = 64;  // to copy, tell and free goes into it level by level, on the stack
  const auto clean = [](int depth, json::parse_event_t, json& value) {
    if (depth > kDeepest) return false;
    if (value.is_string()) value = plain(std::move(value.get_ref<std::string&>()));
    return true;
  };
  return json::parse(message, clean, /*allow_exceptions=*/false);
}

std::string cut(const std::string& text, std::size_t most_bytes) {
  if (text.size() <= most_bytes) return text;
  const auto inside = [&text](std::size_t i) {
    return (static_cast<unsigned char>(text[i]) & 0xc0U) == 0x80U;
  };
  std::size_t end = most_bytes;
  // A character has at most three bytes more: what has others is no UTF-8, and cut anywhere.
  while (end > 0 && most_bytes - end < 3 && inside(end)) --end;
  return text.substr(0, end);
}

}  // namespace driftd::clients
