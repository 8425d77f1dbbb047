// SPDX-License-Identifier: MIT
#include <cmath>
#include <nlohmann/json.hpp>

#include "config/documentation.hpp"
#include "config/options.hpp"

namespace driftd::config {
namespace {

using Json = nlohmann::ordered_json;

/// Whole numbers without a point, as people write them.
Json number(double value) {
  return std::floor(value) == value ? Json(static_cast<std::int64_t>(value)) : Json(value);
}

Json number_schema(const Rules& rules, bool whole) {
  Json schema = {{"type", whole ? "integer" : "number"}};
  schema[rules.above_min ? "exclusiveMinimum" : "minimum"] = number(rules.min);
  schema["maximum"] = number(rules.max);
  return schema;
}

Json text_schema(const Rules& rules) {
  // A serial number may stand without quotes, and is a number to YAML then.
  if (rules.choices.empty()) return {{"type", {"string", "number", "boolean"}}};
  Json schema = {{"type", "string"}};
  schema["enum"] = rules.choices;
  return schema;
}

std::string description(const Rules& rules) {
  std::string text(rules.text);
  if (!rules.unit.empty()) text.append(" [").append(rules.unit).append("]");
  return text;
}

Json marker_list_schema() {
  Json properties = Json::object();
  Json required = Json::array();
  for (const ListKey& list_key : marker_keys()) {
    const Rules& rules = list_key.rules;
    Json schema = rules.choices.empty() ? number_schema(rules, list_key.whole) : text_schema(rules);
    schema["description"] = description(rules);
    if (list_key.required) {
      required.push_back(list_key.name);
    } else {
      schema["default"] = list_key.choice;
    }
    properties[std::string(list_key.name)] = std::move(schema);
  }
  return {{"type", "array"},
          {"maxItems", kMaxListedMarkers},
          {"items",
           {{"type", "object"},
            {"additionalProperties", false},
            {"required", std::move(required)},
            {"properties", std::move(properties)}}}};
}

/// Type, range and default of an option.
struct OptionSchema {
  const Rules& rules;

  Json operator()(bool value) const { return {{"type", "boolean"}, {"default", value}}; }
  Json operator()(int value) const { return number_with_default(true, value, value == 0); }
  Json operator()(double value) const {
    return number_with_default(false, number(value), value == 0);
  }
  Json operator()(const std::string& value) const {
    Json schema = text_schema(rules);
    schema["default"] = value;
    return schema;
  }
  Json operator()(const std::filesystem::path& value) const { return (*this)(value.string()); }
  Json operator()(const Matrix2& value) const {
    const auto pair_of = [](Json items) {
      return Json{{"type", "array"}, {"minItems", 2}, {"maxItems", 2}, {"items", std::move(items)}};
    };
    Json schema = pair_of(pair_of(number_schema(rules, false)));
    for (const auto& row : value) {
      schema["default"].push_back(Json::array({number(row[0]), number(row[1])}));
    }
    return schema;
  }
  Json operator()(const std::vector<ListedMarker>&) const {
    Json schema = marker_list_schema();
    schema["default"] = Json::array();
    return schema;
  }
  Json operator()(const Endpoints& value) const {
    return {{"type", {"string", "array"}},
            {"items", {{"type", "string"}}},
            {"minItems", 1},
            {"maxItems", kMostEndpoints},
            {"default", value.front()}};
  }
  Json number_with_default(bool whole, Json value, bool is_zero) const {
    Json schema = number_schema(rules, whole);
    if (rules.or_auto) schema = {{"anyOf", {std::move(schema), {{"const", "auto"}}}}};
    schema["default"] = rules.or_auto && is_zero ? Json("auto") : std::move(value);
    return schema;
  }
};

/// The keys that may stand in the section, "" being the file itself.
Json properties_of(const Table& table, std::string_view name) {
  Json properties = Json::object();
  for (const Option& option : table.options) {
    if (option.section() != name) continue;
    Json schema = std::visit(OptionSchema{option.rules}, option.fallback);
    schema["description"] = description(option.rules);
    properties[std::string(option.name())] = std::move(schema);
  }
  for (const Section& section : table.sections) {
    if (section.outer() != name) continue;
    properties[std::string(section.key())] = {{"type", {"object", "null"}},
                                              {"description", section.text},
                                              {"additionalProperties", false},
                                              {"properties", properties_of(table, section.name)}};
  }
  return properties;
}

}  // namespace

std::string schema_json(const Table& table) {
  Json root = {{"$schema", "http://json-schema.org/draft-07/schema#"},
               {"title", table.title},
               {"description",
                "Made from the option table by driftd-config-docs; not to be edited by hand."},
               {"type", {"object", "null"}},
               {"additionalProperties", false},
               {"properties", properties_of(table, "")}};
  return root.dump(2) + '\n';
}

}  // namespace driftd::config
