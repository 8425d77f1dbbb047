// SPDX-License-Identifier: MIT
#include "tools/driftfit/yaml_files.hpp"

#include <yaml-cpp/yaml.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "base/yaml/reader.hpp"
#include "base/yaml/scalar.hpp"
#include "tools/driftfit/errors.hpp"

namespace driftd::tools {
namespace {

std::string place(const YAML::Mark& mark) {
  if (mark.is_null()) return {};
  return "line " + std::to_string(mark.line + 1) + ", column " + std::to_string(mark.column + 1) +
         ": ";
}

/// The first document of a file, which must be a mapping.
class YamlMap {
 public:
  explicit YamlMap(const std::filesystem::path& path) : path_(path) {
    std::ifstream file(path);
    if (!file) throw InputError(path, "cannot be opened");
    try {
      root_ = YAML::Load(file);
    } catch (const YAML::Exception& error) {
      throw InputError(path, place(error.mark) + "is not YAML: " + yaml::printable(error.msg));
    }
    if (!root_.IsMap()) throw InputError(path, "holds no keys with values");
  }

  [[nodiscard]] YAML::Node find(const char* key) const { return root_[key]; }

  [[noreturn]] void fail(const YAML::Node& node, const std::string& what) const {
    throw InputError(path_, place(node.Mark()) + what);
  }

  [[noreturn]] void refuse(const YAML::Node& node, const char* key, const char* allowed) const {
    fail(node, std::string(key) + " is '" + yaml::key_text(node) + "', allowed " + allowed);
  }

  [[nodiscard]] std::string text(const YAML::Node& node, const char* key) const {
    if (!node.IsScalar()) fail(node, std::string(key) + " is not a single value");
    return node.Scalar();
  }

  [[nodiscard]] std::optional<std::int64_t> count(const char* key) const {
    const YAML::Node node = find(key);
    if (!node) return std::nullopt;
    std::int64_t value = 0;
    if (!YAML::convert<std::int64_t>::decode(node, value) || value < 1)
      refuse(node, key, "are whole numbers from 1");
    return value;
  }

 private:
  std::filesystem::path path_;
  YAML::Node root_;
};

Pick pick_of(const YamlMap& map, const YAML::Node& node) {
  Pick pick;
  if (!node.IsSequence() || node.size() != 2 ||
      !YAML::convert<double>::decode(node[0], pick.x_px) ||
      !YAML::convert<double>::decode(node[1], pick.y_px) || !std::isfinite(pick.x_px) ||
      !std::isfinite(pick.y_px)) {
    map.fail(node, "a centre must be two numbers, [x, y]");
  }
  return pick;
}

}  // namespace

RawDescription read_raw_description(const std::filesystem::path& path) {
  const YamlMap map(path);
  RawDescription description;
  description.width_px = map.count("Width");
  description.height_px = map.count("Height");
  description.frames = map.count("Frames");
  if (const YAML::Node node = map.find("Data Type")) {
    const std::string found = map.text(node, "Data Type");
    description.type = camera::pixel_type_named(found);
    if (!description.type) map.refuse(node, "Data Type", "are uint8, uint16, float32");
  }
  if (const YAML::Node node = map.find("Byte Order")) {
    const std::string found = map.text(node, "Byte Order");
    if (found != "<" && found != ">") map.refuse(node, "Byte Order", "are < and >");
    description.byte_order = found == "<" ? camera::ByteOrder::Little : camera::ByteOrder::Big;
  }
  return description;
}

std::vector<Pick> read_yaml_picks(const std::filesystem::path& path) {
  const YamlMap map(path);
  if (const YAML::Node node = map.find("Shape")) {
    const std::string shape = map.text(node, "Shape");
    if (shape != "Circle") map.refuse(node, "Shape", "is Circle");
  }
  const YAML::Node centers = map.find("Centers");
  if (!centers) throw InputError(path, "has no key Centers");
  if (!centers.IsSequence()) map.fail(centers, "Centers must be a list, [[x, y], ...]");
  std::vector<Pick> picks;
  for (const YAML::Node& center : centers) picks.push_back(pick_of(map, center));
  return picks;
}

std::string yaml_document(const std::vector<YamlEntry>& entries) {
  YAML::Emitter out;
  out << YAML::BeginMap;
  for (const auto& [key, value] : entries) {
    out << YAML::Key << key << YAML::Value;
    std::visit([&out](const auto& v) { out << v; }, value);
  }
  out << YAML::EndMap;
  return std::string("---\n") + out.c_str() + "\n";
}

}  // namespace driftd::tools
