// SPDX-License-Identifier: MIT
#include "config/table.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "config/options.hpp"

namespace driftd::config {

std::vector<Option> joined(std::vector<std::vector<Option>> parts) {
  std::vector<Option> rows;
  for (auto& part : parts) std::ranges::move(part, std::back_inserter(rows));
  return rows;
}

bool is_auto(const Option& option, const Value& value) {
  if (!option.rules.or_auto) return false;
  const int* whole = std::get_if<int>(&value);
  return whole != nullptr ? *whole == 0 : std::get<double>(value) == 0;
}

std::string allowed(const Option& option) {
  struct Visitor {
    const Rules& rules;
    std::string operator()(bool) const { return "true or false"; }
    std::string operator()(int) const { return yaml::allowed_number(rules.range(), true); }
    std::string operator()(double) const { return yaml::allowed_number(rules.range(), false); }
    std::string operator()(const std::string&) const { return yaml::allowed_text(rules.choices); }
    std::string operator()(const std::filesystem::path&) const { return "a path"; }
    std::string operator()(const Matrix2&) const {
      return "[[a, b], [c, d]], each " + yaml::allowed_number(rules.range(), false);
    }
    std::string operator()(const std::vector<ListedMarker>&) const {
      return "a list of at most " + std::to_string(kMaxListedMarkers) + " markers";
    }
    std::string operator()(const Endpoints&) const {
      return "an endpoint, or a list of 1 to " + std::to_string(kMostEndpoints);
    }
  };
  return std::visit(Visitor{option.rules}, option.fallback);
}

void set_defaults(const Table& table, Settings& settings) {
  for (const Option& option : table.options) option.set(settings, option.fallback);
}

std::filesystem::path path_from(const std::filesystem::path& folder,
                                const std::filesystem::path& path) {
  if (path.empty() || path.is_absolute() || folder.empty()) return path;
  return (folder / path).lexically_normal();
}

}  // namespace driftd::config
