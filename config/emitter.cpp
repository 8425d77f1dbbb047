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

/// What stands in the section, "" being the file itself: its options, then the sections within.
void emit_section(YAML::Emitter& out, const Table& table, std::string_view name,
                  const Settings& settings) {
  out << YAML::BeginMap;
  for (const Option& option : table.options) {
    if (option.section() != name) continue;
    out << YAML::Key << std::string(option.name()) << YAML::Value;
    const Value value = option.get(settings);
    if (is_auto(option, value))
      out << "auto";
    else
      std::visit(ValueEmitter{out}, value);
  }
  for (const Section& section : table.sections) {
    if (section.outer() != name) continue;
    out << YAML::Key << std::string(section.key()) << YAML::Value;
    emit_section(out, table, section.name, settings);
  }
  out << YAML::EndMap;
}

}  // namespace

std::string to_yaml(const Table& table, const Settings& settings) {
  YAML::Emitter out;
  emit_section(out, table, "", settings);
  return std::string(out.c_str()) + '\n';
}

std::string to_yaml(const Config& config) {
  return to_yaml(table(), config);
}

}  // namespace driftd::config
