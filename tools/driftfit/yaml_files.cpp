// SPDX-License-Identifier: MIT
#include "tools/driftfit/yaml_files.hpp"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>
#include <variant>

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

/// The text with "" in place of block texts that have a tag or an anchor: yaml-cpp loses where a
/// list around one ends (`- !!binary |`, as PyYAML writes numpy's values). Nothing here is said by
/// such a text. Lines stay in their places.
std::string without_tagged_blocks(std::istream& file) {
  static const std::regex tagged(
      R"(( *(?:- +)*)([^\s#'"!&-][^'"]*: +)?((?:[!&]\S* +)+)[|>][-+0-9]* *\r?)");
  constexpr std::size_t kLongest = 1000;  // std::regex goes a call deeper with each character
  constexpr std::size_t kNone = std::string::npos;
  std::string text;
  std::size_t parent = kNone;  // the column of what the block belongs to: further in is its text
  for (std::string line; std::getline(file, line); text += line + '\n') {
    const std::size_t column = line.find_first_not_of(" \r");
    if (parent != kNone && (column == kNone || column > parent)) {
      line.clear();
      continue;
    }
    parent = kNone;
    std::smatch match;
    if (line.size() > kLongest || !std::regex_match(line, match, tagged)) continue;
    const std::string lists = match[1];
    parent = match[2].matched ? lists.size() : lists.rfind('-');
    if (parent != kNone) line = lists + match[2].str() + match[3].str() + "\"\"";
  }
  return text;
}

/// The first document of a file, which must be a mapping.
class YamlMap {
 public:
  explicit YamlMap(const std::filesystem::path& path) : path_(path) {
    std::ifstream file(path);
    if (!file) throw InputError(path, "cannot be opened");
    try {
      root_ = YAML::Load(without_tagged_blocks(file));
    } catch (const YAML::Exception& error) {
      throw InputError(path, place(error.mark) + "is not YAML: " + yaml::printable(error.msg));
    }
    if (!root_.IsMap()) throw InputError(path, "holds no keys with values");
  }

  [[nodiscard]] YAML::Node find(const char* key) const { return root_[key]; }

  [[noreturn]] void fail(const YAML::Node& node, const std::string& what) const {
    throw InputError(path_, place(node.Mark()) + what);
  }

  [[noreturn]] void refuse(const YAML::Node& node, const char* key,
                           const std::string& allowed) const {
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

Pick point_of(const YamlMap& map, const YAML::Node& node, const char* what) {
  Pick pick;
  if (!node.IsSequence() || node.size() != 2 ||
      !YAML::convert<double>::decode(node[0], pick.x_px) ||
      !YAML::convert<double>::decode(node[1], pick.y_px) || !std::isfinite(pick.x_px) ||
      !std::isfinite(pick.y_px)) {
    map.fail(node, std::string(what) + " must be two numbers, [x, y]");
  }
  return pick;
}

Pick centre_of(const YamlMap& map, const YAML::Node& node) {
  return point_of(map, node, "a centre");
}

/// The middle of a rectangle's axis or of a box' diagonal.
Pick middle_of(const YamlMap& map, const YAML::Node& node) {
  if (!node.IsSequence() || node.size() != 2)
    map.fail(node, "must be two points, [[x, y], [x, y]]");
  const Pick a = point_of(map, node[0], "a point");
  const Pick b = point_of(map, node[1], "a point");
  return {0.5 * (a.x_px + b.x_px), 0.5 * (a.y_px + b.y_px)};
}

/// Centroid of the area.
Pick centroid_of(const YamlMap& map, const YAML::Node& node) {
  std::vector<Pick> corners;
  if (node.IsSequence()) {
    for (const YAML::Node& corner : node) corners.push_back(point_of(map, corner, "a corner"));
  }
  if (corners.size() < 3) map.fail(node, "a polygon must have three corners, [[x, y], ...]");
  const Pick zero = corners.front();
  double twice_area = 0;
  Pick sum;
  for (std::size_t i = 0; i < corners.size(); ++i) {
    const Pick& next = corners[(i + 1) % corners.size()];
    const double ax = corners[i].x_px - zero.x_px, ay = corners[i].y_px - zero.y_px;
    const double bx = next.x_px - zero.x_px, by = next.y_px - zero.y_px;
    const double cross = ax * by - bx * ay;
    twice_area += cross;
    sum.x_px += cross * (ax + bx);
    sum.y_px += cross * (ay + by);
  }
  if (twice_area == 0) map.fail(node, "a polygon must have an area");
  return {zero.x_px + sum.x_px / (3 * twice_area), zero.y_px + sum.y_px / (3 * twice_area)};
}

/// Picasso's shapes that have one place each.
struct PickShape {
  const char* name;
  const char* key;
  Pick (*place)(const YamlMap& map, const YAML::Node& node);
};
constexpr PickShape kPickShapes[] = {{"Circle", "Centers", centre_of},
                                     {"Square", "Centers", centre_of},
                                     {"Rectangle", "Center-Axis-Points", middle_of},
                                     {"Polygon", "Vertices", centroid_of},
                                     {"Box", "Corners", middle_of}};

}  // namespace

RawDescription read_raw_description(const std::filesystem::path& path, RawDescription description) {
  const YamlMap map(path);
  if (!description.width_px) description.width_px = map.count("Width");
  if (!description.height_px) description.height_px = map.count("Height");
  description.frames = map.count("Frames");
  if (const YAML::Node node = map.find("Data Type"); node && !description.type) {
    const std::string found = map.text(node, "Data Type");
    description.type = camera::plain_type_named(found);
    if (!description.type) map.refuse(node, "Data Type", std::string("are ") + camera::kPlainTypes);
  }
  if (const YAML::Node node = map.find("Byte Order"); node && !description.byte_order) {
    const std::string found = map.text(node, "Byte Order");
    if (found != "<" && found != ">") map.refuse(node, "Byte Order", "are < and >");
    description.byte_order = found == "<" ? camera::ByteOrder::Little : camera::ByteOrder::Big;
  }
  return description;
}

std::vector<Pick> read_yaml_picks(const std::filesystem::path& path) {
  const YamlMap map(path);
  const PickShape* shape = kPickShapes;
  if (const YAML::Node node = map.find("Shape")) {
    const std::string name = map.text(node, "Shape");
    shape = std::find_if(std::begin(kPickShapes), std::end(kPickShapes),
                         [&](const PickShape& known) { return name == known.name; });
    if (shape == std::end(kPickShapes))
      map.refuse(node, "Shape", "are Circle, Square, Rectangle, Polygon and Box");
  }
  const YAML::Node places = map.find(shape->key);
  if (!places) throw InputError(path, std::string("has no key ") + shape->key);
  if (!places.IsSequence()) map.fail(places, std::string(shape->key) + " must be a list");
  std::vector<Pick> picks;
  for (const YAML::Node& place : places) picks.push_back(shape->place(map, place));
  return picks;
}

std::string yaml_document(const std::vector<YamlEntry>& entries) {
  YAML::Emitter out;
  out << YAML::BeginMap;
  for (const auto& [key, value] : entries) {
    out << YAML::Key << key << YAML::Value;
    if (const auto* const number = std::get_if<double>(&value))
      out << fmt::format("{}", *number);  // in as few digits as give it back
    else
      std::visit([&out](const auto& v) { out << v; }, value);
  }
  out << YAML::EndMap;
  return std::string("---\n") + out.c_str() + "\n";
}

}  // namespace driftd::tools
