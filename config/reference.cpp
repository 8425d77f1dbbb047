// SPDX-License-Identifier: MIT
#include <sstream>

#include "base/yaml/scalar.hpp"
#include "config/documentation.hpp"
#include "config/options.hpp"

namespace driftd::config {
namespace {

constexpr std::string_view kBegin =
    "<!-- reference: made by driftd-config-docs from the option table, not edited by hand -->\n";
constexpr std::string_view kEnd = "<!-- end of reference -->\n";

struct DefaultText {
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(int value) const { return std::to_string(value); }
  std::string operator()(double value) const { return yaml::format_real(value); }
  std::string operator()(const std::string& value) const { return value.empty() ? "\"\"" : value; }
  std::string operator()(const std::filesystem::path& value) const {
    return (*this)(value.string());
  }
  std::string operator()(const Matrix2& value) const {
    const auto row = [](const std::array<double, 2>& pair) {
      return '[' + yaml::format_real(pair[0]) + ", " + yaml::format_real(pair[1]) + ']';
    };
    return '[' + row(value[0]) + ", " + row(value[1]) + ']';
  }
  std::string operator()(const std::vector<ListedMarker>&) const { return "[]"; }
  std::string operator()(const Endpoints& value) const { return value.front(); }
};

/// "1 to 64 px", "off, hardware, software": the column's heading says that it is what is allowed.
std::string range_text(const Rules& rules) {
  std::string text = (rules.above_min ? "above " : "") + yaml::format_real(rules.min) + " to " +
                     yaml::format_real(rules.max);
  if (rules.or_auto) text.insert(0, "`auto`, ");
  if (!rules.unit.empty()) text.append(" ").append(rules.unit);
  return text;
}

std::string choices_text(const Rules& rules) {
  std::string text;
  for (const auto choice : rules.choices) {
    text.append(text.empty() ? "`" : ", `").append(choice).append("`");
  }
  return text.empty() ? "text" : text;
}

struct AllowedText {
  const Rules& rules;
  std::string operator()(bool) const { return "`true`, `false`"; }
  std::string operator()(int) const { return "whole, " + range_text(rules); }
  std::string operator()(double) const { return range_text(rules); }
  std::string operator()(const std::string&) const { return choices_text(rules); }
  std::string operator()(const std::filesystem::path&) const { return "path"; }
  std::string operator()(const Matrix2&) const { return "2 x 2, each " + range_text(rules); }
  std::string operator()(const std::vector<ListedMarker>&) const {
    return "at most " + std::to_string(kMaxListedMarkers) + " entries";
  }
  std::string operator()(const Endpoints&) const {
    return "an endpoint, or a list of 1 to " + std::to_string(kMostEndpoints);
  }
};

void write_marker_keys(std::ostream& out) {
  out << "\nAn entry of `markers.list`, such as `{id: 1, x_px: 101.2, y_px: 55.9}`:\n\n"
         "| key | default | allowed | meaning |\n| --- | --- | --- | --- |\n";
  for (const ListKey& list_key : marker_keys()) {
    const Rules& rules = list_key.rules;
    out << "| `" << list_key.name << "` | "
        << (list_key.required ? "required" : '`' + std::string(list_key.choice) + '`') << " | "
        << (!rules.choices.empty() ? choices_text(rules)
                                   : (list_key.whole ? "whole, " : "") + range_text(rules))
        << " | " << rules.text << " |\n";
  }
}

const char* name_of(Reload reload) {
  switch (reload) {
    case Reload::Live:
      return "yes";
    case Reload::Idle:
      return "while idle";
    case Reload::Restart:
      break;
  }
  return "restart";
}

}  // namespace

std::string reference_markdown(const Table& table) {
  std::ostringstream out;
  for (const Section& section : table.sections) {
    out << "\n### " << section.name << "\n\n"
        << section.text << "\n\n| key | default | allowed | " << (table.reloads ? "reload | " : "")
        << "meaning |\n| --- | --- | --- | " << (table.reloads ? "--- | " : "") << "--- |\n";
    for (const Option& option : table.options) {
      if (option.section() != section.name) continue;
      const std::string fallback =
          is_auto(option, option.fallback) ? "auto" : std::visit(DefaultText{}, option.fallback);
      out << "| `" << option.key << "` | `" << fallback << "` | "
          << std::visit(AllowedText{option.rules}, option.fallback) << " | ";
      if (table.reloads) out << name_of(option.rules.reload) << " | ";
      out << option.rules.text << " |\n";
    }
    if (section.name == "markers") write_marker_keys(out);
  }
  out << '\n';
  return out.str();
}

std::optional<std::string> with_reference(const Table& table, std::string_view page) {
  const std::size_t begin = page.find(kBegin);
  const std::size_t end = page.find(kEnd);
  if (begin == std::string_view::npos || end == std::string_view::npos || end < begin) {
    return std::nullopt;
  }
  return std::string(page.substr(0, begin + kBegin.size()))
      .append(reference_markdown(table))
      .append(page.substr(end));
}

}  // namespace driftd::config
