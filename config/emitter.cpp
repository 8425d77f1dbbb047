// SPDX-License-Identifier: MIT
#include <yaml-cpp/yaml.h>

#include "config/options.hpp"
#include "config/scalar.hpp"

namespace driftd::config {
namespace {

struct ValueEmitter {
  YAML::Emitter& out;

  void operator()(bool value) const { out << (value ? "true" : "false"); }
  void operator()(int value) const { out << value; }
  void operator()(double value) const { out << format_real(value); }
  // Quoted: `off` would be a truth value to some readers, and a serial number a number.
  void operator()(const std::string& value) const { out << YAML::DoubleQuoted << value; }
  void operator()(const std::filesystem::path& value) const { (*this)(value.string()); }
  void operator()(const Matrix2& value) const {
    out << YAML::Flow << YAML::BeginSeq;
    for (const auto& row : value) {
      out << YAML::Flow << YAML::BeginSeq << format_real(row[0]) << format_real(row[1])
          << YAML::EndSeq;
    }
    out << YAML::EndSeq;
  }
  void operator()(const std::vector<ListedMarker>& value) const {
    if (value.empty()) out << YAML::Flow;
    out << YAML::BeginSeq;
    for (const ListedMarker& marker : value) {
      out << YAML::Flow << YAML::BeginMap;
      out << YAML::Key << "id" << YAML::Value << marker.id;
      out << YAML::Key << "x_px" << YAML::Value << format_real(marker.x_px);
      out << YAML::Key << "y_px" << YAML::Value << format_real(marker.y_px);
      out << YAML::Key << "role" << YAML::Value << YAML::DoubleQuoted << marker.role;
      out << YAML::EndMap;
    }
    out << YAML::EndSeq;
  }
};

}  // namespace

std::string to_yaml(const Config& config) {
  YAML::Emitter out;
  out << YAML::BeginMap;
  for (const Section& section : sections()) {
    out << YAML::Key << std::string(section.name) << YAML::Value << YAML::BeginMap;
    for (const Option& option : options()) {
      if (option.section() != section.name) continue;
      out << YAML::Key << std::string(option.name()) << YAML::Value;
      std::visit(ValueEmitter{out}, option.get(config));
    }
    out << YAML::EndMap;
  }
  out << YAML::EndMap;
  return std::string(out.c_str()) + '\n';
}

}  // namespace driftd::config
