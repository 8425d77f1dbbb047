// SPDX-License-Identifier: MIT
#include <yaml-cpp/yaml.h>

#include "base/yaml/scalar.hpp"
#include "config/options.hpp"

namespace driftd::config {
namespace {

struct ValueEmitter {
  YAML::Emitter& out;

  void operator()(bool value) const { out << (value ? "true" : "false"); }
  void operator()(int value) const { out << value; }
  void operator()(double value) const { out << yaml::format_real(value); }
  // Quoted: `off` would be a truth value to some readers, and a serial number a number.
  void operator()(const std::string& value) const { out << YAML::DoubleQuoted << value; }
  void operator()(const std::filesystem::path& value) const { (*this)(value.string()); }
  void operator()(const Matrix2& value) const {
    out << YAML::Flow << YAML::BeginSeq;
    for (const auto& row : value) {
      out << YAML::Flow << YAML::BeginSeq << yaml::format_real(row[0]) << yaml::format_real(row[1])
          << YAML::EndSeq;
    }
    out << YAML::EndSeq;
  }
  void operator()(const Endpoints& value) const {
    if (value.size() == 1) return (*this)(value.front());
    out << YAML::Flow << YAML::BeginSeq;
    for (const std::string& endpoint : value) (*this)(endpoint);
    out << YAML::EndSeq;
  }
  void operator()(const std::vector<ListedMarker>& value) const {
    if (value.empty()) out << YAML::Flow;
    out << YAML::BeginSeq;
    for (const ListedMarker& marker : value) {
      out << YAML::Flow << YAML::BeginMap;
      out << YAML::Key << "id" << YAML::Value << marker.id;
      out << YAML::Key << "x_px" << YAML::Value << yaml::format_real(marker.x_px);
      out << YAML::Key << "y_px" << YAML::Value << yaml::format_real(marker.y_px);
      out << YAML::Key << "role" << YAML::Value << YAML::DoubleQuoted
          << std::string(text_of(marker.role));
      out << YAML::EndMap;
    }
    out << YAML::EndSeq;
  }
};

void emit(YAML::Emitter& out, const Option& option, const Value& value) {
  if (is_auto(option, value))
    out << "auto";
  else
    std::visit(ValueEmitter{out}, value);
}

std::string comment_of(const Option& option, const Origins& origins) {
  const auto given = origins.find(option.key);
  if (given == origins.end()) return "default";
  std::string text;
  for (auto one = given->second.rbegin(); one != given->second.rend(); ++one) {
    if (!text.empty()) text += one == given->second.rbegin() + 1 ? ", over " : " and ";
    text += one->name + ':' + std::to_string(one->line);
  }
  return yaml::printable(text);  // a name of a file may hold a line's end
}

/// What stands in the section, "" being the file itself: its options, then the sections within.
void emit_section(YAML::Emitter& out, const Table& table, std::string_view name,
                  const Settings& settings, const Origins* origins) {
  out << YAML::BeginMap;
  for (const Option& option : table.options) {
    if (option.section() != name) continue;
    out << YAML::Key << std::string(option.name()) << YAML::Value;
    const Value value = option.get(settings);
    // A list of markers takes lines of its own, below its key.
    const auto* markers = std::get_if<std::vector<ListedMarker>>(&value);
    const bool below = markers != nullptr && !markers->empty();
    if (origins != nullptr && below) out << YAML::Comment(comment_of(option, *origins));
    emit(out, option, value);
    if (origins != nullptr && !below) out << YAML::Comment(comment_of(option, *origins));
  }
  for (const Section& section : table.sections) {
    if (section.outer() != name) continue;
    out << YAML::Key << std::string(section.key()) << YAML::Value;
    emit_section(out, table, section.name, settings, origins);
  }
  out << YAML::EndMap;
}

}  // namespace

std::string to_yaml(const Table& table, const Settings& settings, const Origins* origins) {
  YAML::Emitter out;
  emit_section(out, table, "", settings, origins);
  return std::string(out.c_str()) + '\n';
}

std::string to_yaml(const Option& option, const Value& value) {
  YAML::Emitter out;
  out.SetSeqFormat(YAML::Flow);
  emit(out, option, value);
  return out.c_str();
}

std::string to_yaml(const Config& config) {
  return to_yaml(table(), config);
}

}  // namespace driftd::config
