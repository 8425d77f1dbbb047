// SPDX-License-Identifier: MIT
#include "base/yaml/reader.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>

#include "base/yaml/document.hpp"
#include "base/yaml/scalar.hpp"

namespace driftd::yaml {
namespace {

/// yaml-cpp tags a plain scalar "?" and a quoted or block one "!".
bool is_plain(const YAML::Node& node) {
  return node.IsScalar() && node.Tag() == "?";
}

std::optional<double> number_within(const YAML::Node& node, const Range& range) {
  if (range.or_auto && node.IsScalar() && node.Scalar() == "auto") return 0;
  const auto value = is_plain(node) ? parse_real(node.Scalar()) : std::nullopt;
  return value && in_range(*value, range) ? value : std::nullopt;
}

}  // namespace

bool in_range(double value, const Range& range) {
  return (range.above_min ? value > range.min : value >= range.min) && value <= range.max;
}

std::string allowed_number(const Range& range, bool whole) {
  std::string text = range.or_auto ? "auto or " : "";
  text += whole ? "a whole number " : "a number ";
  text += (range.above_min ? "above " : "from ") + format_real(range.min);
  text += (range.above_min ? " up to " : " to ") + format_real(range.max);
  if (!range.unit.empty()) text.append(" ").append(range.unit);
  return text;
}

std::string allowed_text(std::span<const std::string_view> choices) {
  if (choices.empty()) return "text";
  std::string text = "one of ";
  for (const auto choice : choices) {
    if (choice != choices.front()) text += ", ";
    text += choice;
  }
  return text;
}

Place place_of(const YAML::Node& node) {
  return place_of(node.Mark());
}

std::string key_text(const YAML::Node& node) {
  constexpr std::size_t kLongest = 60;
  if (node.IsSequence()) return "a list of " + std::to_string(node.size());
  if (node.IsMap()) return "a mapping";
  if (!node.IsScalar()) return "nothing";
  std::string text = node.Scalar();
  if (text.size() > kLongest) {
    std::size_t end = kLongest;
    while ((static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;  // within a character
    text = text.substr(0, end) + "...";
  }
  return printable(std::move(text));
}

std::string describe(const YAML::Node& node) {
  const std::string text = key_text(node);
  const bool bare = !node.IsScalar() || (is_plain(node) && (parse_real(text) || parse_bool(text)));
  return bare ? text : '"' + text + '"';
}

void Reader::refuse(const std::string& key, const YAML::Node& node, const std::string& allowed) {
  mistakes_.add(place_of(node), key, describe(node), allowed);
}

std::optional<double> Reader::number(const std::string& key, const YAML::Node& node,
                                     const Range& range) {
  const auto value = number_within(node, range);
  if (value) return value;
  refuse(key, node, allowed_number(range, false));
  return std::nullopt;
}

std::optional<double> Reader::whole(const std::string& key, const YAML::Node& node,
                                    const Range& range) {
  const auto value = number_within(node, range);
  if (value && std::floor(*value) == *value) return value;
  refuse(key, node, allowed_number(range, true));
  return std::nullopt;
}

std::optional<std::int64_t> Reader::whole64(const std::string& key, const YAML::Node& node,
                                            std::int64_t min) {
  const std::string text = is_plain(node) ? node.Scalar() : "";
  std::int64_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc{} && stop == text.data() + text.size() && value >= min) return value;
  constexpr auto kLeast = std::numeric_limits<std::int64_t>::min();
  refuse(key, node,
         "a whole number" + (min == kLeast ? "" : " from " + std::to_string(min)) + " of 64 bits");
  return std::nullopt;
}

std::optional<bool> Reader::boolean(const std::string& key, const YAML::Node& node) {
  const auto value = is_plain(node) ? parse_bool(node.Scalar()) : std::nullopt;
  if (!value) refuse(key, node, "true or false");
  return value;
}

std::optional<std::string> Reader::text(const std::string& key, const YAML::Node& node,
                                        std::span<const std::string_view> choices) {
  const bool known =
      node.IsScalar() &&
      (choices.empty() || std::ranges::find(choices, node.Scalar()) != choices.end());
  if (known && printable(node.Scalar()) == node.Scalar()) return node.Scalar();
  refuse(key, node, known ? "text on one line" : allowed_text(choices));
  return std::nullopt;
}

std::optional<std::vector<double>> Reader::numbers(const std::string& key, const YAML::Node& node,
                                                   std::size_t count, const Range& range) {
  if (!node.IsSequence() || node.size() != count) {
    refuse(key, node,
           "a list of " + std::to_string(count) + ", each " + allowed_number(range, false));
    return std::nullopt;
  }
  std::vector<double> values;
  for (std::size_t i = 0; i < count; ++i) {
    const auto value = number(key + '[' + std::to_string(i) + ']', node[i], range);
    if (value) values.push_back(*value);
  }
  return values.size() == count ? std::optional(std::move(values)) : std::nullopt;
}

}  // namespace driftd::yaml
