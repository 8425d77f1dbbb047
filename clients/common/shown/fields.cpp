// SPDX-License-Identifier: MIT
#include "clients/common/shown/fields.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

namespace driftd::clients::shown {

using nlohmann::json;

const json* find(const json& object, const char* pointer) {
  const json::json_pointer path(pointer);
  return object.is_object() && object.contains(path) ? &object.at(path) : nullptr;
}

std::string number(const json& object, const char* pointer, const char* format) {
  const json* value = find(object, pointer);
  if (value == nullptr || !value->is_number()) return "-";
  return fmt::format(fmt::runtime(format), value->get<double>());
}

std::string text(const json& object, const char* pointer) {
  const json* value = find(object, pointer);
  return value != nullptr && value->is_string() ? value->get<std::string>() : "-";
}

std::string text_or_nothing(const json& object, const char* pointer) {
  const std::string said = text(object, pointer);
  return said == "-" ? "" : said;
}

bool is_true(const json& object, const char* pointer) {
  const json* flag = find(object, pointer);
  return flag != nullptr && flag->is_boolean() && flag->get<bool>();
}

std::uint64_t count(const json& object, const char* pointer) {
  const json* value = find(object, pointer);
  return value != nullptr && value->is_number_unsigned() ? value->get<std::uint64_t>() : 0;
}

std::string duration(double seconds) {
  constexpr double kMost = 1e11;
  const auto whole = static_cast<long>(seconds > 0 ? std::min(seconds, kMost) : 0.0);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

}  // namespace driftd::clients::shown
